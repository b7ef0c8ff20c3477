"""Messages that are compressed inside are named as that, whole or one row at a time; nothing else is."""

import json
import random

import pyarrow as pa
import pytest
from golden.corpus import GoldenCase
from golden.faults import FaultCase
from pyspark.sql import functions as F
from spark.open_events import Memory, framed, golden_frame, protocol, raw_frame, record

from pipeline.model.names import TableName
from pipeline.protocols.compressed import LZ4, MESSAGE_COMPRESSED, SNAPPY, codec_of, is_compressed
from pipeline.protocols.simple import simple_protocol

pytestmark = pytest.mark.spark

ROW = '{"u":{"id":{"t":3,"h":true,"f":11,"v":1},"t":{"t":15,"f":64,"v":"x"}}}'
KEY = '{"ts":450000000000000001,"scm":"s","tbl":"a","t":%d}'


def packed(codec, value):
    return pa.Codec(codec).compress(value, asbytes=True)


def plain_values(limit=200):
    for config in ("simple_json", "simple_avro"):
        yield from (one.value for one in GoldenCase("lifecycle", config).records[:limit])
    yield from (
        ROW.encode(),
        b'{"q":"DROP TABLE t","t":4}',
        b'{"u":{"a":{"t":252,"f":0,"v":"' + b"QUJD" * 50_000 + b'"}}}',
    )


def others():
    dice = random.Random(7)  # noqa: S311 - the same bytes each time
    for size in (0, 1, 2, 3, 5, 8, 20, 200):
        yield from (dice.randbytes(size) for _ in range(40))
    yield from (b'  {"version":1,"type":"INS', b"\x80" * 12, b"\xff\x06\x00\x00sNaPpY", b'\x7f\xfc{"', b"\x04\x22\x4d")
    for value in list(plain_values(20)):
        block = packed(SNAPPY, value)
        yield from (value[:9], block[:4], block[3:], b"\x00" + block, block[:1] + value)


def test_by_what_a_message_is_compressed_is_told_on_the_jvm_as_in_python(spark):
    named = [(value, codec_of(value)) for value in plain_values()]
    named += [(packed(codec, value), codec) for codec in (LZ4, SNAPPY) for value in plain_values()]
    assert [codec for value, codec in named if codec_of(value) != codec] == []
    named += [(value, codec_of(value)) for value in others()]
    frame = spark.createDataFrame(named, "value binary, codec string").withColumn(
        "found", is_compressed(F.col("value"))
    )
    assert frame.where(F.col("found") != (F.col("codec") != "")).count() == 0
    assert {codec for value, codec in named if value in set(others())} == {""}


@pytest.mark.parametrize("name", ["d03_lz4_json", "d03_snappy_json"])
def test_every_message_of_simple_in_json_is_named(spark, name):
    frame = golden_frame(spark, FaultCase(name, "simple", "json").records)
    assert read(simple_protocol("json", "UTC", {}, Memory()), frame) == ({MESSAGE_COMPRESSED: 7}, set())


@pytest.mark.parametrize("codec", [LZ4, SNAPPY])
def test_every_message_of_simple_in_avro_is_named(spark, codec):
    values = [packed(codec, one.value) for one in GoldenCase("lifecycle", "simple_avro").records[:50]]
    frame = raw_frame(spark, [(None, value) for value in values])
    assert read(simple_protocol("avro", "UTC", {}, Memory()), frame) == ({MESSAGE_COMPRESSED: 50}, set())


@pytest.mark.parametrize("codec", [LZ4, SNAPPY])
def test_rows_and_statements_of_open_are_named_with_their_table_and_watermarks_are_read(spark, codec):
    statement = json.dumps({"q": "ALTER TABLE `s`.`a` ADD COLUMN `t` VARCHAR(9)", "t": 5})
    rows = [ROW, ROW.replace('"u"', '"d"'), '{"u":{"id":{"t":3,"h":true,"f":11,"v":' + "9" * 18 + "}}}"]
    key, _ = record(*((KEY % 1, row) for row in rows))
    messages = [(key, framed([packed(codec, row.encode()) for row in rows]))]
    key, _ = record((KEY % 2, statement))
    messages += [(key, framed([packed(codec, statement.encode())])), record(('{"ts":450000000000000009,"t":3}', ""))]
    told = protocol(Memory())
    frame = raw_frame(spark, messages)
    assert read(told, frame) == ({MESSAGE_COMPRESSED: 4}, {TableName("s", "a")})
    prepared = told.prepare(frame)
    found = told.read(prepared)
    assert set(found.watermarks.values()) == {450000000000000009}
    (refused,) = found.refused
    about = prepared.where(refused.where).select(refused.header.schema, refused.header.table, refused.header.commit_ts)
    assert {tuple(row) for row in about.collect()} == {("s", "a", 450000000000000001)}


def test_plain_and_compressed_rows_of_one_record_are_told_apart(spark):
    key, _ = record((KEY % 1, ROW), (KEY % 1, ROW))
    frame = raw_frame(spark, [(key, framed([ROW.encode(), packed(LZ4, ROW.encode())]))])
    told = protocol(Memory())
    found = told.read(told.prepare(frame))
    assert [table.table for table in found.tables] == [TableName("s", "a")]
    assert {one.code: one.rows for one in found.refused} == {MESSAGE_COMPRESSED: 1}


def read(told, frame):
    """How many messages of which code, and the tables that are named."""
    prepared = told.prepare(frame)
    found = told.read(prepared)
    assert found.tables == ()
    assert all(prepared.where(one.where).count() == one.rows for one in found.refused)
    return {one.code: one.rows for one in found.refused}, {table for one in found.refused for table in one.tables}
