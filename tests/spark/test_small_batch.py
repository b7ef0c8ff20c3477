"""Appends that the driver makes without a job: what they write, count and refuse."""

import threading

import pytest
from pyspark.sql import functions as F
from spark.test_counts import DELETED, ROWS, rules
from spark.test_current import Stream

from pipeline.model import change
from pipeline.model.change import Op
from pipeline.model.messages import Recipe
from pipeline.model.projection import walled
from pipeline.runtime.driver.catalyst import Catalyst, NotInDriver
from pipeline.runtime.driver.kept import Kept
from pipeline.warehouse import altered, changes, small_batch
from pipeline.warehouse.changes import Entry
from pipeline.warehouse.small_batch import SmallBatch, SmallRows
from pipeline.warehouse.state import ENDS, IN_DRIVER

pytestmark = pytest.mark.spark

AS_IT_IS = Recipe("as it is", lambda rows: rows)


@pytest.fixture
def appended(warehouse, monkeypatch):
    """Append a batch in the driver, after statements of a user's: what that gives, the stream, and the steps."""
    stream, gave, steps = Stream(warehouse, ["bigint"]), [], []

    def in_driver(table, frame, entry):
        frame.cache().count()
        batch = SmallBatch.of(stream.spark, frame, ROWS, 1)
        mine = SmallRows(batch, batch.empty, AS_IT_IS)
        judged = Entry(entry.batch_id, entry.ends, entry.operation, rules())
        gave.append(small_batch.append(table, mine, judged, None, steps.append))
        return gave[-1] or append(table, frame, judged)

    append = changes.append

    def appended(*statements, rows=ROWS):
        for statement in statements:
            stream.spark.sql(f"ALTER TABLE {stream.table.name.changes.sql} {statement}")
        stream.table.changes.refresh()
        altered.look(stream.table)
        with monkeypatch.context() as patched:
            patched.setattr(changes, "append", in_driver)
            stream.take(*(("delete" if n < DELETED else "insert", n, n) for n in range(rows)))
        return gave[-1], stream, steps

    return appended


def test_what_is_counted_is_what_is_written(appended):
    done, stream, steps = appended()
    assert done.counts == {Op.INSERT.value: ROWS - 3 - DELETED, Op.DELETE.value: DELETED}
    assert (done.quarantined, done.errors, done.odd, done.recounted) == (3, 0, 0, False)
    judged = {result.rule: (result.evaluated, result.unexpected, result.rows) for result in done.results}
    assert judged == {"small": (ROWS - DELETED, 3, ROWS - DELETED), "positive": (ROWS - DELETED, 0, ROWS - DELETED)}
    rows = stream.spark.table(stream.table.name.changes.sql)
    assert sorted(row["v"] for row in rows.collect()) == list(range(ROWS - 3))
    assert rows.select(change.BATCH_ID).distinct().count() == rows.select(change.INGESTED_AT).distinct().count() == 1
    summary = stream.table.changes.summary(stream.table.changes.head())
    assert IN_DRIVER.read(summary)
    assert ENDS.read(summary) == stream.table.ends
    assert steps == ["rows-written"]


def test_every_append_is_counted_anew(appended):
    first, *_ = appended()
    second, stream, _ = appended()
    assert first.counts == second.counts
    assert stream.spark.table(stream.table.name.changes.sql).count() == 2 * (ROWS - 3)


def test_an_append_of_nothing_is_a_commit_that_says_how_far_the_table_has_come(appended):
    done, stream, _ = appended(rows=0)
    assert (done.rows, done.newest) == (0, 0)
    assert ENDS.read(stream.table.changes.summary(stream.table.changes.head())) == stream.table.ends


def test_columns_of_a_users_are_empty_and_rows_stand_in_the_tables_order(appended):
    _, stream, _ = appended("ADD COLUMN theirs STRING FIRST", "ALTER COLUMN v FIRST")
    rows = stream.spark.table(stream.table.name.changes.sql)
    assert rows.columns[:2] == ["v", "theirs"]
    assert {row["theirs"] for row in rows.collect()} == {None}
    assert sorted(row["v"] for row in rows.collect()) == list(range(ROWS - 3))


