"""TiCDC's own sums, found again: of all that it sent, of every type alone, and not of what was changed on the way."""

import datetime as dt
import io
import json
import random
import struct
import zlib
from collections import Counter

import fastavro
import pytest
from golden.corpus import GoldenCase
from golden.decode import writer_schema

from pipeline.model import change
from pipeline.model.messages import ColumnMapping, Target
from pipeline.model.places import RAW
from pipeline.protocols.avro import decode
from pipeline.protocols.avro.decode import WriterSchema
from registry.columns import read_schema

pytestmark = pytest.mark.spark

CONFIG = "avro_checksum_watermark"
SUM, CORRUPTED, VERSION = "_tidb_row_level_checksum", "_tidb_corrupted", "_tidb_checksum_version"
OWN = [
    {"name": "_tidb_op", "type": "string"},
    {"name": "_tidb_commit_ts", "type": "long"},
    {"name": "_tidb_commit_physical_time", "type": "long"},
]
SUMS = [{"name": SUM, "type": "string"}, {"name": CORRUPTED, "type": "boolean"}, {"name": VERSION, "type": "int"}]
SENT = {"_tidb_op": "c", "_tidb_commit_ts": 1, "_tidb_commit_physical_time": 1, CORRUPTED: False, VERSION: 2}
HEADER = 5


def field(kind, carrier="string", **parameters):
    """A nullable column `v` of this type."""
    avro = {"type": carrier, "connect.parameters": {"tidb_type": kind, **parameters}}
    return {"name": "v", "type": ["null", avro], "default": None}


def record(*fields, own=(*OWN, *SUMS)):
    return {"type": "record", "name": "t", "namespace": "default.s", "fields": [*fields, *own]}


def message(schema, row, schema_id=1):
    """A row's value; what TiCDC adds to it is an insert's unless the row says otherwise."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {**SENT, **row})
    return struct.pack(">bI", 0, schema_id) + out.getvalue()


def verdicts(spark, schemas, values, timezone="UTC", keys=()):
    """What is said of each message (values of the schemas, by id), in their order."""
    writers = [WriterSchema(number, read_schema(text), number in keys) for number, text in schemas.items()]
    frame = decode.change_frame(raw_frame(spark, values), writers, nothing_lands(writers), timezone)
    return [row[1] for row in sorted(frame.select(change.OFFSET, change.CHECKSUM).collect())]


def nothing_lands(writers):
    return ColumnMapping((), {writer.schema_id: {} for writer in writers})


def raw_frame(spark, values):
    """The messages as the source gives them; what is no bytes is a delete's key."""
    now = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - Spark takes it as the session's
    rows = [("topic", 0, at, now, *value) if isinstance(value, tuple) else ("topic", 0, at, now, None, bytearray(value))
            for at, value in enumerate(values)]  # fmt: skip
    types = ("string", "int", "bigint", "timestamp", "binary", "binary")
    return spark.createDataFrame(rows, ", ".join(f"{n} {t}" for n, t in zip(RAW, types, strict=True))).coalesce(1)


def summed(*hashed):
    return str(zlib.crc32(b"".join(hashed)))


def number(value):
    return struct.pack("<Q", value % 2**64)


def text(value):
    sent = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<I", len(sent)) + sent


def real(value):
    return struct.pack("<d", value)


def floats(*values):
    return struct.pack(f"<I{len(values)}f", len(values), *values)


def said(spark, column, pairs, timezone="UTC"):
    """What is said of rows with one column: what was sent of it, what TiDB hashed."""
    schema = record(column)
    rows = [message(schema, {"v": sent, SUM: summed(hashed)}) for sent, hashed in pairs]
    return verdicts(spark, {1: json.dumps(schema)}, rows, timezone)


