"""The micro-batch's ports on dictionaries: the product's own classes, with Spark's part of them replaced.

`micro_batch`, `ByOffset`, `TableWriter`, `release`, `redrive`, `RuleSet`, `changes.append`, `current.publish` and
`Tables` run as they are, on frames of dictionaries (`frames`); what stands in a current table is worked out by the few
functions in `replacements`.
"""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

import pyspark.sql.functions as spark_functions
from pyspark.sql import DataFrame
from unit.batch_model.frames import Col, F, Frame, Observation, Projection
from unit.batch_model.suites import FENCE, broken, rule_set
from unit.batch_model.upstream import Record, Registry, converted, read_default

from pipeline.errors import BatchFailed
from pipeline.ingest import accounting, batch, reading, table_writer
from pipeline.ingest.fast_path import speculation
from pipeline.ingest.set_aside import dead_letters, fence
from pipeline.ingest.table_writer import TableWriter
from pipeline.model import change, conditions, places
from pipeline.model.messages import (
    Ddl,
    Messages,
    Ordering,
    Prediction,
    Recipe,
    SeenVersion,
    TableMessages,
    Undecodable,
)
from pipeline.model.names import TableName
from pipeline.operations import redrive, release, superseded
from pipeline.quality import rules, samples
from pipeline.quality.suites import Severity
from pipeline.warehouse import altered, changes, current, publisher, raw_records, small_batch
from pipeline.warehouse.clone.aligned import are_aligned
from pipeline.warehouse.clone.keys import CannotClone
from pipeline.warehouse.pairs import State
from pipeline.warehouse.records import AT, DEFINITIONS, SET_ASIDE, Records, where
from pipeline.warehouse.state import OPERATION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from unit.batch_model.iceberg import ChangeRow, ModelCatalog, ModelTable

    from pipeline.ingest.table_work import TableResult
    from pipeline.model.columns import SchemaId
    from pipeline.model.messages import ColumnMapping
    from pipeline.model.places import Partition, Range
    from pipeline.warehouse.layout import Column, Layout

CORRUPT = "CORRUPT_VALUE"
_ENVELOPE = (*change.ENVELOPE, change.ERROR, change.UNREAD, change.KEY_BYTES, change.VALUE_BYTES)
_NAMES = {name: tuple(c.split()[0] for c in text.split(", ")) for name, text in DEFINITIONS.items()}
_SHARED = ("batch_id", "recorded_at")


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


@dataclass(frozen=True, slots=True)
class CurrentRow:
    """A row of a current table; values by field id."""

    key: int
    commit_ts: int
    values: Mapping[int, Any]

    def named(self, names: Mapping[int, str]) -> dict[str, Any]:
        """As a row of a frame; `names`: of the table's fields."""
        values = {names[number]: value for number, value in self.values.items() if number in names}
        return {change.COMMIT_TS: self.commit_ts, change.UNREPRESENTABLE: None, **values}


class ModelSpark:
    """In place of a session: tables by name, and which faults they meet."""

    def __init__(self, catalog: ModelCatalog, fuse: Fuse) -> None:
        self.catalog, self.fuse = catalog, fuse
        self.faults: dict[tuple[str, str], str] = {}
        self.sparkContext = SimpleNamespace(setJobDescription=lambda _what: None)

    def createDataFrame(self, rows: Frame) -> Frame:  # noqa: N802 - Spark's name
        """What `Frame.toArrow` has given."""
        return rows

    def table(self, name: str) -> Frame:
        """A changes table, without its bytes."""
        table = self.catalog.by_sql(name)
        own = {column: field for column, field in table.fields().items() if column not in change.ENVELOPE}
        names = {field: column for column, field in own.items()}

        def cell(value: Any) -> Any:
            return (
                {names[field]: one for field, one in value.items() if field in names} if type(value) is dict else value
            )

        def rows() -> list[dict[str, Any]]:
            return [
                {
                    change.TOPIC: row.record.at.stream,
                    change.PARTITION: row.record.at.number,
                    change.OFFSET: row.record.offset,
                    change.INDEX: 0,
                    change.BATCH_ID: row.batch_id,
                    change.OP: row.op,
                    change.COMMIT_TS: row.record.message.told_ts,
                    change.SCHEMA_ID: row.schema,
                    change.UNREPRESENTABLE: None,
                    **{column: cell(row.values.get(field)) for column, field in own.items()},
                }
                for row in table.content()
            ]

        told = (change.BATCH_ID, change.OP, change.COMMIT_TS, change.SCHEMA_ID, change.UNREPRESENTABLE)
        return Frame(rows, (*change.POSITION, *told, *own), self.catalog)


