"""The ordering by commit ts on dictionaries: the product's own classes, with Spark's part of them replaced.

`CommitTsBatch`, `CommitTsTableWriter`, `DdlApplier`, `routing`, `frontier`, `pending` and `advance` run as they are, on
the frames, tables and records of the batch model by offset (`unit.batch_model`). Replaced is what asks Spark for SQL or
windows: `replacements` lists it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyspark.sql.functions as spark_functions
from pyspark.sql import DataFrame
from unit.batch_model import batch as by_offset
from unit.batch_model.batch import Crash, CurrentRow, ModelRecords, extreme, image
from unit.batch_model.frames import Col, F, Frame

from pipeline.errors import BatchFailed
from pipeline.model import change
from pipeline.model.messages import (
    EVER,
    INDEX,
    Ddl,
    MessageHeader,
    Messages,
    Ordering,
    SeenVersion,
    TableMessages,
    Unknown,
)
from pipeline.model.names import TableName
from pipeline.operations import release
from pipeline.streaming import commit_ts_batch, redeliveries
from pipeline.streaming.commit_ts_batch import CommitTsBatch
from pipeline.streaming.commit_ts_writer import CommitTsTableWriter
from pipeline.streaming.redeliveries import Watermarks
from pipeline.streaming.set_aside import pending
from pipeline.warehouse import advance, publisher
from pipeline.warehouse.descriptions import Descriptions, from_row, known_as
from pipeline.warehouse.records import LET_IN
from pipeline.warehouse.state import OPERATION

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from unit.batch_model.iceberg import ChangeRow
    from unit.batch_model.upstream import Record

    from pipeline.model.columns import SchemaId, TableVersion
    from pipeline.model.messages import ColumnMapping, Part
    from pipeline.model.places import Partition

_ENVELOPE = (*change.ENVELOPE, change.ERROR, change.KEY_BYTES, change.VALUE_BYTES)


class CommitTsProtocol:
    """`SourceProtocol` over messages that need no decoding, as Simple has them: DDL events describe versions."""

    ordering, sends_before, decimals_as_text = Ordering.BY_COMMIT_TS, False, False

    def __init__(self, known: Descriptions) -> None:
        self.known = known

    def prepare(self, raw: Frame) -> Frame:
        """See `SourceProtocol.prepare`."""
        return raw.withColumn(INDEX, F.lit(0))

    def header(self) -> MessageHeader:
        """See `SourceProtocol.header`."""

        def of(name: str) -> Col:
            def value(row: Mapping[str, Any]) -> Any:
                table = row["value"].message.table
                return None if table is None else getattr(table, name)

            return Col(value)

        return MessageHeader(
            of("schema"), of("table"), Col(lambda row: row["value"].message.commit_ts),
            Col(lambda row: row["value"].message.kind == "watermark"),
        )  # fmt: skip

    def read(self, raw: Frame) -> Messages:
        """Tables by name and version, statements, watermarks."""
        records: list[Record] = [row["value"] for row in raw.rows]
        rows = [record for record in records if record.message.kind == "row"]
        described = [r.message.version for r in records if r.message.kind == "ddl" and r.message.version is not None]
        versions = {known_as(version): version for version in described}
        wanted = {(r.message.table, r.message.schema) for r in rows}
        versions = {**self.known.versions(wanted), **versions}
        seen: dict[tuple[tuple[str, str], SchemaId], list[Record]] = {}
        for record in rows:
            seen.setdefault((record.message.table.key, record.message.schema), []).append(record)
        marks: dict[Partition, Any] = {}
        ddl: dict[tuple[int, str, TableName], list[Record]] = {}
        for record in records:
            message = record.message
            if message.kind == "watermark":
                marks[record.at] = max(message.commit_ts, marks.get(record.at, 0))
            elif message.kind == "ddl":
                ddl.setdefault((message.commit_ts, message.sql, message.table), []).append(record)
        return Messages(
            tables=self._tables({name: found for name, found in seen.items() if name in versions}, versions),
            ddl=tuple(sorted(map(_statement, ddl.values()), key=lambda statement: statement.commit_ts)),
            watermarks=marks,
            starts=extreme(records, min),
            ends={at: last + 1 for at, last in extreme(records, max).items()},
            rows=len(records),
            control=len(records) - len(rows),
            unknown=tuple(_unknown(name, found) for name, found in seen.items() if name not in versions),
            described=tuple(versions[known_as(version)] for version in described),
        )

    @staticmethod
    def _tables(
        seen: Mapping[tuple[tuple[str, str], SchemaId], list[Record]], versions: Mapping[Any, TableVersion]
    ) -> tuple[TableMessages, ...]:
        tables: dict[tuple[str, str], list[SeenVersion]] = {}
        for name, records in sorted(seen.items()):
            times = [record.message.commit_ts for record in records]
            entry = SeenVersion(
                versions[name], extreme(records, min), extreme(records, max), len(records),
                since=min(times), until=max(times),
            )  # fmt: skip
            tables.setdefault(name[0], []).append(entry)
        return tuple(TableMessages(found[0].version.table, tuple(found)) for found in tables.values())

    def where(self, messages: TableMessages) -> Col:
        """See `SourceProtocol.where`."""
        parts: Sequence[Part] = messages.parts
        key = messages.table.key

        def mine(row: Mapping[str, Any]) -> bool:
            message = row["value"].message
            if message.kind != "row":
                return False
            if not parts:
                return message.table.key == key
            return any(
                message.table.key == part.table.key and part.since < message.commit_ts <= part.until for part in parts
            )

        return Col(mine)

    def changes(self, raw: Frame, messages: TableMessages, mapping: ColumnMapping) -> Frame:
        """See `SourceProtocol.changes`."""
        mine = raw.where(self.where(messages))
        columns = (*_ENVELOPE, *(target.name for target in mapping.targets))
        return Frame(lambda: [_changed(row, mapping) for row in mine.rows], columns, raw.catalog)

    def predict(self, *_: object) -> None:
        """See `SourceProtocol.predict`: the model has no fast path."""

    def as_sent(self, name: str) -> str:
        """See `SourceProtocol.as_sent`."""
        return name

    def sentences(self) -> Mapping[str, str]:
        """See `SourceProtocol.sentences`."""
        return {}

    def is_newest(self, _seen: SeenVersion) -> bool:
        """See `SourceProtocol.is_newest`: ids grow."""
        return False


def _changed(row: Mapping[str, Any], mapping: ColumnMapping) -> dict[str, Any]:
    record: Record = row["value"]
    message = record.message
    columns = mapping.fields[message.schema]
    values = dict.fromkeys(target.name for target in mapping.targets)
    values.update((columns[name], value) for name, value in message.values)
    return {
        **dict.fromkeys(change.ENVELOPE), **values,
        change.OP: message.op, change.TOPIC: record.at.stream, change.PARTITION: record.at.number,
        change.OFFSET: record.offset, change.INDEX: 0, change.COMMIT_TS: message.commit_ts,
        change.SCHEMA_ID: message.schema, change.COMMIT_TIME: record, change.ERROR: None,
        change.KEY_BYTES: None, change.VALUE_BYTES: record,
    }  # fmt: skip


def _statement(copies: Sequence[Record]) -> Ddl:
    message = copies[0].message
    at: dict[Partition, int] = {}
    for record in copies:
        at.setdefault(record.at, record.offset)
    return Ddl(
        message.commit_ts, message.table, message.action, message.sql, at, version=message.version, old=message.old
    )


def _unknown(name: tuple[tuple[str, str], SchemaId], records: Sequence[Record]) -> Unknown:
    times = [record.message.commit_ts for record in records]
    where = Col(lambda row: row["value"].message.kind == "row" and _name(row["value"]) == name)
    return Unknown(records[0].message.table, name[1], len(records), min(times), max(times), where)


def _name(record: Record) -> tuple[tuple[str, str], SchemaId]:
    return record.message.table.key, record.message.schema


class CommitTsRecords(ModelRecords):
    """The pipeline's own tables."""

    @staticmethod
    def load(catalog):
        loaded = ModelRecords.load(catalog)
        return CommitTsRecords(loaded.spark, loaded.catalog, loaded.data, loaded.pipeline, loaded.tables)

    def _count_waiting(self):
        rows = [row for row in self.tables["held"].content() if row["status"] == "open"]
        return Counter((TableName(row["schema_name"], row["table_name"]), _code(row)) for row in rows)

    def open_up_to(self, name, commit_ts):
        rows = self.tables[name].content()
        return sum(row["status"] == "open" and (row["commit_ts"] or 0) <= commit_ts for row in rows)

    def _update(self, name, source, change_, values, which="true"):
        changed = {column: values[parameter] for column, parameter in re.findall(r"(\w+) = :(\w+)", change_)}
        until = re.search(r"<= (\d+)", which)

        def theirs(row):
            if (row["schema_name"], row["table_name"], row["status"]) != (source.schema, source.table, "open"):
                return False
            if which.startswith("NOT"):
                return not _code(row)
            if until is not None:
                return (row["commit_ts"] or 0) <= int(until[1])
            return which == "true" or row["topic"] == values["topic"]

        self._rewrite(name, [{**row, **changed} if theirs(row) else row for row in self.tables[name].content()])


