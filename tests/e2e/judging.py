"""What can be said of a warehouse without knowing how it came about, as sentences: none if all is well."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from e2e.bank import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.bank import Bank
    from golden.warehouse import Warehouse

_PLACE = ("_topic", "_kafka_partition", "_offset", "_index")
_OF_THE_TRY = ("_batch_id", "_ingested_at")
_ASIDE = ("topic", "kafka_partition", "offset")
_FEW = 5


def currents(warehouse: Warehouse) -> dict[str, list[str]]:
    """Every current table's rows as something that can be compared."""
    return {
        name: sorted(
            repr((sorted(row.values.items()), sorted(row.lost.items()), commit_ts))
            for row, commit_ts in zip(table.rows, table.commit_ts, strict=True)
        )
        for name in warehouse.current_names()
        if (table := warehouse.current(name))
    }


def changes(warehouse: Warehouse) -> dict[str, list[str]]:
    """Every changes table's rows, but for what tells one try from another."""
    return {
        name: sorted(repr(sorted((c, v) for c, v in row.items() if c not in _OF_THE_TRY)) for row in rows)
        for name, rows in warehouse.changes().items()
    }


def aside(warehouse: Warehouse, name: str) -> list[tuple[Any, ...]]:
    """Dead letters or held records: coordinates, bytes, why, status."""
    why = {"dead_letters": ("code", "index"), "held": ("timestamp",)}[name]
    columns = (*_ASIDE, "key", "value", "schema_name", "table_name", "status", *why)
    return sorted((tuple(row[column] for column in columns) for row in warehouse.own(name)), key=repr)


def said(warehouse: Warehouse, name: str, *columns: str) -> list[str]:
    """Some columns of one of the pipeline's own tables."""
    return sorted(repr([row[column] for column in columns]) for row in warehouse.own(name))


def differences(one: Any, other: Any) -> Iterator[str]:
    """Where two collections of rows differ: as multisets, per table where they are dictionaries."""
    if isinstance(one, dict):
        for name in sorted({*one, *other}):
            for sentence in differences(one.get(name, []), other.get(name, [])):
                yield f"{name}: {sentence}"
        return
    left, right = Counter(map(repr, one)), Counter(map(repr, other))
    for what, counted in (("only here", left - right), ("only there", right - left)):
        for row, count in counted.most_common(_FEW):
            yield f"{what}, {count} times of {counted.total()}: {row}"