DRAW = random.Random(32)  # noqa: S311 - no secret
INTS = [0, 1, -1, 127, 255, 256, 65536, 2**31 - 1, -(2**31), *(DRAW.randint(-(2**31), 2**31 - 1) for _ in range(50))]
EDGES = [2**n + d for n in (31, 32, 52, 53, 54, 62) for d in (-1, 0, 1)]
LONGS = [*INTS, *EDGES, *(-n for n in EDGES), 2**63 - 1, -(2**63), *(DRAW.getrandbits(63) for _ in range(50))]
UNSIGNED = [*(n for n in LONGS if n >= 0), 2**63, 2**64 - 1, 10**15 - 1, 10**15, *(10**n for n in range(16, 20))]
TEXTS = ["", "a", "é😀", "x" * 255, "x" * 256, "x" * 65536, "日本" * 1000, "null", "0"]
MEMBERS = ("a", "B", "日本", 'q"', "y z", "back\\slash")
MANY = tuple(f"m{n}" for n in range(64))
SETS = [(), (0,), (5,), (63,), (0, 63), (1, 31, 32, 53, 62), tuple(range(64))]
CALENDAR = {
    "DATE": ["2024-02-29", "0000-00-00", "9999-12-31"],
    "DATETIME": ["2024-02-29 12:34:56", "0000-00-00 00:00:00.000", "1000-01-01 00:00:00.000001"],
    "TIME": ["-838:59:58.999999", "00:00:00", "-00:00:00.000001"],
    "TIMESTAMP": ["1970-01-01 00:00:01", "0000-00-00 00:00:00", "2038-01-19 03:14:07.999999"],
}
TYPES = {
    "INT": (field("INT", "int"), [(n, number(n)) for n in INTS]),
    "INT UNSIGNED as int": (field("INT UNSIGNED", "int"), [(n, number(n)) for n in INTS if n >= 0]),
    "INT UNSIGNED": (field("INT UNSIGNED", "long"), [(n, number(n)) for n in (0, 1, 2**31, 2**32 - 1)]),
    "BIGINT": (field("BIGINT", "long"), [(n, number(n)) for n in LONGS]),
    "BIGINT UNSIGNED as text": (field("BIGINT UNSIGNED"), [(str(n), number(n)) for n in UNSIGNED]),
    "BIGINT UNSIGNED": (field("BIGINT UNSIGNED", "long"), [(n, number(n)) for n in LONGS]),
    "YEAR": (field("YEAR", "int"), [(n, number(n)) for n in (0, 1901, 2155)]),
    "BIT": (
        field("BIT", "bytes", length="64"),
        [(n.to_bytes(max(1, -(-n.bit_length() // 8)), "big"), number(n)) for n in (0, 5, 255, 256, 2**63, 2**64 - 1)],
    ),
    "FLOAT": (field("FLOAT", "float"), [(n, real(n)) for n in (0.0, -0.0, 1.5, 0.10000000149011612, 2.0**-149)]),
    "FLOAT as double": (field("FLOAT", "double"), [(n, real(n)) for n in (1.5, 0.10000000149011612)]),
    "DOUBLE": (field("DOUBLE", "double"), [(n, real(n)) for n in (0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308)]),
    "DECIMAL": (field("DECIMAL"), [(n, text(n)) for n in ("0", "-0.10", "9" * 35 + "." + "9" * 30)]),
    "TEXT": (field("TEXT"), [(t, text(t)) for t in TEXTS]),
    "BLOB": (field("BLOB", "bytes"), [(b, text(b)) for b in (b"", b"\0", b"\xff\x80", bytes(range(256)) * 300)]),
    "JSON": (field("JSON"), [(t, text(t)) for t in ("{}", '{"k": 1}', "null", '"é"')]),
    "ENUM": (field("ENUM", allowed=",".join(MEMBERS)), [(m, number(n)) for n, m in enumerate(MEMBERS, 1)]),
    "ENUM with a comma": (
        field("ENUM", allowed="a\\,b,it's,"),
        [("a,b", number(1)), ("it's", number(2)), ("", number(3))],
    ),
    "SET": (
        field("SET", allowed=",".join(MANY)),
        [(",".join(MANY[n] for n in some), number(sum(1 << n for n in some))) for some in SETS],
    ),
    "VECTOR": (
        field("TiDBVECTORFloat32"),
        [("[]", floats()), ("[1]", floats(1)), ("[0.1,-2.5,10000000000]", floats(0.1, -2.5, 1e10))],
    ),
    **{kind: (field(kind), [(t, text(t)) for t in some]) for kind, some in CALENDAR.items()},
}  # fmt: skip


@pytest.mark.parametrize(
    ("scenario", "wanted"),
    [
        ("all_types", {True: 120, None: 6}),
        pytest.param("ddl", {True: 91, None: 6}, marks=pytest.mark.slow),
        ("key_updates", {True: 76, None: 124}),
        pytest.param("lifecycle", {True: 84, None: 27}, marks=pytest.mark.slow),
        ("orders_small", {True: 4903, None: 714}),
    ],
)
def test_every_sum_that_ticdc_sent_is_found_again(spark, scenario, wanted):
    """NULL are deletes, the inserts of split key updates, and a row with JSON that TiCDC calls corrupted."""
    case = GoldenCase(scenario, CONFIG)
    texts = {entry.id: entry.schema for entry in case.schemas}
    keys = {entry.id for entry in case.schemas if entry.subject.endswith("-key")}
    found, expected = Counter(), Counter()
    for topic in case.topics:
        sent = [record for record in case.records if record.topic == topic and record.kind == "row"]
        used = {int.from_bytes((record.value or record.key)[1:HEADER], "big") for record in sent}
        if sent:
            values = [(record.key, record.value) for record in sent]
            said_of = verdicts(spark, {number: texts[number] for number in used}, values, keys=keys)
            found += Counter(said_of)
            assert [said is None for said in said_of] == [_told(texts, record) is None for record in sent]
            expected += Counter(_told(texts, record) for record in sent)
    assert found == expected == Counter(wanted)


def _datum(texts, record):
    return writer_schema(texts[int.from_bytes(record.value[1:HEADER], "big")]).read(record.value[HEADER:])


def _is_unsent(texts, record):
    return record.value is None or _datum(texts, record)[SUM] in ("", "0")


def _told(texts, record):
    return None if _is_unsent(texts, record) or _datum(texts, record)[CORRUPTED] else True


NAMES = {kind: f"c{index}" for index, kind in enumerate(TYPES)}
EVERY_TYPE = record(*({**column, "name": NAMES[kind]} for kind, (column, _) in TYPES.items()))


def said_alone(spark, rows):
    """What is said of rows (type, what was sent, what TiDB hashed) of a table with all types, NULL in the others."""
    messages = [message(EVERY_TYPE, {NAMES[kind]: sent, SUM: summed(hashed)}) for kind, sent, hashed in rows]
    found = verdicts(spark, {1: json.dumps(EVERY_TYPE)}, messages)
    return [(kind, sent, verdict) for (kind, sent, _), verdict in zip(rows, found, strict=True)]


def test_a_value_of_each_type_is_hashed_as_tidb_does(spark):
    rows = [(kind, *pair) for kind, (_, pairs) in TYPES.items() for pair in pairs]
    assert said_alone(spark, rows) == [(kind, sent, True) for kind, sent, _ in rows]


def test_another_value_of_each_type_is_told(spark):
    """Also one instead of NULL, and the other way round. The members of the one ENUM are not known for sure."""
    rows = []
    for kind, (_, pairs) in TYPES.items():
        hashed = [own for _, own in pairs]
        following = zip(pairs, [*hashed[1:], b"?"], strict=True)
        rows += [(kind, sent, other) for (sent, own), other in following if other != own]
        rows.append((kind, None, hashed[0]))
    doubtful = "ENUM with a comma"
    wanted = [(kind, sent, None if kind == doubtful and sent is not None else False) for kind, sent, _ in rows]
    assert said_alone(spark, rows) == wanted


def test_nulls_among_values_are_not_hashed(spark):
    last = {kind: pairs[-1] for kind, (_, pairs) in TYPES.items()}
    rows = []
    for missing in TYPES:
        there = {kind: pair for kind, pair in last.items() if kind != missing}
        sent = {NAMES[kind]: value for kind, (value, _) in there.items()}
        rows.append(message(EVERY_TYPE, {**sent, SUM: summed(*(hashed for _, hashed in there.values()))}))
    assert verdicts(spark, {1: json.dumps(EVERY_TYPE)}, rows) == [True] * len(TYPES)


def test_no_bit_of_a_row_can_be_another_and_pass(spark):
    """All bits of the columns of a row of every type that TiCDC sent, one after the other."""
    case = GoldenCase("all_types", CONFIG)
    sent = next(r for r in case.records if r.topic == "tidb_types_t_wide" and r.kind == "row" and r.value)
    number = int.from_bytes(sent.value[1:HEADER], "big")
    schema = next(entry.schema for entry in case.schemas if entry.id == number)
    columns = [one for one in json.loads(schema)["fields"] if isinstance(one["type"], list | dict)]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(record(*columns, own=())), _datum({number: schema}, sent))
    values = []
    for at in range(8 * HEADER, 8 * (HEADER + len(out.getvalue()))):
        other = bytearray(sent.value)
        other[at // 8] ^= 1 << at % 8
        values.append(bytes(other))
    writers = [WriterSchema(number, read_schema(schema), key_only=False)]
    frame = decode.change_frame(raw_frame(spark, [*values, sent.value]), writers, nothing_lands(writers), "UTC")
    *others, itself = sorted(frame.select(change.OFFSET, change.CHECKSUM, change.ERROR).collect())
    assert itself[1:] == (True, None)
    told = Counter((said, error is not None) for _, said, error in others)
    assert told.keys() <= {(False, False), (False, True), (None, True)}
    assert told[False, False] > 1000, told


INT = field("INT", "int")


def test_what_is_sent_beside_the_sum_counts(spark):
    said_of = [
        ({}, True),
        ({VERSION: 0}, True),
        ({VERSION: 1}, True),
        ({VERSION: 3}, None),
        ({SUM: ""}, None),
        ({SUM: "0"}, None),
        ({SUM: "no number"}, False),
        ({CORRUPTED: True}, False),
        ({CORRUPTED: True, SUM: ""}, False),
        ({"_tidb_op": "d"}, None),
        ({"_tidb_op": "d", CORRUPTED: True}, None),
    ]
    schema = record(INT)
    rows = [message(schema, {"v": 7, SUM: summed(number(7)), **sent}) for sent, _ in said_of]
    assert verdicts(spark, {1: json.dumps(schema)}, rows) == [wanted for _, wanted in said_of]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (field("GEOMETRY"), "POINT(1 1)"),
        ({"name": "v", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2,
          "connect.parameters": {"tidb_type": "DECIMAL"}}]}, b"\x01"),
        (field("SET", allowed="a\\,b"), "a,b"),
        (field("ENUM", allowed="it's,b"), "it''s"),
        (field("ENUM", allowed="x,M\ufffdller"), "x"),
    ],
)  # fmt: skip
def test_a_value_that_tidb_may_have_hashed_otherwise_is_no_false_alarm(spark, column, value):
    schema = record({**INT, "name": "id"}, column)
    rows = [
        message(schema, {"id": 1, "v": sent, SUM: summed(number(1), h)}) for sent, h in [(value, b"?"), (None, b"")]
    ]
    wrong = message(schema, {"id": 2, "v": None, SUM: summed(number(1))})
    assert verdicts(spark, {1: json.dumps(schema)}, [*rows, wrong]) == [None, True, False]


def test_a_text_that_is_no_utf8_is_hashed_by_its_bytes(spark):
    latin = b"M\xfcller"
    rows = [message(record(field("TEXT")), {"v": "Mueler", SUM: summed(text(one))}) for one in (latin, b"Mueler")]
    sent = [row.replace(b"Mueler", latin) for row in rows]
    assert verdicts(spark, {1: json.dumps(record(field("TEXT")))}, sent) == [True, False]


def test_a_timestamp_is_hashed_in_utc(spark):
    pairs = [
        ("2024-01-01 08:00:00", "2024-01-01 00:00:00"),
        ("1970-01-01 08:00:01.5", "1970-01-01 00:00:01.5"),
        ("2038-01-19 11:14:07.999999", "2038-01-19 03:14:07.999999"),
        ("0000-00-00 00:00:00.000", "0000-00-00 00:00:00.000"),
        ("2024-01-01 08:00:00", "2024-01-01 08:00:00"),
        ("2024-01-01 0:00:00", "2024-01-01 00:00:00"),
    ]
    hashed = [(sent, text(utc)) for sent, utc in pairs]
    assert said(spark, field("TIMESTAMP"), hashed, "Asia/Shanghai") == [True] * 4 + [False] * 2


def test_a_wall_clock_that_occurs_twice_is_no_false_alarm(spark):
    pairs = [(f"2024-10-27 0{hour}:30:00", text(f"2024-10-27 0{utc}:30:00")) for hour, utc in [(2, 0), (2, 1), (3, 1)]]
    assert said(spark, field("TIMESTAMP"), pairs, "Europe/Berlin") == [True, None, False]


def test_versions_with_and_without_sums_are_rows_of_one_frame(spark):
    schemas = {
        1: record(INT),
        2: record(INT, own=OWN),
        3: record(INT, {**INT, "name": "w"}, own=()),
        4: record(INT, {**INT, "name": "w"}),
    }
    rows = [
        message(schemas[1], {"v": 1, SUM: summed(number(1))}),
        message(schemas[2], {"v": 1}, 2),
        message(schemas[3], {"v": 1}, 3),
        message(schemas[4], {"v": 1, "w": 2, SUM: summed(number(1), number(2))}, 4),
        message(schemas[4], {"v": 2, "w": 1, SUM: summed(number(1), number(2))}, 4),
        message(schemas[1], {"v": 1, SUM: summed(number(1))})[:-1],
    ]
    texts = {schema_id: json.dumps(schema) for schema_id, schema in schemas.items()}
    assert verdicts(spark, texts, rows) == [True, None, None, True, False, None]


def plan(frame):
    frame.sparkSession.conf.set("spark.sql.maxPlanStringLength", "10000000")
    shown = frame._jdf.queryExecution().executedPlan().toString()
    frame.sparkSession.conf.set("spark.sql.maxPlanStringLength", "0")
    return shown


def test_it_costs_nothing_where_nobody_asks(spark):
    schema = record(INT)
    writers = [WriterSchema(1, read_schema(json.dumps(schema)), key_only=False)]
    mapping = ColumnMapping((Target("v", "int"),), {1: {"v": "v"}})
    frame = decode.change_frame(raw_frame(spark, [message(schema, {"v": 1, SUM: ""})]), writers, mapping, "UTC")
    assert change.CHECKSUM in frame.columns
    assert "crc32" in plan(frame)
    assert "crc32" not in plan(frame.drop(change.CHECKSUM))
    assert "crc32" not in plan(frame.select(change.OP, "v", change.ERROR))


def test_it_is_generated_code_from_end_to_end(spark):
    """Except for VECTOR, which has no code anyway."""
    schema = record(*({**TYPES[kind][0], "name": name} for kind, name in NAMES.items() if kind != "VECTOR"))
    writers = [WriterSchema(1, read_schema(json.dumps(schema)), key_only=False)]
    frame = decode.change_frame(raw_frame(spark, []), writers, nothing_lands(writers), "UTC")
    projections = [line for line in plan(frame).splitlines() if "Project" in line or "Filter" in line]
    assert projections
    assert all("*(" in line for line in projections)
