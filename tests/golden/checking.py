"""What must hold of a warehouse after a golden case: current tables, changes tables, nothing set aside."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from golden.comparing import Difference, mappings_differ, rows_differ
from golden.decode import newest_value_schemas, replayed
from golden.exceptions import HOLDING, unread_table
from golden.expected import dumped_steps, expected_table, tables_at_the_end
from golden.values import Row, freeze

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from golden.corpus import GoldenCase
    from golden.decode import Event
    from golden.expected import ExpectedTable
    from golden.loading import LoadedCase
    from golden.warehouse import CurrentTable, Warehouse

OPEN = "open"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_OWN_TYPES = {"_commit_ts": "bigint", "_unrepresentable": "map<string,string>"}
ENVELOPE_TYPES = {
    "_op": "string",
    "_commit_ts": "bigint",
    "_commit_time": "timestamp",
    "_topic": "string",
    "_kafka_partition": "int",
    "_offset": "bigint",
    "_index": "int",
    "_schema_id": "bigint",
    "_batch_id": "bigint",
    "_ingested_at": "timestamp",
    "_unrepresentable": "map<string,string>",
}
_KEPT_UNDER_ANOTHER_NAME = re.compile(r"__v\d+$")
_KEPT_AFTER_DROP = re.compile(r"__dropped_\d+$")


def currents_differ(case: GoldenCase, warehouse: Warehouse, tables: Iterable[ExpectedTable]) -> Iterator[Difference]:
    """Every current table that is not excepted against TiDB's: types, columns, rows."""
    names = set(warehouse.current_names())
    for table in tables:
        if unread_table(case, table.source):
            continue
        if table.name in names:
            yield from _current_differs(case, warehouse, table)
        elif table.rows:
            yield Difference(table.name, "", "", f"a table of {len(table.rows)} rows", "no table")


def needless_exceptions(case: GoldenCase, warehouse: Warehouse) -> Iterator[Difference]:
    """Excepted tables that are TiDB's all the same at the end: their exception can go.

    Not that of a held one, which is empty here, where it is empty there by then, too.
    """
    names = set(warehouse.current_names())
    for table in tables_at_the_end(case).values():
        reason = unread_table(case, table.source)
        if reason in HOLDING and not table.rows:
            continue
        if reason and table.name in names and not any(_current_differs(case, warehouse, table)):
            yield Difference(table.name, "", "", f"a difference, because {reason}", "none: the exception can go")


def _current_differs(case: GoldenCase, warehouse: Warehouse, table: ExpectedTable) -> Iterator[Difference]:
    yield from table_differs(case, table, warehouse.current(table.name))


def table_differs(case: GoldenCase, table: ExpectedTable, got: CurrentTable) -> Iterator[Difference]:
    """One table against TiDB's: types, columns by name, rows."""
    yield from mappings_differ(table.name, "type", table.types | _OWN_TYPES, _known_types(case, table, got))
    names = [column.name for column in table.columns]
    yield from rows_differ(table.name, names, table.key, table.rows, got.rows)
    yield from _lost_elsewhere(table, got)


def _known_types(case: GoldenCase, table: ExpectedTable, got: CurrentTable) -> dict[str, str]:
    """The types to compare: a column that TiDB dropped or converted may stay, by the policy `keep`."""
    former = former_columns(case)
    kept = {
        name for name in got.types if name not in table.types and (_KEPT_UNDER_ANOTHER_NAME.sub("", name) in former)
    }
    return {name: kind for name, kind in got.types.items() if name not in kept} | got.own_types


def former_columns(case: GoldenCase) -> set[str]:
    """Every column name that any table of the case ever had; columns of other times exist only in `ddl`."""
    if case.scenario != "ddl":
        return set()
    return {
        column.name
        for step in case.steps
        for source, dump in step.get("tables", {}).items()
        for column in expected_table(case, source, dump).columns
    }


def _lost_elsewhere(table: ExpectedTable, got: CurrentTable) -> Iterator[Difference]:
    """`_unrepresentable` names columns of the table; those that TiDB still has are compared with the rows."""
    for row in got.rows:
        for name in row.lost:
            if name not in got.types:
                yield Difference(table.name, "_unrepresentable", name, "a column of the table", row.lost[name])