IS_DDL = Col(lambda row: row["value"].message.kind == "ddl")
"""Whether a record is a DDL event."""


class ModelProtocol:
    """`SourceProtocol` over messages that need no decoding."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    ordering = told_ordering = Ordering.BY_OFFSET
    sends_before, decimals_as_text = False, False

    def begin(self, earlier, first=None):
        """Nothing has to be known before."""

    def prepare(self, raw: Frame) -> Frame:
        """See `SourceProtocol.prepare`."""
        return raw

    def header(self) -> Any:
        """See `SourceProtocol.header`."""
        return SimpleNamespace(ddl=IS_DDL)

    def read(self, raw: Frame) -> Messages:
        """Route as the Avro protocol does: tables by schema id, refusals, statements, watermarks."""
        seen: dict[tuple[SchemaId, bool], list[Record]] = {}
        ddl: dict[tuple[int, str, TableName], list[Record]] = {}
        refused: set[tuple[str, int, int]] = set()
        marks: dict[Partition, Any] = {}
        records = [row["value"] for row in raw.rows]
        control = 0
        for record in records:
            message = record.message
            if message.kind == "ddl":
                control += 1
                ddl.setdefault((message.commit_ts, message.sql, message.table), []).append(record)
            elif message.kind == "watermark":
                control += 1
                marks[record.at] = max(message.commit_ts, marks.get(record.at, 0))
            elif message.kind == "garbage" or self.registry.find(message.schema) is None:
                refused.add(record.place)
            else:
                seen.setdefault((message.schema, message.deletes), []).append(record)
        here = Col(lambda row: row["value"].place in refused)
        return Messages(
            tables=self._tables(seen),
            refused=(Undecodable("REFUSED", "no table", here, len(refused)),) if refused else (),
            ddl=tuple(sorted(map(_statement, ddl.values()), key=lambda statement: statement.commit_ts)),
            watermarks=marks,
            starts=extreme(records, min),
            ends={at: last + 1 for at, last in extreme(records, max).items()},
            events=len(records),
            control=control,
            kinds=frozenset(_kind(record) for record in records if record.message.kind != "ddl"),
        )

    def predict(
        self, raw: Frame, kinds: frozenset[Any], ranges: Mapping[Partition, Range], mapping: ColumnMapping
    ) -> Prediction | None:
        """See `SourceProtocol.guess`."""
        versions = [(schema and self.registry.find(schema), deletes) for _, schema, deletes in kinds]
        if any(version is None or version.version not in mapping.fields for version, _ in versions):
            return None
        if len({version.table.key for version, _ in versions}) != 1:
            return None
        first, last = {at: low for at, (low, _) in ranges.items()}, {at: high - 1 for at, (_, high) in ranges.items()}
        seen = tuple(SeenVersion(version, first, last, 0, deletes) for version, deletes in versions)
        messages = Messages(
            tables=(TableMessages(seen[0].version.table, seen),), starts=first,
            ends={at: offset + 1 for at, offset in last.items()},
            events=sum(high - low for low, high in ranges.values()), kinds=kinds,
        )  # fmt: skip
        columns = (*_ENVELOPE, *(target.name for target in mapping.targets))
        frame = Frame(lambda: [_changed(row, mapping) for row in raw.rows], columns, raw.catalog)
        odd = Col(lambda row: _kind(row[change.VALUE_BYTES]) not in kinds)
        return Prediction(frame, messages.tables[0], lambda: messages, odd, messages.events)

    def _tables(self, seen: Mapping[tuple[SchemaId, bool], list[Record]]) -> tuple[TableMessages, ...]:
        tables: dict[tuple[str, str], list[SeenVersion]] = {}
        for (schema, key_only), records in sorted(seen.items()):
            version = self.registry.find(schema)
            entry = SeenVersion(version, extreme(records, min), extreme(records, max), len(records), key_only)
            tables.setdefault(version.table.key, []).append(entry)
        return tuple(TableMessages(versions[0].version.table, tuple(versions)) for versions in tables.values())

    def where(self, messages: TableMessages) -> Col:
        """See `SourceProtocol.where`."""
        schemas = {seen.version.version for seen in messages.versions}
        topics = {at.stream for at in messages.partitions}
        return Col(lambda row: row["topic"] in topics and row["value"].message.schema in schemas)

    def recipe(self, messages: TableMessages, mapping: ColumnMapping) -> Recipe:
        """See `SourceProtocol.recipe`."""
        columns = (*_ENVELOPE, *(target.name for target in mapping.targets))

        def changes(raw: Frame) -> Frame:
            mine = raw.where(self.where(messages))
            return Frame(lambda: [_changed(row, mapping) for row in mine.rows], columns, raw.catalog)

        return Recipe((messages, mapping), changes)

    def as_sent(self, name: str) -> str:
        """See `SourceProtocol.as_sent`."""
        return name

    def sentences(self) -> Mapping[str, str]:
        """See `SourceProtocol.sentences`."""
        return {CORRUPT: "the body ends too early"}

    def is_newest(self, seen: SeenVersion) -> bool:
        """See `SourceProtocol.is_newest`."""
        return self.registry.is_newest(seen.version)


def _kind(record: Record) -> tuple[str, SchemaId | None, bool]:
    """What a message is by its first bytes: damage is not seen there."""
    message = record.message
    return "row" if message.kind == "damaged" else message.kind, message.schema, message.deletes


def _changed(row: Mapping[str, Any], mapping: ColumnMapping) -> dict[str, Any]:
    """A row of the change frame."""
    record: Record = row["value"]
    message = record.message
    found = dict.fromkeys(target.name for target in mapping.targets)
    if message.kind == "row" and message.schema in mapping.fields:
        columns = mapping.fields[message.schema]
        sent = message.values if message.values is not None else (("id", message.key),)
        found.update((columns[name], value) for name, value in sent)
    return {
        **dict.fromkeys(change.ENVELOPE),
        **found,
        change.OP: "delete" if message.deletes else "upsert",
        change.TOPIC: record.at.stream,
        change.PARTITION: record.at.number,
        change.OFFSET: record.offset,
        change.INDEX: 0,
        change.COMMIT_TS: message.told_ts,
        change.SCHEMA_ID: message.schema,
        change.COMMIT_TIME: record,
        change.ERROR: CORRUPT if message.kind == "damaged" else None,
        change.UNREAD: None,
        change.KEY_BYTES: None,
        change.VALUE_BYTES: record,
    }


def extreme(records: Iterable[Record], pick: Callable[..., int]) -> dict[Partition, int]:
    """By partition, the offset that `pick` (min or max) chooses of its records."""
    found: dict[Partition, int] = {}
    for record in records:
        found[record.at] = pick(record.offset, found.get(record.at, record.offset))
    return found


def _statement(copies: Sequence[Record]) -> Ddl:
    message = copies[0].message
    at, last = extreme(copies, min), extreme(copies, max)
    redelivered_at = {partition: position for partition, position in last.items() if position != at[partition]}
    return Ddl(message.commit_ts, message.table, message.action, message.sql, at, redelivered_at=redelivered_at)


class ModelRecords(Records):
    """The pipeline's own tables; their rows are dictionaries. A record's time of arrival is its number."""

    @staticmethod
    def load(catalog: ModelCatalog) -> ModelRecords:
        """All tables, made where they are missing."""
        found = {name: catalog.table(where(name)) for name in DEFINITIONS}
        made = {n: t or catalog.create(where(n), [("row", "string")], f"data/{n}", {}) for n, t in found.items()}
        return ModelRecords(None, catalog, Path(), "model", made)

    def append(self, name, batch_id, frame):
        rows = frame.select(*_NAMES[name]).rows
        self.write(name, batch_id, rows)
        return len(rows)

    def write(self, name, batch_id, rows, summary=None):
        if rows or summary is not None:
            self.tables[name].append(self._stamped(batch_id, rows), summary or {})

    def replace(self, name, batch_id, rows):
        self.tables[name].write("overwrite", (), tuple(self._stamped(batch_id, rows)), {})

    def newest_cuts(self):
        rows = sorted(self.tables["cuts"].content(), key=lambda row: (row["batch_id"], row["recorded_at"]))
        return {row["table_uuid"]: (row["snapshot_id"], row["level"]) for row in rows}

    def _count_held(self):
        rows = [row for row in self.tables["held"].content() if row["status"] == "open"]
        return Counter((TableName(row["schema_name"], row["table_name"]), "") for row in rows)

    def _stamped(self, batch_id, rows):
        shared = {"batch_id": batch_id, "recorded_at": next(self.catalog.numbers)}
        return [{**row, **shared} for row in rows]

    def _update(self, name, source, change, values, _which="true"):
        changed = {column: values[parameter] for column, parameter in re.findall(r"(\w+) = :(\w+)", change)}

        def theirs(row):
            return (row["schema_name"], row["table_name"], row["status"]) == (source.schema, source.table, "open")

        self._rewrite(name, [{**row, **changed} if theirs(row) else row for row in self.tables[name].content()])

    def mark(self, name, found):
        status = {tuple(row[column] for column in AT): row["status"] for row in found.rows}
        assert len(status) == len(found.rows), "MERGE finds a row twice"

        def marked(row):
            new = status.get(tuple(row[column] for column in AT)) if row["status"] == "open" else None
            return {**row, "status": new} if new else row

        self._rewrite(name, [marked(row) for row in self.tables[name].content()])

    def _rewrite(self, name, rows):
        self.tables[name].write("overwrite", (), tuple(rows), {})

    def read(self, name):
        return Frame(self.tables[name].content(), (*_SHARED, *_NAMES[name]), self.catalog)


def one_by_one(work, items, _threads, _size):
    """For `workers.side_by_side`: in one thread. An error waits for the others; a crash finds each table elsewhere."""
    results, errors, crash = [], [], None
    fuse = work.__self__.context.spark.fuse
    for item in items:
        if crash is not None:
            fuse.left = fuse.others.pop() if fuse.others else 0
        try:
            results.append(work(item))
        except Crash as ended:
            crash = crash or ended
        except Exception as error:  # noqa: BLE001 - what the product's threads do
            errors.append(error)
    if crash is not None:
        fuse.left = 0
        raise crash
    if errors:
        raise errors[0]
    return results


class ModelBooks(accounting.Books):
    """The books of a batch, which have to agree with its tables."""

    __slots__ = ()

    def close(self, closing, set_aside):
        committed = super().close(closing, set_aside)
        self._adds_up(self.context.records.tables["batches"].content()[-1])
        return committed

    def _adds_up(self, row):
        """Whether what the ledger says of a batch is what its tables have of it."""
        number, read = row["batch_id"], self.context.records.read
        entered = sum(one.batch_id == number for table in self.context.tables for one in table.changes.content())
        aside = {name: [one for one in read(name).rows if one["batch_id"] == number] for name in SET_ASIDE}
        statements = sum(one["value"].message.kind == "ddl" for one in aside["held"])  # control messages of a batch
        rows = entered + sum(map(len, aside.values())) - statements
        found = {
            "changes": entered, "quarantined": len(aside["quarantine"]), "dead_letters": len(aside["dead_letters"]),
            "rows_in": rows + self.landed.routed.messages.control,
        }  # fmt: skip
        said = {**row, "changes": row["inserts"] + row["updates"] + row["deletes"]}
        assert all(said[name] == count for name, count in found.items()), f"batch {number}: {said}, but {found}"


class ModelWriter(TableWriter):
    """One table's part, in which a fault may be, and of which every append is looked at."""

    __slots__ = ()

    def evolve(self) -> None:
        self._may_fail("evolve")
        super().evolve()

    def append(self, ranges: Mapping[Partition, Range]) -> Mapping[str, int]:
        self._may_fail("append")
        before, let_in, waiting = len(self._on_main()), False, self._waiting()
        try:
            counts = super().append(ranges)
            let_in = self.table.state != State.HELD
        finally:
            added = self._on_main()[before:]
            self._is_fit_to_be_seen(added, let_in=let_in)
            past = [row for row in added if row.key in waiting and not row.deletes]
            assert not past, f"{self.table.source} has changes that are to wait behind others: {past}"
        return counts

    def _waiting(self) -> set[int]:
        """Keys whose changes wait behind one that is quarantined."""
        if self.work.forced or FENCE not in self.context.rulebook.suite:
            return set()
        rows, source = self.context.records.read("quarantine").where("status = 'open'").rows, self.messages.table
        return {row["value"].message.key for row in rows if row["table_name"] == source.table}

    def _on_main(self) -> tuple[ChangeRow, ...]:
        return self.context.spark.catalog.pointers[self.table.changes.name].content()

    def _is_fit_to_be_seen(self, added: Sequence[ChangeRow], *, let_in: bool) -> None:
        """Whether main has got what the verdict lets in, and no row that a rule keeps out."""
        kept_out = [Severity.QUARANTINE] if self.work.forced else [Severity.QUARANTINE, Severity.HOLD, Severity.FAIL]
        book = self.context.rulebook
        bad = [row for row in added if broken(row.record.message, book.suite, *kept_out, breaks=book.breaks)]
        assert not bad, f"{self.table.source} has rows that break a rule: {bad}"
        assert let_in or not added, f"{self.table.source} has rows of a batch that may not enter: {added}"

    def publish(self) -> TableResult:
        self._may_fail("publish")
        return super().publish()

    def _may_fail(self, stage: str) -> None:
        if self.context.spark.faults.get(self.messages.table.key) == stage:
            raise BatchFailed("INJECTED", f"{self.messages.table}: {stage}")


