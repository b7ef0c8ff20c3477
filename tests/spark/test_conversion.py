"""What MODIFY COLUMN makes of values that are there: as TiDB converts them, or NULL and their text."""

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from pipeline.ddl import ModifyColumn
from pipeline.model import types as t
from pipeline.model.columns import SchemaId, SourceColumn, TableVersion, literal
from pipeline.model.names import TableName
from pipeline.warehouse.conversion import converted
from pipeline.warehouse.evolution import Policy, apply_actions, meet
from pipeline.warehouse.layout import Column, Layout
from pipeline.warehouse.shape import DueBackfill, backfill, current_shape, default_value

pytestmark = pytest.mark.spark

ZONE = "Asia/Shanghai"
ABC, BITS = "ENUM('a','it''s','c')", "SET('x','y','z')"
D20, D10_4, NTZ, TS = "decimal(20,2)", "decimal(10,4)", t.TIMESTAMP_NTZ, t.TIMESTAMP
U64 = t.UNSIGNED_BIGINT


def at(text):
    return dt.datetime.fromisoformat(text)


def utc(text):
    return at(text).replace(tzinfo=dt.UTC)


CASES = [
    # a: TIME
    ("01:02:03.456", t.STRING, t.STRING, "TIME(3)", "TIME(0)", "01:02:03"),
    ("01:02:03", t.STRING, t.STRING, "TIME(0)", "TIME(3)", "01:02:03.000"),
    ("00:00:59.9", t.STRING, t.STRING, "TIME(1)", "TIME(0)", "00:01:00"),
    ("-00:00:59.951", t.STRING, t.STRING, "TIME(3)", "TIME(1)", "-00:01:00.0"),
    ("-00:00:01.5", t.STRING, t.STRING, "TIME(1)", "TIME(0)", "-00:00:01"),
    ("-00:00:00.4", t.STRING, t.STRING, "TIME(1)", "TIME(0)", "00:00:00"),
    ("838:59:59.000000", t.STRING, t.STRING, "TIME(6)", "TIME(0)", "838:59:59"),
    ("-838:59:58.999999", t.STRING, t.STRING, "", "TIME(3)", "-838:59:59.000"),
    (None, t.STRING, t.STRING, "TIME(3)", "TIME(0)", None),
    # b: to TIME, and from it
    (at("2024-01-02 03:04:05.600"), NTZ, t.STRING, "DATETIME(3)", "TIME(0)", "03:04:06"),
    (at("2024-01-02 23:59:59.600"), NTZ, t.STRING, "DATETIME(3)", "TIME(0)", "24:00:00"),
    (utc("2024-01-02 03:04:05.600"), TS, t.STRING, "TIMESTAMP(3)", "TIME(2)", "11:04:05.60"),
    (dt.date(2024, 1, 2), t.DATE, t.STRING, "DATE", "TIME(0)", "00:00:00"),
    ("1:2:3", t.STRING, t.STRING, "TEXT", "TIME(0)", "01:02:03"),
    ("-1:2", t.STRING, t.STRING, "TEXT", "TIME(1)", "-01:02:00.0"),
    ("10203.45", t.STRING, t.STRING, "TEXT", "TIME(1)", "01:02:03.5"),
    ("1:2:63", t.STRING, t.STRING, "TEXT", "TIME(0)", (None, "1:2:63")),
    ("noon", t.STRING, t.STRING, "TEXT", "TIME(0)", (None, "noon")),
    (10203, t.INT, t.STRING, "INT", "TIME(0)", "01:02:03"),
    (-3, t.BIGINT, t.STRING, "BIGINT", "TIME(0)", "-00:00:03"),
    (176, t.INT, t.STRING, "INT", "TIME(0)", (None, "176")),
    ("01:02:03.5", t.STRING, t.INT, "TIME(1)", "INT", 10204),
    ("-01:02:03.5", t.STRING, D20, "TIME(1)", "DECIMAL(20,2)", Decimal("-10203.50")),
    # c: BINARY(n)
    (b"ab", t.BINARY, t.BINARY, "BINARY(2)", "BINARY(4)", b"ab\0\0"),
    (b"ab", t.BINARY, t.BINARY, "BLOB", "BINARY(2)", b"ab"),
    ("é", t.STRING, t.BINARY, "TEXT", "BINARY(4)", b"\xc3\xa9\0\0"),
    (7, t.INT, t.BINARY, "INT", "BINARY(3)", b"7\0\0"),
    (b"ab\0", t.BINARY, t.BINARY, "BINARY(3)", "BLOB", b"ab\0"),
    # d: CHAR
    ("a b  ", t.STRING, t.STRING, "TEXT", "CHAR", "a b"),
    ("a\t", t.STRING, t.STRING, "TEXT", "CHAR", "a\t"),
    (b"a  ", t.BINARY, t.STRING, "BLOB", "CHAR", "a"),
    ("a  ", t.STRING, t.STRING, "CHAR", "TEXT", "a  "),
    # e: JSON is left as it was written
    ('{"b":1}', t.STRING, t.STRING, "TEXT", "JSON", '{"b":1}'),
    # f: the numbers behind names
    ("it's", t.STRING, t.INT, ABC, "INT", 2),
    ("", t.STRING, t.BIGINT, ABC, "BIGINT", 0),
    ("c", t.STRING, t.DOUBLE, ABC, "DOUBLE", 3.0),
    ("c", t.STRING, t.STRING, ABC, "DECIMAL(50,1)", "3.0"),
    ("d", t.STRING, t.INT, ABC, "INT", (None, "d")),
    ("a", t.STRING, t.INT, "ENUM", "INT", (None, "a")),
    ("x,z", t.STRING, D20, BITS, "DECIMAL(20,2)", Decimal("5.00")),
    ("", t.STRING, t.INT, BITS, "INT", 0),
    ("x,q", t.STRING, t.INT, BITS, "INT", (None, "x,q")),
    ("it's", t.STRING, t.STRING, ABC, "TEXT", "it's"),
    # g: the names behind numbers
    (2, t.INT, t.STRING, "INT", ABC, "it's"),
    (4, t.INT, t.STRING, "INT", ABC, (None, "4")),
    (-1, t.BIGINT, t.STRING, "BIGINT", ABC, (None, "-1")),
    (5, t.INT, t.STRING, "INT", BITS, "x,z"),
    (Decimal(7), U64, t.STRING, "BIGINT UNSIGNED", BITS, "x,y,z"),
    (8, t.INT, t.STRING, "INT", BITS, (None, "8")),
    ("y,x", t.STRING, t.STRING, "SET('y','x')", BITS, "x,y"),
    ("y,q", t.STRING, t.STRING, "TEXT", BITS, "y,q"),
    # h: as many digits as the old type has
    (at("2024-01-01 10:00:00.500"), NTZ, t.STRING, "DATETIME(3)", "TEXT", "2024-01-01 10:00:00.500"),
    (at("2024-01-01 10:00:00"), NTZ, t.STRING, "DATETIME(6)", "CHAR", "2024-01-01 10:00:00.000000"),
    (at("0999-01-01 10:00:00"), NTZ, t.STRING, "DATETIME(0)", "TEXT", "0999-01-01 10:00:00"),
    (utc("2024-01-01 10:00:00.500"), TS, t.STRING, "TIMESTAMP(1)", "TEXT", "2024-01-01 18:00:00.5"),
    (utc("2024-01-01 10:00:00"), TS, t.BINARY, "TIMESTAMP(2)", "BINARY(24)", b"2024-01-01 18:00:00.00\0\0"),
    (at("2024-01-01 10:00:00.500"), NTZ, t.STRING, "DATETIME", "TEXT", "2024-01-01 10:00:00.5"),
    # i: fractions of a second
    (at("2024-01-01 10:00:00.5"), NTZ, NTZ, "DATETIME(6)", "DATETIME(0)", at("2024-01-01 10:00:01")),
    (at("1960-01-01 10:00:00.5"), NTZ, NTZ, "DATETIME(6)", "DATETIME(0)", at("1960-01-01 10:00:01")),
    (at("1960-01-01 10:00:00.4995"), NTZ, NTZ, "DATETIME(6)", "DATETIME(3)", at("1960-01-01 10:00:00.5")),
    (at("9999-12-31 10:00:00.123455"), NTZ, NTZ, "DATETIME(6)", "DATETIME(5)", at("9999-12-31 10:00:00.12346")),
    (at("9998-12-31 23:59:59.999999"), NTZ, NTZ, "DATETIME(6)", "DATETIME(6)", at("9998-12-31 23:59:59.999999")),
    (at("2024-01-01 10:00:00.75"), NTZ, TS, "DATETIME(6)", "TIMESTAMP(1)", utc("2024-01-01 02:00:00.8")),
    (utc("2024-01-01 02:00:00.5"), TS, NTZ, "TIMESTAMP(6)", "DATETIME(0)", at("2024-01-01 10:00:01")),
    ("2024-01-01 10:00:00.5", t.STRING, NTZ, "TEXT", "DATETIME(0)", at("2024-01-01 10:00:01")),
    (at("2024-01-01 23:59:59.9"), NTZ, t.DATE, "DATETIME(1)", "DATE", dt.date(2024, 1, 1)),
    (at("2024-01-02 03:04:05.6"), NTZ, D20, "DATETIME(1)", "DECIMAL(20,2)", Decimal("20240102030405.60")),
    (at("2024-01-02 03:04:05.6"), NTZ, "decimal(14,0)", "DATETIME(1)", "DECIMAL(14,0)", Decimal(20240102030406)),
    # j: rounding to a whole number
    (2.5, t.DOUBLE, t.INT, "DOUBLE", "INT", 2),
    (0.5, t.FLOAT, t.INT, "FLOAT", "INT", 0),
    (-3.5, t.DOUBLE, t.BIGINT, "DOUBLE", "BIGINT", -4),
    (2.5, t.DOUBLE, U64, "DOUBLE", "BIGINT UNSIGNED", Decimal(2)),
    (2.5, t.DOUBLE, U64, "DOUBLE", "DECIMAL(20,0)", Decimal(3)),
    (Decimal("2.5000"), D10_4, t.INT, "DECIMAL(10,4)", "INT", 3),
    (Decimal("-2.50"), D20, D20, "DECIMAL(20,2)", "INT", Decimal("-3.00")),
    (2**40, t.BIGINT, t.INT, "BIGINT", "INT", (None, str(2**40))),
    # k: DECIMAL as text
    ("1.2345650000", t.STRING, t.STRING, "DECIMAL(50,10)", "DECIMAL(50,5)", "1.23457"),
    ("-" + "9" * 40 + ".5", t.STRING, t.STRING, "DECIMAL(50,1)", "DECIMAL(50,0)", "-1" + "0" * 40),
    ("0.0950", t.STRING, t.STRING, "DECIMAL(50,4)", "DECIMAL(50,2)", "0.10"),
    ("-0.0040", t.STRING, t.STRING, "DECIMAL(50,4)", "DECIMAL(50,2)", "0.00"),
    ("12", t.STRING, t.STRING, "DECIMAL(50,0)", "DECIMAL(50,2)", "12.00"),
    ("1.23456500", t.STRING, "decimal(20,5)", "DECIMAL(50,8)", "DECIMAL(20,5)", Decimal("1.23457")),
    ("2.5", t.STRING, t.INT, "DECIMAL(50,1)", "INT", 3),
    ("2.5", t.STRING, t.INT, "TEXT", "INT", (None, "2.5")),
    ("12.345", t.STRING, t.STRING, "DECIMAL", "DECIMAL(10,2)", "12.35"),
    ("1e3", t.STRING, t.STRING, "TEXT", "DECIMAL(50,2)", "1e3"),
    (Decimal("0.0000"), D10_4, t.STRING, "DECIMAL(10,4)", "DECIMAL(50,8)", "0.00000000"),
    (Decimal("12.3400"), D10_4, t.STRING, "DECIMAL(10,4)", "TEXT", "12.3400"),
    (Decimal("12.3450"), D10_4, D20, "DECIMAL(10,4)", "DECIMAL(20,2)", Decimal("12.35")),
    # l: YEAR, and digits of DOUBLE
    (1, t.INT, t.INT, "INT", "YEAR", 2001),
    (69, t.INT, t.INT, "INT", "YEAR", 2069),
    (70, t.BIGINT, t.INT, "BIGINT", "YEAR", 1970),
    (0, t.INT, t.INT, "INT", "YEAR", 0),
    (2024, t.INT, t.INT, "INT", "YEAR", 2024),
    ("0", t.STRING, t.INT, "TEXT", "YEAR", 2000),
    ("0000", t.STRING, t.INT, "TEXT", "YEAR", 0),
    ("71", t.STRING, t.INT, "TEXT", "YEAR", 1971),
    (utc("2023-12-31 20:00:00"), TS, t.INT, "TIMESTAMP(0)", "YEAR", 2024),
    (1.23456, t.DOUBLE, t.DOUBLE, "DOUBLE(10,5)", "DOUBLE(10,2)", 1.23),
    (0.125, t.DOUBLE, t.DOUBLE, "DOUBLE", "DOUBLE(10,2)", 0.12),
    (Decimal("1.2560"), D10_4, t.DOUBLE, "DECIMAL(10,4)", "DOUBLE(10,2)", 1.26),
    (1.1, t.DOUBLE, t.FLOAT, "DOUBLE", "FLOAT", pytest.approx(1.1, rel=1e-7)),
    # nothing known of what it was: a layout of an older release
    ("12.5", t.STRING, D20, "", "DECIMAL(20,2)", Decimal("12.50")),
    (at("2024-01-01 10:00:00.5"), NTZ, t.STRING, "", "TEXT", "2024-01-01 10:00:00.5"),
]  # fmt: skip


