"""Where rows of tables without a key begin to be sent again: what is noted, and that normally nothing is."""

import json

import pytest
from pyspark.sql import functions as F
from spark.open_events import protocol, raw_frame, record

from pipeline.model.messages import Part, TableMessages, TopicPartition
from pipeline.model.names import TableName
from pipeline.streaming.moments import closed_by_watermark
from pipeline.streaming.sends import begun_again
from pipeline.streaming.waiting import WAITED

pytestmark = pytest.mark.spark

TABLES = [TableMessages(name, (), parts=(Part(name),)) for name in (TableName("s", "a"), TableName("s", "b"))]


def row(ts, table="a"):
    key = {"ts": ts, "scm": "s", "tbl": table, "t": 1}
    return json.dumps(key), json.dumps({"u": {"v": {"t": 3, "f": 0, "v": 1}}})


def mark(ts):
    return json.dumps({"ts": ts, "t": 3}), ""


def places(spark, *records, closed=0, waited=()):
    """The offsets and numbers of what is noted, by table; each record is a list of events."""
    messages = [record(*events) for events in records]
    prepared = protocol().prepare(raw_frame(spark, messages)).withColumn(WAITED, F.col("offset").isin(*waited))
    moments = {TopicPartition("t", 0): closed_by_watermark(closed)} if closed else {}
    found = begun_again(prepared, protocol(), TABLES, moments)
    assert all(place[:2] == ("t", 0) for some in found.values() for place in some)
    return {TABLES[number].table.table: [place[2:] for place in sorted(some)] for number, some in found.items()}


def test_a_stream_that_only_goes_on_has_none(spark):
    assert places(spark, [row(5), row(5), row(6, "b")], [mark(5)], [row(7), row(6, "b")], [mark(7)], closed=4) == {}


def test_they_begin_at_the_first_row_behind_a_watermark_that_has_closed_it(spark):
    sent = [row(5)], [mark(5)], [row(5, "b"), row(5), row(5)], [row(6)]
    assert places(spark, *sent) == {"a": [(2, 1)], "b": [(2, 0)]}
    assert places(spark, [row(5), row(5)], closed=5) == {"a": [(0, 0)]}
    assert places(spark, [row(5), row(4), row(5)], closed=5) == {"a": [(0, 0), (0, 1)]}


def test_a_watermark_within_what_is_sent_again_ends_no_send(spark):
    assert places(spark, [row(5)], [row(6), mark(6)], [row(5), mark(5), row(6), row(6)]) == {"a": [(2, 0)]}
    assert places(spark, [row(6)], [mark(6)], [row(6)], [mark(6)], [row(6)]) == {"a": [(2, 0), (4, 0)]}


def test_they_begin_where_the_watermarks_go_back(spark):
    assert places(spark, [row(6)], [row(7)], [mark(4)], [row(7), row(8)], [mark(4)], closed=5) == {"a": [(3, 0)]}
    assert places(spark, [row(6)], [mark(4)], [row(7)], [mark(5)], [row(7)], [mark(5)], closed=5) == {}


def test_what_has_waited_is_none(spark):
    assert places(spark, [row(5)], [row(5)], closed=5, waited=(0,)) == {"a": [(1, 0)]}
    assert places(spark, [row(5)], closed=5, waited=(0,)) == {}
