"""Defaults of TiCDC's Avro schemas: exact ones are shown, all others are unknown, none is an error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model import types as t
from pipeline.model.columns import NULL_DEFAULT, UNKNOWN_DEFAULT, Default, DefaultKind, literal
from pipeline.protocols.avro.decode import reading_schema
from pipeline.protocols.avro.fields import source_column
from registry import read_schema

BRANCHES = {
    "INT": "int", "INT UNSIGNED": "long", "BIGINT": "long", "BIGINT UNSIGNED": "long", "YEAR": "int",
    "FLOAT": "float", "DOUBLE": "double", "BIT": "bytes", "BLOB": "bytes",
}  # fmt: skip
MORE = {
    "ENUM": {"connect.parameters": {"tidb_type": "ENUM", "allowed": "a,b,c\\,d"}},
    "SET": {"connect.parameters": {"tidb_type": "SET", "allowed": "a,b"}},
    "BIT": {"connect.parameters": {"tidb_type": "BIT", "length": "9"}},
    "DECIMAL": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
}
TEXT_MODE = {"type": "string"}
MOMENT = "2021-06-01 12:00:00.123"


def default_of(kind, *sent, nullable=False, target=None, **more):
    """The default of a column of this type, of a schema as it is registered; nothing sent: it has none."""
    branch = {"type": BRANCHES.get(kind, "string"), "connect.parameters": {"tidb_type": kind}}
    branch |= MORE.get(kind, {}) | more
    field = {"name": "c", "type": ["null", branch] if nullable else branch}
    if sent:
        field["default"] = sent[0]
    schema = {"type": "record", "name": "t", "namespace": "default.s", "fields": [field]}
    return source_column(read_schema(json.dumps(schema)).columns[0], target).default


@pytest.mark.parametrize(
    ("kind", "sent", "shown"),
    [
        ("INT", -7, "-7"),
        ("BIGINT", -(2**63), str(-(2**63))),
        ("BIGINT UNSIGNED", -1, str(2**64 - 1)),
        ("YEAR", 1999, "1999"),
        ("FLOAT", 0.10000000149011612, "0.10000000149011612"),
        ("DOUBLE", -0.001, "-0.001"),
        ("BIT", "AQE=", "257"),
        ("BLOB", "eHkAAA==", "78790000"),
        ("TEXT", "it's", "it's"),
        ("JSON", '{"b": 1, "a": [2]}', '{"a": [2], "b": 1}'),
        ("DATE", "0000-00-00", "0000-00-00"),
        ("DATETIME", MOMENT, MOMENT),
        ("TIMESTAMP", "2020-01-01 00:00:00", "2020-01-01 00:00:00Z"),
        ("TIME", "-10:00:00.50", "-10:00:00.50"),
        ("TIME", "838:59:59", "838:59:59"),
        ("ENUM", "c,d", "c,d"),
        ("SET", "a,b", "a,b"),
        ("SET", "", ""),
    ],
)
def test_a_default_that_is_sent_is_shown(kind, sent, shown):
    assert default_of(kind, sent) == literal(shown)


@pytest.mark.parametrize(("sent", "shown"), [("0", "0"), (str(2**64 - 1), str(2**64 - 1))])
def test_an_unsigned_number_may_be_sent_as_text(sent, shown):
    assert default_of("BIGINT UNSIGNED", sent, **TEXT_MODE) == literal(shown)


@pytest.mark.parametrize("kind", ["INT", "BIGINT UNSIGNED", "DOUBLE", "BIT", "TEXT", "DATE", "ENUM"])
def test_null_is_a_default(kind):
    assert default_of(kind, None, nullable=True) == NULL_DEFAULT


def test_a_default_that_the_registry_has_left_out_is_unknown():
    assert default_of("INT", nullable=True) == UNKNOWN_DEFAULT


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("INT", "x"), ("INT", 2**31), ("INT", 1.0), ("INT", True), ("INT UNSIGNED", -1), ("BIGINT", 10**4000),
        ("BIGINT UNSIGNED", "abc"), ("BIGINT UNSIGNED", "1.0"), ("BIGINT UNSIGNED", 2**64), ("YEAR", "soon"),
        ("FLOAT", "x"), ("FLOAT", 1e300), ("FLOAT", True), ("DOUBLE", 10**400),
        ("BIT", 1010), ("BIT", "!"), ("BIT", "////"), ("BLOB", 1234), ("BLOB", "é"), ("BLOB", True),
        ("TEXT", 5), ("TEXT", False), ("TEXT", "uuid()"), ("TEXT", "of a CHAR "), ("JSON", "{"), ("JSON", 1),
        ("DATE", "CURRENT_DATE"), ("DATE", "5"), ("DATETIME", "CURRENT_TIMESTAMP"), ("DATETIME", 20210601),
        ("TIMESTAMP", "12:00"), ("TIME", "10"), ("TIME", "00:00:0\u0660"), ("ENUM", "d"), ("ENUM", 1), ("SET", "a,d"),
        ("TiDBVECTORFloat32", "[1]"), ("Geometry", 1), ("Geometry", True),
    ],
)  # fmt: skip
def test_a_default_that_is_none_of_its_type_is_unknown(kind, sent):
    assert default_of(kind, sent) == UNKNOWN_DEFAULT


def test_an_infinite_default_is_unknown():
    field = {"name": "c", "type": {"type": "double", "connect.parameters": {"tidb_type": "DOUBLE"}}, "default": 0}
    text = json.dumps({"type": "record", "name": "t", "namespace": "default.s", "fields": [field]})
    schema = read_schema(text.replace('"default": 0', '"default": 1e999'))
    assert source_column(schema.columns[0]).default == UNKNOWN_DEFAULT


JSON = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
KINDS = [*BRANCHES, "TEXT", "JSON", "DATE", "DATETIME", "TIMESTAMP", "TIME", "ENUM", "SET", "DECIMAL", "Geometry"]


@given(st.sampled_from(KINDS), JSON, st.sampled_from([None, t.STRING, t.decimal(18, 4), t.BINARY]))
def test_whatever_the_default_it_is_shown_or_unknown(kind, sent, target):
    found = default_of(kind, sent, target=target)
    assert isinstance(found, Default)
    assert found.kind in DefaultKind


@pytest.mark.parametrize(
    ("kind", "target", "shown"),
    [
        ("INT", None, "0"),
        ("BIGINT UNSIGNED", None, "0"),
        ("FLOAT", None, "0"),
        ("BIT", None, "0"),
        ("YEAR", None, "0"),
        ("TEXT", None, ""),
        ("SET", None, ""),
        ("ENUM", None, "a"),
        ("JSON", None, "null"),
        ("DATE", t.STRING, "0000-00-00"),
        ("DATETIME", None, "0000-00-00 00:00:00"),
        ("TIMESTAMP", None, "0000-00-00 00:00:00"),
    ],
)
def test_without_a_default_not_null_shows_the_zero_of_the_type(kind, target, shown):
    assert default_of(kind, target=target) == literal(shown)


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("BLOB", None), ("TIME", None), ("DATETIME", t.STRING), ("TIMESTAMP", t.STRING), ("FLOAT", t.STRING),
        ("TiDBVECTORFloat32", None), ("Geometry", None), ("DECIMAL", None), ("DECIMAL", t.decimal(18, 4)),
    ],
)  # fmt: skip
def test_a_zero_that_nobody_can_tell_exactly_is_unknown(kind, target):
    assert default_of(kind, target=target) == UNKNOWN_DEFAULT


@pytest.mark.parametrize("allowed", ["it's,b", "ends in \\\\,b"])
def test_a_first_member_that_is_not_told_exactly_is_unknown(allowed):
    parameters = {"tidb_type": "ENUM", "allowed": allowed}
    assert default_of("ENUM", **{"connect.parameters": parameters}) == UNKNOWN_DEFAULT


@pytest.mark.parametrize("sent", [(), ("2.5",)], ids=["zero", "as the statement wrote it"])
def test_a_decimal_in_string_mode_tells_a_number_and_not_the_text_of_its_rows(sent):
    as_text = {"type": "string", "connect.parameters": {"tidb_type": "DECIMAL"}}
    branch = dict.fromkeys(("logicalType", "precision", "scale")) | as_text
    assert default_of("DECIMAL", *sent, **branch) == UNKNOWN_DEFAULT
    assert default_of("DECIMAL", *sent, target=t.STRING, **branch) == UNKNOWN_DEFAULT
    assert default_of("DECIMAL", *sent, target=t.decimal(18, 4), **branch) == literal(*(sent or ("0",)))
    assert default_of("DECIMAL", "abc", target=t.decimal(18, 4), **branch) == UNKNOWN_DEFAULT


def test_what_the_record_of_old_values_is_called_is_nobodys_business():
    field = {"name": "c", "type": {"type": "int", "connect.parameters": {"tidb_type": "INT"}}}
    old = {"name": "_ticdc_before", "type": ["null", {"type": "record", "name": "no name", "fields": [field]}]}
    del old["type"][1]["name"]
    schema = {"type": "record", "name": "t", "namespace": "default.s", "fields": [field, old]}
    read = json.loads(reading_schema(read_schema(json.dumps(schema)).text))
    assert [kind["name"] for kind in read["fields"][1]["type"] if isinstance(kind, dict)] == ["before"]
