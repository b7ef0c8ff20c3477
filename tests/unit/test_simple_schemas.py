"""Simple's table schemas, against the columns that TiDB itself reports."""

import base64
import gzip
import json
from functools import cache
from pathlib import Path

import pytest

from pipeline.ddl.lexemes import Cursor, lexemes
from pipeline.ddl.sql_types import read_type
from pipeline.model import types
from pipeline.model.columns import NULL_DEFAULT, UNKNOWN_DEFAULT, literal
from pipeline.model.names import TableName
from pipeline.protocols.described.schemas import NotATableSchema, table_version

GOLDEN = Path(__file__).parents[1] / "golden"
SCENARIOS = ("all_types", "ddl", "ddl_nokey", "lifecycle", "key_updates", "orders_small")


@cache
def opened(scenario, name):
    return gzip.decompress((GOLDEN / scenario / f"{name}.gz").read_bytes())


@cache
def schemas(scenario):
    """Every `tableSchema` of a scenario with the step during which it was sent."""
    found = {}
    for line in opened(scenario, "simple_json.jsonl").splitlines():
        record = json.loads(line)
        message = json.loads(base64.b64decode(record["value"]))
        for schema in filter(None, (message.get("tableSchema"),)):
            if not any(c["dataType"]["mysqlType"] == "unspecified" for c in schema["columns"]):
                found.setdefault((schema["schema"], schema["table"], schema["version"]), (record["step"], schema))
    return list(found.values())


@cache
def columns_of_tidb(scenario):
    """(table, step) → columns as TiDB reports them, where they were dumped."""
    found = {}
    for step in json.loads(opened(scenario, "expected.json"))["steps"]:
        for table in (step.get("tables") or {}).values():
            found[table["schema"], table["table"], step["step"]] = table["columns"]
    return found


def column(mysql_type, default=None, *, nullable=True, **about):
    kind = {"mysqlType": mysql_type, "charset": "binary", "collate": "binary", **about}
    sent = {"name": "c", "dataType": kind, "nullable": nullable, "default": default}
    schema = {"schema": "s", "table": "t", "version": 7, "columns": [sent], "indexes": []}
    return table_version(schema, {}).columns[0]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_types_are_those_that_tidb_reports(scenario):
    compared = 0
    truth = columns_of_tidb(scenario)
    for step, schema in schemas(scenario):
        reported = truth.get((schema["schema"], schema["table"], step))
        version = table_version(schema, {})
        for one in reported or ():
            mine = next((c for c in version.columns if c.name == one["name"]), None)
            assert mine, one
            kind = read_type(Cursor(lexemes(one["type"])))
            assert mine.tidb_type == kind.tidb_type, one
            assert mine.type == kind.warehouse_type(decimals_as_text=False), one
            assert mine.members == kind.members, one
            assert mine.nullable == (one["nullable"] in (True, "YES")), one
            compared += 1
    assert compared or scenario == "orders_small"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_handle_is_the_primary_key_or_a_unique_one(scenario):
    for _, schema in schemas(scenario):
        version = table_version(schema, {})
        keys = [set(index["columns"]) for index in schema["indexes"] if index["unique"] and not index["nullable"]]
        assert bool(keys) == bool(version.handle)
        assert not keys or set(version.handle) in keys


def test_a_schema_says_what_it_is():
    sent = {
        "schema": "Shop", "table": "Orders", "version": 450, "columns": [
            {"name": "Id", "dataType": {"mysqlType": "bigint", "unsigned": True}, "nullable": False, "default": None},
            {"name": "at", "dataType": {"mysqlType": "datetime", "decimal": 3}, "nullable": False, "default": None},
        ], "indexes": [{"name": "primary", "primary": True, "unique": True, "nullable": False, "columns": ["id"]}],
    }  # fmt: skip
    version = table_version(sent, {"at": types.STRING})
    assert (version.table, version.version, version.handle) == (TableName("Shop", "Orders"), 450, ("Id",))
    assert [c.type for c in version.columns] == [types.UNSIGNED_BIGINT, types.STRING]
    assert version.columns[1].tidb_type == "DATETIME(3)"
    assert version.columns[0].unsigned
    assert version.tells_op
    assert version.tells_commit_ts


