"""Messages that are compressed inside are read as what they were, whole or one row at a time."""

import json
import random
from contextlib import ExitStack
from functools import partial

import lz4.frame
import pyarrow as pa
import pytest
from golden.corpus import GoldenCase
from pyspark.sql import functions as F
from spark.open_events import Memory, framed, protocol, raw_frame, record

from pipeline.model.messages import Ordering
from pipeline.model.names import TableName
from pipeline.protocols import unpacking
from pipeline.protocols.canal.protocol import CanalProtocol
from pipeline.protocols.compressed import LZ4, MESSAGE_COMPRESSED, MOST_BYTES, SNAPPY, codec_of, is_compressed
from pipeline.protocols.large.completion import Completion
from pipeline.protocols.reading import prepared_and_read
from pipeline.protocols.simple import simple_protocol

pytestmark = pytest.mark.spark
read_all = partial(prepared_and_read, completion=Completion(), resources=ExitStack())

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


@pytest.mark.parametrize("codec", [SNAPPY, "lz4"])
@pytest.mark.parametrize(("extension", "ordering"), [(True, Ordering.BY_COMMIT_TS), (False, Ordering.BY_OFFSET)])
def test_compressed_messages_of_canal_json_tell_the_ordering(spark, codec, extension, ordering):
    sent = {
        "id": 0, "database": "s", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "INSERT", "es": 1, "ts": 2,
        "sql": "", "sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "old": None, "data": [{"id": "1"}],
        **({"_tidb": {"commitTs": 450000000000000001}} if extension else {}),
    }  # fmt: skip
    value = json.dumps(sent).encode()
    subject = CanalProtocol("UTC", {}, Memory())
    subject.begin(None, raw_frame(spark, [(None, packed(codec, value))]))
    assert subject.ordering is ordering


def others():
    dice = random.Random(7)  # noqa: S311 - the same bytes each time
    for size in (0, 1, 2, 3, 5, 8, 20, 200):
        yield from (dice.randbytes(size) for _ in range(40))
    yield from (b'  {"version":1,"type":"INS', b"\x80" * 12, b"\xff\x06\x00\x00sNaPpY", b'\x7f\xfc{"', b"\x04\x22\x4d")
    for value in list(plain_values(20)):
        block = packed(SNAPPY, value)
        yield from (value[:9], block[:4], block[3:], b"\x00" + block, block[:1] + value)


def frames_of_lz4():
    """Messages of many sizes in frames of every form, some of them damaged or cut off."""
    dice = random.Random(11)  # noqa: S311 - the same bytes each time
    for _ in range(250):
        parts = (b"abcdefgh", dice.randbytes(5).hex().encode(), b"0" * 40)
        size = dice.choice((1, 10, 100, 9_000, 40_000))
        plain = b'{"id":0,"x":"' + b"".join(dice.choice(parts) for _ in range(size)) + b'"}'
        one_of = {
            name: dice.random() < 0.5 for name in ("block_linked", "content_checksum", "block_checksum", "store_size")
        }
        frame = bytearray(lz4.frame.compress(plain, block_size=dice.choice((4, 5, 6, 7)), **one_of))
        for _ in range(dice.choice((0, 0, 1, 3))):
            frame[dice.randrange(min(len(frame), dice.choice((20, len(frame)))))] ^= 1 << dice.randrange(8)
        yield bytes(frame[: dice.choice((len(frame), len(frame), dice.randrange(len(frame))))])


