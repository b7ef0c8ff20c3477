"""The rows of a partition, as Spark finds them."""

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from pipeline.ddl import partitions as p
from pipeline.model.names import quoted
from pipeline.warehouse.partitions import rows_in

pytestmark = pytest.mark.spark

DAY, MOMENT = dt.date, dt.datetime
UNSIGNED = [None, *map(Decimal, (0, 3, 2**63 - 1, 2**63, 2**64 - 4, 2**64 - 3, 2**64 - 1))]
TUPLES = [(None, None), (None, 9), (9, 9), (10, None), (10, 4), (10, 5), (11, None), (20, -1), (20, 0), (99, None)]


def found(spark, by, names, columns, rows, **lost):
    """The rows of these partitions, and whether each row has an answer. `columns`: name → (TiDB type, Spark type)."""
    types = {name: tidb for name, (tidb, _) in columns.items()}
    scheme = p.partitioning(f"CREATE TABLE t ({', '.join(f'{quoted(n)} INT' for n in columns)}) PARTITION BY {by}")
    predicate = p.predicate(scheme, names, types)
    schema = ", ".join(f"{quoted(name)} {kind}" for name, (_, kind) in columns.items())
    frame = spark.createDataFrame(rows, schema)
    cells = {name: F.col(quoted(name)) for name in columns}
    texts = {of: F.col(quoted(text)) for of, text in lost.items()}
    answers = frame.withColumn("here", rows_in(predicate, cells, texts)).collect()
    assert all(row["here"] is not None for row in answers)
    return [tuple(row[name] for name in columns) for row in answers if row["here"]]


def alone(spark, by, names, kinds, values):
    return [value for (value,) in found(spark, by, names, {"a": kinds}, [(value,) for value in values])]


BIGINT, WIDE = ("BIGINT", "bigint"), ("BIGINT UNSIGNED", "decimal(20,0)")
RANGE = "RANGE (a) (PARTITION p0 VALUES LESS THAN (-5),PARTITION p1 VALUES LESS THAN (10),PARTITION p2 VALUES LESS THAN"
LIST = "LIST (a) (PARTITION p0 VALUES IN (1, -2, NULL),PARTITION p1 VALUES IN (3),PARTITION rest DEFAULT)"
TEXTS = [None, "", "A", "a", "a ", "a\t", "é", "é  ", "\uffff", "😀"]
BY_TEXT = "RANGE COLUMNS (a) (PARTITION p0 VALUES LESS THAN ('a '),PARTITION p1 VALUES LESS THAN ('é'))"
BY_DAY = "RANGE COLUMNS (a) (PARTITION p0 VALUES LESS THAN ('2024-02-29'),PARTITION p1 VALUES LESS THAN (MAXVALUE))"


@pytest.mark.parametrize(
    ("by", "names", "kinds", "values", "expected"),
    [
        (f"{RANGE} (20))", ["p0"], BIGINT, [None, -(2**63), -6, -5, 9, 10], [None, -(2**63), -6]),
        (f"{RANGE} (20))", ["p1"], BIGINT, [None, -6, -5, 9, 10], [-5, 9]),
        (f"{RANGE} MAXVALUE)", ["p0", "p2"], ("INT", "int"), [None, -6, -5, 9, 10, 20], [None, -6, 10, 20]),
        (f"{RANGE} (9223372036854775808))", ["p2"], WIDE, UNSIGNED, [Decimal(2**63 - 1)]),
        (LIST, ["p0"], BIGINT, [None, -2, 0, 1, 3], [None, -2, 1]),
        (LIST, ["p1"], BIGINT, [None, -2, 0, 1, 3], [3]),
        (LIST, ["rest"], BIGINT, [None, -2, 0, 1, 3], [0]),
        (LIST.replace(", NULL", ""), ["rest"], BIGINT, [None, -2, 0], [None, 0]),
        (LIST.replace("(3)", "(18446744073709551612)"), ["p1"], WIDE, UNSIGNED, [Decimal(2**64 - 4)]),
        ("HASH (a) PARTITIONS 4", ["p0"], BIGINT, [None, 0, 4, -4, 1, -(2**63)], [None, 0, 4, -4, -(2**63)]),
        ("HASH (a) PARTITIONS 4", ["p3", "p1"], ("INT", "int"), [None, -1, -3, 2, 3], [-1, -3, 3]),
        ("HASH (a) PARTITIONS 4", ["p3"], WIDE, UNSIGNED, [Decimal(n) for n in (3, 2**63 - 1, 2**64 - 3)]),
        ("HASH (a) PARTITIONS 4", ["p1"], WIDE, UNSIGNED, [Decimal(2**64 - 1)]),
        (BY_TEXT, ["p0"], ("TEXT", "string"), TEXTS, [None, "", "A"]),
        (BY_TEXT, ["p1"], ("TEXT", "string"), TEXTS, ["a", "a ", "a\t"]),
        ("LIST COLUMNS (a) (PARTITION p0 VALUES IN ('a', ''))", ["p0"], ("TEXT", "string"), TEXTS, ["", "a", "a "]),
        (BY_DAY, ["p0"], ("DATE", "date"), [None, DAY(1, 1, 1), DAY(2024, 2, 28), DAY(2024, 2, 29)],
         [None, DAY(1, 1, 1), DAY(2024, 2, 28)]),
    ],
)  # fmt: skip
def test_rows_of_partitions_by_one_column(spark, by, names, kinds, values, expected):
    assert alone(spark, by, names, kinds, values) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("p0", TUPLES[:5]), ("p1", TUPLES[5:6]), ("p2", TUPLES[6:8]), ("p3", TUPLES[8:])],
)
def test_tuples_compare_from_the_left_and_null_is_lowest(spark, name, expected):
    by = (
        "RANGE COLUMNS (a, `b``.c`) (PARTITION p0 VALUES LESS THAN (10, 5),PARTITION p1 VALUES LESS THAN "
        "(10, MAXVALUE),PARTITION p2 VALUES LESS THAN (20, 0),PARTITION p3 VALUES LESS THAN (MAXVALUE, MAXVALUE))"
    )
    assert found(spark, by, [name], {"a": ("INT", "int"), "b`.c": BIGINT}, TUPLES) == expected


