"""What programs get of commands that look: names without spaces, and lists that are lists; people see what they saw."""

import datetime as dt
import json

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from unit.configuration import SMALL
from unit.test_report_cli import schema

from pipeline import cli
from pipeline.cli.inspect import _show
from pipeline.cli.inspection import Inspected, ShownChange
from pipeline.cli.output import Format, opened
from pipeline.model.columns import SchemaId
from pipeline.model.types import WarehouseType
from pipeline.warehouse import state
from pipeline.warehouse.layout import Column, Layout, Version
from pipeline.warehouse.pairs import State, written_state

NOW = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
LAYOUT = Layout(
    tuple(Column(n, name, name, WarehouseType("bigint"), "BIGINT", 1) for n, name in enumerate(("id", "total, net"))),
    (Version(SchemaId(7), 1, (("id", 0), ("total, net", 1))),),
    head=1, handle=(0,),
)  # fmt: skip
ROW = {"pipeline": "shop", "batch_id": 4, "recorded_at": NOW, "schema_name": "shop", "table_name": "orders"}
VERSION = [{"name": "id", "type": "bigint", "tidb_type": "BIGINT", "nullable": False}, {"name": "v", "virtual": True}]
ASIDE = {
    **ROW, "topic": "t", "kafka_partition": 2, "offset": 91, "index": 3, "key_values": '{"id": "1"}',
    "message": "total -5", "commit_ts": 450_000_000_000_000_000, "status": "open",
}  # fmt: skip


@pytest.fixture
def warehouse(tmp_path, monkeypatch):
    """A pair, a version and two rows that were set aside."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ticdc-warehouse.yaml").write_text(SMALL)
    place = tmp_path / "warehouse"
    place.mkdir()
    catalog = SqlCatalog("warehouse", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
    for namespace in ("_pipeline", "shop"):
        catalog.create_namespace(namespace)
    ids = pa.schema([("id", pa.int64())])
    about = {
        **state.ROLE.entry("changes"), **state.SOURCE_SCHEMA.entry("shop"), **state.SOURCE_TABLE.entry("orders"),
        **state.LAYOUT.entry(LAYOUT),
    }  # fmt: skip
    catalog.create_table("shop.orders", ids)
    catalog.create_table("shop.orders__changes", ids, properties=about)
    rows = {
        "ddl_history": [{**ROW, "commit_ts": 1, "ddl_type": "AddColumn", "sql": "ALTER …", "action": "done"}],
        "schemas": [{**ROW, "version": 7, "columns": json.dumps(VERSION)}],
        "quarantine": [{**ASIDE, "code": "QUARANTINED", "rules": ["no_debt", "known_currency"]}],
        "dead_letters": [{**ASIDE, "code": "NOT_CONFLUENT", "rules": None}],
    }
    for name, found in rows.items():
        columns = schema(name)
        plain = [{**dict.fromkeys(columns.names), **one} for one in found]
        catalog.create_table(f"_pipeline.{name}", columns).append(pa.Table.from_pylist(plain, columns))
    yield catalog
    catalog.close()


@pytest.fixture
def ask(warehouse, capsys):
    del warehouse

    def call(*words):
        assert cli.main([*words, "--output", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert cli.main([*words]) == 0
        return document, capsys.readouterr().out

    return call


def keys_of(document):
    """Every key of a document, however deep."""
    if isinstance(document, dict):
        yield from document
        for inner in document.values():
            yield from keys_of(inner)
    elif isinstance(document, list):
        for inner in document:
            yield from keys_of(inner)


@pytest.mark.parametrize(
    "words",
    [
        ["tables", "list"],
        ["tables", "describe", "shop.orders"],
        ["tables", "history", "shop.orders"],
        ["tables", "maintain", "--dry-run"],
        ["quarantine", "list"],
        ["quarantine", "show"],
        ["quarantine", "show", "--dead-letters"],
    ],
    ids=" ".join,
)
def test_no_key_has_a_space(ask, words):
    document, _ = ask(*words)
    assert [key for key in keys_of(document) if " " in key] == []


def test_a_held_table_is_listed_with_the_reason(ask, warehouse):
    with warehouse.load_table("shop.orders__changes").transaction() as change:
        change.set_properties(written_state(State.HELD, "CHECK_FAILED: no_debt"))
    document, _ = ask("tables", "list")
    told = [(line["source"], line["state"], line["held_because"]) for line in document["tables"]]
    assert told == [("shop.orders", "held", "CHECK_FAILED: no_debt")]


def test_a_described_versions_columns_are_a_list(ask):
    document, said = ask("tables", "describe", "shop.orders")
    assert document["changes_table"] == "shop.orders__changes"
    assert document["source_versions"] == [{"version": "7", "number": 1, "columns": ["id", "total, net"]}]
    assert document["columns"][0]["source_column"] == "id"
    assert "changes table          shop.orders__changes" in said
    assert document["changes_metadata_file"].startswith("file://")
    assert document["changes_metadata_file"].endswith(".metadata.json")
    assert document["changes_metadata_file"] in said
    assert "id, total, net" in said


def test_a_version_in_the_history_has_its_columns_as_objects(ask):
    document, said = ask("tables", "history", "shop.orders")
    assert [row["columns"] for row in document["schemas"]] == [VERSION]
    assert "id bigint, v virtual" in said


def test_a_row_in_quarantine_is_shown_whole_with_its_rules_as_a_list(ask):
    document, said = ask("quarantine", "show")
    assert document["quarantine"] == [
        {
            "recorded_at": NOW.isoformat(), "table": "shop.orders", "topic": "t", "partition": 2, "offset": 91,
            "key": '{"id": "1"}', "rules": ["no_debt", "known_currency"], "message": "total -5", "status": "open",
            "index": 3, "code": "QUARANTINED", "commit_ts": 450_000_000_000_000_000, "batch_id": 4,
        }
    ]  # fmt: skip
    assert "no_debt, known_currency" in said
    assert " ".join(said.split()[:9]) == "recorded_at table topic partition offset key rules message status"


def test_a_dead_letter_has_a_code_and_no_rules(ask):
    document, said = ask("quarantine", "show", "--dead-letters")
    (letter,) = document["dead_letters"]
    assert (letter["code"], letter["rules"]) == ("NOT_CONFLUENT", [])
    assert "NOT_CONFLUENT" in said


def test_what_inspect_refuses_is_objects_with_code_and_message(capsys):
    change = ShownChange("insert of shop.orders", ("column", "in the table"), [("id", "NULL")], ["✓"])
    found = Inspected({"looks like": "Avro"}, [change], [("NOT_CONFLUENT", "no header")], ["0000  61"])
    with opened(Format.JSON) as out:
        _show(out, found)
    assert json.loads(capsys.readouterr().out) == {
        "looks_like": "Avro",
        "changes": [
            {
                "change": "insert of shop.orders",
                "columns": [{"column": "id", "in_the_table": "NULL"}],
                "verdicts": ["✓"],
            }
        ],
        "refusals": [{"code": "NOT_CONFLUENT", "message": "no header"}],
        "hex": ["0000  61"],
    }