def shown(layout: Layout, row: ChangeRow, column: Column, fields: Mapping[str, int]) -> object:
    """What a current table shows in a column for a row of its changes table (`shape.current_shape`)."""
    version = layout.version(row.schema)
    assert version is not None, f"a row of an unknown version: {row}"
    own = row.values.get(fields[column.name])
    if column.id in version.columns:
        return own
    stale = next((c for c in layout.columns if c.shown_in == column.id and c.id in version.columns), None)
    if stale is not None:
        return converted(shown(layout, row, stale, fields), stale.type, column.type)
    if version.number >= column.added:
        return own
    if column.conversions:
        source = layout.column(column.conversions[0].source)
        return converted(shown(layout, row, source, fields), source.type, column.type)
    return own if column.default.kind != "literal" else read_default(column.default, column.type)


def image(layout: Layout, row: ChangeRow, fields: Mapping[str, int]) -> dict[str, object]:
    """A changes row as the current table shows it."""
    return {column.name: shown(layout, row, column, fields) for column in layout.current}


def _appended(self: Any, parent: int | None, snapshot: int) -> tuple[ChangeRow, ...]:
    """For `current._ByOffset._appended`: the rows of one append."""
    assert parent is not None or snapshot
    return self.table.changes.added(snapshot)


def _truncate(publisher: Any) -> None:
    """For `Publisher._truncate`: rows go that a TRUNCATE has ended."""
    target, truncated_at = publisher.current, publisher.table.by_offset.truncated_at
    kept = tuple(row for row in target.content(publisher.branch) if row.commit_ts > truncated_at)
    target.write("delete", (), kept, {}, publisher.branch)
    publisher.step("truncated")