@pytest.fixture(scope="module")
def shown(spark):
    """All cases, converted in one row: the column and what it lost."""
    kinds = ", ".join(f"v{place} {old}" for place, (_, old, *_) in enumerate(CASES))
    made = []
    for place, (_, old, new, was, becomes, _) in enumerate(CASES):
        found = converted(F.col(f"v{place}"), old, new, was, becomes, ZONE)
        made += [found.column, F.lit(None) if found.lost is None else found.lost]
    row = spark.createDataFrame([tuple(case[0] for case in CASES)], kinds).select(*made).collect()[0]
    return [tuple(row[2 * place : 2 * place + 2]) for place in range(len(CASES))]


@pytest.mark.parametrize("place", range(len(CASES)), ids=[f"{c[0]} of {c[3]} as {c[4]}" for c in CASES])
def test_a_value_is_converted_as_tidb_converts_it(shown, place):
    want = CASES[place][-1]
    value, lost = shown[place]
    value = value.replace(tzinfo=dt.UTC) if CASES[place][2] == TS else value
    assert (value, lost) == (want if isinstance(want, tuple) else (want, None))


def column(name, kind, tidb_type, **more):
    return SourceColumn(name, kind, tidb_type, **more)


def test_a_row_that_comes_late_shows_the_same_as_one_that_was_there(spark):
    before = (column("c", t.STRING, "TIME(3)"), column("d", t.STRING, "TEXT"), column("e", t.DOUBLE, "DOUBLE"))
    after = (column("c", t.STRING, "TIME(0)"), column("d", t.STRING, "TIME(1)"), column("e", t.FLOAT, "FLOAT"))
    layout, _ = meet(Layout(), TableVersion(TableName("s", "t"), SchemaId(1), before, ()), Policy())
    layout, _ = apply_actions(layout, tuple(ModifyColumn(one.name, one) for one in after), 9, Policy())
    rows = spark.createDataFrame(
        [(1, "01:02:03.5", "1:2", 0.1, None), (1, None, "noon", None, {"c": "x"}), (1, None, "7", None, None)],
        "_schema_id bigint, c string, d string, e__v1 double, _unrepresentable map<string, string>",
    ).withColumn("e", F.lit(None).cast("float"))
    late = current_shape(layout, ZONE)
    there = backfill(
        layout, [DueBackfill(one, 0, default_due=False) for one in layout.columns if one.conversions], ZONE
    )
    shapes = [rows.select(*(s.columns[name] for name in "cde"), s.unrepresentable).collect() for s in (late, there)]
    assert shapes[0] == shapes[1]
    assert [tuple(row) for row in shapes[0]] == [
        ("01:02:04", "01:02:00.0", pytest.approx(0.1, rel=1e-7), None),
        (None, None, None, {"c": "x", "d": "noon"}),
        (None, "00:00:07.0", None, None),
    ]


