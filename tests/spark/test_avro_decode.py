"""Bytes that are not what their header says: each is told apart, none ends the JVM."""

import datetime as dt
import io
import json
import struct
from decimal import Decimal

import fastavro
import pytest

from pipeline.model import change
from pipeline.model.columns import TableVersion
from pipeline.model.messages import ColumnMapping, Target
from pipeline.model.names import TableName
from pipeline.model.places import RAW
from pipeline.protocols.avro import decode
from pipeline.protocols.avro.decode import CORRUPT_KEY, CORRUPT_VALUE, WriterSchema
from pipeline.protocols.avro.fields import source_column
from pipeline.protocols.avro.protocol import AvroProtocol
from pipeline.warehouse.evolution import Policy, meet
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.shape import current_shape
from registry.columns import read_schema

pytestmark = pytest.mark.spark

VALUE_ID, KEY_ID = 7, 8
FIELDS = [
    {"name": "id", "type": {"type": "long", "connect.parameters": {"tidb_type": "BIGINT"}}},
    {
        "name": "name",
        "type": ["null", {"type": "string", "connect.parameters": {"tidb_type": "TEXT"}}],
        "default": None,
    },
]
DAY = {"type": "string", "connect.parameters": {"tidb_type": "DATE"}}
TYPES = {"id": "bigint", "name": "string"}


def schema(*fields):
    return {"type": "record", "name": "t", "namespace": "default.s", "fields": list(fields)}


def writer(schema_id, *fields, key_only=False):
    return WriterSchema(schema_id, read_schema(json.dumps(schema(*fields))), key_only)


WRITERS = (writer(VALUE_ID, *FIELDS), writer(KEY_ID, FIELDS[0], key_only=True))
LANDING = ColumnMapping(
    tuple(Target(name, kind) for name, kind in TYPES.items()),
    {VALUE_ID: {"id": "id", "name": "name"}, KEY_ID: {"id": "id"}},
)


def encoded(schema_id, row, *fields):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema(*fields)), row)
    return b"\0" + struct.pack(">I", schema_id) + out.getvalue()


GOOD = encoded(VALUE_ID, {"id": 1, "name": "a"}, *FIELDS)
KEY = encoded(KEY_ID, {"id": 1}, FIELDS[0])


def raw_frame(spark, *messages):
    """Messages (key, value) as the source gives them."""
    now = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - Spark takes it as the session's
    rows = [("topic", 0, offset, now, bytearray(key), value) for offset, (key, value) in enumerate(messages)]
    types = ("string", "int", "bigint", "timestamp", "binary", "binary")
    return spark.createDataFrame(rows, ", ".join(f"{n} {t}" for n, t in zip(RAW, types, strict=True))).coalesce(1)


def changes(spark, *messages):
    """The change frame of messages (key, value), as rows in their order."""
    frame = decode.change_frame(raw_frame(spark, *messages), WRITERS, LANDING, "UTC")
    return frame.orderBy(change.OFFSET).collect()


def test_upserts_and_key_only_deletes_are_rows_of_one_frame(spark):
    upsert, delete = changes(spark, (KEY, bytearray(GOOD)), (KEY, None))
    assert (upsert["_op"], upsert["id"], upsert["name"], upsert["_schema_id"]) == ("upsert", 1, "a", VALUE_ID)
    assert (delete["_op"], delete["id"], delete["name"], delete["_schema_id"]) == ("delete", 1, None, KEY_ID)
    assert upsert[change.ERROR] is delete[change.ERROR] is None


def test_a_delete_of_newer_ticdc_carries_its_commit_ts(spark):
    (delete,) = changes(spark, (KEY, bytearray(b"\x03" + struct.pack(">Q", 2**62 + 5))))
    assert (delete["_op"], delete["_commit_ts"], delete["id"]) == ("delete", 2**62 + 5, 1)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(GOOD[:-1], id="truncated"),
        pytest.param(GOOD + b"\0", id="followed by a byte"),
        pytest.param(GOOD + GOOD[5:], id="followed by another body"),
        pytest.param(GOOD[:5], id="header alone"),
        pytest.param(GOOD[:5] + b"\xff" * 12, id="no varint"),
        pytest.param(GOOD[:6] + b"\x0a" + GOOD[7:], id="no such branch of the union"),
        pytest.param(GOOD[:5] + b"\x02\x02\xfe\xff\xff\xff\x0f", id="asks for two gigabytes"),
        pytest.param(GOOD[:5] + b"\x02\x02\x01", id="a length below zero"),
    ],
)
def test_a_body_that_is_not_its_schemas_is_told(spark, body):
    damaged, sound = changes(spark, (KEY, bytearray(body)), (KEY, bytearray(GOOD)))
    assert damaged[change.ERROR] == CORRUPT_VALUE
    assert bytes(damaged[change.VALUE_BYTES]) == body
    assert (sound[change.ERROR], sound["id"]) == (None, 1)