def _apply(self: Any, news: Sequence[ChangeRow]) -> current.Published:
    """For `current._ByOffset.apply`: delete the keys that changed, append what they are now."""
    publisher = self.publisher
    table, target = publisher.table, publisher.current
    last, conflicts = _last(news, self.arrivals)
    if not last:
        return current.Published()
    kept = tuple(row for row in target.content(publisher.branch) if row.key not in last)
    target.write("delete", (), kept, {}, publisher.branch)
    publisher.step("keys-deleted")
    target.append(
        [
            _current_row(table.layout, row, table.changes.fields(), target.fields())
            for row in last.values()
            if not row.deletes and row.record.message.commit_ts > table.by_offset.truncated_at
        ],
        OPERATION.entry(publisher.operation),
        publisher.branch,
    )
    return current.Published(len(last), conflicts)


SMALL = False
"""Whether batches are small."""


@dataclass(frozen=True, slots=True)
class ModelSmallBatch:
    """In place of `SmallBatch`: its `empty` frame has the rows that the driver has."""

    empty: Frame

    @classmethod
    def of(cls, _spark: ModelSpark, frame: Frame, _events: int, _batch_id: int, **_: bool) -> ModelSmallBatch | None:
        """See `SmallBatch.of`."""
        return cls(Frame(frame.rows, frame.columns, frame.catalog)) if SMALL else None