@pytest.mark.parametrize(
    ("tidb_type", "sent", "shown"),
    [
        ("TIMESTAMP", "2024-02-29 08:00:00.500", "2024-02-29 00:00:00.5"),
        ("TIMESTAMP", "2024-02-29 08:00:00.500Z", "2024-02-29 08:00:00.5"),
        ("TIMESTAMP(3)", "0000-00-00 00:00:00.000", "0000-00-00 00:00:00.000"),
        ("VARCHAR", "2024Z", "2024Z"),
        ("DATETIME(3)", "2024-02-29 08:00:00.500", "2024-02-29 08:00:00.500"),
        ("DATE", "0000-00-00", "0000-00-00"),
    ],
)
def test_a_default_under_text_is_as_the_values_of_later_rows_are(spark, tidb_type, sent, shown):
    added = Column(1, "c", "c", t.STRING, tidb_type, added=2, default=literal(sent))
    value = default_value(added, "Asia/Shanghai")
    lost = F.lit(None) if value.lost is None else value.lost
    assert tuple(spark.range(1).select(value.column, lost).collect()[0]) == (shown, None)


@pytest.mark.parametrize(("sent", "hour"), [("2024-02-29 08:00:00", 0), ("2024-02-29 08:00:00Z", 8)])
def test_a_default_of_a_moment_is_by_the_changefeeds_clock_or_by_utcs(spark, sent, hour):
    added = Column(1, "c", "c", TS, "TIMESTAMP(0)", added=2, default=literal(sent))
    shown = spark.range(1).select(F.hour(default_value(added, "Asia/Shanghai").column)).collect()[0][0]
    assert shown == hour


