"""Avro fields as warehouse values: numbers beyond Java's, calendars that no warehouse has, clocks that are set back."""

import datetime as dt
import random
from decimal import Decimal, localcontext

import pytest
from pyspark.sql import functions as F

from pipeline.model import text, types
from pipeline.protocols.avro import fields, values
from registry import AvroColumn

pytestmark = pytest.mark.spark

DIGITS = 65


def column(spark, kind, sent):
    """A frame with the column `v` of these values."""
    return spark.createDataFrame([(value,) for value in sent], f"v {kind}").coalesce(1)


def read(spark, kind, sent, of):
    return [row.v for row in column(spark, kind, sent).select(of(F.col("v")).alias("v")).collect()]


def values_and_texts(spark, sent, of):
    value = of(F.col("v"))
    lost = F.lit(None) if value.lost is None else value.lost
    rows = column(spark, "string", sent).select(value.column.alias("v"), lost.alias("lost")).collect()
    return [(row.v, row.lost) for row in rows]


def big_endian(number):
    return bytearray(number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True))


@pytest.mark.parametrize("scale", [0, 1, 30])
def test_a_decimal_of_65_digits_comes_out_to_the_last_digit(spark, scale):
    draw = random.Random(scale)  # noqa: S311 - no secret
    edges = [0, 1, 10**DIGITS - 1, 2**215 - 1, 2**56, 10**20, 127, 128, 255, 256]
    drawn = [draw.randint(0, 10 ** draw.randint(1, DIGITS)) for _ in range(300)]
    numbers = [sign * number for number in edges + drawn for sign in (1, -1)]
    got = read(spark, "binary", map(big_endian, numbers), lambda v: values.big_decimal_text(v, scale))
    with localcontext() as context:
        context.prec = 2 * DIGITS
        wanted = [Decimal(number).scaleb(-scale) for number in numbers]
        assert [Decimal(one) for one in got] == wanted
        assert {-Decimal(one).as_tuple().exponent for one in got} == {scale}
    assert "-" not in got[1], "there is no negative zero"


def test_a_null_decimal_stays_null(spark):
    assert read(spark, "binary", [None], lambda v: values.big_decimal_text(v, 30)) == [None]


def test_an_unsigned_number_above_javas_is_unwrapped(spark):
    sent = [0, 2**63 - 1, -(2**63), -1, None]
    wanted = [Decimal(0), Decimal(2**63 - 1), Decimal(2**63), Decimal(2**64 - 1), None]
    assert read(spark, "bigint", sent, values.unsigned_long) == wanted


@pytest.mark.parametrize(
    ("sent", "kind", "wanted"),
    [
        (b"", types.BIGINT, 0),
        (b"\x00", types.BIGINT, 0),
        (b"\x01\x00", types.BIGINT, 256),
        (b"\xff" * 8, types.UNSIGNED_BIGINT, Decimal(2**64 - 1)),
    ],
)
def test_bits_are_an_unsigned_number(spark, sent, kind, wanted):
    assert read(spark, "binary", [bytearray(sent)], lambda v: values.bits(v, kind).column) == [wanted]


@pytest.mark.parametrize("sent", ["0000-00-00", "2024-00-10", "2024-02-00", "0000-01-01"])
def test_a_date_that_no_warehouse_has_is_null_and_keeps_its_text(spark, sent):
    assert values_and_texts(spark, [sent, "2024-02-29", None], text.date) == [
        (None, sent),
        (dt.date(2024, 2, 29), None),
        (None, None),
    ]


def test_a_datetime_keeps_its_fraction_and_no_zone(spark):
    sent = ["1000-01-01 00:00:00", "9999-12-31 23:59:59.999999", "0000-00-00 00:00:00.000"]
    assert values_and_texts(spark, sent, text.datetime) == [
        (dt.datetime(1000, 1, 1), None),  # noqa: DTZ001 - a wall clock
        (dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None),  # noqa: DTZ001
        (None, sent[2]),
    ]


@pytest.mark.parametrize(
    ("zone", "wall", "instant", "twice"),
    [
        ("UTC", "2024-10-27 02:30:00", "2024-10-27T02:30:00", False),
        ("Asia/Shanghai", "2024-10-27 02:30:00", "2024-10-26T18:30:00", False),
        ("Europe/Berlin", "2024-10-27 01:59:59", "2024-10-26T23:59:59", False),
        ("Europe/Berlin", "2024-10-27 02:30:00", "2024-10-27T00:30:00", True),
        ("Europe/Berlin", "2024-10-27 03:00:00", "2024-10-27T02:00:00", False),
        ("America/New_York", "2024-11-03 01:15:00.5", "2024-11-03T05:15:00.500", True),
        ("Australia/Lord_Howe", "2024-04-07 01:45:00", "2024-04-06T14:45:00", True),
    ],
)
def test_a_timestamp_is_the_changefeeds_wall_clock_as_an_instant(spark, zone, wall, instant, twice):
    value = text.timestamp(F.col("v"), zone)
    micros = F.unix_micros(value.column).alias("v")
    row = column(spark, "string", [wall]).select(micros, value.lost.alias("lost")).collect()[0]
    wanted = dt.datetime.fromisoformat(instant).replace(tzinfo=dt.UTC)
    assert dt.datetime.fromtimestamp(row.v / 1e6, dt.UTC) == wanted
    assert row.lost == (wall if twice else None)


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [("1.50", (Decimal("1.50"), None)), ("1.500", (Decimal("1.50"), None)), ("1.505", (None, "1.505"))],
)
def test_decimal_text_fits_exactly_or_keeps_its_text(spark, sent, wanted):
    of = lambda v: text.exact_decimal(v, types.decimal(4, 2))  # noqa: E731
    assert values_and_texts(spark, [sent], of) == [wanted]


@pytest.mark.parametrize(
    ("tidb_type", "kind", "sent", "wanted"),
    [
        ("DATE", types.STRING, "0000-00-00", ("0000-00-00", None)),
        ("DATE", types.STRING, "2024-02-29", ("2024-02-29", None)),
        ("DATETIME", types.STRING, "2024-02-00 00:00:00", ("2024-02-00 00:00:00", None)),
        ("DATETIME", types.STRING, "2024-02-29 01:02:03.500", ("2024-02-29 01:02:03.500", None)),
        ("TIMESTAMP", types.STRING, "2024-10-27 04:30:00.500", ("2024-10-27 03:30:00.5", None)),
        ("TIMESTAMP", types.STRING, "2024-10-27 02:30:00", ("2024-10-27 00:30:00", "2024-10-27 02:30:00")),
        ("TIMESTAMP", types.STRING, "0000-00-00 00:00:00", ("0000-00-00 00:00:00", None)),
        ("TIMESTAMP", types.STRING, "no time", ("no time", None)),
        ("TIMESTAMP", types.BIGINT, "2024-00-27 02:30:00", (None, "2024-00-27 02:30:00")),
        ("DATE", types.TIMESTAMP_NTZ, "2024-02-00", (None, "2024-02-00")),
    ],
)
def test_a_date_or_time_under_a_type_of_the_users_is_its_text_or_keeps_it(spark, tidb_type, kind, sent, wanted):
    sort = AvroColumn("v", tidb_type, "string", nullable=True, null_first=True)
    of = lambda v: fields.read_value(v, sort, kind, "Europe/Berlin")  # noqa: E731
    assert values_and_texts(spark, [sent, None], of) == [wanted, (None, None)]
