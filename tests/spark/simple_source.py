"""A source in memory whose records are Simple's bytes in JSON: the changefeed of the model by commit ts writes them."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import yaml
from support.memory_source import MemorySource

from pipeline.ddl import ActionType
from pipeline.settings import parse
from pipeline.simulate.ddl import SimulatedDdl
from pipeline.simulate.simple import Identity, SimpleCodec, ddl_message, watermark
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable
from pipeline.sources.build import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from unit.batch_model.upstream import Record
    from unit.commit_ts_model.upstream import Message

    from pipeline.model.columns import SourceColumn, TableVersion
    from pipeline.model.names import TableName
    from pipeline.settings import Settings

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
        """An update has both images."""
        row = dict(message.values)
        columns = tuple(
            SimulatedColumn(name, "text" if isinstance(value, str) else "int") for name, value in row.items()
        )
        table = SimulatedTable(message.table.schema, message.table.table, columns, ("id",))
        before, after = (None if message.op == "insert" else row), (None if message.op == "delete" else row)
        if message.before is not None:
            before = dict(message.before)
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


class SimpleSource(MemorySource):
    """A source in memory whose raw frames are Spark's."""

    __slots__ = ("messages", "spark")

    def __init__(self) -> None:
        super().__init__(self.raw)
        self.spark: SparkSession | None = None
        self.messages = SimpleMessages()

    def raw(self, records: Iterable[Record]) -> DataFrame:
        """The raw frame of these records."""
        rows = [
            (*one.place, datetime.fromtimestamp(one.sequence, UTC), None, self.messages.value(one.message))
            for one in sorted(records, key=lambda one: one.sequence)
        ]
        return self.spark.createDataFrame(rows, _RAW)


_RAW = "topic string, partition int, offset long, timestamp timestamp, key binary, value binary"


def settings_in(folder: Path, drop_table: str = "keep") -> Settings:
    """A configuration of a pipeline with a warehouse below `folder`, which reads such a source."""
    tree = {
        "name": "model",
        "source": {
            "kind": "kafka", "protocol": "simple", "bootstrap_servers": "localhost:1", "topic_pattern": "t_.*",
        },
        "quality": {"built_in": False},
        "warehouse": {"path": str(folder / "warehouse"), "drop_table": drop_table},
        "checkpoint": str(folder / "checkpoint"),
        "spark": {"master": "local[1]"},
    }  # fmt: skip
    return parse(yaml.safe_dump(tree), folder)


@contextmanager
def reading(source: SimpleSource) -> Iterator[None]:
    """Let pipelines read this source, whatever their settings say."""

    def bound(spark: SparkSession, _settings: Settings) -> SimpleSource:
        source.spark = spark
        return source

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SOURCES, "kafka", bound)
        yield
