"""Where rows of tables without a key begin to be sent again: what is noted, and that normally nothing is."""

import json

import pytest
from pyspark.sql import functions as F
from spark.open_events import protocol, raw_frame, record

from pipeline.ingest.by_commit_ts.frontier import closed_by_watermark
from pipeline.ingest.by_commit_ts.redeliveries import redelivery_starts, watermarks
from pipeline.ingest.set_aside.pending import WAS_PENDING
from pipeline.model.messages import Part
from pipeline.model.names import TableName
from pipeline.model.places import Partition

pytestmark = pytest.mark.spark

TABLES = ["a", "b"]
AT = Partition("t", 0)
PARTS = [[Part(TableName("s", name))] for name in TABLES]


def row(ts, table="a"):
    key = {"ts": ts, "scm": "s", "tbl": table, "t": 1}
    return json.dumps(key), json.dumps({"u": {"v": {"t": 3, "f": 0, "v": 1}}})


def mark(ts):
    return json.dumps({"ts": ts, "t": 3}), ""


def ddl(ts, sql="DROP TABLE c"):
    return json.dumps({"ts": ts, "scm": "s", "tbl": "c", "t": 2}), json.dumps({"q": sql, "t": 4})


def places(spark, *records, closed=0, waited=()):
    """The offsets and numbers of what is noted, by table; each record is a list of events."""
    frontiers = {AT: closed_by_watermark(closed)} if closed else {}
    found = redelivery_starts(prepared(spark, records, waited), protocol(), PARTS, frontiers)
    assert all(place[:2] == AT for some in found.values() for place in some)
    return {TABLES[number]: [place[2:] for place in sorted(some)] for number, some in found.items()}


def prepared(spark, records, waited=()):
    messages = [record(*events) for events in records]
    return protocol().prepare(raw_frame(spark, messages)).withColumn(WAS_PENDING, F.col("offset").isin(*waited))


def restarts(spark, *records, newest=0):
    """The offsets and numbers of watermarks that go back, and the last one."""
    told = watermarks(prepared(spark, records), protocol(), {AT: newest} if newest else {})
    assert all(place[:2] == AT for place in told.restarts)
    return [place[2:] for place in told.restarts], told.newest.get(AT)


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


def test_a_statement_closes_what_is_before_it(spark):
    assert places(spark, [row(6)], [ddl(7)], [row(6)]) == {"a": [(2, 0)]}
    assert places(spark, [row(8)], [ddl(7)], [row(8)]) == {}


def test_a_statement_that_is_sent_again_hides_no_watermark(spark):
    assert places(spark, [row(6)], [mark(6)], [ddl(4)], [row(6), row(6)]) == {"a": [(3, 0)]}


def test_each_copy_of_a_statement_closes_what_is_before_it(spark):
    assert places(spark, [row(6)], [ddl(7)], [row(6)], [ddl(7)], [row(6)]) == {"a": [(2, 0), (4, 0)]}


def test_watermarks_may_go_back_and_the_last_one_counts(spark):
    assert restarts(spark, [row(6)], [mark(4)], [row(7), mark(5)], [mark(5)], newest=3) == ([], 5)
    assert restarts(spark, [mark(4)], [row(5), mark(2)], [mark(3)], [mark(1)], newest=3) == ([(1, 1), (3, 0)], 1)
    assert restarts(spark, [mark(4)], newest=5) == ([(0, 0)], 4)
    assert restarts(spark, [row(6)], newest=5) == ([], 5)
    assert restarts(spark, [row(6)]) == ([], None)


def test_what_has_waited_is_none(spark):
    assert places(spark, [row(5)], [row(5)], closed=5, waited=(0,)) == {"a": [(1, 0)]}
    assert places(spark, [row(5)], closed=5, waited=(0,)) == {}