def test_a_text_that_no_date_could_hold_is_the_value_of_a_column_of_texts(spark):
    """As TiDB has it: of a row that was there, of one that comes late, and of one written when the name was taken."""
    versions = (
        TableVersion(TableName("s", "t"), SchemaId(number), (column("c", kind, tidb), column("d", t.DATE, "DATE")), ())
        for number, (kind, tidb) in enumerate(((t.DATE, "DATE"), (t.STRING, "TEXT"), (t.BINARY, "BINARY(12)")), 1)
    )
    layout = Layout()
    for version in versions:
        layout, _ = meet(layout, version, Policy())
    zero, other = "0000-00-00", "2024-02-30"
    rows = spark.createDataFrame(
        [
            (1, None, None, {"c": zero, "d": other}),
            (1, None, None, {"c__v1": zero}),
            (1, dt.date(2024, 1, 2), None, None),
            (1, None, None, None),
            (2, None, "x", {"d": other}),
        ],
        "_schema_id bigint, c__v1 date, c__v2 string, _unrepresentable map<string, string>",
    ).selectExpr("*", "CAST(NULL AS binary) AS c", "CAST(NULL AS date) AS d")
    late = current_shape(layout, "UTC")
    found = rows.select(late.columns["c__v1"], late.columns["c__v2"], late.columns["c"], late.unrepresentable).collect()
    padded = zero.encode() + b"\0\0"
    assert [(row[0], row[1], row[2] and bytes(row[2]), row[3]) for row in found] == [
        (None, zero, padded, {"c__v1": zero, "d": other}),
        (None, zero, padded, {"c__v1": zero}),
        (dt.date(2024, 1, 2), "2024-01-02", b"2024-01-02\0\0", None),
        (None, None, None, None),
        (None, "x", b"x" + b"\0" * 11, {"d": other}),
    ]
    waiting = [DueBackfill(one, 0, default_due=False) for one in layout.columns if one.conversions]
    there = backfill(layout, waiting, "UTC")
    first = rows.where("_schema_id = 1")
    found = first.select(there.columns["c__v2"], there.columns["c"], there.unrepresentable).collect()
    assert [(row[0], row[1] and bytes(row[1]), row[2]) for row in found] == [
        (zero, padded, {"c__v1": zero, "d": other}),
        (zero, padded, {"c__v1": zero}),
        ("2024-01-02", b"2024-01-02\0\0", None),
        (None, None, None),
    ]