def _code(row: Mapping[str, Any]) -> str:
    """Why a record waits by itself; nothing, if it does not."""
    return next((code for code in LET_IN if row["reason"].startswith(code)), "")


class ModelDescriptions(Descriptions):
    """`_pipeline.schemas` in memory."""

    def _load(self, wanted: Collection[Any]) -> None:
        self._known.update({name: version for name, version in self._durable().items() if name in wanted})

    def _read(self, _where: Any) -> dict[Any, TableVersion]:
        return self._durable()

    def _durable(self) -> dict[Any, TableVersion]:
        rows = self._records.tables["schemas"].content()
        names = ("schema_name", "table_name", "version", "columns")
        return {known_as(v): v for v in (from_row(*(row[name] for name in names)) for row in rows)}


class ModelCommitTsBatch(CommitTsBatch):
    """One micro-batch over a list of records."""

    def side_by_side(self, work, tables):
        return by_offset.ModelBatch.side_by_side(self, work, tables)

    def raised(self, results, errors):
        return by_offset.ModelBatch.raised(self, results, errors)


class ModelCommitTsWriter(CommitTsTableWriter):
    """One table's part, in which a fault may be."""

    def evolve(self):
        self._may_fail("evolve")
        super().evolve()

    def append(self, ranges):
        self._may_fail("append")
        return super().append(ranges)

    def _may_fail(self, stage):
        if self.context.spark.faults.get(self.messages.table.key) == stage:
            raise BatchFailed("INJECTED", f"{self.messages.table}: {stage}")