def append_small(
    table: Any,
    mine: small_batch.SmallRows,
    entry: changes.Entry,
    branch: str | None,
    step: Callable[[str], None],
) -> changes.Appended:
    """For `small_batch.append`."""
    step("rows-written")
    return changes.append(table, mine.recipe.of(mine.within), entry, branch)


CLONES = False
"""Whether tables are published by the files of their changes tables, where that can be."""


def check(table: Any) -> None:
    """For `clone.publish.check`."""
    if not (CLONES and table.layout.key and are_aligned(table.changes, table.current)):
        raise CannotClone("as the model has it")


def _clone(
    table: Any,
    target: ModelTable,
    snapshots: Sequence[int],
    summary: Mapping[str, str],
    step: Callable[[str], None],
    within: object = None,
) -> int:
    """For `clone.publish.clone`, by offset."""
    assert within is None
    last, conflicts = _last([row for one in snapshots for row in table.changes.added(one)], None)
    if conflicts:
        raise CannotClone("a key has changes in several partitions")
    there = [r for r in last.values() if not r.deletes and r.record.message.commit_ts > table.by_offset.truncated_at]
    show_clone(table, target, {key: key for key in last}, [(row.key, row) for row in there], summary, step)
    return len(last)


def show_clone(
    table: Any,
    target: ModelTable,
    keys: Collection[int],
    there: Sequence[tuple[int, ChangeRow]],
    summary: Mapping[str, str],
    step: Callable[[str], None],
) -> None:
    """Show rows as they stand in the changes table, in one commit. Raises `CannotClone` where they show otherwise."""
    fields, to = table.changes.fields(), target.fields()
    target.refresh()
    head, rows = target.head(), []
    for key, row in there:
        plain = {column.name: row.values.get(fields[column.name]) for column in table.layout.current}
        if plain != image(table.layout, row, fields):
            raise CannotClone("rows of earlier versions show other values than they have")
        rows.append(CurrentRow(key, row.record.message.commit_ts, {to[name]: value for name, value in plain.items()}))
    step("linked")
    target.refresh()
    if target.head() != head:
        raise BatchFailed("MAIN_MOVED", f"{target.name}", "another writer is at work")
    kept = tuple(row for row in target.content() if row.key not in keys)
    target.write("overwrite", tuple(rows), (*kept, *rows), summary)
    step("published")