def test_a_key_that_is_not_its_schemas_is_told(spark):
    (damaged,) = changes(spark, (KEY[:-1], None))
    assert damaged[change.ERROR] == CORRUPT_KEY


def test_messages_of_other_schemas_are_not_this_tables(spark):
    other = encoded(VALUE_ID + 100, {"id": 1, "name": "a"}, *FIELDS)
    assert changes(spark, (KEY, bytearray(other))) == []


PRECISE = {
    "name": "total",
    "type": {
        "type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2,
        "connect.parameters": {"tidb_type": "DECIMAL"},
    },
}  # fmt: skip
AS_TEXT = {"name": "total", "type": {"type": "string", "connect.parameters": {"tidb_type": "DECIMAL"}}}


def version_of(one):
    """The version of a value's writer, as the protocol describes it."""
    columns = tuple(source_column(column) for column in one.schema.columns)
    return TableVersion(TableName("s", "t"), one.schema_id, columns, ("id",))


@pytest.mark.parametrize("stale", [False, True], ids=["newer", "older than the newest"])
def test_decimals_that_come_as_bytes_and_as_text_in_one_batch_are_of_one_decimal_column(spark, stale):
    precise, as_text = writer(VALUE_ID, FIELDS[0], PRECISE), writer(VALUE_ID + 1, FIELDS[0], AS_TEXT)
    layout, _ = meet(Layout(), version_of(precise), Policy())
    layout, _ = meet(layout, version_of(as_text), Policy(), stale=stale)
    sent = [
        (KEY, bytearray(encoded(VALUE_ID, {"id": 1, "total": Decimal("1.50")}, FIELDS[0], PRECISE))),
        *(
            (KEY, bytearray(encoded(VALUE_ID + 1, {"id": 1, "total": text}, FIELDS[0], AS_TEXT)))
            for text in ("2.50", "2.500", "2.505", "123456789.00")
        ),
    ]
    changed = decode.change_frame(raw_frame(spark, *sent), (precise, as_text), layout.mapping, "UTC")
    shape = current_shape(layout, "UTC")
    shown = changed.select(change.OFFSET, shape.columns["total"].alias("total"), shape.unrepresentable.alias("lost"))
    for frame, lost in ((changed, change.UNREPRESENTABLE), (shown, "lost")):
        assert [(row["total"], row[lost]) for row in frame.orderBy(change.OFFSET).collect()] == [
            (Decimal("1.50"), None),
            (Decimal("2.50"), None),
            (Decimal("2.50"), None),
            (None, {"total": "2.505"}),
            (None, {"total": "123456789.00"}),
        ]


def typed(avro, tidb_type, **more):
    return {"name": "v", "type": {"type": avro, "connect.parameters": {"tidb_type": tidb_type}, **more}}


LONG_DECIMAL = {"logicalType": "decimal", "precision": 65, "scale": 30}


@pytest.mark.parametrize(
    ("field", "kind", "good", "want", "bad"),
    [
        (typed("string", "BIGINT UNSIGNED"), "decimal(20,0)", "18446744073709551615", 2**64 - 1, "abc"),
        (typed("string", "BIGINT UNSIGNED"), "string", "7", "7", "1e999999999"),
        (typed("string", "TiDBVECTORFloat32"), "array<float>", "[1,2.5]", [1.0, 2.5], "no vector"),
        (typed("long", "INT"), "int", 5, 5, 2**40),
        (typed("long", "YEAR"), "int", 2024, 2024, -(2**63)),
        (typed("bytes", "DECIMAL", **LONG_DECIMAL), "string", Decimal("1.5"), "1.5" + "0" * 29, b"\1" * 29),
    ],
    ids=["no number", "no number, under a type of the user's", "no vector", "no INT", "no YEAR", "no DECIMAL"],
)
def test_a_field_that_is_no_value_of_its_type_makes_a_dead_letter_of_its_message(spark, field, kind, good, want, bad):
    fields = [FIELDS[0], {**field, "type": ["null", field["type"]]}]
    bare = [FIELDS[0], {"name": "v", "type": ["null", field["type"]["type"]]}]
    mapping = ColumnMapping((Target("id", "bigint"), Target("v", kind)), {VALUE_ID: {"id": "id", "v": "v"}})
    sent = (
        encoded(VALUE_ID, {"id": 1, "v": good}, *fields),
        encoded(VALUE_ID, {"id": 2, "v": bad}, *bare),
        encoded(VALUE_ID, {"id": 3, "v": None}, *fields),
    )
    raw = raw_frame(spark, *((KEY, bytearray(one)) for one in sent))
    rows = decode.change_frame(raw, (writer(VALUE_ID, *fields),), mapping, "UTC").orderBy(change.OFFSET).collect()
    assert [(row["v"], row[change.ERROR], row[change.UNREPRESENTABLE]) for row in rows] == [
        (want, None, None),
        (None, CORRUPT_VALUE, None),
        (None, None, None),
    ]
    assert bytes(rows[1][change.VALUE_BYTES]) == sent[1]