@pytest.mark.parametrize(
    ("mysql_type", "about", "default", "shown"),
    [
        ("int", {}, "7", literal("7")),
        ("bit", {"length": 10}, 10, literal("10")),
        ("bit", {"length": 10}, "\x02\x01", literal("513")),
        ("bit", {"length": 10}, "\ufffd", UNKNOWN_DEFAULT),
        ("binary", {"length": 4}, "xy\0\0", literal("78790000")),
        ("varbinary", {"length": 4}, "\ufffd\0", UNKNOWN_DEFAULT),
        ("varchar", {"charset": "utf8mb4"}, "uuid()", UNKNOWN_DEFAULT),
        ("varchar", {"charset": "utf8mb4"}, "", literal("")),
        ("datetime", {}, "CURRENT_TIMESTAMP", UNKNOWN_DEFAULT),
        ("datetime", {"decimal": 3}, "2021-06-01 12:00:00.123", literal("2021-06-01 12:00:00.123")),
        ("timestamp", {"decimal": 3}, "2021-06-01 04:00:00.500", literal("2021-06-01 04:00:00.500Z")),
        ("timestamp", {}, "CURRENT_TIMESTAMP", UNKNOWN_DEFAULT),
        ("enum", {"elements": ["a", "it's"]}, "it's", literal("it's")),
        ("set", {"elements": ["x", "é"]}, "x,é", literal("x,é")),
        ("decimal", {"length": 5, "decimal": 2}, "1.5", literal("1.50")),
        ("int", {}, None, NULL_DEFAULT),
    ],
)
def test_rows_from_before_a_column_show_its_default(mysql_type, about, default, shown):
    assert column(mysql_type, default, **about).default == shown


@pytest.mark.parametrize(
    ("mysql_type", "length", "decimal", "told"),
    [
        ("datetime", 19, None, "DATETIME(0)"),
        ("datetime", 23, None, "DATETIME(3)"),
        ("datetime", 26, None, "DATETIME(6)"),
        ("timestamp", 21, None, "TIMESTAMP(1)"),
        ("time", 10, None, "TIME(0)"),
        ("time", 12, None, "TIME(1)"),
        ("time", 17, None, "TIME(6)"),
        ("time", 99, None, "TIME(6)"),
        ("datetime", None, None, "DATETIME(0)"),
        ("datetime", 26, 6, "DATETIME(6)"),
    ],
)
def test_avro_tells_fraction_digits_by_the_width_alone(mysql_type, length, decimal, told):
    assert column(mysql_type, length=length, decimal=decimal).source_type == told


def test_rows_from_before_a_column_that_is_never_null_show_its_zero_value():
    assert column("int", nullable=False).default == literal("0")
    assert column("enum", elements=["a", "b"], nullable=False).default == literal("a")


@pytest.mark.parametrize(
    "sent",
    [
        {}, {"schema": "s", "table": "t"}, {"schema": "s", "table": "t", "version": "x", "columns": []},
        {"schema": 1, "table": "t", "version": 1, "columns": []},
        {"schema": "s", "table": "t", "version": 1, "columns": [{"name": "c"}]},
        {"schema": "s", "table": "t", "version": 1, "columns": ["c"]},
        {"schema": "s", "table": "t", "version": 1, "columns": [], "indexes": [{}]},
        {"schema": "s", "table": "t", "version": 1, "columns": [
            {"name": "c", "dataType": {"mysqlType": "unspecified"}, "nullable": True, "default": None}]},
    ],
)  # fmt: skip
def test_what_is_no_table_schema_is_refused(sent):
    with pytest.raises(NotATableSchema, match="cannot be read"):
        table_version(sent, {})
