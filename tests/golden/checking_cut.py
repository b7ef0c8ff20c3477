"""What must hold of a warehouse by commit ts: current tables at one moment, changes tables, cuts, what waits."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from golden.checking import ENVELOPE_TYPES, EPOCH, OPEN, currents_differ, lists_differ, table_differs
from golden.comparing import Difference, mappings_differ, rows_differ
from golden.cut_events import replayed
from golden.exceptions import unread_table
from golden.expected import tables_at_the_end
from golden.moments import Frontier, resolved, tables_at, torn
from golden.values import Row, freeze

from pipeline.warehouse.pairs import name_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from golden.corpus import GoldenCase, Record
    from golden.cut_events import CutEvent
    from golden.expected import ExpectedTable
    from golden.loading import LoadedCase
    from golden.warehouse import CurrentTable, Warehouse

Place = tuple[str, int, int, int]

_BEFORE, _LOST_BEFORE = "_before", "_unrepresentable in _before"


def state_differs(loaded: LoadedCase, warehouse: Warehouse) -> Iterator[Difference]:
    """Current tables against the moment that the sent records close: TiDB's where it was asked, and the replay's.

    Nothing can be said while a DDL of several messages was sent in part.
    """
    case, moment = loaded.case, resolved(loaded.sent)
    if moment is None or torn(case, loaded.sent):
        return
    tables = tables_at(case, moment)
    if tables is not None:
        yield from currents_differ(case, warehouse, tables.values())
    if case.scenario not in ("ddl", "ddl_nokey"):
        yield from replay_differs(loaded, warehouse)


def replay_differs(loaded: LoadedCase, warehouse: Warehouse) -> Iterator[Difference]:
    """Current tables against the sent row events that are closed, replayed: full rows with `_commit_ts`.

    For tables that TiDB still has at the end, and only where no DDL touched rows that it found.
    """
    case, moment = loaded.case, resolved(loaded.sent)
    closed = [event for event in loaded.cut_events() if moment and event.commit_ts <= moment.commit_ts]
    tables = [table for table in tables_at_the_end(case).values() if not unread_table(case, table.source)]
    read = {table.name for table in tables}
    rows, names = replayed(event for event in closed if event.table in read), set(warehouse.current_names())
    for table in tables:
        wanted = [_with_commit_ts(event.after, event.commit_ts) for event in rows.get(table.name, [])]
        if table.name not in names:
            if wanted:
                yield Difference(table.name, "", "", f"a table of {len(wanted)} rows", "no table")
            continue
        got = warehouse.current(table.name)
        found = [_with_commit_ts(row, ts) for row, ts in zip(got.rows, got.commit_ts, strict=True)]
        when = ["_commit_ts"] if table.key else []  # equal rows of a multiset are one as good as the other
        yield from rows_differ(table.name, [*got.types, *when], table.key, wanted, found)


def _with_commit_ts(row: Row | None, commit_ts: int | None) -> Row:
    assert row is not None
    return Row({**row.values, "_commit_ts": commit_ts}, row.lost)


def changes_differ(loaded: LoadedCase, warehouse: Warehouse) -> Iterator[Difference]:
    """Changes tables against the events: each coordinate once, with its op, commit ts, version, values, `_before`.

    In `ddl` tables change their names and columns move: there the changes tables are compared as one with the
    whole stream, without the source's columns.
    """
    whole = loaded.case.scenario == "ddl"
    events = {_place(loaded, event): event for event in loaded.cut_events()}
    waiting = waiting_places(loaded, warehouse)
    wanted: dict[str, list[dict[str, Any]]] = {}
    for place, event in events.items():
        if place not in waiting:
            wanted.setdefault("" if whole else event.table, []).append(_expected(place, event, values=not whole))
    found: dict[str, list[dict[str, Any]]] = {}
    for name, rows in warehouse.changes().items():
        shown = (_change(row, events, values=not whole) for row in rows)
        found.setdefault("" if whole else name, []).extend(shown)
        types = warehouse.types_of_changes(name)
        envelope = {column: kind for column, kind in types.items() if column in ENVELOPE_TYPES}
        yield from mappings_differ(f"{name}__changes", "type", ENVELOPE_TYPES, envelope)
    for name in sorted(wanted.keys() | found.keys()):
        yield from lists_differ(f"{name}__changes", wanted.get(name, []), found.get(name, []))


def _place(loaded: LoadedCase, event: CutEvent) -> Place:
    return loaded.topic(event.record), *event.place[1:]


def waiting_places(loaded: LoadedCase, warehouse: Warehouse, reason: str = "") -> set[Place]:
    """Where the events stand that wait in `held`, for a reason that begins so.

    A record that says no index waits with all its events of the table.
    """
    held = [row for row in warehouse.own("held") if row["status"] == OPEN and row["reason"].startswith(reason)]
    rows = {(_record(row), row.get("index")) for row in held}
    places = ((event.table.casefold(), _place(loaded, event)) for event in loaded.cut_events())
    return {
        place
        for name, place in places
        if ((name, *place[:-1]), place[-1]) in rows or ((name, *place[:-1]), None) in rows
    }


def _record(row: Mapping[str, Any]) -> tuple[str, str, int, int]:
    name = f"{row['schema_name']}.{row['table_name']}".casefold()
    return name, row["topic"], row["kafka_partition"], row["offset"]


def _expected(place: Place, event: CutEvent, *, values: bool) -> dict[str, Any]:
    change = {
        "at": place,
        "_op": event.op,
        "_commit_ts": event.commit_ts,
        "_commit_time": EPOCH + dt.timedelta(milliseconds=event.commit_ts >> 18),
        "_schema_id": event.schema_id,
    }
    if not values:
        return change
    row = event.after or _narrowed(event.before, event.handle)
    before = event.before or Row({}, {})
    values, lost = (
        {name: value for name, value in found.items() if name in event.told} for found in (before.values, before.lost)
    )
    return {**change, **_sent(row.values), "_unrepresentable": row.lost, _BEFORE: _sent(values), _LOST_BEFORE: lost}


def _narrowed(row: Row | None, names: Iterable[str]) -> Row:
    """A delete is compared by its key and by `_before`: whether it has more columns is left to the protocol."""
    assert row is not None
    names = set(names)
    lost = {name: text for name, text in row.lost.items() if name in names}
    return Row({name: value for name, value in row.values.items() if name in names}, lost)


def _change(row: Mapping[str, Any], events: Mapping[Place, CutEvent], *, values: bool) -> dict[str, Any]:
    place = row["_topic"], row["_kafka_partition"], row["_offset"], row["_index"]
    event = events.get(place)
    change = {"at": place, **{name: row[name] for name in ("_op", "_commit_ts", "_commit_time", "_schema_id")}}
    if event is None:
        return change
    if event.schema_id is None:
        change["_schema_id"] = None
    if not values:
        return change
    source = {name: value for name, value in row.items() if name not in (*ENVELOPE_TYPES, _BEFORE)}
    found = Row(source, dict(row["_unrepresentable"] or ()))
    if event.after is None:
        found = _narrowed(found, event.handle)
    before = dict(row.get(_BEFORE) or {})
    lost = dict(before.pop("_unrepresentable", None) or ())
    if event.after is not None:
        before, lost = ({name: told[name] for name in told if name in event.told} for told in (before, lost))
    shown = {**_sent(found.values), "_unrepresentable": found.lost, _BEFORE: _sent(before), _LOST_BEFORE: lost}
    return {**change, **shown}


def _sent(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: freeze(value) for name, value in values.items() if value is not None}


def ddl_untold(loaded: LoadedCase, warehouse: Warehouse) -> Iterator[Difference]:
    """Every DDL that was sent is in `ddl_history`, however it got there: after a kill it may be worded otherwise."""
    told = {row["commit_ts"] for row in warehouse.own("ddl_history")}
    for record in loaded.sent:
        if record.kind == "ddl" and record.commit_ts not in told:
            yield Difference("_pipeline.ddl_history", str(record.commit_ts), "", f"DDL of {record.table}", "nothing")


AHEAD = "DDL events of an unfinished batch are applied"
"""Why a cut is partial after a try that died: tables have columns of after it."""


def cuts_differ(loaded: LoadedCase, warehouse: Warehouse) -> Iterator[Difference]:
    """At every cut that was written, the snapshots that it names are TiDB's tables at that ts: no transaction by half.

    A cut does not say on which side of the DDL of its ts it lies: it must be right on one.
    """
    case, reader = loaded.case, _Snapshots(warehouse)
    rows = warehouse.own("cuts")
    newest: dict[str, Mapping[str, Any]] = {}
    for batch, ts in sorted({(row["batch_id"], row["cut_ts"]) for row in rows}):  # a retry may have read further
        newest |= {row["table_uuid"]: row for row in rows if (row["batch_id"], row["cut_ts"]) == (batch, ts)}
        if not any(AHEAD in row["reason"] for row in newest.values()):
            yield from _best(case, reader, ts, newest)


def _best(case: GoldenCase, reader: _Snapshots, ts: int, newest: Mapping[str, Mapping[str, Any]]) -> list[Difference]:
    sides = ((Frontier(ts, ddl), tables_at(case, Frontier(ts, ddl))) for ddl in (False, True))
    found = [list(_cut_differs(case, reader, at, tables, newest)) for at, tables in sides if tables is not None]
    return min(found, key=len, default=[])


def _cut_differs(
    case: GoldenCase,
    reader: _Snapshots,
    at: Frontier,
    tables: Mapping[str, ExpectedTable],
    newest: Mapping[str, Mapping[str, Any]],
) -> Iterator[Difference]:
    named = {name.casefold(): row for uuid, row in newest.items() if (name := reader.name(uuid, at))}
    for source, table in tables.items():
        row = named.get(source.casefold())
        if unread_table(case, source) or (row is None and not table.rows):
            continue
        if row is None:
            yield Difference(f"cut {at.commit_ts} {table.name}", "", "", f"a table of {len(table.rows)} rows", "none")
            continue
        for one in table_differs(case, table, reader.read(row)):
            yield Difference(f"cut {at.commit_ts} {one.table}", one.key, one.column, one.expected, one.got)


class _Snapshots:
    """Reads the snapshots that cuts name, each once."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._names = warehouse.by_uuid()
        self._bindings = warehouse.bindings()
        self._read: dict[int, CurrentTable] = {}

    def name(self, uuid: str, at: Frontier) -> str | None:
        """The source's name of a table at a moment."""
        found = name_at(self._bindings[uuid], at.commit_ts if at.ddl else at.commit_ts - 1)
        return None if found is None else str(found)

    def read(self, row: Mapping[str, Any]) -> CurrentTable:
        """The current table of a row of `cuts`."""
        snapshot = row["snapshot_id"]
        if snapshot not in self._read:
            self._read[snapshot] = self._warehouse.current(self._names[row["table_uuid"]], snapshot)
        return self._read[snapshot]


def cut_of_the_end(records: Iterable[Record], warehouse: Warehouse) -> Iterator[Difference]:
    """The newest cut is what the records close."""
    moment, cuts = resolved(records), warehouse.own("cuts")
    newest = max((row["cut_ts"] for row in cuts), default=None)
    if moment is None or newest != moment.commit_ts:
        yield Difference("_pipeline.cuts", "", "cut_ts", moment and moment.commit_ts, newest)


def inexact(warehouse: Warehouse) -> Iterator[Difference]:
    """Rows of cuts that are not exact."""
    for row in warehouse.own("cuts"):
        if row["level"] != "exact":
            table = f"{row['schema_name']}.{row['table_name']}"
            yield Difference("_pipeline.cuts", f"{row['cut_ts']} {table}", "level", "exact", row)
