"""TiDB and a changefeed that tells commit ts, as little of both as state logic can tell from the real ones.

Every change has a commit ts, a transaction's changes share one. TiCDC sends the rows and DDL events of a table to one
topic: rows to a partition by their key, DDL events to all of them, watermarks to all partitions there are. What was
sent may be sent again, from any commit ts on. Sources: golden/WIRE-FORMATS.md, "Simple,
JSON"; docs/reference/protocols/simple.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from unit.batch_model import upstream as by_offset
from unit.batch_model.upstream import Broker, converted

from pipeline.ddl import ActionType
from pipeline.ddl.defaults import literal
from pipeline.model import types
from pipeline.model.columns import SchemaId, SourceColumn, TableVersion
from pipeline.model.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PARTITIONS = 2
EDGE = 2
"""Keys below it lie in the partition `p` of a table that is partitioned."""
BY_KEY = f"PARTITION BY RANGE (`id`) (PARTITION `p` VALUES LESS THAN ({EDGE}),PARTITION `q` VALUES LESS THAN MAXVALUE)"
KEYS = range(5)
LATER = ("d",)
"""Tables of another changefeed, with topics of their own."""
HANDLE = replace(by_offset.HANDLE, default=literal("0"))
"""As Simple and Open describe a column that is NOT NULL and has no default."""
TICK = 1 << 18
"""A commit ts has milliseconds above a counter of 18 bits: one each makes times readable."""


STRANGE = 9999
"""A kind of statement that this version has not heard of."""
TOO_LARGE = "too large"
"""The kind of a row event of which the changefeed has sent the key alone."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `version`: what a DDL event says of its table; `old`: the name that a RENAME ends.

    `before`: of an update, the row as it was.
    """

    kind: str
    commit_ts: int
    table: TableName | None = None
    schema: SchemaId | None = None
    key: int = 0
    values: tuple[tuple[str, Any], ...] | None = None
    op: str = ""
    sql: str = ""
    action: int = 0
    version: TableVersion | None = None
    old: TableName | None = None
    before: tuple[tuple[str, Any], ...] | None = None

    @property
    def was(self) -> int | None:
        """The key of the row as it was, where it moves."""
        key = None if self.before is None else dict(self.before).get("id")
        return key if key != self.key else None

    @property
    def told_ts(self) -> int:
        """The commit ts as a reader knows it."""
        return self.commit_ts

    @property
    def deletes(self) -> bool:
        """Whether a row goes."""
        return self.op == "delete"

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys of which it changes the row."""
        return (self.key,) if self.was is None else (self.key, self.was)


@dataclass(slots=True)
class TidbTable:
    """One table as TiDB has it. `version` is the one that its rows are sent under."""

    name: TableName
    columns: tuple[SourceColumn, ...]
    version: SchemaId
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    next_column: int = 1
    partitioned: bool = False
    """Whether it has the partition `p`, of the keys below `EDGE`, and one of all others."""
    keyless: bool = False
    """Whether it has no key: TiDB has a number for each row, which nobody sends."""

    @property
    def others(self) -> tuple[SourceColumn, ...]:
        """All columns but the handle."""
        return self.columns if self.keyless else self.columns[1:]

    def described(self) -> TableVersion:
        """The version as a DDL event tells it."""
        handle = () if self.keyless else (HANDLE.name,)
        return TableVersion(self.name, self.version, self.columns, handle, tells_op=True, tells_commit_ts=True)


State = dict[str, dict[int, dict[str, Any]]]
"""What TiDB shows at a commit ts: rows by key, by the name of their table."""


