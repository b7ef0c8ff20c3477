"""The ordering by commit ts on dictionaries: the product's own classes, with Spark's part of them replaced.

`ByCommitTs`, `TableByCommitTs`, `DdlApplier`, `routing`, `frontier`, `pending` and `advance` run as they are, on
the frames, tables and records of the batch model by offset (`unit.batch_model`). Replaced is what asks Spark for SQL or
windows: `replacements` lists it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from unit.batch_model import batch as by_offset
from unit.batch_model.batch import IS_DDL, Crash, CurrentRow, ModelRecords, extreme, image
from unit.batch_model.frames import Col, F, Frame
from unit.commit_ts_model import multiset
from unit.commit_ts_model.upstream import TOO_LARGE

from pipeline.ingest import accounting
from pipeline.ingest import ordering as by_ordering
from pipeline.ingest.by_commit_ts import ordering, publishing, redeliveries
from pipeline.ingest.by_commit_ts.ordering import ByCommitTs
from pipeline.ingest.set_aside import pending
from pipeline.model import change
from pipeline.model.messages import (
    EVER,
    INDEX,
    Ddl,
    MessageHeader,
    Messages,
    Ordering,
    Recipe,
    SeenVersion,
    TableMessages,
    Undecodable,
    Unknown,
)
from pipeline.model.names import TableName
from pipeline.operations import release, superseded
from pipeline.protocols.large.codes import HANDLE_KEY_ONLY
from pipeline.warehouse import advance, keys, partitions, publisher, removals
from pipeline.warehouse.descriptions import Descriptions, from_row, known_as
from pipeline.warehouse.pairs import backfills_of
from pipeline.warehouse.raw_records import as_raw
from pipeline.warehouse.records import LET_IN, SET_ASIDE
from pipeline.warehouse.state import BACKFILLED, CUT, EXCHANGED_FROM, OPERATION, REMOVED, TRUNCATED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from unit.batch_model.iceberg import ChangeRow
    from unit.batch_model.upstream import Record

    from pipeline.ingest.context import PipelineContext
    from pipeline.model.columns import SchemaId, TableVersion
    from pipeline.model.messages import ColumnMapping, Part
    from pipeline.model.places import Partition
    from pipeline.warehouse.exchange import Exchange
    from pipeline.warehouse.layout import Removal

_ENVELOPE = (*change.ENVELOPE, change.ERROR, change.UNREAD, change.KEY_BYTES, change.VALUE_BYTES)


class CommitTsProtocol:
    """`SourceProtocol` over messages that need no decoding, as Simple has them: DDL events describe versions."""

    ordering = told_ordering = Ordering.BY_COMMIT_TS
    sends_before, decimals_as_text = True, False

    def begin(self, earlier, first=None):
        """Nothing has to be known before."""

    def __init__(self, known: Descriptions, shown: Mapping[Any, TableVersion] | None = None) -> None:
        self.known, self.shown = known, shown
        """`shown`: what rows show of their version, if partition 0 alone has statements; else None."""

    def first_partition_statements(self, raw: Frame) -> Frame | None:
        """See `SourceProtocol.first_partition_statements`."""
        return None if self.shown is None else raw.where(IS_DDL)

    def foresee(self, statements: Sequence[Ddl]) -> None:
        """See `SourceProtocol.foresee`: rows show their version."""

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
            Col(lambda row: row["value"].message.kind == "watermark"), IS_DDL,
        )  # fmt: skip

    def read(self, raw: Frame) -> Messages:
        """Tables by name and version, statements, watermarks, and rows of which only the key was sent."""
        records: list[Record] = [row["value"] for row in raw.rows]
        rows = [record for record in records if record.message.kind == "row"]
        refused = self._too_large(records)
        described = [record.message.version for record in records if record.message.version is not None]
        versions = {known_as(version): version for version in described}
        wanted = {(r.message.table, r.message.schema) for r in rows}
        of_rows = {known_as(version): version for name, version in (self.shown or {}).items() if name in wanted}
        versions = {**self.known.versions(wanted), **of_rows, **versions}
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
            refused=refused,
            ddl=tuple(sorted(map(_statement, ddl.values()), key=lambda statement: statement.commit_ts)),
            watermarks=marks,
            starts=extreme(records, min),
            ends={at: last + 1 for at, last in extreme(records, max).items()},
            events=len(records),
            control=len(records) - len(rows) - sum(one.rows for one in refused),
            unknown=tuple(_unknown(name, found) for name, found in seen.items() if name not in versions),
            described=tuple(versions[known_as(version)] for version in described),
        )

    def _too_large(self, records: Sequence[Record]) -> tuple[Undecodable, ...]:
        counts = Counter(record.message.table for record in records if record.message.kind == TOO_LARGE)
        return tuple(
            Undecodable(HANDLE_KEY_ONLY, TOO_LARGE, _too_large_of(table), count, self.header(), {table: count})
            for table, count in counts.items()
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
        names = {name.key for name in (messages.table, *(seen.version.table for seen in messages.versions))}
        versions = {seen.version.version for seen in messages.versions}

        def mine(row: Mapping[str, Any]) -> bool:
            message = row["value"].message
            return message.kind == "row" and message.table.key in names and message.schema in versions

        return Col(mine)

    def where_named(self, parts: Sequence[Part]) -> Col:
        """See `SourceProtocol.where_named`."""

        def mine(row: Mapping[str, Any]) -> bool:
            message = row["value"].message
            return message.kind == "row" and any(
                message.table.key == part.table.key and part.since < message.commit_ts <= part.until for part in parts
            )

        return Col(mine)

    def recipe(self, messages: TableMessages, mapping: ColumnMapping) -> Recipe:
        """See `SourceProtocol.recipe`: rows that nothing has described are not among them."""
        columns = (*_ENVELOPE, change.BEFORE, *(target.name for target in mapping.targets))

        def changes(rows: Frame) -> Frame:
            mine = rows.where(Col(lambda row: row["value"].message.schema in mapping.fields))
            return Frame(lambda: [_changed(row, mapping) for row in mine.rows], columns, rows.catalog)

        return Recipe((messages, mapping), changes)

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
    before = None if message.before is None else {columns[name]: value for name, value in message.before}
    return {
        **dict.fromkeys(change.ENVELOPE), **values,
        change.OP: message.op, change.TOPIC: record.at.stream, change.PARTITION: record.at.number,
        change.OFFSET: record.offset, change.INDEX: 0, change.COMMIT_TS: message.commit_ts,
        change.SCHEMA_ID: message.schema, change.COMMIT_TIME: record, change.ERROR: None, change.UNREAD: None,
        change.BEFORE: before,
        change.KEY_BYTES: None, change.VALUE_BYTES: record,
    }  # fmt: skip


def _too_large_of(table: TableName) -> Col:
    return Col(lambda row: row["value"].message.kind == TOO_LARGE and row["value"].message.table == table)


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

    def _count_held(self):
        rows = [row for row in self.tables["held"].content() if row["status"] == "open"]
        return Counter((TableName(row["schema_name"], row["table_name"]), _code(row)) for row in rows)

    def open_up_to(self, name, commit_ts):
        rows = self.tables[name].content()
        return sum(row["status"] == "open" and (row["commit_ts"] or 0) <= commit_ts for row in rows)

    def _update(self, name, source, change_, values, which="true"):
        changed = {column: values[parameter] for column, parameter in re.findall(r"(\w+) = :(\w+)", change_)}
        until = re.search(r"<= (\d+)", which)
        since = re.fullmatch(r"batch_id >= (\d+) AND commit_ts > (\d+) AND commit_ts <= \d+", which)

        def theirs(row):
            if (row["schema_name"], row["table_name"], row["status"]) != (source.schema, source.table, "open"):
                return False
            if which.startswith("NOT"):
                return not _code(row)
            if since is not None and (row["batch_id"] < int(since[1]) or (row["commit_ts"] or 0) <= int(since[2])):
                return False
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


class ModelBooks(by_offset.ModelBooks):
    """The books of a batch, which have to agree with its tables."""

    __slots__ = ()

    def close(self, closing, set_aside):
        self._adds_up(self._row(closing))
        return super(by_offset.ModelBooks, self).close(closing, set_aside)

    def _adds_up(self, row):
        """Whether what the ledger says of a batch is what its tables have of it.

        A second try cannot know which of its rows the first has let in: it counts what stands there now.
        """
        number, read, messages = self._batch_id, self.context.records.read, self.landed.routed.messages
        entered = sum(one.batch_id == number for table in self.context.tables for one in table.changes.content())
        aside = {name: [one for one in read(name).rows if one["batch_id"] == number] for name in SET_ASIDE}
        found = {
            "changes": entered, "quarantined": len(aside["quarantine"]), "dead_letters": len(aside["dead_letters"]),
        }  # fmt: skip
        said = {**row, "changes": row["inserts"] + row["updates"] + row["deletes"]}
        assert all(said[name] == count for name, count in found.items()), f"batch {number}: {said}, but {found}"
        statements = [one["value"] for one in aside["held"] if one["value"].message.kind == "ddl"]
        rows = entered + sum(map(len, aside.values())) - len(statements)
        let_in = 0 if self.context.run.recovering else self.context.spark.statements_let_in
        control = messages.control + let_in
        assert row["rows_in"] == rows + control, f"batch {number}: {said}, but {rows} rows and {control} other messages"


class ModelByCommitTs(ByCommitTs):
    """The ordering of a batch, which says how far it has brought the tables."""

    __slots__ = ()

    def _take_pending(self, landed):
        """How many statements do not wait any more: they are no changes."""
        held = self.context.records.tables["held"]
        before = Counter(one["status"] for one in held.content() if one["value"].message.kind == "ddl")
        taken = super()._take_pending(landed)
        after = Counter(one["status"] for one in held.content() if one["value"].message.kind == "ddl")
        self.context.spark.statements_let_in = after["released"] - before["released"]
        return taken

    def commit(self, planned, landed):
        committed = super().commit(planned, landed)
        self.context.spark.resolved = planned.progress.resolved
        return committed


# ---- in place of SQL


def _is_pending(row: Mapping[str, Any]) -> bool:
    return row["status"] == "open" and bool(_code(row))


def _raw_records(context: PipelineContext) -> Frame | None:
    """For `pending.raw_records`."""
    records = context.records
    rows = [row for row in records.tables["held"].content() if _is_pending(row)]
    if not rows:
        return None
    return Frame(rows, tuple(rows[0]), records.catalog).select(*as_raw(context.source.restored()))


def _not_kept(context: PipelineContext, frame: Frame) -> Frame:
    """For `pending.not_kept`."""
    kept = {row["value"].place for row in context.records.tables["held"].content() if row["status"] == "open"}
    return frame.where(Col(lambda row: row["value"].place not in kept))


def _released(records: CommitTsRecords) -> frozenset[tuple[str, str]]:
    """For `pending.released`."""
    rows = [row for row in records.tables["held"].content() if row["status"] == "open"]
    names = [row for row in rows if row["reason"].startswith(pending.RELEASED)]
    return frozenset(TableName(row["schema_name"], row["table_name"]).key for row in names)


def _let_in(context: Any, raw: Frame, still: Col | None) -> None:
    """For `pending.let_in`."""
    done = (
        None if still is None else {row["value"].place for row in raw.where(F.col(pending.WAS_PENDING) & ~still).rows}
    )

    def goes(row: Mapping[str, Any]) -> bool:
        return _is_pending(row) and (done is None or row["value"].place in done)

    rows = context.records.tables["held"].content()
    context.records._rewrite("held", [{**row, "status": "released"} if goes(row) else row for row in rows])


def _let_next_batch_take(context: Any, source: TableName) -> int:
    """For `pending.let_next_batch_take`."""
    rows = context.records.tables["held"].content()

    def mine(row: Mapping[str, Any]) -> bool:
        return TableName(row["schema_name"], row["table_name"]).key == source.key and row["status"] == "open"

    reason = f"{pending.RELEASED}: by a person"
    changed = [{**row, "reason": reason} if mine(row) and not _is_pending(row) else row for row in rows]
    context.records._rewrite("held", changed)
    return sum(map(mine, rows))


# ---- in place of a publish in Spark


def _everything(self: Any) -> list[ChangeRow]:
    """For `advance._everything`."""
    return list(self.table.changes.content())


def rows_between(self: Any, fresh: Sequence[Any], late: Sequence[Any], cut: int) -> list[ChangeRow]:
    """For `advance._rows`; a late one whose row has gone since deletes what the table has of its key."""
    changes = self.table.changes
    news = [row for one in fresh for row in changes.added(one.snapshot) if row.record.message.commit_ts > cut]
    passed = [row for one in late for row in changes.added(one.snapshot) if row.record.message.commit_ts <= cut]
    gone = advance._is_gone(self.table, self.timezone).of if passed else None
    return news + [replace(row, op="delete") if gone(_as_changed(self.table, row)) else row for row in passed]


def _as_changed(table: Any, row: ChangeRow) -> dict[str, Any]:
    """A row of a changes table as a row of a frame."""
    named = {column: row.values.get(number) for column, number in table.changes.fields().items()}
    return {**named, change.COMMIT_TS: row.record.message.commit_ts, change.UNREPRESENTABLE: None}


@dataclass(frozen=True, slots=True)
class Event:
    """What a change does to the row of one key; `there`: it leaves it there."""

    row: ChangeRow
    key: int
    there: bool

    @property
    def commit_ts(self) -> int:
        """When."""
        return self.row.record.message.commit_ts


def events(row: ChangeRow) -> list[Event]:
    """Of a change; an update that moves a key is two."""
    was = row.record.message.was
    return [Event(row, row.key, not row.deletes), *([Event(row, was, there=False)] if was is not None else [])]


def _show(self: Any, segment: Any, rows: Sequence[ChangeRow], *, few: bool) -> int:
    """For `advance._show`: the last change of each key is its row."""
    del few
    if not segment.handle:
        return multiset.show(self, segment, rows)
    table, target = self.table, self.current
    last: dict[int, Event] = {}
    for event in (one for row in rows for one in events(row)):
        if event.commit_ts <= segment.high and (segment.low < 0 or event.commit_ts > segment.low):
            known = last.get(event.key)
            last[event.key] = event if known is None else max(known, event, key=_order)
    if not last:
        return 0
    since = {key: event.commit_ts + event.there for key, event in last.items()}
    kept = tuple(row for row in target.content(self.branch) if row.commit_ts >= since.get(row.key, -1))
    target.write("delete", (), kept, {}, self.branch)
    self.step("keys-deleted")
    fields, to = table.changes.fields(), target.fields()
    shown = [
        CurrentRow(key, one.commit_ts, {to[n]: v for n, v in image(table.layout, one.row, fields).items()})
        for key, one in last.items()
        if one.there and one.commit_ts > table.by_offset.truncated_at
    ]
    target.append(shown, OPERATION.entry(self.operation), self.branch)
    return len(last)


def _clone(
    table: Any, target: Any, snapshots: Sequence[int], summary: Mapping[str, str], step: Any, within: Any = None
) -> int:
    """For `clone.publish.clone`, by commit ts."""
    last: dict[int, Event] = {}
    for event in (one for snapshot in snapshots for row in table.changes.added(snapshot) for one in events(row)):
        if within.after < event.commit_ts <= within.until:
            known = last.get(event.key)
            last[event.key] = event if known is None else max(known, event, key=_order)
    there = [(key, one.row) for key, one in last.items() if one.there]
    by_offset.show_clone(table, target, last, there, summary, step)
    return len(last)


def _order(event: Event) -> tuple[int, bool, int]:
    return event.commit_ts, event.there, event.row.record.sequence


def _empty(self: Any, at: int = EVER) -> None:
    """For `Publisher.empty`."""
    newer = self.table.by_commit_ts.cut > at
    kept = tuple(row for row in self.current.content(self.branch) if newer and row.commit_ts > at)
    self.current.write("delete", (), kept, {}, self.branch)
    self.step("truncated")


def _remove(self: Any, _segment: Any, removal: Removal) -> None:
    """For `advance._remove`."""
    names = {number: column for column, number in self.current.fields().items()}
    gone = removals.removed(self.table.layout, removal).of
    kept = tuple(
        row for row in self.current.content(self.branch) if row.commit_ts > removal.at or not gone(row.named(names))
    )
    self.current.write("delete", (), kept, {}, self.branch)
    self.step("partitions-removed")


def _exchange(_spark: Any, wanted: Exchange, _timezone: str, _operation: str, step: Any) -> None:
    """For `exchange.exchange`: the rows of the partition and those of the other table change places."""
    table, other, at = wanted.table, wanted.other, wanted.removal.at
    begun, marks = table.by_commit_ts.removed_done >= at, REMOVED.entry(at) | CUT.entry(at)
    current, names = table.current, {number: column for column, number in table.current.fields().items()}
    before = current.content_at(int(current.inherited(EXCHANGED_FROM))) if begun else current.content()
    gone = removals.removed(table.layout, wanted.removal).of
    went = [row for row in before if gone(row.named(names))]
    if not begun:
        came = _as_rows_of(table, other, other.current.content())
        stay = [row for row in before if row not in went]
        if current.head() is None:
            current.mark({})
        head = EXCHANGED_FROM.entry(current.head())
        current.write("overwrite", (), (*stay, *came), marks | head | _done_by_a_publish(table))
        table.by_commit_ts.removed_done = table.by_commit_ts.cut = at
        step("exchanged-one")
    other.current.write("overwrite", (), tuple(_as_rows_of(other, table, went)), marks | _done_by_a_publish(other))
    other.by_commit_ts.removed_done = other.by_commit_ts.cut = at


def _done_by_a_publish(table: Any) -> dict[str, str]:
    """What `Publisher.show` says of a table besides: its columns are filled, and truncated rows are gone."""
    table.backfilled, table.by_offset.truncated_done = (
        frozenset(backfills_of(table.layout)),
        table.by_offset.truncated_at,
    )
    return BACKFILLED.entry(table.backfilled) | TRUNCATED.entry(table.by_offset.truncated_done)


def _as_rows_of(to: Any, table: Any, rows: Sequence[CurrentRow]) -> list[CurrentRow]:
    """Rows of one table as rows of another that has the same columns in the source (`exchange._as`)."""
    mine, theirs = table.current.fields(), to.current.fields()
    live = {column.name: table.layout.live(column.source) for column in to.layout.current if column.live}
    names = {theirs[name]: mine[own.name] for name, own in live.items() if own is not None}
    return [CurrentRow(row.key, row.commit_ts, {to: row.values.get(of) for to, of in names.items()}) for row in rows]


class _Columns(dict[str, Col]):
    """In place of a shape's: the key's columns, which a partition is decided by, never change."""

    def __missing__(self, name: str) -> Col:
        return F.col(name)


def _shape(_layout: Any, _timezone: str) -> Any:
    """For `shape.current_shape`, as `removals` needs it."""
    return SimpleNamespace(columns=_Columns(), unrepresentable=F.lit(None))


def replacements() -> list[tuple[Any, str, Any]]:
    """(where, name, instead): Spark's part of the product."""
    return [
        *by_offset.replacements(),
        (ordering, "SmallBatch", by_offset.ModelSmallBatch),
        (accounting, "Books", ModelBooks),
        (by_ordering, "ByCommitTs", ModelByCommitTs),
        (pending, "raw_records", _raw_records),
        (pending, "not_kept", _not_kept),
        (pending, "released", _released),
        (release, "released", _released),
        (pending, "let_in", _let_in),
        (pending, "let_next_batch_take", _let_next_batch_take),
        (release, "let_next_batch_take", _let_next_batch_take),
        (redeliveries, "watermarks", multiset.watermarks),
        (redeliveries, "redelivery_starts", multiset.redelivery_starts),
        (advance, "_sent", multiset.sent),
        (publishing, "ThreadPoolExecutor", by_offset._OneThread),
        (advance, "_everything", _everything),
        (advance, "_rows", rows_between),
        (advance, "_show", _show),
        (advance, "_remove", _remove),
        (publisher.Publisher, "empty", _empty),
        (publisher, "clone", _clone),
        (publishing, "exchange", _exchange),
        *((module, "F", F) for module in (advance, keys, removals, partitions)),
        (removals, "current_shape", _shape),
        (superseded, "taken", removals.taken),
    ]


__all__ = ["CommitTsProtocol", "CommitTsRecords", "Crash", "ModelDescriptions", "replace"]