def test_a_key_that_is_no_value_of_its_type_is_told(spark):
    field = typed("string", "BIGINT UNSIGNED")
    mapping = ColumnMapping((Target("v", "decimal(20,0)"),), {KEY_ID: {"v": "v"}})
    raw = raw_frame(spark, (encoded(KEY_ID, {"v": "abc"}, field), None))
    (row,) = decode.change_frame(raw, (writer(KEY_ID, field, key_only=True),), mapping, "UTC").collect()
    assert (row["v"], row[change.ERROR]) == (None, CORRUPT_KEY)


class Registry:
    """Schemas by their ids."""

    def __init__(self, schemas):
        self.schemas = schemas

    def ticdc_schema(self, schema_id):
        return self.schemas[schema_id]


def test_a_key_of_columns_that_the_row_does_not_have_says_nothing_of_the_handle(spark):
    other = {**FIELDS[0], "name": "other"}
    schemas = {VALUE_ID: WRITERS[0].schema, KEY_ID: writer(KEY_ID, other).schema}
    raw = raw_frame(spark, (encoded(KEY_ID, {"other": 1}, other), bytearray(GOOD)))
    (table,) = AvroProtocol(Registry(schemas)).read(raw).tables
    (seen,) = table.versions
    assert seen.version.handle is None
    assert meet(Layout(), seen.version, Policy())[0].handle is None


def test_decoding_is_generated_code_from_end_to_end(spark):
    """Spark falls back to an interpreter for a whole projection when one expression in it has no code."""
    fields = [*FIELDS, {"name": "day", "type": DAY}, {"name": "until", "type": DAY}]
    names = ["id", "name", "day", "until"]
    types = [*TYPES.values(), "date", "date"]
    mapping = ColumnMapping(
        tuple(Target(name, kind) for name, kind in zip(names, types, strict=True)),
        {VALUE_ID: {name: name for name in names}},
    )
    writers = (writer(VALUE_ID, *fields),)
    row = {"id": 1, "name": "a", "day": "0000-00-00", "until": "2024-01-00"}
    frame = decode.change_frame(
        raw_frame(spark, (KEY, bytearray(encoded(VALUE_ID, row, *fields)))), writers, mapping, "UTC"
    )
    spark.conf.set("spark.sql.maxPlanStringLength", "1000000")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    spark.conf.set("spark.sql.maxPlanStringLength", "0")
    projections = [line for line in plan.splitlines() if "Project" in line or "Filter" in line]
    assert projections
    assert all("*(" in line for line in projections), plan
    (change_row,) = frame.collect()
    assert change_row["_unrepresentable"] == {"day": "0000-00-00", "until": "2024-01-00"}
    assert (change_row["day"], change_row["until"]) == (None, None)


def test_a_statement_says_where_its_first_and_its_last_copy_stand(spark):
    sent = {"query": "ALTER TABLE `t` ADD `c` INT", "type": 5, "schema": "s", "table": "t", "commitTs": 9}
    ddl = (b"", bytearray(b"\x01" + json.dumps(sent).encode()))
    raw = raw_frame(spark, ddl, (KEY, bytearray(GOOD)), ddl, ddl)
    shuffled = raw.orderBy("offset", ascending=False)
    (statement,) = AvroProtocol(Registry({one.schema_id: one.schema for one in WRITERS})).read(shuffled).ddl
    assert list(statement.at.values()) == [0]
    assert list(statement.redelivered_at.values()) == [3]
    assert statement.at.keys() == statement.redelivered_at.keys()
