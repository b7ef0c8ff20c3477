"""The simulator's Simple messages against TiCDC's own: decoded and encoded again they are the same bytes."""

import base64
import json
import re

import pytest
from golden.corpus import GoldenCase
from unit.simulate_golden import tables_of, value_from

from pipeline.simulate import ddl, simple
from pipeline.simulate.simple import Identity, SimpleCodec
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

SCENARIOS = ("key_updates", "lifecycle", "all_types", "orders_small")
CASES = [
    *((scenario, "simple_json") for scenario in SCENARIOS),
    ("key_updates", "simple_json_raw"),
    ("lifecycle", "simple_json_raw"),
    ("key_updates", "simple_json_p3"),
]
COLLATIONS = re.compile(rb'"collate":"(?!binary)\w+"')
INDEX_NAMES = re.compile(rb'\{"name":"(?!primary)\w+","unique":true,"primary":false')
OTHER_INDEXES = re.compile(rb'\{"name":"\w+","unique":false,[^}]*\},?')


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(simple, "build_ts", lambda: 1)


def messages(scenario, config, *kinds):
    for record in GoldenCase(scenario, config).records:
        if record.kind in kinds:
            yield record, re.sub(rb'"buildTs":\d+', b'"buildTs":1', record.value, count=1)


def image(table, sent):
    return sent and {name: value_from(table.column(name), decoded(table, name, text)) for name, text in sent.items()}


def decoded(table, name, text):
    """TIMESTAMP without its zone, base64 as bytes."""
    if isinstance(text, dict):
        return text["value"]
    return base64.b64decode(text) if text is not None and table.column(name).parsed.is_binary else text


@pytest.mark.parametrize(("scenario", "config"), CASES)
def test_every_row_encodes_to_the_bytes_that_ticdc_sent(scenario, config):
    tables, count = tables_of(GoldenCase(scenario, config)), 0
    for record, value in messages(scenario, config, "row"):
        told = json.loads(value)
        table = tables[record.table]
        codec = SimpleCodec(table, Identity(told["tableID"], told["schemaVersion"]))
        before, after = image(table, told.get("old")), image(table, told.get("data"))
        assert codec.value(told["type"].lower(), before, after, told["commitTs"]) == value
        count += 1
    assert count > 100


@pytest.mark.parametrize("scenario", ["key_updates", "lifecycle", "orders_small"])
def test_every_bootstrap_describes_the_table_as_ticdc_does(scenario):
    """But for collations, names of indexes, and indexes that are not unique: the simulator has none of these."""
    tables, count = tables_of(GoldenCase(scenario, "simple_json")), 0
    for _, value in messages(scenario, "simple_json", "bootstrap"):
        told = json.loads(value)["tableSchema"]
        table = tables[f"{told['schema']}.{told['table']}"]
        ours = SimpleCodec(table, Identity(told["tableID"], told["version"])).bootstrap()
        assert same(ours) == same(value)
        count += 1
    assert count >= 5


def same(value):
    named = INDEX_NAMES.sub(b'{"name":"","unique":true,"primary":false', value)
    return COLLATIONS.sub(b'"collate":""', OTHER_INDEXES.sub(b"", named))


def test_watermarks_and_statements_are_those_of_ticdc():
    tables, kinds = tables_of(GoldenCase("orders_small", "simple_json")), set()
    for _, value in messages("orders_small", "simple_json", "ddl", "resolved"):
        told = json.loads(value)
        kinds.add(told["type"])
        if told["type"] == "WATERMARK":
            assert simple.watermark(told["commitTs"]) == value
            continue
        schema = told.get("tableSchema")
        after = schema and SimpleCodec(
            tables[f"{schema['schema']}.{schema['table']}"], Identity(schema["tableID"], schema["version"])
        )
        statement = ddl.SimulatedDdl(told["sql"], 3 if schema else 1, "shop")
        assert same(simple.ddl_message(statement, after, None, told["commitTs"])) == same(value)
    assert kinds == {"WATERMARK", "QUERY", "CREATE"}


def test_add_column_shows_the_table_behind_and_before_it():
    before = SimulatedTable(
        "d", "t", (SimulatedColumn("id", "int", nullable=False), SimulatedColumn("b", "varchar(10)")), ("id",)
    )
    column = SimulatedColumn("c", "varchar(20)")
    after = before.with_column(column)
    golden = next(
        value for _, value in messages("ddl", "simple_json", "ddl") if b"`t` ADD COLUMN `c` VARCHAR(20)" in value
    )
    statement = ddl.add_column(before, after, column)
    ours = simple.ddl_message(statement, *(SimpleCodec(t, Identity(116, 1)) for t in (after, before)), 7)
    told, wanted = json.loads(ours), json.loads(golden)
    assert list(told) == list(wanted)
    assert told["type"] == "ALTER"
    assert told["tableSchema"]["columns"][-1] == wanted["tableSchema"]["columns"][-1]
    assert [c["name"] for c in told["preTableSchema"]["columns"]] == ["id", "b"]