@pytest.mark.parametrize("order", ["WRITE ORDERED BY v", "WRITE LOCALLY ORDERED BY v"])
def test_rows_that_are_to_be_sorted_are_left_to_spark(appended, order):
    done, stream, steps = appended(order)
    assert (done, steps) == (None, [])
    assert stream.spark.table(stream.table.name.changes.sql).count() == ROWS - 3


class TestSizes:
    def test_a_batch_of_many_events_is_not_small(self, warehouse):
        spark, *_ = warehouse
        frame = spark.range(10).cache()
        assert SmallBatch.of(spark, frame, small_batch.MOST_EVENTS + 1, 1) is None

    def test_a_batch_of_many_bytes_is_not_small(self, warehouse, monkeypatch):
        spark, *_ = warehouse
        frame = spark.range(1000).select(F.repeat(F.lit("x"), 1000).alias("text")).cache()
        frame.count()
        monkeypatch.setattr(small_batch, "MOST_BYTES", 1000)
        assert SmallBatch.of(spark, frame, 10, 1) is None


def planned(spark, frame, make):
    """What the driver and Spark make of a frame."""
    catalyst = Catalyst.of(spark)
    rows, _ = catalyst.run(catalyst.collected(frame, "few rows"), catalyst.plan(make(catalyst.empty(frame))))
    return rows.count, make(frame).count()


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame.groupBy("id").count(),
        lambda frame: frame.join(frame.select(F.col("id").alias("other")), F.col("id") == F.col("other")),
        lambda frame: frame.orderBy("id"),
        lambda frame: frame.select(F.explode(F.array("id", "id"))),
        lambda frame: frame.union(frame),
        lambda frame: frame.where(F.current_timestamp() > F.timestamp_seconds("id")),
        lambda frame: frame.select(F.expr("current_date()")),
        lambda frame: frame.where("timestamp_seconds(id) < 'today'"),
        lambda frame: frame.where("date_from_unix_date(id) < cast('tomorrow' as date)"),
        lambda frame: walled(frame.observe("n", F.count("id").alias("n"))),
    ],
    ids=["aggregate", "join", "sort", "explode", "union", "now", "date", "today", "tomorrow", "counters"],
)
def test_what_is_no_condition_and_no_select_list_is_refused_and_what_asks_for_the_time(warehouse, make):
    spark, *_ = warehouse
    with pytest.raises(NotInDriver):
        planned(spark, spark.range(3).cache(), make)


def test_what_cannot_be_computed_fails_as_it_does_with_spark(warehouse):
    spark, *_ = warehouse
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        planned(spark, spark.range(3).cache(), lambda frame: frame.select(F.lit(1) / F.col("id")))


def test_a_plan_serves_many_threads_one_after_the_other(warehouse):
    spark, *_ = warehouse
    frame, catalyst = spark.range(2000).cache(), Catalyst.of(spark)
    squares = F.transform(F.sequence(F.lit(1), F.lit(20)), lambda n: n * F.col("id"))
    plan = catalyst.plan(
        catalyst.counting(catalyst.empty(frame).select("id", squares.alias("s")), [F.sum(F.col("s")[19]).alias("all")])
    )
    events, sums = catalyst.collected(frame, "few rows"), []

    def run():
        sums.append(catalyst.run(events, plan)[1]["all"])

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [20 * sum(range(2000))] * 8


def test_a_table_remembers_nothing_of_the_writes_that_were_made(appended):
    appended()
    _, stream, _ = appended()
    reporter = stream.table.changes.java.reporter()
    appended()
    assert stream.table.changes.java.reporter().equals(reporter)


def test_a_plan_of_wide_rows_is_not_kept(appended, monkeypatch):
    monkeypatch.setattr(small_batch, "_WIDE", 8)
    monkeypatch.setattr(small_batch, "_plans", Kept(10))
    done, *_ = appended()
    assert done.rows == ROWS - 3
    assert not small_batch._plans._values


def test_another_versions_machinery_leaves_small_batches_to_spark(appended, monkeypatch):
    monkeypatch.setattr(small_batch, "_plans", Kept(10))
    monkeypatch.setattr(Catalyst, "_binding", property(lambda self: self._jvm.org.apache.spark.sql.NoSuchClass))
    done, stream, steps = appended()
    assert (done, steps) == (None, [])
    assert stream.spark.table(stream.table.name.changes.sql).count() == ROWS - 3
