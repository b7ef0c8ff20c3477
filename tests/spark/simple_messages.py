"""Messages of the model by commit ts as the Simple protocol in JSON has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ddl import ActionType
from pipeline.simulate.ddl import SimulatedDdl
from pipeline.simulate.simple import Identity, SimpleCodec, ddl_message, watermark
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

if TYPE_CHECKING:
    from unit.commit_ts_model.upstream import Message

    from pipeline.model.columns import SourceColumn, TableVersion
    from pipeline.model.names import TableName

ANY_TABLE = 0
"""No table's id: the model tells none either, as the Open protocol does not."""


class SimpleMessages:
    """Gives the bytes of messages, to be asked in the order in which they were sent first."""

    def __init__(self) -> None:
        self._sent: dict[Message, bytes] = {}
        self._newest: dict[TableName, TableVersion] = {}

    def value(self, message: Message) -> bytes:
        """The value of a record; a redelivery has the same bytes."""
        if message not in self._sent:
            self._sent[message] = self._encoded(message)
        return self._sent[message]

    def _encoded(self, message: Message) -> bytes:
        if message.kind == "watermark":
            return watermark(message.commit_ts)
        return self._ddl(message) if message.kind == "ddl" else self._row(message)

    def _row(self, message: Message) -> bytes:
        """An update has both images: what the row was before does not matter here, but for its key."""
        row = dict(message.values)
        columns = tuple(SimulatedColumn(name, "text" if isinstance(value, str) else "int") for name, value in row.items())
        table = SimulatedTable(message.table.schema, message.table.table, columns, ("id",))
        before, after = (None if message.op == "insert" else row), (None if message.op == "delete" else row)
        codec = SimpleCodec(table, Identity(ANY_TABLE, message.schema))
        return codec.value(message.op, before, after, message.commit_ts)

    def _ddl(self, message: Message) -> bytes:
        before = self._newest.pop(message.old or message.table, None)
        after = message.version
        if after is not None:
            self._newest[message.table] = after
        if message.action in (ActionType.CREATE_TABLE, ActionType.DROP_TABLE):  # of these there is one schema
            before, after = None, after or before
        sent = SimulatedDdl(message.sql, message.action, message.table.schema, message.table.table)
        return ddl_message(sent, after and _codec(after), before and _codec(before), message.commit_ts)


def _codec(version: TableVersion) -> SimpleCodec:
    columns = tuple(map(_column, version.columns))
    table = SimulatedTable(version.table.schema, version.table.table, columns, version.handle)
    return SimpleCodec(table, Identity(ANY_TABLE, version.version))


def _column(column: SourceColumn) -> SimulatedColumn:
    default = column.default.text if column.default.kind == "literal" else None
    return SimulatedColumn(column.name, column.tidb_type.lower(), nullable=column.nullable, default=default)
