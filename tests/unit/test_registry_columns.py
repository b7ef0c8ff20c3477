"""TiCDC's Avro schemas, read as columns."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.protocols.avro.decode import reading_schema
from registry import AvroColumn, NotATicdcSchema, TicdcSchema, read_schema
from registry.columns import MAX_FIELDS, MAX_TEXT, is_same, members_of

FOLDER = Path(__file__).parents[1] / "golden"
GOLDEN = sorted(path for path in FOLDER.glob("*/*.registry.json") if path.parent.name != "faults")
EXTENSION = ("_tidb_op", "_tidb_commit_ts", "_tidb_commit_physical_time")
CHECKSUMS = ("_tidb_row_level_checksum", "_tidb_corrupted", "_tidb_checksum_version")


def golden(scenario, config):
    path = Path(__file__).parents[1] / "golden" / scenario / f"{config}.registry.json"
    return json.loads(path.read_text())


def newest(scenario, config, subject):
    return read_schema(next(e["schema"] for e in reversed(golden(scenario, config)) if e["subject"] == subject))


def columns(schema):
    return {column.name: column for column in schema.columns}


def typed(avro="int", tidb="INT", **parameters):
    return {"type": avro, "connect.parameters": {"tidb_type": tidb, **parameters}}


ID = {"name": "id", "type": typed()}
OPERATION = {"name": "_tidb_op", "type": "string", "default": ""}


def record(*fields, **changes):
    return json.dumps({"type": "record", "name": "t", "namespace": "default.shop", "fields": list(fields)} | changes)


def before(*fields):
    branch = {"type": "record", "name": "t_before", "namespace": "default.shop", "fields": list(fields)}
    return {"name": "_ticdc_before", "type": ["null", branch], "default": None}


# --- golden ---


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_schema_that_ticdc_registered_is_read_completely(path):
    entries = json.loads(path.read_text())
    assert entries
    for entry in entries:
        sent, schema = json.loads(entry["schema"]), read_schema(entry["schema"])
        names = tuple(field["name"] for field in sent["fields"])
        own = tuple(name for name in names if name.startswith(("_tidb", "_ticdc")))
        assert (schema.fields, schema.text) == (names, entry["schema"])
        assert tuple(c.name for c in schema.columns) + own == names  # TiCDC appends its own fields
        assert f"{schema.namespace}.{schema.schema_name}" == sent["namespace"]
        assert schema.table_name == sent["name"]
        value = entry["subject"].endswith("-value")
        assert schema.before == (value and "before" in path.name)
        assert schema.extension == (value and "noext" not in path.name)
        assert schema.operation == (schema.extension or schema.before)
        assert schema.checksums == (value and "checksum" in path.name)
        if not value:
            assert not any(c.nullable for c in schema.columns)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_column_says_what_its_field_says(path):
    for entry in json.loads(path.read_text()):
        schema = read_schema(entry["schema"])
        for field, column in zip(json.loads(entry["schema"])["fields"], schema.columns, strict=False):
            union = field["type"] if isinstance(field["type"], list) else [field["type"]]
            avro = next(branch for branch in union if branch != "null")
            assert column.tidb_type == avro["connect.parameters"]["tidb_type"].upper()
            assert column.avro_type == avro["type"]
            assert column.nullable == ("null" in union)
            assert column.null_first == (union[0] == "null")
            assert (column.precision, column.scale) == (avro.get("precision"), avro.get("scale"))
            assert (column.has_default, column.default) == ("default" in field, field.get("default"))


def test_members_of_an_enum_are_unescaped_the_empty_one_included():
    schema = newest("all_types", "avro_ext_precise_long", "tidb_types_t_enum_set-value")
    assert columns(schema)["e2"].allowed == ("x,y", "it's", "日本", 'q"uote', "back\\slash", "")
    assert columns(schema)["s2"].allowed == ("x", "y z", "é", "it's")
    assert columns(schema)["e3"].default == "LARGE"


def test_a_decimal_has_its_precision_only_where_the_changefeed_sends_it():
    precise = columns(newest("all_types", "avro_ext_precise_long", "tidb_types_t_decimal-value"))
    text = columns(newest("all_types", "avro_ext_string_string", "tidb_types_t_decimal-value"))
    assert (precise["d2"].avro_type, precise["d2"].precision, precise["d2"].scale) == ("bytes", 65, 30)
    assert (precise["d0"].precision, precise["d0"].scale) == (10, 0)
    assert (text["d2"].avro_type, text["d2"].precision, text["d2"].scale) == ("string", None, None)
    assert (precise["d3"].has_default, text["d3"].default) == (False, "1.50")


def test_bits_have_their_length_and_a_default_stays_base64():
    bits = columns(newest("all_types", "avro_noext", "tidb_types_t_bit-value"))
    assert [bits[name].length for name in ("b1", "b8", "b10", "b63", "b64")] == [1, 8, 10, 63, 64]
    assert (bits["b10"].default, bits["b10"].nullable) == ("Cg==", False)


def test_both_orders_of_the_nullable_union_are_told_apart():
    ints = columns(newest("all_types", "avro_noext", "tidb_types_t_int_def-value"))
    plain = columns(newest("all_types", "avro_noext", "tidb_types_t_int-value"))
    assert (ints["bi"].nullable, ints["bi"].null_first, ints["bi"].default) == (True, False, -(2**63))
    assert (plain["bi"].nullable, plain["bi"].null_first, plain["bi"].default) == (True, True, None)


def test_an_unsigned_bigint_comes_as_long_wrapped_or_as_string():
    wrapped = columns(newest("all_types", "avro_ext_precise_long", "tidb_types_t_int_def-value"))["bu"]
    text = columns(newest("all_types", "avro_ext_string_string", "tidb_types_t_int_def-value"))["bu"]
    assert (wrapped.tidb_type, wrapped.avro_type, wrapped.default) == ("BIGINT UNSIGNED", "long", -1)
    assert (text.tidb_type, text.avro_type, text.default) == ("BIGINT UNSIGNED", "string", str(2**64 - 1))


def test_wire_order_is_the_tables_or_by_column_id_with_checksums():
    plain = newest("ddl", "avro_ext_precise_long", "tidb_d_t-value")
    checked = newest("ddl", "avro_checksum_watermark", "tidb_d_t-value")
    assert [c.name for c in plain.columns] == ["first_col", "id", "b2", "a", "mid", "d1", "nn", "e1", "e2"]
    assert [c.name for c in checked.columns] == ["id", "a", "nn", "first_col", "d1", "b2", "mid", "e1", "e2"]
    assert checked.fields[-6:] == EXTENSION + CHECKSUMS


def test_a_type_that_ticdc_spells_in_mixed_case_is_upper_case():
    assert columns(newest("all_types", "avro_noext", "tidb_types_t_vector-value"))["v"].tidb_type == (
        "TIDBVECTORFLOAT32"
    )


# --- what golden data does not have ---


def test_old_values_of_newer_ticdc_are_seen_and_are_no_column():
    extension = [{"name": n, "type": t} for n, t in zip(EXTENSION, ("string", "long", "long"), strict=True)]
    schema = read_schema(record(ID, before(ID), *extension))
    assert (schema.before, schema.extension, schema.checksums) == (True, True, False)
    assert [c.name for c in schema.columns] == ["id"]
    assert schema.fields == ("id", "_ticdc_before", *EXTENSION)


def test_old_values_without_the_extension_bring_the_operation_alone():
    schema = read_schema(record(ID, before(ID), OPERATION))
    assert (schema.before, schema.extension, schema.operation) == (True, False, True)


def test_a_source_column_may_be_called_like_a_field_of_ticdcs():
    schema = read_schema(
        record(ID, *({"name": n, "type": typed("string", "TEXT")} for n in ("_tidb_op", "_ticdc_before")))
    )
    assert [c.name for c in schema.columns] == ["id", "_tidb_op", "_ticdc_before"]
    assert (schema.operation, schema.before) == (False, False)


def test_older_ticdc_sends_float_as_double_and_the_type_of_the_source_stays_known():
    schema = read_schema(record(ID, {"name": "f", "type": typed("double", "FLOAT")}))
    assert (schema.columns[1].tidb_type, schema.columns[1].avro_type) == ("FLOAT", "double")


def test_a_type_of_a_later_ticdc_is_read_as_sent():
    assert read_schema(record({"name": "g", "type": typed("bytes", "Geometry")})).columns == (
        AvroColumn("g", "GEOMETRY", "bytes", nullable=False, null_first=False),
    )


def test_another_namespace_is_kept():
    assert read_schema(record(ID, namespace="keyspace1.shop")).namespace == "keyspace1"


def test_a_scale_that_is_not_there_is_zero_as_avro_says():
    decimal = typed("bytes", "DECIMAL") | {"logicalType": "decimal", "precision": 10}
    column = read_schema(record({"name": "d", "type": decimal})).columns[0]
    assert (column.precision, column.scale) == (10, 0)


DECIMAL = typed("bytes", "DECIMAL") | {"logicalType": "decimal", "precision": 10, "scale": 2}
STRANGERS = {
    "is empty": "",
    "is no JSON": "{",
    "is a JSON text": '"string"',
    "is a list": "[]",
    "is a union": json.dumps([json.loads(record(ID))]),
    "is an enum": record(ID, type="enum"),
    "has no namespace": json.dumps({"type": "record", "name": "t", "fields": [ID]}),
    "has a namespace without schema": record(ID, namespace="default"),
    "has an empty schema": record(ID, namespace="default."),
    "has a namespace of three parts": record(ID, namespace="com.example.shop"),
    "has a path as its name": record(ID, name="../t"),
    "has no name": record(ID, name=None),
    "has no fields": record(fields=None),
    "has an empty list of fields": record(),
    "has only fields of TiCDC's": record(OPERATION),
    "has a field that is no object": record(ID, "id"),
    "has a field without name": record({"type": typed()}),
    "has a field without type": record({"name": "id"}),
    "has a field with a name TiCDC never forms": record(ID | {"name": "a b"}),
    "has a field twice": record(ID, ID),
    "has fields that differ in case only": record(ID, ID | {"name": "ID"}),
    "has a bare type": record({"name": "id", "type": "int"}),
    "has no parameters": record({"name": "id", "type": {"type": "int"}}),
    "has parameters without tidb_type": record({"name": "id", "type": {"type": "int", "connect.parameters": {}}}),
    "has a tidb_type that is no text": record({"name": "id", "type": typed(tidb=1)}),
    "has an own field of another type": record(ID, OPERATION | {"type": "bytes"}),
    "has one field of the extension": record(ID, {"name": "_tidb_commit_ts", "type": "long"}),
    "has one field of the checksums": record(ID, {"name": "_tidb_corrupted", "type": "boolean"}),
    "has a union of three": record({"name": "id", "type": ["null", typed(), typed("long")]}),
    "has a union without null": record({"name": "id", "type": [typed(), typed("long")]}),
    "has a union of nulls": record({"name": "id", "type": ["null", "null"]}),
    "has an array": record({"name": "id", "type": typed("array")}),
    "has an INT in bytes": record({"name": "id", "type": typed("bytes")}),
    "has a time in a long": record({"name": "id", "type": typed("long", "TIMESTAMP")}),
    "has a logical type that TiCDC never writes": record(
        {"name": "id", "type": typed("long", "BIGINT") | {"logicalType": "timestamp-millis"}}
    ),
    "has a decimal without logical type": record({"name": "d", "type": typed("bytes", "DECIMAL")}),
    "has a decimal beyond TiDB's": record({"name": "d", "type": DECIMAL | {"precision": 66}}),
    "has a scale beyond its precision": record({"name": "d", "type": DECIMAL | {"scale": 11}}),
    "has a precision that is true": record({"name": "d", "type": DECIMAL | {"precision": True}}),
    "has a negative scale": record({"name": "d", "type": DECIMAL | {"scale": -1}}),
    "has a BIT without length": record({"name": "b", "type": typed("bytes", "BIT")}),
    "has a BIT of 65": record({"name": "b", "type": typed("bytes", "BIT", length="65")}),
    "has a BIT of 0": record({"name": "b", "type": typed("bytes", "BIT", length="0")}),
    "has an ENUM without members": record({"name": "e", "type": typed("string", "ENUM")}),
    "has a SET of 65 members": record(
        {"name": "s", "type": typed("string", "SET", allowed=",".join(f"m{n}" for n in range(65)))}
    ),
    "has a default that is a list": record(ID | {"default": [1]}),
    "has a default beyond JSON": record(ID).replace('"name": "id"', '"name": "id", "default": NaN'),
    "has old values of other columns": record(ID, before(ID, ID | {"name": "x"}), OPERATION),
    "has old values beside three": record(ID, before(ID) | {"type": ["null", "int", before(ID)["type"][1]]}, OPERATION),
    "has half a character": '"\\ud800"',
    "cannot be encoded": record(ID | {"default": "\ud800"}).replace("\\ud800", "\ud800"),
}


@pytest.mark.parametrize("text", STRANGERS.values(), ids=STRANGERS.keys())
def test_a_schema_is_not_ticdcs_if_it(text):
    with pytest.raises(NotATicdcSchema) as refused:
        read_schema(text)
    assert refused.value.code == "NOT_A_TICDC_SCHEMA"
    assert len(refused.value.message) < 600


# --- hostile ---


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10_000_000,
        '{"a":' * 2_000_000,
        '{"type":"record","fields":' + "[" * 5_000_000 + "]" * 5_000_000 + "}",
        " " * (MAX_TEXT + 1),
        '{"type":"record","precision":' + "9" * 1_000_000 + "}",
        record(*({"name": f"c{n}", "type": typed()} for n in range(MAX_FIELDS + 1))),
    ],
    ids=["lists", "objects", "closed lists", "long", "a large number", "fields"],
)
def test_hostile_json_is_refused_and_does_no_harm(text):
    with pytest.raises(NotATicdcSchema):
        read_schema(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def read_or_refuse(text):
    try:
        schema = read_schema(text)
    except NotATicdcSchema:
        return
    assert isinstance(schema, TicdcSchema)
    assert hash(schema)  # nothing unhashable came in
    assert schema.columns
    assert set(schema.fields) >= {column.name for column in schema.columns}


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_is_a_schema_or_refused_and_nothing_else(text):
    read_or_refuse(text)


@given(JSON)
def test_any_json_is_a_schema_or_refused_and_nothing_else(value):
    read_or_refuse(json.dumps(value))


def places(node, path=()):
    yield path
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield from places(node[key], (*path, key))


def replaced(node, path, value):
    if not path:
        return value
    changed = copy.copy(node)
    changed[path[0]] = replaced(node[path[0]], path[1:], value)
    return changed


SEED = json.loads(newest("all_types", "avro_checksum_watermark", "tidb_types_t_enum_set-value").text)
SEED["fields"] += json.loads(newest("all_types", "avro_noext", "tidb_types_t_decimal-value").text)["fields"][1:3]
SEED["fields"] += json.loads(newest("all_types", "avro_noext", "tidb_types_t_bit-value").text)["fields"][1:3]


@settings(max_examples=500)
@given(
    st.sampled_from(list(places(SEED))),
    JSON | st.sampled_from(["", "null", "record", "int", "bytes", 0, -1, {}]),
)
def test_a_real_schema_with_anything_replaced_is_a_schema_or_refused_and_nothing_else(path, value):
    read_or_refuse(json.dumps(replaced(SEED, path, value)))


# --- other forms of the same schema ---


EXTRA = st.sampled_from([{}, {"doc": "x"}, {"avro.java.string": "String"}, {"aliases": ["u"]}])


def shuffled(draw, members):
    return {name: members[name] for name in draw(st.permutations(list(members)))}


def rewritten(draw, schema, namespace=""):
    """The schema in a form that Avro takes for the same."""
    if isinstance(schema, list):
        return [rewritten(draw, branch, namespace) for branch in schema]
    if isinstance(schema, str):
        return draw(
            st.sampled_from([schema, {"type": schema}, {"type": {"type": schema}}, {"type": schema, "doc": "x"}])
        )
    if schema["type"] != "record":
        return shuffled(draw, schema | draw(EXTRA))
    own = schema.get("namespace", namespace)
    forms = [{"name": f"{own}.{schema['name']}"}, {"name": f"{own}.{schema['name']}", "namespace": "of.nobody"}]
    forms += [{"name": schema["name"], "namespace": own}, *([{"name": schema["name"]}] if own == namespace else [])]
    fields = [
        shuffled(draw, field | {"type": rewritten(draw, field["type"], own)} | draw(EXTRA))
        for field in schema["fields"]
    ]
    return shuffled(draw, {"type": "record", "fields": fields} | draw(st.sampled_from(forms)) | draw(EXTRA))


def texts():
    for path in GOLDEN:
        yield from (entry["schema"] for entry in json.loads(path.read_text()))
    inner = [ID, {"name": "v", "type": ["null", typed("string", "TEXT")], "default": None}]
    yield record(*inner, before(*inner), OPERATION)


@settings(max_examples=300)
@given(st.data(), st.sampled_from(sorted(set(texts()))))
def test_a_schema_in_another_form_that_avro_takes_for_the_same_is_read_as_the_same(data, text):
    other = json.dumps(rewritten(data.draw, json.loads(text)))
    assert replace(read_schema(other), text="") == replace(read_schema(text), text="")
    assert is_same(other, text)
    assert json.loads(reading_schema(other)) == json.loads(reading_schema(text))


@pytest.mark.parametrize(("name", "table"), [("n01_full_name", ("s1", "t")), ("n02_wrapped_primitives", ("s2", "t"))])
def test_schemas_that_a_registry_has_printed_anew_are_ticdcs(name, table):
    for entry in json.loads((FOLDER / "faults" / f"{name}.registry.json").read_text()):
        schema = read_schema(entry["schema"])
        assert (schema.schema_name, schema.table_name) == table
        assert (schema.namespace, schema.extension) == ("default", entry["subject"].endswith("-value"))


def test_a_schema_whose_attributes_were_left_out_is_refused_with_where_they_may_have_gone():
    canonical = {"name": "default.shop.t", "type": "record", "fields": [{"name": "id", "type": "int"}]}
    with pytest.raises(NotATicdcSchema) as refused:
        read_schema(json.dumps(canonical))
    assert "Parsing Canonical Form" in refused.value.hint


def test_defaults_that_were_left_out_are_not_taken_for_none():
    value = {"name": "v", "type": ["null", typed("string", "TEXT")]}
    assert [c.default_told for c in read_schema(record(ID, value)).columns] == [False, False]
    assert [c.default_told for c in read_schema(record(ID, value | {"default": None})).columns] == [True, True]
    own = [{"name": n, "type": t} for n, t in zip(EXTENSION, ("string", "long", "long"), strict=True)]
    assert not read_schema(record(ID, *own)).columns[0].default_told


# --- members ---


def escaped(member):
    """EscapeEnumAndSetOptions, as in TiCDC's pkg/sink/codec/common/helper.go."""
    return member.replace(",", "\\,").replace("\\'", "'").replace("''", "'")


ORDINARY = st.text().filter(lambda m: not m.endswith("\\") and "''" not in m and "\\'" not in m)


@given(st.lists(ORDINARY, min_size=1))
def test_members_that_ticdc_escaped_come_back(members):
    assert members_of(",".join(map(escaped, members))) == tuple(members)


@given(st.text())
def test_any_text_has_members(text):
    members = members_of(text)
    assert ",".join(member.replace(",", "\\,") for member in members) == text


def test_a_member_that_ends_in_a_backslash_swallows_the_next_one_as_ticdc_does_not_escape_it():
    assert members_of(",".join(map(escaped, ["a\\", "b"]))) == ("a,b",)
