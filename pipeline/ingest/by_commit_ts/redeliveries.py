"""Where rows of tables without a key begin to be sent again, as watermarks tell (ordering by commit ts).

How often an equal change of such a table counts at a commit ts is the greatest number that any one delivery has of it
(design.md, 4.3). So it has to be known where a delivery ends: where the commit ts of the table goes back, which the
rows tell themselves; after a watermark that has closed them; and where the watermarks go back. Watermarks are stored in
no table, so what they tell is noted with the table when its rows arrive, pending or not.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from pipeline.ingest.reading import describe_job
from pipeline.ingest.set_aside.pending import WAS_PENDING, rows_of
from pipeline.model.columns import FAR_FUTURE, CommitTs
from pipeline.model.frontier import commit_ts_of
from pipeline.model.messages import INDEX
from pipeline.model.places import PARTITION, PLACE, POSITION, STREAM, Partition
from pipeline.warehouse.pairs import Place
from pipeline.warehouse.state import PENDING_DELIVERIES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.ddl.table_ref import TableRef
    from pipeline.ingest.by_commit_ts.routing import PlacedRows
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.routed import RoutedBatch
    from pipeline.model.frontier import Frontier
    from pipeline.model.messages import MessageHeader, Part, SourceProtocol, TableMessages
    from pipeline.model.names import Name
    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.records import Records

MOST = 10_000
"""How many are noted of a batch: of a redelivery there is one for each table and partition."""

_OF, _TS, _CLOSES, _BEFORE = "_of", "_ts", "_closes", "_before"
_CLOSED, _ROWS_BEFORE, _PREVIOUS, _CLOSED_SINCE = "_closed", "_rows_before", "_previous", "_closed_since"
_PARTITION = (STREAM, PARTITION)
_PLACE = (POSITION, INDEX)


class Watermarks(NamedTuple):
    """What the watermarks of a batch say. `restarts`: where they go back; `newest`: the last of each partition."""

    restarts: list[Place]
    newest: dict[Partition, CommitTs]


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Where rows of a batch begin to be sent again.

    `of_tables`: by the table that they are of. `of_pending`: of rows that wait, by the name that they have.
    """

    last_watermarks: Mapping[Partition, CommitTs]
    of_tables: Mapping[TableRef, Sequence[Place]] = field(default_factory=dict)
    of_pending: Mapping[Name, set[Place]] = field(default_factory=dict)

    def of(self, placed: PlacedRows) -> Sequence[Place]:
        """Those of a table whose rows, or some of them, have no key; of what has waited, too."""
        if not has_keyless_rows(placed.messages):
            return ()
        earlier = (place for part in placed.parts for place in self.of_pending.get(part.table.key, ()))
        return [*self.of_tables.get(placed.table_ref, ()), *earlier]


def seen(
    context: PipelineContext, routed: RoutedBatch, placed: Sequence[PlacedRows], pending: Iterable[Part]
) -> Deliveries:
    """Find where rows without a key begin to be sent again, pending ones too: it shows only when they arrive.

    Where watermarks go back, that is noted with all tables without a key. What concerns pending rows is remembered.
    """
    ledger, protocol = context.run.ledger, context.protocol
    if context.source.tells_deliveries:
        return Deliveries(ledger.progress.last_watermarks)
    keyless = [rows for rows in placed if has_keyless_rows(rows.messages)]
    tables = [table for table in context.tables if is_keyless(table.layout)]
    pending_by_name: dict[Name, list[Part]] = {}
    for part in pending:
        pending_by_name.setdefault(part.table.key, []).append(part)
    before = remembered(context.records) if context.run.has_pending or pending_by_name else {}
    if not (keyless or tables or pending_by_name):
        passed = routed.messages.watermarks
        before_them = {at: ts for at, ts in ledger.progress.last_watermarks.items() if at not in passed}
        return Deliveries(before_them, of_pending=before)
    describe_job(context, "rows that are sent again")
    newest = ledger.progress.last_watermarks
    passed_watermarks = watermarks(routed.frame, protocol, newest)
    restarts = passed_watermarks.restarts
    for table in tables if restarts else ():
        context.tables.note_deliveries(table, restarts)
    parts = [*(rows.parts for rows in keyless), *pending_by_name.values()]
    begun = redelivery_starts(routed.frame, protocol, parts, ledger.progress.frontiers) if parts else {}
    places = [[*begun.get(number, ()), *restarts] for number in range(len(parts))]
    of_tables = {rows.table_ref: mine for rows, mine in zip(keyless, places, strict=False)}
    news = dict(zip(pending_by_name, places[len(keyless) :], strict=True))
    of_pending = before | {name: before.get(name, set()).union(mine) for name, mine in news.items() if mine}
    if of_pending != before:
        remember(context.records, of_pending)
    return Deliveries({**newest, **passed_watermarks.newest}, of_tables, of_pending)


def has_keyless_rows(messages: TableMessages) -> bool:
    """Whether rows of a version without a key are among them."""
    return any(not seen.version.handle and seen.rows for seen in messages.versions)


def is_keyless(layout: Layout) -> bool:
    """Whether rows of a table are, or at some time were, a multiset."""
    return not layout.handle or any(not handle for _, handle in layout.by_commit_ts.handles)


