"""Dead letters of messages that no table takes: written in one pass, of however many tables they are."""

from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from pipeline.ingest.set_aside.dead_letters import set_aside_refused
from pipeline.model.messages import INDEX, MessageHeader, Undecodable
from pipeline.model.names import TableName

pytestmark = pytest.mark.spark

TABLES = 300


def test_letters_of_many_tables_are_written_in_one_pass_and_counted_by_its_commit(warehouse):
    spark, passes = warehouse[0], []

    def append(_name, _batch, frame):
        passes.append([(row["table_name"], row["code"]) for row in frame.collect()])
        return len(passes[-1])

    raw = spark.range(2 * TABLES).select(
        F.lit("topic").alias("topic"), F.lit(0).alias("partition"), F.col("id").alias("offset"), F.lit(0).alias(INDEX),
        F.lit(b"").alias("key"), F.lit(b"").alias("value"), F.concat(F.lit("t"), F.col("id") % TABLES).alias("of"),
    )  # fmt: skip
    about = MessageHeader(F.lit("shop"), F.col("of"), F.lit(7), F.lit(False), F.lit(False))
    rows = {TableName("shop", f"t{number}"): 2 for number in range(TABLES)}
    large = Undecodable(
        "LARGE", "too large", F.col("offset") != 0, 2 * TABLES - 1, about, {**rows, TableName("shop", "t0"): 1}
    )
    lost = Undecodable("LOST", "of no table", F.col("offset") == 0, 1)
    context = SimpleNamespace(records=SimpleNamespace(append=append))
    counts = set_aside_refused(context, raw, [large, lost], 7)
    assert counts == {**{str(table): count for table, count in large.tables.items()}, "": 1}
    (letters,) = passes
    assert sorted(letters, key=str) == sorted(
        [*(("t" + str(n % TABLES), "LARGE") for n in range(1, 2 * TABLES)), (None, "LOST")], key=str
    )