# ---- in place of SQL


def _waits(row: Mapping[str, Any]) -> bool:
    return row["status"] == "open" and bool(_code(row))


def _waiting(records: CommitTsRecords) -> Frame | None:
    """For `pending.waiting`."""
    rows = [row for row in records.tables["held"].content() if _waits(row)]
    if not rows:
        return None
    return Frame(rows, tuple(rows[0]), records.catalog).select(*pending.as_raw())


def _released(records: CommitTsRecords) -> frozenset[tuple[str, str]]:
    """For `pending.released`."""
    rows = [row for row in records.tables["held"].content() if row["status"] == "open"]
    names = [row for row in rows if row["reason"].startswith(pending.RELEASED)]
    return frozenset(TableName(row["schema_name"], row["table_name"]).key for row in names)


def _let_in(context: Any, raw: Frame, still: Col | None) -> None:
    """For `pending.let_in`."""
    done = None if still is None else {row["value"].place for row in raw.where(F.col(pending.WAITED) & ~still).rows}

    def goes(row: Mapping[str, Any]) -> bool:
        return _waits(row) and (done is None or row["value"].place in done)

    rows = context.records.tables["held"].content()
    context.records._rewrite("held", [{**row, "status": "released"} if goes(row) else row for row in rows])


def _let_go(context: Any, source: TableName) -> int:
    """For `pending.let_go`."""
    rows = context.records.tables["held"].content()

    def mine(row: Mapping[str, Any]) -> bool:
        return TableName(row["schema_name"], row["table_name"]).key == source.key and row["status"] == "open"

    reason = f"{pending.RELEASED}: by a person"
    changed = [{**row, "reason": reason} if mine(row) and not _waits(row) else row for row in rows]
    context.records._rewrite("held", changed)
    return sum(map(mine, rows))