def test_messages_are_unpacked_on_the_jvm_as_in_python(spark):
    values = [*plain_values(), *others(), *frames_of_lz4(), b"", lz4.frame.compress(bytes(MOST_BYTES + 1))]
    values += [packed(SNAPPY, value) for value in plain_values()]
    values += [block[:place] + b"\x07" + block[place + 1 :] for block in values[-40:] for place in (2, len(block) // 2)]
    frame = spark.createDataFrame(
        [(value, unpacking.message(None, value)) for value in values], "value binary, plain binary"
    )
    found = unpacking.unpacked(frame.select(F.lit(b"").alias("key"), "value", "plain"), of_records=False)
    assert [len(row["plain"]) for row in found.where("value != plain").collect()] == []


def test_records_of_open_are_unpacked_on_the_jvm_as_in_python(spark):
    key = b"\0\0\0\0" + unpacking.OPEN_VERSION + KEY.encode()
    events = [ROW.encode(), packed(LZ4, ROW.encode()), packed(SNAPPY, ROW.encode()), b"", b'{"q":1']
    records = [b"".join(len(one).to_bytes(8) + one for one in events[:count]) for count in range(len(events) + 1)]
    records += [records[-1][:-1], records[-1] + b"\0", b"\xff" * 30, (1 << 40).to_bytes(8) + b"x"]
    rows = [(one_key, value, unpacking.record(one_key, value)) for value in records for one_key in (key, b"", key[:7])]
    frame = spark.createDataFrame(rows, "key binary, value binary, plain binary")
    assert unpacking.unpacked(frame, of_records=True).where("value != plain").count() == 0


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


def simple_values(encoding):
    return [one.value for one in GoldenCase("lifecycle", f"simple_{encoding}").records[:60]]


def canal_values():
    return [one.value for one in GoldenCase("lifecycle", "canal_json").records[:60]]


PROTOCOLS = {
    "simple-json": (lambda: simple_protocol("json", "UTC", {}, Memory()), lambda: simple_values("json")),
    "simple-avro": (lambda: simple_protocol("avro", "UTC", {}, Memory()), lambda: simple_values("avro")),
    "canal-json": (lambda: CanalProtocol("UTC", {}, Memory()), canal_values),
}


def test_a_compressed_message_of_several_rows(spark):
    sent = json.loads(next(value for value in canal_values() if b'"type":"INSERT"' in value))
    value = json.dumps(sent | {"data": [*sent["data"], *sent["data"]]}).encode()
    protocol = CanalProtocol("UTC", {}, Memory())
    _, messages = read_all(protocol, raw_frame(spark, [(None, packed(LZ4, value))]))
    assert (messages.refused, messages.tables[0].versions[0].rows) == ((), 2)


@pytest.mark.parametrize("codec", [LZ4, SNAPPY])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_compressed_messages_are_what_they_were(spark, name, codec):
    made, values = PROTOCOLS[name]
    plain = raw_frame(spark, [(None, value) for value in values()])
    packed_values = [packed(codec, value) if number % 7 else value for number, value in enumerate(values())]
    frame = raw_frame(spark, [(None, value) for value in packed_values])
    told = made()
    assert told.read(told.prepare(frame)).prepare_again
    prepared, found = read_all(told, frame)
    assert not found.prepare_again
    assert found.refused == ()
    assert rows_of(prepared) == rows_of(made().prepare(plain))


def rows_of(prepared):
    return sorted((row.asDict(recursive=True) for row in prepared.collect()), key=lambda row: row["offset"])


def lying(length, block):
    """A block of Snappy that says that it has so many bytes."""
    octets = bytearray()
    while length > 0x7F:
        octets.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(octets) + bytes([length]) + block


def test_what_cannot_be_unpacked_keeps_its_bytes_and_has_a_code(spark):
    value = canal_values()[5]
    block = packed(SNAPPY, value)
    begin = 1 if len(value) < 128 else 2
    bomb = packed(LZ4, b'{"id":0,"data":[{"v":"' + bytes(MOST_BYTES) + b'"}]}')
    assert len(bomb) < 2 << 20
    cases = [
        (lying(1 << 30, block[begin:]), "MESSAGE_TOO_LARGE"), (bomb, "MESSAGE_TOO_LARGE"),
        (packed(LZ4, value)[:-9], "MESSAGE_COMPRESSED"), (packed(LZ4, value) + b"x", "MESSAGE_COMPRESSED"),
        (lying(len(value) + 1, block[begin:]), "MESSAGE_COMPRESSED"),
    ]  # fmt: skip
    frame = raw_frame(spark, [(None, value), *((None, one) for one, _ in cases)])
    told = CanalProtocol("UTC", {}, Memory())
    prepared, found = read_all(told, frame)
    assert {one.code: one.rows for one in found.refused} == {"MESSAGE_TOO_LARGE": 2, "MESSAGE_COMPRESSED": 3}
    kept = {bytes(row.value) for one in found.refused for row in prepared.where(one.where).collect()}
    assert kept == {one for one, _ in cases}


@pytest.mark.parametrize("codec", [LZ4, SNAPPY])
def test_rows_and_statements_of_open_are_unpacked_and_watermarks_are_read(spark, codec):
    statement = json.dumps({"q": "ALTER TABLE `s`.`a` ADD COLUMN `t` VARCHAR(9)", "t": 5})
    rows = [ROW, ROW.replace('"u"', '"d"'), '{"u":{"id":{"t":3,"h":true,"f":11,"v":' + "9" * 18 + "}}}"]
    key, _ = record(*((KEY % 1, row) for row in rows))
    messages = [(key, framed([packed(codec, row.encode()) for row in rows]))]
    key, _ = record((KEY % 2, statement))
    messages += [(key, framed([packed(codec, statement.encode())])), record(('{"ts":450000000000000009,"t":3}', ""))]
    told = protocol(Memory())
    frame = raw_frame(spark, messages)
    prepared, found = read_all(told, frame)
    assert found.refused == ()
    assert [one.sql for one in found.ddl] == ["ALTER TABLE `s`.`a` ADD COLUMN `t` VARCHAR(9)"]
    assert set(found.watermarks.values()) == {450000000000000009}
    assert [bytes(row.value)[8:] for row in prepared.where("offset = 0").orderBy("index").collect()] == [
        row.encode() for row in rows
    ]


def test_plain_compressed_and_damaged_rows_of_one_record_are_told_apart(spark):
    key, _ = record(*[(KEY % 1, ROW)] * 3)
    values = [ROW.encode(), packed(LZ4, ROW.encode()), packed(LZ4, ROW.encode())[:-3]]
    told = protocol(Memory())
    _, found = read_all(told, raw_frame(spark, [(key, framed(values))]))
    assert [(table.table, table.rows) for table in found.tables] == [(TableName("s", "a"), 2)]
    (refused,) = found.refused
    assert (refused.code, refused.rows, [*refused.tables]) == (MESSAGE_COMPRESSED, 1, [TableName("s", "a")])
