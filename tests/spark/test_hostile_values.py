"""Values that no TiDB sends: each keeps its text or bytes beside a NULL, none ends a batch."""

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from pipeline.model import text
from pipeline.model import types as t
from pipeline.protocols.avro.values import bits
from pipeline.warehouse.conversion import converted

pytestmark = pytest.mark.spark

EDGE = "294247-01-10 03:30:00"


def read(spark, value, kind, made):
    """The column and what it lost, of one value; read from data, so that nothing is folded away."""
    made = made(F.col("v"))
    lost = F.lit(None) if made.lost is None else made.lost
    return tuple(spark.createDataFrame([(value,)], f"v {kind}").select(made.column, lost).collect()[0])


@pytest.mark.parametrize("number", ["1E+2147483647", "1E-2147483647", "1E-500000000", "1E2147483648", "9" * 5_000])
@pytest.mark.parametrize("made", [text.exact_decimal, text.casted])
def test_a_number_that_cannot_be_read_keeps_its_text(spark, number, made):
    assert read(spark, number, "string", lambda v: made(v, "decimal(10,2)")) == (None, number)


@pytest.mark.parametrize(("number", "value"), [("-12.50", "-12.50"), ("1e3", "1000.00"), ("0", "0.00")])
def test_others_are_read(spark, number, value):
    assert read(spark, number, "string", lambda v: text.exact_decimal(v, "decimal(10,2)")) == (Decimal(value), None)


@pytest.mark.parametrize("moment", [EDGE, "294247-01-10 04:00:54", "-290308-12-21 19:59:06", "12345-01-01 00:00:00"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Shanghai"])
def test_a_moment_at_the_edge_of_time_keeps_its_text(spark, moment, zone):
    assert read(spark, moment, "string", lambda v: text.timestamp(v, zone)) == (None, moment)
    assert read(spark, moment, "string", text.datetime) == (None, moment)
    assert read(spark, moment, "string", text.date) == (None, moment)


@pytest.mark.parametrize("zone", ["", " UTC", "UTC ", ".5Z", "5Z", "No/Where", "UTC\n"])
@pytest.mark.parametrize("moment", ["2024-01-01 00:00:00", "2024-01-01 00:00:00.1", EDGE])
def test_what_is_no_zone_keeps_its_text(spark, zone, moment):
    def made(sent):
        return text.zoned(sent, F.concat(F.lit(zone), F.substring(sent, 1, 0)))

    assert read(spark, moment, "string", made) == (None, moment)


@pytest.mark.parametrize("sent", [b"\xff" * 8, b"\x01" + bytes(8), b"\xff" * 30])
def test_bits_that_are_too_many_are_kept_as_they_are(spark, sent):
    assert read(spark, bytearray(sent), "binary", lambda v: bits(v, "bigint")) == (None, sent.hex().upper())


def test_bits_that_fit_are_a_number(spark):
    assert read(spark, bytearray(b"\xff" * 8), "binary", lambda v: bits(v, "decimal(20,0)")) == (2**64 - 1, None)
    assert read(spark, bytearray(b"\x01\x00"), "binary", lambda v: bits(v, "bigint")) == (256, None)


DAY, MOMENT = dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4, 5, 600_000)  # noqa: DTZ001 - a wall clock


@pytest.mark.parametrize(
    ("value", "old", "new", "tidb_type", "want"),
    [
        (bytearray(b"\xff"), t.BINARY, t.STRING, "TEXT", (None, "\\xFF")),
        (bytearray(b"caf\xc3\xa9"), t.BINARY, t.STRING, "TEXT", ("café", None)),
        (bytearray(b"\xff"), t.BINARY, t.INT, "INT", (None, "\\xFF")),
        (bytearray(b"12"), t.BINARY, t.INT, "INT", (12, None)),
        ("cafe", t.STRING, t.BINARY, "BLOB", (b"cafe", None)),
        (5, t.INT, t.BINARY, "BLOB", (b"5", None)),
        (5.5, t.DOUBLE, t.BINARY, "BLOB", (b"5.5", None)),
        (DAY, t.DATE, t.INT, "INT", (20240102, None)),
        (DAY, t.DATE, "decimal(12,2)", "DECIMAL(12,2)", (Decimal("20240102.00"), None)),
        (MOMENT, t.TIMESTAMP_NTZ, t.BIGINT, "BIGINT", (20240102030406, None)),
        (20240102, t.INT, t.DATE, "DATE", (DAY, None)),
        (20240102, t.BIGINT, t.TIMESTAMP_NTZ, "DATETIME", (dt.datetime(2024, 1, 2), None)),  # noqa: DTZ001
        (20240102030405, t.BIGINT, t.TIMESTAMP_NTZ, "DATETIME", (dt.datetime(2024, 1, 2, 3, 4, 5), None)),  # noqa: DTZ001
        (7, t.INT, t.DATE, "DATE", (None, "7")),
    ],
)  # fmt: skip
def test_every_pair_of_types_is_converted(spark, value, old, new, tidb_type, want):
    assert read(spark, value, old, lambda v: converted(v, old, new, "", tidb_type, "UTC")) == want


@pytest.mark.parametrize(
    ("new", "tidb_type", "want"),
    [
        (t.STRING, "VARCHAR(40)", ("2024-01-02 11:04:05", None)),
        (t.BINARY, "BLOB", (b"2024-01-02 11:04:05", None)),
        (t.BIGINT, "BIGINT", (20240102110405, None)),
        (t.DATE, "DATE", (DAY, None)),
        (t.TIMESTAMP_NTZ, "DATETIME", (dt.datetime(2024, 1, 2, 11, 4, 5), None)),  # noqa: DTZ001
    ],
)
def test_an_instant_is_converted_as_the_changefeed_s_zone_shows_it(spark, new, tidb_type, want):
    zone = "Asia/Shanghai"
    instant = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    assert (
        read(spark, instant, t.TIMESTAMP, lambda v: converted(v, t.TIMESTAMP, new, "TIMESTAMP(0)", tidb_type, zone))
        == want
    )
