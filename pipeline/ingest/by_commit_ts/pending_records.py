"""The records that were pending before a batch: it reads them again beside what is new."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from pipeline.ingest.by_commit_ts import namesakes
from pipeline.ingest.set_aside import pending
from pipeline.ingest.set_aside.pending import WAS_PENDING
from pipeline.model.conditions import any_of
from pipeline.model.messages import INDEX, Undecodable
from pipeline.model.places import shown
from pipeline.warehouse.raw_records import without

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from pyspark.sql import Column, DataFrame

    from pipeline.ingest.context import PipelineContext
    from pipeline.model.messages import DdlIdentity, Messages, SeenVersion, SourceProtocol, Unknown
    from pipeline.model.names import Name

SCHEMA_UNKNOWN = "SCHEMA_UNKNOWN"


@dataclass(frozen=True, slots=True)
class RecordsBefore:
    """What was pending: its prepared `frame`, and what `messages` it has.

    `to_take`: the events that no unfinished try has appended. `stored`: the others. They are let in, whatever this try
    finds. `released`: tables whose rows a person wants in, whatever the verdict on them is.
    """

    frame: DataFrame
    to_take: DataFrame
    stored: DataFrame | None
    messages: Messages
    released: frozenset[Name]

    @property
    def streams(self) -> namesakes.Streams:
        """In which streams the rows of each name are."""
        return namesakes.streams_of(self.messages)

    @property
    def names(self) -> frozenset[Name]:
        """The names under which rows are among them."""
        return frozenset(table.table.key for table in self.messages.tables)

    @property
    def ddl(self) -> frozenset[DdlIdentity]:
        """The statements among them."""
        return frozenset(ddl.identity for ddl in self.messages.ddl)


def read(context: PipelineContext, resources: ExitStack) -> RecordsBefore | None:
    """What is pending now; None where nothing is. What begins to wait later is no part of it."""
    raw = pending.raw_records(context)
    if raw is None:
        return None
    frame = context.protocol.prepare(raw).withColumn(WAS_PENDING, F.lit(True))
    frame = frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)
    resources.callback(frame.unpersist)
    frame.count()
    released = pending.released(context.records)
    to_take, stored = frame, None
    if context.run.recovering:
        to_take = pending.not_yet_stored(context, frame)
        stored = without(frame, to_take.select(*(one.alias(name) for name, one in shown(frame.columns).items()), INDEX))
    return RecordsBefore(frame, to_take, stored, context.protocol.read(to_take), released)


def given_up(protocol: SourceProtocol, messages: Messages, table: Name | None) -> tuple[Messages, Column | None]:
    """Pending messages without rows that wait for a schema, of a table that a person has released: they are refused.

    The second value: which rows these are.
    """
    rows = [unknown for unknown in messages.unknown if unknown.table.key == table]
    if not rows:
        return messages, None
    refused = [undescribed(protocol, unknown, "released", unknown.where) for unknown in rows]
    left = tuple(unknown for unknown in messages.unknown if unknown not in rows)
    where = any_of(unknown.where for unknown in rows)
    return replace(messages, refused=(*messages.refused, *refused), unknown=left), where


def undescribed(protocol: SourceProtocol, rows: Unknown, when: str, where: Column) -> Undecodable:
    """Rows of a version that no message describes any more."""
    why = f"version {rows.version} of {rows.table} had not been described when the table was {when}"
    return Undecodable(SCHEMA_UNKNOWN, why, where, rows.rows, protocol.header(), {rows.table: rows.rows})


def joined(messages: Messages, from_pending: Messages) -> Messages:
    """What is new and what has waited, as one; where the latter stands in its partitions is nobody's concern."""
    tables = {table.table.key: table for table in messages.tables}
    for table in from_pending.tables:
        placeless = tuple(replace(seen, first={}, last={}) for seen in table.versions)
        earlier = tables.get(table.table.key)
        merged = placeless if earlier is None else _merged(earlier.versions, placeless)
        tables[table.table.key] = replace(table, versions=merged)
    unknown = {(rows.table.key, rows.version): rows for rows in (*messages.unknown, *from_pending.unknown)}
    for rows in messages.unknown:
        other = unknown[rows.table.key, rows.version]
        since, until = min(rows.since, other.since), max(rows.until, other.until)
        unknown[rows.table.key, rows.version] = replace(rows, since=since, until=until)
    ddl = {d.identity: d for d in from_pending.ddl}
    for d in messages.ddl:
        copy = ddl.get(d.identity)
        ddl[d.identity] = replace(d, at={**d.at, **copy.at} if copy else d.at)
    return replace(
        messages,
        tables=tuple(tables.values()),
        refused=(*messages.refused, *from_pending.refused),
        ddl=tuple(ddl.values()),
        unknown=tuple(unknown.values()),
        pending_events=from_pending.events,
    )


def _merged(new: Sequence[SeenVersion], from_pending: Sequence[SeenVersion]) -> tuple[SeenVersion, ...]:
    versions = {seen.version.version: seen for seen in new}
    for seen in from_pending:
        number = seen.version.version
        versions[number] = versions[number].joined(seen) if number in versions else seen
    return tuple(versions.values())