def _last(news: Sequence[ChangeRow], arrivals: Callable[[], Frame] | None) -> tuple[Mapping[int, ChangeRow], int]:
    """The last change of each key: by offset or, where they stand in two partitions, by arrival; and how many do.

    Without arrivals the commit ts is the order.
    """
    rows: dict[int, list[ChangeRow]] = {}
    for row in news:
        rows.setdefault(row.key, []).append(row)
    conflicts = [key for key, mine in rows.items() if len({row.record.at for row in mine}) > 1]
    found = arrivals().rows if conflicts and arrivals is not None else ()
    arrived = {tuple(row[name] for name in change.POSITION[:3]): row[change.ARRIVED_AT] for row in found}

    def when(row: ChangeRow) -> tuple[int, int, int]:
        at = row.record.message.commit_ts if arrivals is None else arrived.get(row.record.place, -1)
        return at, crc32(repr(row.record.at).encode()), row.record.offset

    return {
        key: max(mine, key=when if key in conflicts else lambda row: row.record.offset) for key, mine in rows.items()
    }, len(conflicts)


def _current_row(layout: Layout, row: ChangeRow, fields: Mapping[str, int], to: Mapping[str, int]) -> CurrentRow:
    values = {to[name]: value for name, value in image(layout, row, fields).items()}
    return CurrentRow(row.key, row.record.message.commit_ts, values)