def untrue(bank: Bank, warehouse: Warehouse) -> Iterator[str]:
    """Where current tables differ from the source's rows."""
    for table in bank.tables:
        names = [column.name for column in table.columns]
        have = [[row.values[name] for name in names] for row in warehouse.current(table.full_name).rows]
        want = [[row[name] for name in names] for row in bank.truth(table)]
        for sentence in differences(have, want):
            yield f"{table.full_name}: {sentence}"


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Where a change stands."""
    return tuple(row[column] for column in _PLACE)


def placed_twice(warehouse: Warehouse) -> Iterator[str]:
    """Coordinates that stand twice in one of changes, dead letters and held."""
    for name, rows in warehouse.changes().items():
        yield from _twice(name, [place(row) for row in rows])
    for name in ("dead_letters", "held"):
        yield from _twice(name, [tuple(row[column] for column in _ASIDE) for row in warehouse.own(name)])


def _twice(name: str, places: list[tuple[Any, ...]]) -> Iterator[str]:
    for place, count in Counter(places).items():
        if count > 1:
            yield f"{name}: {place} stands there {count} times"


def astray(bank: Bank, warehouse: Warehouse) -> Iterator[str]:
    """Records of Kafka that are nowhere, or in two places (a released record stands in held and in changes)."""
    landed = {tuple(row[c] for c in _PLACE[:3]) for rows in warehouse.changes().values() for row in rows}
    letters = {tuple(row[c] for c in _ASIDE) for row in warehouse.own("dead_letters")}
    held = {tuple(row[c] for c in _ASIDE) for row in warehouse.own("held") if row["status"] == "open"}
    quarantine = {tuple(row[c] for c in _ASIDE) for row in warehouse.own("quarantine") if row["status"] != "redriven"}
    asides = (("changes", landed), ("dead letters", letters), ("held", held), ("quarantine", quarantine))
    for *place, control in bank.records():
        where = [name for name, places in asides if tuple(place) in places]
        if len(where) > 1 or (not where and not control) or (control and where not in ([], ["held"])):
            yield f"{place} is in {where or 'nothing'}"


def unaccounted(bank: Bank, warehouse: Warehouse) -> Iterator[str]:
    """Batches whose `rows_in` is not the sum of what became of their records, or whose counts are not the tables'."""
    control = {tuple(place) for *place, control in bank.records() if control}
    changes = [row for rows in warehouse.changes().values() for row in rows]
    asides = {name: warehouse.own(name) for name in ("dead_letters", "quarantine", "held")}
    held = {tuple(row[c] for c in _ASIDE) for row in asides["held"]}
    quarantined = {tuple(row[c] for c in _ASIDE) for row in asides["quarantine"]}
    reached: dict[tuple[str, int], int] = {}
    batches = sorted(warehouse.own("batches"), key=lambda batch: batch["batch_id"])
    if [batch["batch_id"] for batch in batches] != list(range(len(batches))):
        yield f"batches are {[batch['batch_id'] for batch in batches]}"
    for batch in batches:
        number, ranges = batch["batch_id"], _ranges(batch, reached)
        inside = {(t, p, o) for (t, p), (low, high) in ranges.items() for o in range(low, high)}
        ops = Counter(
            row["_op"] for row in changes
            if row["_batch_id"] == number and tuple(row[c] for c in _PLACE[:3]) not in held | quarantined
        )  # fmt: skip
        counted = {name: sum(row["batch_id"] == number for row in rows) for name, rows in asides.items()}
        messages = len(inside & control - held)
        total = ops.total() + sum(counted.values()) + messages
        if not batch["rows_in"] == total == len(inside):
            seen = f"{batch['rows_in']} rows in, {len(inside)} records"
            yield f"batch {number}: {seen}, {ops}, {counted}, {messages} control"
        shown = [batch["inserts"], batch["updates"], batch["deletes"], batch["dead_letters"], batch["quarantined"]]
        if shown[:3] != [ops["insert"], ops["update"] + ops["upsert"], ops["delete"]] or shown[3:] != [
            counted["dead_letters"],
            counted["quarantine"],
        ]:
            yield f"batch {number}: says {shown}, has {ops} and {counted}"


def _ranges(batch: dict[str, Any], reached: dict[tuple[str, int], int]) -> dict[tuple[str, int], tuple[int, int]]:
    ranges = {}
    for topic, partitions in json.loads(batch["end_offsets"]).items():
        for partition, end in partitions.items():
            at = (topic, int(partition))
            ranges[at] = (reached.get(at, 0), end)
            reached[at] = end
    return ranges


def cut_short(warehouse: Warehouse) -> Iterator[str]:
    """Cuts that do not show a row which the table has, unchanged, from before the cut until now."""
    cuts = sorted(warehouse.own("cuts"), key=lambda cut: (cut["cut_ts"], cut["recorded_at"]))
    names = {cut["table_uuid"]: f"{cut['schema_name']}.{cut['table_name']}" for cut in cuts}
    levels = {cut["cut_ts"]: cut["level"] for cut in cuts}
    now = {uuid: _stamped(warehouse, name, None) for uuid, name in names.items()}
    for cut_ts, level in sorted(levels.items()):
        for uuid, name in names.items():
            snapshots = [c["snapshot_id"] for c in cuts if c["table_uuid"] == uuid and c["cut_ts"] <= cut_ts]
            settled = {row for row in now[uuid] if row[1] <= cut_ts}
            if snapshots and warehouse.table(name).snapshot_by_id(snapshots[-1]) is None:
                continue  # expired
            shown = _stamped(warehouse, name, snapshots[-1]) if snapshots else set()
            if level == "bounded" and not settled <= shown:
                lacking = settled - shown
                yield f"cut {cut_ts}: {name} lacks {len(lacking)} of {len(settled)} rows, {min(lacking)}"


def _stamped(warehouse: Warehouse, name: str, snapshot: int | None) -> set[tuple[str, int]]:
    key = next(table.handle for table in TABLES if table.full_name == name)
    rows = warehouse.table(name).scan(snapshot_id=snapshot).to_arrow().to_pylist()
    return {(repr([row[column] for column in key]), row["_commit_ts"]) for row in rows}