class Tidb:
    """The database and its changefeed.

    `shared`: whether all tables are sent to one topic. `partitioned`: whether tables of the name `a` are partitioned.
    `keyless`: whether those of the name `b` have no key. `alone`: whether partition 0 alone has DDL events, and rows
    show their version, as those of Canal-JSON do.
    """

    def __init__(
        self, broker: Broker, *, shared: bool, partitioned: bool = False, keyless: bool = False, alone: bool = False
    ) -> None:
        self.broker, self.shared, self.partitioned, self.keyless = broker, shared, partitioned, keyless
        self.alone = alone
        self.shown: dict[tuple[TableName, SchemaId], TableVersion] = {}
        """What rows show of their version, where they do."""
        self.tables: dict[str, TidbTable] = {}
        self.ts = 0
        self.states: list[tuple[int, State]] = [(0, {})]
        self.ddl: Counter[int] = Counter()
        """How many DDL events there are of a commit ts."""
        self.changed: dict[tuple[str, int], list[int]] = {}
        """When the row of a key changed, by the name of its table then."""
        self.undescribed: list[TableVersion] = []
        """Versions that rows have and that no message has described yet."""
        self._values = 0
        self._log: list[tuple[str, int, Message]] = []
        self._unsent: dict[str, list[tuple[int, Message]]] = {}
        """What another changefeed is yet to send to the topics that it will make."""

    # ---- what is true

    def at(self, commit_ts: int) -> State:
        """What TiDB shows at a commit ts."""
        return next(state for ts, state in reversed(self.states) if ts <= commit_ts)

    def around(self, commit_ts: int) -> list[State]:
        """The same, and before the DDL events of that commit ts, where there are any."""
        return [self.at(commit_ts), *([self.at(commit_ts - 1)] if commit_ts in self.ddl else [])]

    def ddl_events(self) -> list[tuple[int, str]]:
        """Commit ts and text of every DDL event that was sent, once each."""
        return list(dict.fromkeys((m.commit_ts, m.sql) for _, _, m in self._log if m.kind == "ddl"))

    def _done(self) -> None:
        state = {name: {k: dict(row) for k, row in table.rows.items()} for name, table in self.tables.items()}
        self.states.append((self.ts, state))

    def _tick(self) -> int:
        self.ts += TICK
        return self.ts

    def _fresh(self) -> int:
        self._values += 1
        return self._values

    # ---- what is sent

    def topic_of(self, name: TableName) -> str:
        """Where a table's messages go."""
        return "t_all" if self.shared and name.table not in LATER else f"t_{name.table}"

    def hides(self, name: str) -> bool:
        """Whether changes of a table are yet to be sent by the other changefeed."""
        return f"t_{name}" in self._unsent

    def begin_later(self, name: str) -> None:
        """A table of which nothing is sent as yet."""
        self._unsent[f"t_{name}"] = []
        self.create(name)

    def come(self, name: str) -> None:
        """The other changefeed sends all of the table so far, with a watermark in the middle of it."""
        topic = f"t_{name}"
        sent = self._unsent.pop(topic)
        for number, (partition, message) in enumerate(sent):
            self._send(topic, partition, message)
            if number == len(sent) // 2:
                for at in range(PARTITIONS):
                    self.broker.produce(topic, at, Message("watermark", message.commit_ts - 1))

    def _send(self, topic: str, partition: int, message: Message) -> None:
        if topic in self._unsent:
            self._unsent[topic].append((partition, message))
            return
        self.broker.topic(topic)
        self.broker.produce(topic, partition, message)
        self._log.append((topic, partition, message))

    def _row(
        self, table: TidbTable, key: int, row: Mapping[str, Any], op: str, before: Mapping[str, Any] | None = None
    ) -> None:
        if self.alone:
            self.shown.setdefault((table.name, table.version), table.described())
        was = tuple(before.items()) if before is not None and op == "update" else None
        message = Message("row", self.ts, table.name, table.version, key, tuple(row.items()), op, before=was)
        for one in message.keys:
            self.changed.setdefault((table.name.table, one), []).append(self.ts)
        self._send(self.topic_of(table.name), key % PARTITIONS, message)

    def _ddl(self, kind: int, sql: str, table: TidbTable, old: TableName | None = None) -> None:
        """One DDL event, to the partitions of the topic of the name that it ends."""
        self.ddl[self.ts] += 1
        message = Message(
            "ddl", self.ts, table.name, sql=sql, action=int(kind), old=old,
            version=None if kind is ActionType.DROP_TABLE else table.described(),
        )  # fmt: skip
        for partition in range(1 if self.alone else PARTITIONS):
            self._send(self.topic_of(old or table.name), partition, message)

    def pass_time(self) -> None:
        """Nothing happens, and watermarks may be newer than all that has."""
        self._tick()

    def watermark(self, which: Iterable[int] = range(10**6), back: int = 0) -> None:
        """All up to here was sent: a message in these partitions, counted over all topics. `back`: it is older."""
        wanted = set(which) if not isinstance(which, range) else which
        for number, at in enumerate(sorted(self.broker.logs)):
            if number in wanted and self.ts > back * TICK and at.stream not in self._unsent:
                self.broker.produce(*at, Message("watermark", self.ts - back * TICK))

    def restart_changefeed(self, back: int) -> None:
        """Send again what is newer than so many commit ts ago."""
        since = self.ts - back * TICK
        again = [sent for sent in self._log if sent[2].commit_ts > since]
        if self.keyless:  # it counts how often a send has a row: each event once, in the order of commit ts
            again = sorted(dict.fromkeys(again), key=lambda sent: sent[2].commit_ts)
            if self._is_as_one_send(again):
                self.watermark()
        for topic, partition, message in again:
            self._send(topic, partition, message)

    def _is_as_one_send(self, again: Sequence[tuple[str, int, Message]]) -> bool:
        """Whether rows without a key would come again with nothing to tell that.

        A limit: docs/reference/protocols/simple.md.
        """

        def times(sent: Iterable[tuple[str, int, Message]]) -> Iterable[tuple[tuple[str, int, TableName | None], int]]:
            return (((topic, at, one.table), one.commit_ts) for topic, at, one in sent if one.kind == "row")

        last, first = dict(times(self._log)), dict(times(reversed(again)))
        return any(last[place] <= ts for place, ts in first.items())

    # ---- what is done

    def transaction(self, changes: Sequence[tuple[TidbTable, int, str]]) -> None:
        """Changes of rows of several tables at one commit ts: put, delete."""
        self._tick()
        met: set[tuple[str, int]] = set()
        for table, key, what in changes:
            if (table.name.table, key) in met:
                continue
            met.add((table.name.table, key))
            before = table.rows.get(key)
            if what == "delete":
                if before is not None:
                    del table.rows[key]
                    self._row(table, key, before, "delete")
                continue
            row = table.rows[key] = self._new(table, key)
            self._row(table, key, row, "insert" if before is None else "update", before)
        self._done()

    def put_too_large(self, table: TidbTable, key: int) -> None:
        """A row of which only the key is sent."""
        self._tick()
        table.rows[key] = self._new(table, key)
        self.changed.setdefault((table.name.table, key), []).append(self.ts)
        message = Message(TOO_LARGE, self.ts, table.name, key=key)
        self._send(self.topic_of(table.name), key % PARTITIONS, message)
        self._done()

    def change_unsaid(self, table: TidbTable) -> None:
        """The table gets another version, which no DDL event describes: a BOOTSTRAP will."""
        self._tick()
        table.version = SchemaId(self.ts // TICK)
        self.undescribed.append(table.described())
        self._done()

    def bootstrap(self) -> None:
        """The changefeed describes the versions that it has not described, in one partition each."""
        for version in self.undescribed:
            message = Message("bootstrap", 0, version.table, version=version)
            self._send(self.topic_of(version.table), 0, message)
        self.undescribed.clear()

    def _new(self, table: TidbTable, key: int) -> dict[str, Any]:
        row: dict[str, Any] = {} if table.keyless else {"id": key}
        for column in table.others:
            number = self._fresh() % 3 if table.keyless else self._fresh()
            row[column.name] = f"s{number}" if column.type == types.STRING else number
        return row

    def create(self, *names: str) -> None:
        """CREATE TABLE; several at one commit ts, as a restore has them."""
        self._tick()
        for name in names:
            keyless, own = self.keyless and name == "b", SourceColumn("c0", types.INT, "INT")
            columns = (own,) if keyless else (HANDLE, own)
            table = TidbTable(TableName("s", name), columns, SchemaId(self.ts // TICK), keyless=keyless)
            table.partitioned = self.partitioned and name == "a"
            self.tables[name] = table
            by = f" {BY_KEY}" if table.partitioned else ""
            key = "" if keyless else "`id` INT PRIMARY KEY,"
            sql = f"CREATE TABLE `s`.`{name}` ({key}`c0` INT){by}"
            self._ddl(ActionType.CREATE_TABLE, sql, table)
        self._done()

    def drop(self, *names: str) -> None:
        """DROP TABLE."""
        self._tick()
        for name in names:
            self._ddl(ActionType.DROP_TABLE, f"DROP TABLE `s`.`{name}`", self.tables.pop(name))
        self._done()

    def drop_database(self) -> None:
        """DROP DATABASE: no message names its tables. Where each table has a topic, TiCDC sends it to none of these."""
        self._tick()
        self.tables.clear()
        self.ddl[self.ts] += 1
        message = Message(
            "ddl", self.ts, TableName("s", ""), sql="DROP DATABASE `s`", action=int(ActionType.DROP_SCHEMA)
        )
        for partition in range(PARTITIONS):
            self._send("t_all", partition, message)
        self._done()

    def do_something_strange(self, table: TidbTable) -> None:
        """A statement that is not understood; nothing changes by it."""
        self._tick()
        table.version = SchemaId(self.ts // TICK)
        self._ddl(STRANGE, f"ALTER TABLE {_sql(table)} DO SOMETHING STRANGE", table)
        self._done()

    def rename(self, *renames: tuple[str, str]) -> None:
        """RENAME TABLE of one or several tables at one commit ts: a message for each, in the order that is given."""
        self._tick()
        taken = {old: self.tables.pop(old) for old, _ in renames}
        for old, new in renames:
            table = taken[old]
            before, table.name = table.name, TableName("s", new)
            self.tables[new] = table
            table.version = SchemaId(self.ts // TICK)
            self._ddl(ActionType.RENAME_TABLE, f"RENAME TABLE `s`.`{old}` TO `s`.`{new}`", table, before)
        self._done()

    def move(self, table: TidbTable, moves: Sequence[tuple[int, int]], *, split: bool) -> None:
        """Updates that move keys (old, new), in one transaction; TiCDC may split them: deletes, then inserts."""
        self._tick()
        before = {old: table.rows.pop(old) for old, _ in moves}
        for old in before if split else ():
            self._row(table, old, before[old], "delete")
        for old, new in moves:
            row = table.rows[new] = {**self._new(table, new)}
            self._row(table, new, row, "insert" if split else "update", None if split else before[old])
        self._done()

    def exchange(self, table: TidbTable, other: TidbTable) -> None:
        """EXCHANGE PARTITION: no row is sent."""
        self._tick()
        went = {key: table.rows.pop(key) for key in list(table.rows) if key < EDGE}
        table.rows |= other.rows
        other.rows = went
        sql = f"ALTER TABLE {_sql(table)} EXCHANGE PARTITION `p` WITH TABLE {_sql(other)}"
        table.version = SchemaId(self.ts // TICK)
        self._ddl(ActionType.EXCHANGE_TABLE_PARTITION, sql, table)
        self._done()

    def truncate_partition(self, table: TidbTable) -> None:
        """TRUNCATE PARTITION: no deletes are sent."""
        self._tick()
        table.rows = {key: row for key, row in table.rows.items() if key >= EDGE}
        table.version = SchemaId(self.ts // TICK)
        self._ddl(ActionType.TRUNCATE_TABLE_PARTITION, f"ALTER TABLE {_sql(table)} TRUNCATE PARTITION `p`", table)
        self._done()

    def truncate(self, table: TidbTable) -> None:
        """TRUNCATE TABLE: no deletes are sent."""
        self._tick()
        table.rows, table.version = {}, SchemaId(self.ts // TICK)
        self._ddl(ActionType.TRUNCATE_TABLE, f"TRUNCATE TABLE `s`.`{table.name.table}`", table)
        self._done()

    def add_column(self, table: TidbTable) -> None:
        """ADD COLUMN … DEFAULT: rows that are there have the default."""
        name, number = f"c{table.next_column}", self._fresh()
        table.next_column += 1
        column = SourceColumn(name, types.INT, "INT", default=literal(str(number)))
        for row in table.rows.values():
            row[name] = number
        self._alter(table, (*table.columns, column), ActionType.ADD_COLUMN, f"ADD COLUMN `{name}` INT DEFAULT {number}")

    def drop_column(self, table: TidbTable, column: SourceColumn) -> None:
        """DROP COLUMN."""
        for row in table.rows.values():
            del row[column.name]
        columns = tuple(c for c in table.columns if c is not column)
        self._alter(table, columns, ActionType.DROP_COLUMN, f"DROP COLUMN `{column.name}`")

    def rename_column(self, table: TidbTable, column: SourceColumn) -> None:
        """RENAME COLUMN to a name that was never used."""
        name = f"c{table.next_column}"
        table.next_column += 1
        for key, row in table.rows.items():
            table.rows[key] = {name if n == column.name else n: v for n, v in row.items()}
        columns = tuple(replace(c, name=name) if c is column else c for c in table.columns)
        clause = f"RENAME COLUMN `{column.name}` TO `{name}`"
        self._alter(table, columns, ActionType.MODIFY_COLUMN, clause)

    def widen_column(self, table: TidbTable, column: SourceColumn) -> None:
        """MODIFY COLUMN: INT to TEXT, which the warehouse takes as another column."""
        text = f"'{column.default.text}'"
        default = literal(column.default.text) if column.default.kind == "literal" else column.default
        changed = replace(column, type=types.STRING, tidb_type="TEXT", default=default)
        for row in table.rows.values():
            row[column.name] = converted(row[column.name], column.type, types.STRING)
        columns = tuple(changed if c is column else c for c in table.columns)
        clause = f"MODIFY COLUMN `{column.name}` TEXT" + (
            f" DEFAULT {text}" if column.default.kind == "literal" else ""
        )
        self._alter(table, columns, ActionType.MODIFY_COLUMN, clause)

    def _alter(self, table: TidbTable, columns: tuple[SourceColumn, ...], kind: ActionType, clause: str) -> None:
        self._tick()
        table.columns, table.version = columns, SchemaId(self.ts // TICK)
        self._ddl(kind, f"ALTER TABLE `s`.`{table.name.table}` {clause}", table)
        self._done()


def _sql(table: TidbTable) -> str:
    return f"`{table.name.schema}`.`{table.name.table}`"
