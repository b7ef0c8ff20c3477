"""A tiny TiDB in memory: tables, transactions with a commit ts, and TiCDC's row events of them.

What it keeps of TiDB is what decides the events (wire-formats.md, "Update splitting"): a transaction is seen as
the net change of each stored row; a stored row is addressed by its primary key if that is clustered, else by
a hidden row id; an UPDATE that changes a primary or unique key becomes DELETE + INSERT; deletes come before
updates before inserts. Its final state is the truth that a warehouse is compared with.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NewType

from pipeline.simulate import ddl
from pipeline.simulate.tables import Row, SimulatedColumn, SimulatedTable, SimulationError, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.simulate.ddl import SimulatedDdl

CommitTs = NewType("CommitTs", int)
Op = Literal["insert", "update", "delete"]
Address = tuple[Value, ...]

BASE_MILLISECONDS = 1_716_613_769_000  # 2024-05-25T05:09:29Z, the base of the golden data
STEP_MILLISECONDS = 100
_ORDER = {"delete": 0, "update": 1, "insert": 2}


def simulated_clock(start: int = BASE_MILLISECONDS, step: int = STEP_MILLISECONDS) -> Callable[[], int]:
    """Return a clock in ms that moves by `step` with every reading, so that runs repeat exactly."""
    now = start

    def read() -> int:
        nonlocal now
        now += step
        return now

    return read


def wall_clock() -> int:
    """Return the present time in ms: commit timestamps that a lag can be measured from."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class RowEvent:
    """One row change as TiCDC sends it; `table` is the version that was in force at the commit.

    `row_id` is the hidden row id where that is the row's address, 0 where its primary key is.
    """

    table: SimulatedTable
    op: Op
    before: Row | None
    after: Row | None
    row_id: int = 0

    @property
    def image(self) -> Row:
        """The row that gives the message its key: after the change, or before a delete."""
        image = self.before if self.after is None else self.after
        if image is None:
            raise SimulationError("EMPTY_EVENT", f"A row event of {self.table.full_name} has no image.")
        return image


@dataclass(frozen=True, slots=True)
class Transaction:
    """What was committed at one ts: row events in TiCDC's order, or one DDL statement."""

    commit_ts: CommitTs
    events: tuple[RowEvent, ...] = ()
    ddl: SimulatedDdl | None = None


@dataclass(slots=True)
class _Stored:
    """A table's rows by address, and the addresses by key of every unique index (the handle's among them)."""

    table: SimulatedTable
    rows: dict[Address, Row] = field(default_factory=dict)
    index: dict[tuple[str, ...], dict[Address, Address]] = field(default_factory=dict)
    next_row_id: int = 1

    def indexes(self) -> tuple[tuple[str, ...], ...]:
        return tuple(dict.fromkeys((self.table.handle, *self.table.unique)))

    def new_address(self, row: Row) -> Address:
        if self.table.clustered and self.table.primary_key:
            return tuple(row[name] for name in self.table.primary_key)
        self.next_row_id += 1
        return (self.next_row_id - 1,)

    def row_id(self, address: Address) -> int:
        hidden, number = not (self.table.clustered and self.table.primary_key), address[0]
        return number if hidden and isinstance(number, int) else 0

    def put(self, address: Address, row: Row) -> None:
        for names in self.indexes():
            key = tuple(row[name] for name in names)
            if key in self.index.setdefault(names, {}):
                raise SimulationError("DUPLICATE_KEY", f"{self.table.full_name} already has {names} = {key}.")
            if None not in key:
                self.index[names][key] = address
        self.rows[address] = row

    def take(self, address: Address) -> Row:
        row = self.rows.pop(address)
        for names in self.indexes():
            self.index.get(names, {}).pop(tuple(row[name] for name in names), None)
        return row

    def find(self, key: Address) -> Address:
        try:
            return self.index[self.table.handle][key]
        except KeyError:
            raise SimulationError("ROW_UNKNOWN", f"{self.table.full_name} has no row with key {key}.") from None


class Transacting:
    """The open transaction: changes the database at once and remembers each touched row as it was before.

    There is no rollback: an error leaves the database as far as the statements got.
    """

    def __init__(self, tables: dict[tuple[str, str], _Stored]) -> None:
        self._tables = tables
        self._before: dict[tuple[str, str], dict[Address, Row | None]] = {}

    def insert(self, schema: str, table: str, row: Row) -> None:
        """Insert a row; columns left out take their defaults."""
        stored = self._stored(schema, table)
        given = {c.name: row[c.name] if c.name in row else c.origin_default() for c in stored.table.columns}
        for name in row:
            stored.table.column(name)
        self._put(stored, {c.name: c.normalise(given[c.name]) for c in stored.table.columns})

    def read(self, schema: str, table: str, key: Address) -> Row:
        """Return the row with that handle as this transaction sees it."""
        stored = self._stored(schema, table)
        return stored.rows[stored.find(key)]

    def update(self, schema: str, table: str, key: Address, changes: Row) -> None:
        """Set columns of the row with that handle; a clustered primary key moves the row to a new address."""
        stored = self._stored(schema, table)
        address = stored.find(key)
        new = {name: stored.table.column(name).normalise(value) for name, value in changes.items()}
        old = self._take(stored, address)
        moved = stored.table.clustered and not new.keys().isdisjoint(stored.table.primary_key)
        self._put(stored, {**old, **new}, None if moved else address)

    def delete(self, schema: str, table: str, key: Address) -> None:
        """Delete the row with that handle."""
        stored = self._stored(schema, table)
        self._take(stored, stored.find(key))

    def events(self) -> tuple[RowEvent, ...]:
        """Return the net row events so far, tables in the order of their creation."""
        return tuple(
            event for name, stored in self._tables.items() for event in _events(stored, self._before.get(name, {}))
        )

    def _stored(self, schema: str, table: str) -> _Stored:
        try:
            return self._tables[schema, table]
        except KeyError:
            raise SimulationError("TABLE_UNKNOWN", f"There is no table {schema}.{table}.") from None

    def _take(self, stored: _Stored, address: Address) -> Row:
        row = stored.take(address)
        self._remember(stored, address, row)
        return row

    def _put(self, stored: _Stored, row: Row, address: Address | None = None) -> None:
        address = stored.new_address(row) if address is None else address
        stored.put(address, row)
        self._remember(stored, address, None)

    def _remember(self, stored: _Stored, address: Address, row: Row | None) -> None:
        self._before.setdefault((stored.table.schema, stored.table.name), {}).setdefault(address, row)


