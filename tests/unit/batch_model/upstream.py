"""A source small enough to think about: tables, a changefeed that sends them, topics and a registry.

One changefeed sends every row event and, where `ddl_sent`, its commit ts and every DDL statement to all partitions of
its table's topic. What it has sent it may send again: a changefeed that restarts sends a suffix of the stream anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipeline.ddl import ActionType
from pipeline.model import types
from pipeline.model.columns import CommitTs, Default, SchemaId, SourceColumn, TableVersion, literal
from pipeline.model.names import TableName
from pipeline.model.places import Partition

if TYPE_CHECKING:
    from support.memory_source import MemorySource

    from pipeline.sources.source import Stream

PARTITIONS = 2
KEYS = range(4)
HANDLE = SourceColumn("id", types.INT, "INT", nullable=False)
WIDER = {types.INT: types.BIGINT, types.BIGINT: types.STRING}
TIDB = {types.INT: "INT", types.BIGINT: "BIGINT", types.STRING: "TEXT"}
SQL = {types.INT: "INT", types.BIGINT: "BIGINT", types.STRING: "TEXT"}
UNKNOWN_KIND = 999

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Message:
    """One record. A row event names a key and a schema; its `values` are None for a delete."""

    kind: str
    commit_ts: int = 0
    table: TableName | None = None
    schema: SchemaId | None = None
    key: int = 0
    values: tuple[tuple[str, object], ...] | None = None
    sql: str = ""
    action: int = 0
    extended: bool = True
    """Whether the changefeed tells the commit ts of rows."""

    @property
    def told_ts(self) -> int | None:
        """The commit ts as a reader knows it."""
        return self.commit_ts if self.extended else None

    @property
    def deletes(self) -> bool:
        """Whether a row goes."""
        return self.kind == "row" and self.values is None


@dataclass(frozen=True, slots=True)
class Record:
    """A message where it stands; `sequence` is its place among everything that was ever sent."""

    at: Partition
    topic_id: str
    offset: int
    sequence: int
    message: Message

    @property
    def place(self) -> tuple[str, int, int]:
        """What identifies it for ever."""
        return self.at.stream, self.at.number, self.offset

    def raw(self) -> dict[str, object]:
        """As a row of a raw frame; the record stands for its bytes."""
        return {
            "topic": self.at.stream, "partition": self.at.number, "offset": self.offset,
            "timestamp": self.sequence, "key": None, "value": self,
        }  # fmt: skip


def converted(value: object, old: str, new: str) -> object:
    """A stored value after MODIFY COLUMN."""
    return str(value) if value is not None and new == types.STRING and old != types.STRING else value


def read_default(default: Default, kind: str) -> object:
    """What the rows that were there before an ADD COLUMN show."""
    if default.kind != "literal":
        return None
    return default.text if kind == types.STRING else int(default.text)


@dataclass(slots=True)
class SourceTable:
    """One table as TiDB has it. `epoch` is the commit ts of the newest statement that named it."""

    name: TableName
    columns: tuple[SourceColumn, ...]
    rows: dict[int, Row] = field(default_factory=dict)
    next_column: int = 0
    truncated_at: int = 0

    @property
    def others(self) -> tuple[SourceColumn, ...]:
        """All columns but the handle."""
        return self.columns[1:]


class Registry:
    """Schema ids by text: the same text has the same id, as in a Confluent registry."""

    def __init__(self) -> None:
        self._ids: dict[object, SchemaId] = {}
        self._versions: dict[SchemaId, TableVersion] = {}
        self._newest: dict[tuple[str, str], SchemaId] = {}
        self.forgotten: set[SchemaId] = set()

    def register(self, table: TableName, columns: tuple[SourceColumn, ...], *, key: bool = False) -> SchemaId:
        """The id of a table's schema; a new text gets the next one."""
        text = (table, columns, key)
        if text not in self._ids:
            number = SchemaId(len(self._ids) + 1)
            self._ids[text] = number
            self._versions[number] = TableVersion(table, number, columns, (HANDLE.name,))
            if not key:
                self._newest[table.key] = number
        return self._ids[text]

    def find(self, schema: SchemaId) -> TableVersion | None:
        """The version of this id, None while the registry does not know it."""
        return None if schema in self.forgotten else self._versions[schema]

    def is_newest(self, version: TableVersion) -> bool:
        """Whether the subject's latest schema is this one."""
        return self._newest.get(version.table.key) == version.version

    def value_ids(self) -> list[SchemaId]:
        """Newest value schema of every table."""
        return sorted(self._newest.values())