def watermarks(raw: DataFrame, protocol: SourceProtocol, newest: Mapping[Partition, CommitTs]) -> Watermarks:
    """What the watermarks of a prepared batch say; `newest`: the last of each partition before it, as far as known.

    Where watermarks go back, everything in the partition is sent again from there on.
    """
    header, place = protocol.header(), F.struct(*_PLACE)
    all_watermarks = raw.where(~F.col(WAS_PENDING) & _is_watermark(header)).select(
        *_PARTITION, *_PLACE, header.commit_ts.alias(_TS)
    )
    earlier = [(at.stream, at.number, -1, 0, ts) for at, ts in newest.items()]
    if earlier:
        all_watermarks = all_watermarks.union(raw.sparkSession.createDataFrame(earlier, all_watermarks.schema))
    order = Window.partitionBy(*_PARTITION).orderBy(*_PLACE)
    goes_back = F.lag(_TS).over(order) > F.col(_TS)
    by_partition = (
        all_watermarks.withColumn(_BEFORE, F.when(goes_back, place))
        .groupBy(*_PARTITION)
        .agg(F.max_by(_TS, place).alias(_TS), F.slice(F.array_sort(F.collect_list(_BEFORE)), 1, MOST).alias(_BEFORE))
    )
    rows = by_partition.collect()
    return Watermarks(
        [Place(row[STREAM], row[PARTITION], *position) for row in rows for position in row[_BEFORE]],
        {Partition(row[STREAM], row[PARTITION]): CommitTs(row[_TS]) for row in rows},
    )


def redelivery_starts(
    raw: DataFrame,
    protocol: SourceProtocol,
    tables: Sequence[Sequence[Part]],
    frontiers: Mapping[Partition, Frontier],
) -> dict[int, list[Place]]:
    """Where in a prepared batch rows begin to be sent again that were closed before: places by their table's number.

    `frontiers`: how far each partition had come before the batch. DDL events close what is before them, as watermarks
    do. There is one job for all tables. Pending rows were looked at when they came.
    """
    spark, header = raw.sparkSession, protocol.header()
    number = reduce(
        lambda others, table: F.when(rows_of(protocol, table[1]), table[0]).otherwise(others),
        enumerate(tables),
        F.lit(None).cast("int"),
    )
    place = [F.col(name) for name in (*_PARTITION, *_PLACE)]
    events = raw.where(~F.col(WAS_PENDING)).select(
        *place, number.alias(_OF), header.commit_ts.alias(_TS), _closes(header).alias(_CLOSES)
    )
    events = events.where(F.col(_OF).isNotNull() | F.col(_CLOSES))
    closed = [(at.stream, at.number, -1, 0, None, commit_ts_of(frontier), True) for at, frontier in frontiers.items()]
    if closed:
        events = events.union(spark.createDataFrame(closed, events.schema))
    every_table = F.sequence(F.lit(0), F.lit(len(tables) - 1))
    events = events.withColumn(_OF, F.explode(F.when(F.col(_CLOSES), every_table).otherwise(F.array(_OF))))
    starts = _with_progress(events).where(_starts()).select(_OF, *place).limit(MOST)
    by_table: defaultdict[int, list[Place]] = defaultdict(list)
    for row in starts.collect():
        by_table[row[_OF]].append(Place(*(row[name] for name in (*PLACE, INDEX))))
    return dict(by_table)


def _is_watermark(header: MessageHeader) -> Column:
    """Whether an event is a watermark that TiDB can have made (`sifted.without_impossible_progress`)."""
    return F.coalesce(header.watermark & (header.commit_ts <= FAR_FUTURE), F.lit(False))


def _closes(header: MessageHeader) -> Column:
    """Whether an event says that what is before it is complete up to its commit ts."""
    return _is_watermark(header) | F.coalesce(header.ddl & (header.commit_ts <= FAR_FUTURE), F.lit(False))


def _with_progress(events: DataFrame) -> DataFrame:
    """The events of each table, each with what has been closed before it, and since the table's row before it."""
    of_table = Window.partitionBy(*_PARTITION, _OF).orderBy(*_PLACE)
    before = of_table.rowsBetween(Window.unboundedPreceding, -1)
    closes, ts = F.col(_CLOSES), F.col(_TS)
    since = Window.partitionBy(*_PARTITION, _OF, _ROWS_BEFORE)
    return events.withColumns(
        {
            _CLOSED: F.max(F.when(closes, ts)).over(before),
            _PREVIOUS: F.last(F.when(~closes, ts), ignorenulls=True).over(before),
            _ROWS_BEFORE: F.count_if(~closes).over(before),
        }
    ).withColumn(_CLOSED_SINCE, F.max(F.when(closes, ts)).over(since))


def _starts() -> Column:
    """Whether a row is sent again, and the one before it of its table is not of the same delivery."""
    ts, previous = F.col(_TS), F.col(_PREVIOUS)
    other_delivery = previous.isNull() | (previous > ts) | (F.col(_CLOSED_SINCE) >= ts)
    return ~F.col(_CLOSES) & (ts <= F.col(_CLOSED)) & other_delivery


def remembered(records: Records) -> dict[Name, set[Place]]:
    """Where pending rows were sent again, by the names that they have; it is noted here while they have no pair."""
    places = PENDING_DELIVERIES.read(records.tables["held"].properties) or {}
    return {name: set(of_name) for name, of_name in places.items()}


def remember(records: Records, places: Mapping[Name, Collection[Place]]) -> None:
    """Store these places with `_pipeline.held`."""
    records.tables["held"].set_properties(PENDING_DELIVERIES.entry(places))
