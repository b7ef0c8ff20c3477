"""The micro-batch's ports on dictionaries: the product's own classes, with Spark's part of them replaced.

`SparkBatch`, `TableLanding`, `current.publish`, `release` and `Tables` run as they are; what they ask Spark for
(rows of a frame, rows of an append, a staged delete) is given by the few functions in `replacements`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from unit.batch_model.upstream import Record, Registry, converted, read_default

from pipeline.errors import BatchFailed
from pipeline.model.messages import Ddl, Messages, Refused, SeenVersion, TableMessages, TopicPartition
from pipeline.streaming import landing, release, spark_batch
from pipeline.streaming.batch import Landed
from pipeline.streaming.landing import TableLanding
from pipeline.streaming.position import from_json
from pipeline.streaming.spark_batch import SparkBatch
from pipeline.warehouse import changes, current, tables
from pipeline.warehouse.changes import Appended
from pipeline.warehouse.records import DEFINITIONS, Records, where
from pipeline.warehouse.tables import ENDS, OPERATION, State, write_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from unit.batch_model.iceberg import ModelCatalog, ModelTable

    from pipeline.model.columns import SchemaId
    from pipeline.model.messages import Landing
    from pipeline.streaming.batch import Range
    from pipeline.warehouse.layout import Column, Layout


class Crash(BaseException):
    """The process has ended where it stood."""


class Fuse:
    """Ends the process after so many durable steps."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.others: list[int] = []
        self.last = ""

    def arm(self, steps: int | None, others: Iterable[int] = ()) -> None:
        """Crash after `steps` more; `others`: how far each other thread gets before the process is gone."""
        self.left, self.others = steps, list(others)

    def burn(self, step: str) -> None:
        """One durable step."""
        if self.left is None:
            return
        if self.left <= 0:
            self.last = step
            raise Crash(step)
        self.left -= 1


class Frame(tuple):  # noqa: SLOT001 - a tuple of records with the two methods that the product calls
    """A raw frame."""

    def where(self, predicate: Callable[[Record], bool] | str) -> Frame:
        return self if isinstance(predicate, str) else Frame(filter(predicate, self))

    def count(self) -> int:  # type: ignore[override]
        return len(self)


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A row of a changes table; values by field id."""

    record: Record
    schema: SchemaId
    batch_id: int
    values: Mapping[int, Any]

    @property
    def key(self) -> int:
        return self.record.message.key

    @property
    def deletes(self) -> bool:
        return self.record.message.values is None


@dataclass(frozen=True, slots=True)
class CurrentRow:
    """A row of a current table; values by field id."""

    key: int
    commit_ts: int
    values: Mapping[int, Any]


@dataclass(frozen=True, slots=True)
class Aside:
    """A dead letter or a held record."""

    record: Record
    batch_id: int
    table: tuple[str, str] | None = None
    status: str = "open"


class ModelSpark:
    """In place of a session: which faults the tables meet."""

    def __init__(self, fuse: Fuse) -> None:
        self.fuse = fuse
        self.faults: dict[tuple[str, str], str] = {}


class ModelProtocol:
    """`SourceProtocol` over messages that need no decoding."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def read(self, raw: Frame) -> Messages:
        """Route as the Avro protocol does: tables by schema id, refusals, statements, watermarks."""
        seen: dict[tuple[SchemaId, bool], list[Record]] = {}
        ddl: dict[tuple[int, str], list[Record]] = {}
        refused: list[Record] = []
        marks: dict[TopicPartition, Any] = {}
        for record in raw:
            message = record.message
            if message.kind == "ddl":
                ddl.setdefault((message.commit_ts, message.sql), []).append(record)
            elif message.kind == "watermark":
                marks[record.at] = max(message.commit_ts, marks.get(record.at, 0))
            elif message.kind == "garbage" or self.registry.find(message.schema) is None:
                refused.append(record)
            else:
                key_only = message.kind == "row" and message.values is None
                seen.setdefault((message.schema, key_only), []).append(record)
        places = {record.place for record in refused}
        return Messages(
            tables=self._tables(seen),
            refused=(Refused("REFUSED", "no table", lambda r: r.place in places, len(places)),) if places else (),
            ddl=tuple(sorted(map(_statement, ddl.values()), key=lambda statement: statement.commit_ts)),
            watermarks=marks,
            starts=_extreme(raw, min),
            ends={at: last + 1 for at, last in _extreme(raw, max).items()},
            rows=len(raw),
            control=sum(len(copies) for copies in ddl.values()) + sum(r.message.kind == "watermark" for r in raw),
        )

    def _tables(self, seen: Mapping[tuple[SchemaId, bool], list[Record]]) -> tuple[TableMessages, ...]:
        tables: dict[tuple[str, str], list[SeenVersion]] = {}
        for (schema, key_only), records in sorted(seen.items()):
            version = self.registry.find(schema)
            entry = SeenVersion(version, _extreme(records, min), _extreme(records, max), len(records), key_only)
            tables.setdefault(version.table.key, []).append(entry)
        return tuple(TableMessages(versions[0].version.table, tuple(versions)) for versions in tables.values())

    def where(self, messages: TableMessages) -> Callable[[Record], bool]:
        """See `SourceProtocol.where`."""
        schemas = {seen.version.version for seen in messages.versions}
        topics = {at.topic for at in messages.partitions}
        return lambda record: record.message.schema in schemas and record.at.topic in topics

    def changes(self, raw: Frame, messages: TableMessages, landing: Landing) -> list[tuple[Record, dict[str, Any]]]:
        """See `SourceProtocol.changes`: records with the values of their columns; none where it is damaged."""
        return [(record, _values(record, landing)) for record in raw.where(self.where(messages))]

    def is_newest(self, seen: SeenVersion) -> bool:
        """See `SourceProtocol.is_newest`."""
        return self.registry.is_newest(seen.version)