def _events(stored: _Stored, before: dict[Address, Row | None]) -> list[RowEvent]:
    """Sort as TiKV's sorter does, deletes < updates < inserts, each by address; split; sort again.

    TiCDC's second sort is not stable for more than a dozen rows; this one is.
    """
    events: list[RowEvent] = []
    for address in sorted(before, key=lambda address: tuple(map(_sort_key, address))):
        old, new = before[address], stored.rows.get(address)
        if old != new:
            op: Op = "insert" if old is None else "delete" if new is None else "update"
            events.append(RowEvent(stored.table, op, old, new, stored.row_id(address)))
    halves = [half for event in sorted(events, key=_rank) for half in _split(event)]
    return sorted(halves, key=_rank)


def _rank(event: RowEvent) -> int:
    return _ORDER[event.op]


def _split(event: RowEvent) -> tuple[RowEvent, ...]:
    table, old, new = event.table, event.before, event.after
    if old is None or new is None or not _changes_key(table, old, new):
        return (event,)
    return RowEvent(table, "delete", old, None, event.row_id), RowEvent(table, "insert", None, new, event.row_id)


def _changes_key(table: SimulatedTable, old: Row, new: Row) -> bool:
    """TiCDC compares texts, NULL as `null`: NULL and the text 'null' count as the same."""
    names = {name for names in (table.primary_key, *table.unique) for name in names}
    return any(_as_text(old[name]) != _as_text(new[name]) for name in names)


def _as_text(value: Value) -> str:
    return "null" if value is None else str(value)


def _sort_key(value: Value) -> tuple[str, Value]:
    return ("", value) if isinstance(value, int) else (type(value).__name__, value)


class Database:
    """Tables and their rows; `clock` gives physical time in ms for commit timestamps (ms << 18 | logical)."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock or simulated_clock()
        self._tables: dict[tuple[str, str], _Stored] = {}
        self._last_ts = 0

    def create_schema(self, schema: str) -> Transaction:
        """CREATE DATABASE; returns its DDL event."""
        return Transaction(self._next_ts(), ddl=ddl.create_database(schema))

    def create_table(self, table: SimulatedTable) -> Transaction:
        """CREATE TABLE; returns its DDL event."""
        self._tables[table.schema, table.name] = _Stored(table)
        return Transaction(self._next_ts(), ddl=ddl.create_table(table))

    def add_column(self, schema: str, name: str, column: SimulatedColumn) -> Transaction:
        """ALTER TABLE … ADD COLUMN: existing rows take the origin default; TiCDC sends no event."""
        stored = self._tables[schema, name]
        before, stored.table = stored.table, stored.table.with_column(column)
        default = column.origin_default()
        stored.rows = {address: {**row, column.name: default} for address, row in stored.rows.items()}
        return Transaction(self._next_ts(), ddl=ddl.add_column(before, stored.table, column))

    def begin(self) -> Transacting:
        """Open a transaction; one at a time."""
        return Transacting(self._tables)

    def commit(self, writer: Transacting) -> Transaction:
        """Close the transaction: its commit ts and its row events in TiCDC's order."""
        return Transaction(self._next_ts(), writer.events())

    @property
    def now(self) -> datetime:
        """The physical time of the newest commit ts, in UTC."""
        return datetime.fromtimestamp((self._last_ts >> 18) / 1000, UTC)

    def table(self, schema: str, name: str) -> SimulatedTable:
        """Return the table's newest version."""
        return self._tables[schema, name].table

    def tables(self) -> list[SimulatedTable]:
        """Return all tables in the order of their creation."""
        return [stored.table for stored in self._tables.values()]

    def rows(self, schema: str, name: str) -> list[dict[str, Value]]:
        """Return the table's rows, as SELECT * would, ordered by key."""
        stored = self._tables[schema, name]
        rows = sorted(stored.rows.values(), key=lambda row: tuple(map(_sort_key, stored.table.key_of(row))))
        return [dict(row) for row in rows]

    def _next_ts(self) -> CommitTs:
        self._last_ts = max(self._last_ts + 1, self._clock() << 18)
        return CommitTs(self._last_ts)