def tables_are_those_of_tidb(case: GoldenCase, warehouse: Warehouse) -> Iterator[Difference]:
    """No table that TiDB never had, and none that it has no more unless kept after DROP TABLE."""
    final = {table.name for table in tables_at_the_end(case).values()}
    ever = final | {
        expected_table(case, source, dump).name
        for step in case.steps
        for source, dump in step.get("tables", {}).items()
    }
    for name in warehouse.current_names():
        if _KEPT_AFTER_DROP.sub("", name) not in ever:
            yield Difference(name, "", "", "no such table", "a table")


def states_differ(loaded: LoadedCase, warehouse: Warehouse) -> Iterator[Difference]:
    """Current tables against the sent records replayed: full rows with `_commit_ts`, at any record boundary.

    Only for scenarios without DDL on tables with rows: a replay knows no DDL.
    """
    for name, rows in replayed(loaded.events()).items():
        got = warehouse.current(name)
        columns = list(got.types)
        wanted = [_with_commit_ts(event.row, event.commit_ts) for event in rows.values()]
        found = [_with_commit_ts(row, ts) for row, ts in zip(got.rows, got.commit_ts, strict=True)]
        yield from rows_differ(name, [*columns, "_commit_ts"], (), wanted, found)


def _with_commit_ts(row: Row, commit_ts: int | None) -> Row:
    return Row({**row.values, "_commit_ts": commit_ts}, row.lost)


def newest_rows_differ(loaded: LoadedCase, warehouse: Warehouse) -> Iterator[Difference]:
    """Without DDL in the stream: rows whose last event carries the table's newest value schema are TiDB's.

    Rows that TiDB has no more, because a statement that was not sent took them, are there as they were sent.
    """
    case, newest = loaded.case, newest_value_schemas(loaded.case)
    states = replayed(loaded.events())
    for table in tables_at_the_end(case).values():
        names = [column.name for column in table.columns]
        truth = {_key(row, table.key): row for row in table.rows}
        state = states[table.name]
        fresh = {key: event.row for key, event in state.items() if event.schema_id == newest[table.name]}
        got = warehouse.current(table.name)
        rows = {_key(row, table.key): row for row in got.rows}
        yield from mappings_differ(table.name, "type", table.types | _OWN_TYPES, _known_types(case, table, got))
        wanted = {key: truth.get(key, row) for key, row in fresh.items()}
        found = [row for key, row in rows.items() if key in fresh]
        yield from rows_differ(table.name, names, table.key, wanted.values(), found)
        keys = [Row({"key": key}, {}) for key in state]
        yield from rows_differ(
            table.name, ["key"], (), keys, [Row({"key": _key(row, table.key)}, {}) for row in got.rows]
        )


def _key(row: Row, names: Iterable[str]) -> tuple[Any, ...]:
    return tuple((name, freeze(row.values[name]), row.lost.get(name)) for name in names)


def changes_differ(loaded: LoadedCase, warehouse: Warehouse) -> Iterator[Difference]:
    """Changes tables against the events: each coordinate once, with its op, commit ts, schema id and values.

    In `ddl` tables change their names and columns move: there the changes tables are compared as one with the
    whole stream, without the source's columns.
    """
    whole = loaded.case.scenario == "ddl"
    waiting = {(row["topic"], row["kafka_partition"], row["offset"], 0) for row in warehouse.own("held")}
    wanted: dict[str, list[dict[str, Any]]] = {}
    for event in loaded.events():
        if (loaded.topic(event.record), event.record.partition, event.offset, 0) in waiting:
            continue
        wanted.setdefault("" if whole else event.table, []).append(_expected_change(loaded, event, values=not whole))
    found: dict[str, list[dict[str, Any]]] = {}
    for name, rows in warehouse.changes().items():
        found.setdefault("" if whole else name, []).extend(_change(row, values=not whole) for row in rows)
        types = warehouse.types_of_changes(name)
        envelope = {column: kind for column, kind in types.items() if column in ENVELOPE_TYPES}
        yield from mappings_differ(f"{name}__changes", "type", ENVELOPE_TYPES, envelope)
    for name in sorted(wanted.keys() | found.keys()):
        yield from lists_differ(f"{name}__changes", wanted.get(name, []), found.get(name, []))