def _values(record: Record, landing: Landing) -> dict[str, Any]:
    message = record.message
    sent = message.values if message.values is not None else (("id", message.key),)
    columns = landing.fields[message.schema]
    return {} if message.kind == "damaged" else {columns[name]: value for name, value in sent}


def _append(table: Any, frame: list, batch_id: int, ends: Mapping, operation: str) -> Appended:
    """For `changes.append`: rows, end offsets and the operation in one commit."""
    fields, reached = table.changes.fields(), {**table.ends, **ends}
    rows = [
        ChangeRow(record, record.message.schema, batch_id, {fields[name]: value for name, value in values.items()})
        for record, values in frame
        if values
    ]
    table.changes.append(rows, {ENDS: write_ends(reached), OPERATION: operation})
    table.ends = reached
    deletes = sum(row.deletes for row in rows)
    counts = {"errors": len(frame) - len(rows), "delete": deletes, "upsert": len(rows) - deletes}
    return Appended({name: count for name, count in counts.items() if count})


def _extreme(records: Iterable[Record], pick: Callable[..., int]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for record in records:
        found[record.at] = pick(record.offset, found.get(record.at, record.offset))
    return found


def _statement(copies: Sequence[Record]) -> Ddl:
    message = copies[0].message
    at: dict[TopicPartition, int] = {}
    for record in copies:
        at.setdefault(record.at, record.offset)
    return Ddl(message.commit_ts, message.table, message.action, message.sql, at)


class ModelRecords(Records):
    """The pipeline's own tables; the rows of `held` and `dead_letters` are `Aside`."""

    @staticmethod
    def load(catalog: ModelCatalog) -> ModelRecords:
        """All tables, made where they are missing."""
        found = {name: catalog.table(where(name)) for name in DEFINITIONS}
        made = {n: t or catalog.create(where(n), [("row", "string")], f"data/{n}", {}) for n, t in found.items()}
        return ModelRecords(None, catalog, Path(), "model", made)

    def write(self, name, batch_id, rows, summary=None):
        if rows or summary is not None:
            self.tables[name].append([{**row, "batch_id": batch_id} for row in rows], summary or {})

    def replace(self, name, batch_id, rows):
        self.tables[name].write("overwrite", (), tuple({**row, "batch_id": batch_id} for row in rows), {})

    def aside(self, name: str) -> tuple[Aside, ...]:
        """The rows of `held` or `dead_letters`."""
        return self.tables[name].content()

    def committed(self) -> dict[tuple[int, TopicPartition], list[Range]]:
        """The offset ranges of every committed batch."""
        found: dict[tuple[int, TopicPartition], list[Range]] = defaultdict(list)
        for row in self.tables["batches"].content():
            low, high = from_json(row["start_offsets"]), from_json(row["end_offsets"])
            for at in low:
                found[row["batch_id"], at].append((low[at], high[at]))
        return found

    def read(self, name):
        """As much of a frame as `_check_held` asks for: the open rows."""
        return Frame(row for row in self.aside(name) if row.status == "open")


class ModelBatch(SparkBatch):
    """One micro-batch over a list of records."""

    __slots__ = ()

    def read(self) -> Messages:
        bench = self.bench
        self.topic_ids = {topic.name: topic.id for topic in bench.cluster.topics().values()}
        ends = bench.ledger.ends
        self.raw = self.raw.where(lambda r: r.offset >= ends.get((r.topic_id, r.at.partition), 0))
        everything = bench.protocol.read(self.raw)
        self.raw = self.without_settled(self.raw)
        messages = bench.protocol.read(self.raw)
        return self.spanning(messages, everything)

    def without_settled(self, raw: Frame) -> Frame:
        """Without records that a try which was never committed has set aside already."""
        ranges = self.bench.records.committed()
        settled = {
            row.record.place
            for name in ("dead_letters", "held")
            for row in self.bench.records.aside(name)
            if not any(low <= row.record.offset < high for low, high in ranges[row.batch_id, row.record.at])
        }
        return raw.where(lambda record: record.place not in settled)

    def spanning(self, messages: Messages, everything: Messages) -> Messages:
        """The messages that are left, with the range of all that were there."""
        return replace(messages, starts=everything.starts, ends=everything.ends, rows=everything.rows)

    def side_by_side(self, work, tables):
        """In one thread: an error waits for the others; a crash finds each other table somewhere else."""
        fuse, results, errors, crash = self.bench.spark.fuse, [], [], None
        for table in tables:
            if crash is not None:
                fuse.left = fuse.others.pop() if fuse.others else 0
            try:
                results.append(work(table))
            except Crash as ended:
                crash = crash or ended
            except Exception as error:  # noqa: BLE001 - what the product's threads do
                errors.append(error)
        if crash is not None:
            fuse.left = 0
            raise crash
        return self.raised(results, errors)

    def raised(self, results, errors):
        """The first error, once all tables have ended."""
        if errors:
            raise errors[0]
        return results

    def _recounted(self):
        return Counter(), 0, 0

    def set_aside_refused(self, messages: Messages) -> int:
        if not messages.refused:
            return 0
        landed = {row.record.place for table in self.bench.tables for row in table.changes.content()}
        left = self.raw.where(lambda record: record.place not in landed)
        refused = [r for r in left if any(refusal.where(r) for refusal in messages.refused)]
        return _put_aside(self, "dead_letters", refused)


class ModelLanding(TableLanding):
    """One table's part."""

    __slots__ = ()

    def evolve(self) -> None:
        self._may_fail("evolve")
        super().evolve()

    def append(self, ranges: Mapping[TopicPartition, Range]) -> Mapping[str, int]:
        self._may_fail("append")
        return super().append(ranges)

    def _named(self, what: str) -> None:
        pass

    def set_aside_unreadable(self) -> int:
        if not self.messages.versions:
            return 0
        mine = self._within({}).where(self.bench.protocol.where(self.messages))
        return _put_aside(self, "dead_letters", [r for r in mine if r.message.kind == "damaged"])

    def hold(self) -> int:
        beyond = {at: (end, 2**62) for at, end in self.ends().items()}
        own = {(at, offset) for statement in self.statements for at, offset in statement.ddl.at.items()}
        rows = self.bench.protocol.where(self.messages) if self.messages.versions else lambda _record: False
        found = self._within(beyond).where(lambda r: (r.at, r.offset) in own or rows(r))
        return _put_aside(self, "held", found, self.messages.table.key)

    def publish(self) -> Landed:
        self._may_fail("publish")
        table = self.table
        if table is None or table.state in (State.HELD, State.DROPPED):
            return Landed(str(self.messages.table))
        done = current.publish(self.bench.spark, table, "UTC", self.operation, self.bench.step)
        return Landed(str(table.source), order_unknown=done.order_unknown, snapshot=done.snapshot)

    def _may_fail(self, stage: str) -> None:
        if self.bench.spark.faults.get(self.messages.table.key) == stage:
            raise BatchFailed("INJECTED", f"{self.messages.table}: {stage}")


def _put_aside(batch: Any, name: str, records: Iterable[Record], table: tuple[str, str] | None = None) -> int:
    rows = [Aside(record, batch.batch_id, table) for record in records]
    batch.bench.records.tables[name].append(rows, {})
    return len(rows)


def _inside(bounds: Mapping[TopicPartition, Range], *, exhaustive: bool) -> Callable[[Record], bool]:
    def inside(record: Record) -> bool:
        if record.at not in bounds:
            return not exhaustive
        low, high = bounds[record.at]
        return low <= record.offset < high

    return inside


def shown(layout: Layout, row: ChangeRow, column: Column, fields: Mapping[str, int]) -> object:
    """What a current table shows in a column for a row of its changes table (`shape.current_shape`)."""
    version = layout.version(row.schema)
    assert version is not None, f"a row of an unknown version: {row}"
    own = row.values.get(fields[column.name])
    if column.id in version.columns or version.number >= column.added:
        return own
    if column.conversions:
        source = layout.column(column.conversions[0].source)
        return converted(shown(layout, row, source, fields), source.type, column.type)
    return own if column.default.kind != "literal" else read_default(column.default, column.type)


def image(layout: Layout, row: ChangeRow, fields: Mapping[str, int]) -> dict[str, object]:
    """A changes row as the current table shows it."""
    return {column.name: shown(layout, row, column, fields) for column in layout.current}


def _appended(self: Any, parent: int | None, snapshot: int) -> tuple[ChangeRow, ...]:
    """For `_Publisher._appended`: the rows of one append."""
    assert parent is not None or snapshot
    return self.table.changes.added(snapshot)


def _empty(publisher: Any, *, afresh: bool) -> None:
    """For `current._empty`: rows go that a TRUNCATE has ended."""
    assert not afresh
    target, truncated_at = publisher.current, publisher.table.truncated_at
    kept = tuple(row for row in target.content(publisher.branch) if row.commit_ts > truncated_at)
    target.write("delete", (), kept, {}, publisher.branch)
    publisher.step("truncated")


def _apply(publisher: Any, news: Sequence[ChangeRow]) -> current.Published:
    """For `current._apply`: delete the keys that changed, append what they are now."""
    table, target = publisher.table, publisher.current
    last = {row.key: row for row in sorted(news, key=lambda row: row.record.sequence)}
    if not last:
        return current.Published()
    kept = tuple(row for row in target.content(publisher.branch) if row.key not in last)
    target.write("delete", (), kept, {}, publisher.branch)
    publisher.step("keys-deleted")
    target.append(
        [
            _current_row(table.layout, row, table.changes.fields(), target.fields())
            for row in last.values()
            if not row.deletes and row.record.message.commit_ts > table.truncated_at
        ],
        {OPERATION: publisher.operation},
        publisher.branch,
    )
    return current.Published(len(last))


def _current_row(layout: Layout, row: ChangeRow, fields: Mapping[str, int], to: Mapping[str, int]) -> CurrentRow:
    values = {to[name]: value for name, value in image(layout, row, fields).items()}
    return CurrentRow(row.key, row.record.message.commit_ts, values)


def _fill(publisher: Any, pending: Sequence[Any]) -> None:
    """For `current._fill`: rows that are there show defaults and converted values from now on."""
    target: ModelTable = publisher.current
    layout, waiting, fields = publisher.table.layout, {item.column.id: item for item in pending}, target.fields()
    filled = tuple(
        replace(
            row,
            values={
                **row.values,
                **{fields[item.column.name]: _filled(layout, item.column, waiting, row, fields) for item in pending},
            },
        )
        for row in target.content(publisher.branch)
    )
    target.write("overwrite", (), filled, {}, publisher.branch)
    publisher.step("backfilled")


def _filled(layout: Layout, column: Column, waiting: Mapping, row: CurrentRow, fields: Mapping[str, int]) -> object:
    item = waiting.get(column.id)
    if item is None:
        return row.values.get(fields[column.name])
    todo = column.conversions[item.done :]
    if not todo:
        return read_default(column.default, column.type)
    source = layout.column(todo[0].source)
    return converted(_filled(layout, source, waiting, row, fields), source.type, column.type)


def _waiting(bench: Any, source: Any) -> Frame:
    """For `release._waiting`: what a table waits with, in order; without what a first try has set aside."""
    dead = {row.record.place for row in bench.records.aside("dead_letters")}
    rows = [
        row
        for row in bench.records.aside("held")
        if row.table == source.key and row.status == "open" and row.record.place not in dead
    ]
    return Frame(sorted((row.record for row in rows), key=lambda record: record.sequence))


def _set_aside_refused(bench: Any, waiting: Frame, messages: Messages) -> None:
    """For `release._set_aside_refused`."""
    for refused in messages.refused:
        rows = [Aside(record, bench.ledger.batch_id) for record in waiting.where(refused.where)]
        bench.records.tables["dead_letters"].append(rows, {})


def _mark(bench: Any, source: Any) -> None:
    """For `release._mark`."""
    held = bench.records.tables["held"]
    rows = tuple(replace(row, status="released") if row.table == source.key else row for row in held.content())
    held.write("overwrite", (), rows, {})


class _OneThread:
    """In place of a thread pool: loading tables side by side costs a history more than the rest of it."""

    def __init__(self, _threads: int) -> None:
        self.map = map

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def replacements() -> list[tuple[Any, str, Any]]:
    """(where, name, instead): Spark's part of the product."""
    return [
        (landing, "_inside", _inside),
        (spark_batch, "TableLanding", ModelLanding),
        (release, "TableLanding", ModelLanding),
        (release, "_waiting", _waiting),
        (release, "_mark", _mark),
        (release, "_set_aside_refused", _set_aside_refused),
        (changes, "append", _append),
        (current._Publisher, "_appended", _appended),
        (current, "_apply", _apply),
        (current, "_fill", _fill),
        (tables, "ThreadPoolExecutor", _OneThread),
        (current, "_empty", _empty),
    ]