# ---- in place of a publish in Spark


def _everything(self: Any) -> list[ChangeRow]:
    """For `advance._everything`."""
    return list(self.table.changes.content())


def rows_between(self: Any, fresh: Sequence[Any], late: Sequence[Any], cut: int) -> list[ChangeRow]:
    """For `advance._rows`."""
    changes = self.table.changes
    news = [row for one in fresh for row in changes.added(one.snapshot) if row.record.message.commit_ts > cut]
    return news + [row for one in late for row in changes.added(one.snapshot) if row.record.message.commit_ts <= cut]


def _show(self: Any, segment: Any, rows: Sequence[ChangeRow], *, few: bool) -> int:
    """For `advance._show`: the last change of each key is its row."""
    del few
    table, target = self.table, self.current
    last: dict[int, ChangeRow] = {}
    for row in rows:
        ts = row.record.message.commit_ts
        if ts <= segment.high and (segment.low < 0 or ts > segment.low):
            known = last.get(row.key)
            last[row.key] = row if known is None else max(known, row, key=_order)
    if not last:
        return 0
    kept = tuple(row for row in target.content(self.branch) if row.key not in last)
    target.write("delete", (), kept, {}, self.branch)
    self.step("keys-deleted")
    fields, to = table.changes.fields(), target.fields()
    shown = [
        CurrentRow(
            row.key, row.record.message.commit_ts, {to[n]: v for n, v in image(table.layout, row, fields).items()}
        )
        for row in last.values()
        if not row.deletes and row.record.message.commit_ts > table.truncated_at
    ]
    target.append(shown, OPERATION.entry(self.operation), self.branch)
    return len(last)


def _order(row: ChangeRow) -> tuple[int, bool, int]:
    return row.record.message.commit_ts, not row.deletes, row.record.sequence


def _empty(self: Any, at: int = EVER) -> None:
    """For `Publisher.empty`."""
    newer = self.table.cut > at
    kept = tuple(row for row in self.current.content(self.branch) if newer and row.commit_ts > at)
    self.current.write("delete", (), kept, {}, self.branch)
    self.step("truncated")


def replacements() -> list[tuple[Any, str, Any]]:
    """(where, name, instead): Spark's part of the product."""
    of_streaming = [
        module for name, module in sorted(sys.modules.items())
        if name.startswith(("pipeline.streaming.", "pipeline.model.")) and module is not None
    ]  # fmt: skip
    return [
        *by_offset.replacements(),
        *((module, "F", F) for module in of_streaming if getattr(module, "F", None) is spark_functions),
        *((module, "DataFrame", Frame) for module in of_streaming if getattr(module, "DataFrame", None) is DataFrame),
        (pending, "waiting", _waiting),
        (pending, "released", _released),
        (release, "released", _released),
        (release, "CommitTsBatch", ModelCommitTsBatch),
        (pending, "let_in", _let_in),
        (pending, "let_go", _let_go),
        (release, "let_go", _let_go),
        (redeliveries, "watermarks", lambda _raw, _protocol, newest: Watermarks([], dict(newest))),
        (redeliveries, "begun_again", lambda *_: {}),
        (commit_ts_batch, "ThreadPoolExecutor", by_offset._OneThread),
        (commit_ts_batch, "CommitTsTableWriter", ModelCommitTsWriter),
        (advance, "_everything", _everything),
        (advance, "_rows", rows_between),
        (advance, "_show", _show),
        (publisher.Publisher, "empty", _empty),
    ]


__all__ = ["CommitTsProtocol", "CommitTsRecords", "Crash", "ModelCommitTsBatch", "ModelDescriptions", "replace"]
