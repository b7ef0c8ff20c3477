"""Where rows of tables without a key begin to be sent again, as watermarks tell (cut regime).

How often an equal change of such a table stands at a commit ts is the greatest of any one send (DESIGN 4.3), so it has
to be known where a send ends. It does where the commit ts of a table goes back, which the rows tell themselves; behind
a watermark that has closed them; and where the watermarks go back. These stand in Kafka alone: what they tell is noted
with the table.
"""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from pipeline.model.messages import INDEX
from pipeline.streaming.moments import commit_ts_of
from pipeline.streaming.waiting import WAITED, rows_of
from pipeline.warehouse.pairs import Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.messages import SourceProtocol, TableMessages, TopicPartition
    from pipeline.streaming.moments import Moment

MOST = 1000
"""How many are noted of a batch: of a re-send there is one for each table and partition."""

_OF, _TS, _MARK = "_of", "_ts", "_mark"
_CLOSED, _LATEST, _MARKS, _BACKS, _STARTS = "_closed", "_latest", "_marks", "_backs", "_starts"
_PARTITION = ("topic", "partition")
_PLACE = ("offset", INDEX)


def may_double(messages: TableMessages) -> bool:
    """Whether rows of a version without a key are among them."""
    return any(not seen.version.handle and seen.rows for seen in messages.versions)


def begun_again(
    raw: DataFrame, protocol: SourceProtocol, tables: Sequence[TableMessages], moments: Mapping[TopicPartition, Moment]
) -> dict[int, list[Place]]:
    """Where in a prepared batch rows begin to be sent again: places by the number of their table.

    `moments`: how far each partition had come before the batch. One job for all tables; rows that have waited are left
    out, since a watermark may have passed them without closing them.
    """
    spark, about = raw.sparkSession, protocol.about()
    number = reduce(
        lambda found, one: F.when(rows_of(protocol, one[1].parts), one[0]).otherwise(found),
        enumerate(tables),
        F.lit(None).cast("int"),
    )
    mark = F.coalesce(about.watermark, F.lit(False))
    place = [F.col(name) for name in (*_PARTITION, *_PLACE)]
    events = raw.where(~F.col(WAITED)).select(*place, number.alias(_OF), about.commit_ts.alias(_TS), mark.alias(_MARK))
    events = events.where(F.col(_OF).isNotNull() | F.col(_MARK))
    before = [(at.topic, at.partition, -1, 0, None, commit_ts_of(moment), True) for at, moment in moments.items()]
    if before:
        events = events.union(spark.createDataFrame(before, events.schema))
    starts = _with_marks(events).withColumn(_STARTS, _starts()).where(_STARTS).select(_OF, *place).limit(MOST)
    found: defaultdict[int, list[Place]] = defaultdict(list)
    for row in starts.collect():
        found[row[_OF]].append(Place(row["topic"], row["partition"], row["offset"], row[INDEX]))
    return dict(found)


def _with_marks(events: DataFrame) -> DataFrame:
    """The rows alone, each with what the watermarks before it say."""
    order = Window.partitionBy(*_PARTITION).orderBy(*_PLACE).rowsBetween(Window.unboundedPreceding, 0)
    mark = F.when(F.col(_MARK), F.col(_TS))
    older = F.last(mark, ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, -1))
    told = {
        _CLOSED: F.max(mark).over(order),
        _LATEST: F.last(mark, ignorenulls=True).over(order),
        _MARKS: F.count(mark).over(order),
        _BACKS: older > mark,
    }
    counted = events.withColumns(told).withColumn(_BACKS, F.count_if(_BACKS).over(order))
    return counted.where(~F.col(_MARK))


def _starts() -> Column:
    """Whether a row is sent again, and the one before it of its table is not of the same send."""
    order = Window.partitionBy(*_PARTITION, _OF).orderBy(*_PLACE)
    ts, before = F.col(_TS), F.lag(_TS).over(order)
    first = before.isNull()
    marks, backs = F.lag(_MARKS).over(order), F.coalesce(F.lag(_BACKS).over(order), F.lit(0))
    parted = (F.col(_MARKS) > marks) & (F.col(_LATEST) >= ts)
    closed = (ts <= F.col(_CLOSED)) & (first | (before > ts) | parted)
    return closed | ((F.col(_BACKS) > backs) & (first | (before >= ts)))
