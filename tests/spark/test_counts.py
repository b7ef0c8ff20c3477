"""What an append says that it has written is what was committed, however the table wants its rows spread and sorted."""

import pytest
from pyspark.sql import functions as F
from spark.test_current import Stream

from pipeline.ingest.fast_path.speculation import _is_right
from pipeline.model.change import Op
from pipeline.quality.rules import Rule, RuleSet
from pipeline.quality.suites import Severity
from pipeline.warehouse import altered, changes

pytestmark = pytest.mark.spark

ROWS = 60
ORDERS = [
    "WRITE ORDERED BY v",
    "WRITE ORDERED BY _offset DESC, v",
    "WRITE LOCALLY ORDERED BY v",
    "WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY v",
]
DELETED, ODD = 5, 7


class Guessed:
    rows = None


def rules():
    """Three rows are set aside, and of nothing else there is anything to say."""
    small = Rule("small", Severity.QUARANTINE, F.col("v").isNotNull(), F.coalesce(F.col("v") >= ROWS - 3, F.lit(False)))
    positive = Rule("positive", Severity.WARN, F.lit(True), F.col("v") < 0)
    return RuleSet((small, positive), "f")


@pytest.fixture
def appended(warehouse, monkeypatch):
    """Append a batch to a changes table after a statement of a user's: what the append says, and the table."""
    stream, said, append = Stream(warehouse, ["bigint"]), [], changes.append

    def judging(table, frame, entry):
        odd = F.col("v") < ODD
        said.append(append(table, frame, changes.Entry(entry.batch_id, entry.ends, entry.operation, rules(), odd)))
        return said[-1]

    def appended(*statements, rows=ROWS):
        for statement in statements:
            stream.spark.sql(f"ALTER TABLE {stream.table.name.changes.sql} {statement}")
        with monkeypatch.context() as patched:
            patched.setattr(changes, "append", judging)
            stream.take(*(("delete" if n < DELETED else "insert", n, n) for n in range(rows)))
        return said[-1], stream

    return appended


def assert_exact(appended):
    assert appended.counts == {Op.INSERT.value: ROWS - 3 - DELETED, Op.DELETE.value: DELETED}
    assert (appended.quarantined, appended.errors, appended.odd) == (3, 0, ODD)
    judged = {result.rule: (result.evaluated, result.unexpected, result.rows) for result in appended.results}
    assert judged == {"small": (ROWS - DELETED, 3, ROWS - DELETED), "positive": (ROWS - DELETED, 0, ROWS - DELETED)}


@pytest.mark.parametrize("order", ORDERS)
def test_a_sort_order_of_a_users_changes_no_count_and_takes_one_pass(appended, order):
    found, stream = appended(order)
    assert_exact(found)
    assert not found.recounted
    rows = stream.spark.table(stream.table.name.changes.sql)
    assert rows.count() == ROWS - 3


def test_rows_of_an_append_are_sorted_in_their_files(appended):
    _, stream = appended("WRITE ORDERED BY v DESC")
    placed = stream.spark.table(stream.table.name.changes.sql).select("_file", "_pos", "v").collect()
    for file in {row["_file"] for row in placed}:
        values = [row["v"] for row in sorted(placed, key=lambda row: row["_pos"]) if row["_file"] == file]
        assert values == sorted(values, reverse=True)


def test_what_a_pass_that_was_sampled_before_has_counted_is_counted_again(appended, monkeypatch):
    monkeypatch.setattr(changes, "IN_ONE_STAGE", {})
    found, stream = appended("WRITE ORDERED BY v")
    assert found.recounted
    assert_exact(found)
    assert stream.spark.table(stream.table.name.changes.sql).count() == ROWS - 3


def test_a_guess_is_not_right_whose_pass_was_counted_twice(appended, monkeypatch):
    monkeypatch.setattr(changes, "IN_ONE_STAGE", {})
    found, _ = appended("WRITE ORDERED BY v")
    assert not _is_right(Guessed, changes.Appended(found.counts, recounted=True))
    assert _is_right(Guessed, changes.Appended(found.counts))


def test_an_append_of_nothing_counts_nothing(appended):
    found, _ = appended("WRITE ORDERED BY v", rows=0)
    assert (found.rows, found.recounted) == (0, False)


def test_what_was_appended_can_be_asked_for_after_somebody_has_renamed_our_columns(appended):
    _, stream = appended()
    for ours, theirs in (("_op", "op"), ("_batch_id", "batch"), ("_offset", "at")):
        stream.spark.sql(f"ALTER TABLE {stream.table.name.changes.sql} RENAME COLUMN {ours} TO {theirs}")
    altered.refreshed(stream.table)
    assert stream.table.altered
    rows = changes.as_written(stream.spark, stream.table).where(F.col("_batch_id") >= 0)
    by_op = {row["_op"]: row["count"] for row in rows.groupBy("_op").count().collect()}
    assert by_op == {Op.INSERT.value: ROWS - 3 - DELETED, Op.DELETE.value: DELETED}
    assert rows.select("_offset").distinct().count() == ROWS - 3