class Broker:
    """Writes to a source in memory."""

    def __init__(self, source: MemorySource) -> None:
        self.source = source
        self.sent = 0

    @property
    def topics(self) -> dict[str, Stream]:
        """The streams that there are."""
        return self.source.known

    @property
    def logs(self) -> dict[Partition, list[Record]]:
        """The records of each partition."""
        return self.source.logs

    def topic(self, name: str) -> Stream:
        """The topic of this name, made at the first question."""
        return self.source.add(name, PARTITIONS)

    def produce(self, topic: str, partition: int, message: Message) -> None:
        """Append one record."""
        stream, at = self.topic(topic), Partition(topic, partition)
        log = self.logs[at]
        log.append(Record(at, stream.id, len(log), self.sent, message))
        self.sent += 1

    @property
    def latest(self) -> dict[Partition, int]:
        """End offset of every partition."""
        return self.source.ends


class Source:
    """The database and its changefeed."""

    def __init__(self, broker: Broker, *, ddl_sent: bool) -> None:
        self.broker, self.registry, self.ddl_sent = broker, Registry(), ddl_sent
        self.tables: dict[str, SourceTable] = {}
        self.ts = 0
        self._values = 0
        self._log: list[tuple[str, int, Message]] = []
        self._since_naming = 0

    def _tick(self) -> int:
        self.ts += 1 << 18
        return self.ts

    def _fresh(self) -> int:
        self._values += 1
        return self._values

    @staticmethod
    def topic_of(name: TableName) -> str:
        """Where a table's records go."""
        return f"t_{name.schema}_{name.table}"

    def _send(self, topic: str, partition: int, message: Message) -> None:
        self.broker.produce(topic, partition, message)
        self._log.append((topic, partition, message))

    def _state(self, ts: int, name: TableName, kind: ActionType | int, sql: str, topic: TableName) -> None:
        """One DDL statement, to every partition of the topic of the name that it ends."""
        if self.ddl_sent:
            for partition in range(PARTITIONS):
                self._send(self.topic_of(topic), partition, Message("ddl", ts, name, sql=sql, action=int(kind)))

    def create(self, *names: str) -> None:
        """CREATE TABLE with a handle and one more column; several at one commit ts, as a restore has them."""
        ts = self._tick()
        for name in names:
            self._create(name, ts)
        self._since_naming = len(self._log)

    def _create(self, name: str, ts: int) -> None:
        table = SourceTable(TableName("s", name), (HANDLE, SourceColumn("c0", types.INT, "INT")), next_column=1)
        self.tables[name] = table
        self.broker.topic(self.topic_of(table.name))
        sql = f"CREATE TABLE `s`.`{name}` (`id` INT PRIMARY KEY,`c0` INT)"
        self._state(ts, table.name, ActionType.CREATE_TABLE, sql, table.name)

    def put(self, table: SourceTable, key: int) -> None:
        """INSERT or UPDATE one row."""
        row: Row = {"id": key}
        for column in table.others:
            number = self._fresh()
            row[column.name] = f"s{number}" if column.type == types.STRING else number
        table.rows[key] = row
        self._event(table, self._tick(), key, row)

    def delete(self, table: SourceTable, key: int) -> None:
        """DELETE one row."""
        if table.rows.pop(key, None) is not None:
            self._event(table, self._tick(), key, None)

    def replace(self, table: SourceTable, key: int) -> None:
        """DELETE and INSERT in one transaction, as a changefeed splits an update of a unique key."""
        self.delete(table, key)
        self.put(table, key)

    def _event(self, table: SourceTable, ts: int, key: int, row: Row | None) -> None:
        registry = self.registry
        key_schema = registry.register(table.name, (HANDLE,), key=True)
        schema = key_schema if row is None else registry.register(table.name, table.columns)
        values = None if row is None else tuple(row.items())
        message = Message("row", ts, table.name, schema, key, values, extended=self.ddl_sent)
        self._send(self.topic_of(table.name), key % PARTITIONS, message)

    def add_column(self, table: SourceTable, *, again: str | None = None) -> None:
        """ADD COLUMN … DEFAULT; `again` takes the name of a column that was dropped."""
        name, number = again or f"c{table.next_column}", self._fresh()
        table.next_column += 1
        column = SourceColumn(name, types.INT, "INT", default=literal(str(number)))
        table.columns = (*table.columns, column)
        table.rows = {key: {**row, name: number} for key, row in table.rows.items()}
        self._alter(table, ActionType.ADD_COLUMN, f"ADD COLUMN `{name}` INT DEFAULT {number}")

    def drop_column(self, table: SourceTable, column: SourceColumn) -> None:
        """DROP COLUMN."""
        table.columns = tuple(c for c in table.columns if c is not column)
        table.rows = {k: {n: v for n, v in row.items() if n != column.name} for k, row in table.rows.items()}
        self._alter(table, ActionType.DROP_COLUMN, f"DROP COLUMN `{column.name}`")

    def rename_column(self, table: SourceTable, column: SourceColumn) -> None:
        """RENAME COLUMN to a name that was never used."""
        name = f"c{table.next_column}"
        table.next_column += 1
        table.columns = tuple(replace(c, name=name) if c is column else c for c in table.columns)
        table.rows = {k: {name if n == column.name else n: v for n, v in row.items()} for k, row in table.rows.items()}
        self._alter(table, ActionType.MODIFY_COLUMN, f"RENAME COLUMN `{column.name}` TO `{name}`")

    def change_type(self, table: SourceTable, column: SourceColumn) -> None:
        """MODIFY COLUMN: INT to BIGINT, which widens, BIGINT to TEXT, which forks."""
        kind = WIDER[column.type]
        changed = replace(column, type=kind, tidb_type=TIDB[kind])
        table.columns = tuple(changed if c is column else c for c in table.columns)
        for row in table.rows.values():
            row[column.name] = converted(row[column.name], column.type, kind)
        default = f" DEFAULT {_quoted(column.default, kind)}" if column.default.kind == "literal" else ""
        self._alter(table, ActionType.MODIFY_COLUMN, f"MODIFY COLUMN `{column.name}` {SQL[kind]}{default}")

    def strange_statement(self, table: SourceTable) -> None:
        """A statement that nobody understands and that changes nothing."""
        self._alter(table, UNKNOWN_KIND, "STRANGE")

    def _alter(self, table: SourceTable, kind: ActionType | int, clause: str) -> None:
        sql = f"ALTER TABLE `s`.`{table.name.table}` {clause}"
        self._state(self._tick(), table.name, kind, sql, table.name)

    def truncate(self, table: SourceTable) -> None:
        """TRUNCATE TABLE: no deletes are sent."""
        table.rows, table.truncated_at = {}, self._tick()
        sql = f"TRUNCATE TABLE `s`.`{table.name.table}`"
        self._state(table.truncated_at, table.name, ActionType.TRUNCATE_TABLE, sql, table.name)

    def rename_table(self, old: str, new: str) -> None:
        """RENAME TABLE: the message goes to the topic of the old name and names the new one."""
        table = self.tables.pop(old)
        before, table.name = table.name, TableName("s", new)
        self.tables[new] = table
        sql = f"RENAME TABLE `s`.`{old}` TO `s`.`{new}`"
        self._state(self._tick(), table.name, ActionType.RENAME_TABLE, sql, before)
        self.broker.topic(self.topic_of(table.name))
        self._since_naming = len(self._log)

    def rename_at_once(self, *renames: tuple[str, str]) -> None:
        """RENAME TABLE of several tables: a message for each, of one commit ts, in this order or any other."""
        tables = {old: self.tables.pop(old) for old, _ in renames}
        ts = self._tick()
        for old, new in renames:
            table = tables[old]
            before, table.name = table.name, TableName("s", new)
            self.tables[new] = table
            sql = f"RENAME TABLE `s`.`{old}` TO `s`.`{new}`"
            self._state(ts, table.name, ActionType.RENAME_TABLE, sql, before)
            self.broker.topic(self.topic_of(table.name))
        self._since_naming = len(self._log)

    def drop_table(self, name: str) -> None:
        """DROP TABLE."""
        table = self.tables.pop(name)
        self._state(self._tick(), table.name, ActionType.DROP_TABLE, f"DROP TABLE `s`.`{name}`", table.name)
        self._since_naming = len(self._log)

    def restart_changefeed(self, back: int) -> None:
        """Send the last `back` messages again, but nothing from before a statement that named tables."""
        again = self._log[max(self._since_naming, len(self._log) - back) :]
        for topic, partition, message in again:
            self._send(topic, partition, message)

    def watermark(self) -> None:
        """A checkpoint message in every partition: all up to here was sent."""
        for at in list(self.broker.logs):
            self.broker.produce(*at, Message("watermark", self.ts))

    def damage(self, table: SourceTable, partition: int, *, header: bool) -> None:
        """A message that cannot be decoded: no header at all, or a body that ends too early."""
        schema = self.registry.register(table.name, table.columns)
        message = Message("garbage") if header else Message("damaged", self.ts, table.name, schema)
        self.broker.produce(self.topic_of(table.name), partition, message)


def _quoted(default: Default, kind: str) -> str:
    return f"'{default.text}'" if kind == types.STRING else default.text


def as_ts(number: int) -> CommitTs:
    """A commit ts."""
    return CommitTs(number)