def test_tuples_of_a_list(spark):
    by = "LIST COLUMNS (a, b) (PARTITION p0 VALUES IN ((1,NULL),(2,'x')),PARTITION rest DEFAULT)"
    columns = {"a": ("INT", "int"), "b": ("TEXT", "string")}
    rows = [(1, None), (1, "x"), (2, "x "), (None, None)]
    assert found(spark, by, ["p0"], columns, rows) == [(1, None), (2, "x ")]
    assert found(spark, by, ["rest"], columns, rows) == [(1, "x"), (None, None)]


def test_days_and_moments_that_a_column_cannot_hold_lie_where_their_text_does(spark):
    by = (
        "RANGE COLUMNS (m) (PARTITION p0 VALUES LESS THAN ('2024-01-01 00:00:00'),"
        "PARTITION p1 VALUES LESS THAN ('2024-02-01 00:00:00.5'),PARTITION p2 VALUES LESS THAN (MAXVALUE))"
    )
    columns = {"m": ("DATETIME(6)", "timestamp_ntz"), "text": ("TEXT", "string")}
    rows = [
        (None, None),
        (None, "0000-00-00 00:00:00.000"),
        (None, "2024-00-15 00:00:00"),
        (None, "2024-01-00 12:00:00.25"),
        (MOMENT(2024, 1, 1), None),
        (None, "2024-01-32 00:00:00"),
        (MOMENT(2024, 2, 1, 0, 0, 0, 499999), None),
        (MOMENT(2024, 2, 1, 0, 0, 0, 500000), None),
        (None, "2024-02-31 00:00:00"),
    ]
    assert found(spark, by, ["p0"], columns, rows, m="text") == rows[:4]
    assert found(spark, by, ["p1"], columns, rows, m="text") == rows[4:7]
    assert found(spark, by, ["p2"], columns, rows, m="text") == rows[7:]
    listed = "LIST COLUMNS (m) (PARTITION p0 VALUES IN ('2024-01-01 00:00:00', NULL))"
    assert found(spark, listed, ["p0"], columns, rows, m="text") == [rows[0], rows[4]]
    days = {"m": ("DATE", "date"), "text": ("TEXT", "string")}
    rows = [(None, "2024-00-15"), (None, "2024-02-31"), (DAY(2024, 2, 29), None)]
    assert found(spark, BY_DAY.replace("(a)", "(m)"), ["p0"], days, rows, m="text") == rows[:1]


def test_many_partitions_are_one_condition(spark):
    by = f"RANGE (a) ({','.join(f'PARTITION p{n} VALUES LESS THAN ({n})' for n in range(600))})"
    assert alone(spark, by, [f"p{n}" for n in range(0, 600, 2)], BIGINT, [None, 0, 1, 596, 597]) == [None, 1, 597]


def test_all_partitions_are_all_rows(spark):
    assert alone(spark, "KEY (a) PARTITIONS 4", None, BIGINT, [None, 1]) == [None, 1]