def _backfill(publisher: Any, pending: Sequence[Any]) -> None:
    """For `Publisher._backfill`: rows that are there show defaults and converted values from now on."""
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


class _OneThread:
    """In place of a thread pool: loading tables side by side costs a history more than the rest of it."""

    def __init__(self, _threads: int, **_named: object) -> None:
        self.map = map

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Keys:
    """In place of `Keys`: the key of a changes row. The handle column never changes."""

    columns: Sequence[Column]
    shape: None

    @property
    def expressions(self) -> Mapping[str, Col]:
        """See `Keys.expressions`."""
        return {f"k{number}": F.col(column.name) for number, column in enumerate(self.columns)}


def _memos(module: Any) -> list[tuple[str, Any]]:
    """What a module remembers of Spark's columns, forgotten: another test may have filled it."""
    memos = (
        (name, getattr(found, "__wrapped__", None))
        for name, found in vars(module).items()
        if hasattr(found, "cache_info")
    )
    return [(name, functools.cache(plain)) for name, plain in memos]


def written_for_spark() -> list[Any]:
    """The modules that write Spark's expressions, and are given the model's."""
    of_ingest = [module for name, module in sorted(sys.modules.items()) if name.startswith("pipeline.ingest")]
    return [
        *(conditions, places, changes, raw_records, rules, samples, redrive, release, superseded),
        *(module for module in of_ingest if getattr(module, "F", None) in (spark_functions, F)),
    ]


def replacements() -> list[tuple[Any, str, Any]]:
    """(where, name, instead): Spark's part of the product."""
    rule_set.cache_clear()
    modules = written_for_spark()
    return [
        *((module, "F", F) for module in modules),
        *((module, "Projection", Projection) for module in (changes, rules)),
        *((module, "walled", lambda frame: frame) for module in (dead_letters, fence, table_writer, redrive, samples)),
        *((module, "DataFrame", Frame) for module in modules if getattr(module, "DataFrame", None) is DataFrame),
        *((module, *memo) for module in modules for memo in _memos(module)),
        (changes, "Observation", Observation),
        (reading, "SmallBatch", ModelSmallBatch),
        (small_batch, "append", append_small),
        (altered, "look", lambda _pair: None),  # no user is at work
        (batch, "side_by_side", one_by_one),
        (accounting, "Books", ModelBooks),
        *((module, "TableWriter", ModelWriter) for module in (batch, release, redrive)),
        (superseded, "Keys", _Keys),
        (superseded, "current_shape", lambda *_: None),
        (superseded, "taken", lambda *_, **__: F.lit(None)),
        (current._ByOffset, "_appended", _appended),
        (current._ByOffset, "apply", _apply),
        (publisher.Publisher, "_backfill", _backfill),
        (publisher.Publisher, "_truncate", _truncate),
        (publisher, "check", check),
        (publisher, "clone", _clone),
        (speculation, "LEAST_ROWS", 1),
    ]