def lists_differ(table: str, wanted: list[dict[str, Any]], found: list[dict[str, Any]]) -> Iterator[Difference]:
    """Two lists of changes by where they stand (`at`), which is a place for one change."""
    counts = Counter(change["at"] for change in found)
    by_place = {change["at"]: change for change in found}
    for place, count in counts.items():
        if count > 1:
            yield Difference(table, str(place), "", "once", f"{count} times")
    for change in wanted:
        got = by_place.pop(change["at"], None)
        if got is None:
            yield Difference(table, str(change["at"]), "", change, "nothing")
        else:
            yield from mappings_differ(table, str(change["at"]), change, got)
    for place, got in by_place.items():
        yield Difference(table, str(place), "", "nothing", got)


def _expected_change(loaded: LoadedCase, event: Event, *, values: bool) -> dict[str, Any]:
    record, commit_ts = event.record, event.commit_ts
    change = {
        "at": (loaded.topic(record), record.partition, event.offset, 0),
        "_op": event.op,
        "_commit_ts": commit_ts,
        "_commit_time": None if commit_ts is None else EPOCH + dt.timedelta(milliseconds=commit_ts >> 18),
        "_schema_id": loaded.schema_id(event),
    }
    if not values:
        return change
    before = None if event.before is None else (_source_values(event.before.values), event.before.lost)
    return {**change, **_source_values(event.row.values), "_unrepresentable": event.row.lost, "_before": before}


def _change(row: dict[str, Any], *, values: bool) -> dict[str, Any]:
    change = {
        "at": (row["_topic"], row["_kafka_partition"], row["_offset"], row["_index"]),
        **{name: row[name] for name in ("_op", "_commit_ts", "_commit_time", "_schema_id")},
    }
    if not values:
        return change
    source = {name: value for name, value in row.items() if name not in (*ENVELOPE_TYPES, "_before")}
    return {**change, **_source_values(source), "_unrepresentable": _lost(row), "_before": _old(row)}


def _old(row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]] | None:
    """`_before` of a row: its source columns, and what it lost."""
    before = row.get("_before")
    if before is None:
        return None
    return _source_values({name: one for name, one in before.items() if name != "_unrepresentable"}), _lost(before)


def _lost(row: dict[str, Any]) -> dict[str, str]:
    return dict(row["_unrepresentable"] or ())


def _source_values(values: dict[str, Any]) -> dict[str, Any]:
    return {name: freeze(value) for name, value in values.items() if value is not None}


def held_table(case: GoldenCase, table: str) -> bool:
    """Whether a table is held because of what is not applied or kept yet."""
    return unread_table(case, table) in HOLDING


def set_aside(case: GoldenCase, warehouse: Warehouse) -> Iterator[Difference]:
    """Golden records are good records: nothing is a dead letter, in quarantine or, but for known tables, held.

    What waited for its schema or its DDL, and was let in, is nothing that is set aside.
    """
    for name in ("dead_letters", "quarantine", "held"):
        for row in warehouse.own(name):
            if name == "held" and row["status"] != OPEN:
                continue
            if name == "held" and held_table(case, f"{row['schema_name']}.{row['table_name']}"):
                continue
            what = row.get("code") or row.get("reason")
            if what == "EMPTY_MESSAGE" and case.new_architecture and not case.has_before and row["key"] is None:
                continue  # a delete of a table without a key
            where = f"{row['topic']}/{row['kafka_partition']}/{row['offset']}"
            yield Difference(f"_pipeline.{name}", where, "", "nothing", f"{what}: {row.get('message', '')}")


def nearest_dump(case: GoldenCase, step: int) -> int | None:
    """The last step up to this one at which TiDB's tables were dumped."""
    return max((dumped for dumped in dumped_steps(case) if dumped <= step), default=None)
