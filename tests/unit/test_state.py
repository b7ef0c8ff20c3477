"""What is kept in properties and snapshots is listed once, with its meaning; the page that says so is made of it."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from support.programs import program

from pipeline.model.names import TableName
from pipeline.model.tidb_types import natural
from pipeline.warehouse import state, stored
from pipeline.warehouse.layout import Column, Layout

ROOT = Path(__file__).parents[2]
CONSTANTS = {name: value for name, value in vars(state).items() if isinstance(value, state.StateKey)}


def test_the_page_is_what_the_module_says():
    made = program("state")
    assert made.PAGE.read_text() == made.page(), "python tools/state.py writes it anew"


def test_each_key_is_there_once():
    assert Counter(key.name for key in state.KEYS).most_common(1)[0][1] == 1


def test_no_other_module_spells_a_key():
    named = re.compile(r'"ticdc\.[a-z]')
    spelled = [file for file in (ROOT / "pipeline").rglob("*.py") if named.search(file.read_text())]
    assert [file.name for file in spelled] == ["state.py"]


def test_each_key_is_used():
    text = "\n".join(file.read_text() for file in (ROOT / "pipeline").rglob("*.py") if file.name != "state.py")
    assert len(CONSTANTS) == len(state.KEYS)
    assert [name for name in CONSTANTS if not re.search(rf"\b{name}\b", text)] == []


TEXTS = {
    "ROLE": ["changes", "batches"],
    "NAME": ['["shop", "orders__changes"]'],
    "NEXT_NAME": ['["shop", "orders__dropped_7"]'],
    "SOURCE_SCHEMA": ["shop"],
    "SOURCE_TABLE": ["Bestellungen ü"],
    "KEYSPACE": ["keyspace1"],
    "STATE": [*map(str, stored.State)],
    "HELD_REASON": ["COLUMNS_CHANGED: v is gone", "release3"],
    "CREATED": ["0", "463210358237954049"],
    "CREATED_AS": ['["shop", "orders"]'],
    "RENAMED": ["463210358237954049"],
    "WANTED_NAME": ['["Shop", "Orders"]'],
    "TRUNCATED": ["0", "463210358237954049"],
    "DROPPED": ["463210358237954049"],
    "NAME_BINDINGS": [
        "[]",
        '[["shop", "orders", 0, 9, "", ""], ["shop", "o", 9, 9223372036854775807, "[\\"t\\", 9]", ""]]',
    ],
    "STREAMS": ["[]", '["AAAA", "name:orders"]'],
    "DELIVERIES": ['[["AAAA", 0, 11, 2], ["AAAA", 1, 7, 0]]'],
    "EXCHANGED": ["463210358237954049"],
    "COLUMNS": [
        '{"claimed": {}, "ids": {}}',
        '{"claimed": {"changes": ["a", "b"]}, "ids": {"current": [[["_before", "v"], 7], [["v"], 3]]}}',
    ],
    "NOT_OURS": ["[]", '["note", "seen"]'],
    "NOTES": ['{"batch": 3, "notes": [["add", "v", ""], ["widen", "n", "int to bigint"]], "met": [-1, 7]}'],
    "BORN": ['[3, 463210358237954049, "shop", "orders"]'],
    "NAMED": ['[3, 0, "shop", "orders"]'],
    "ENDS": ["{}", '{"AAAA":{"0":12,"10":3},"BBBB":{"1":4}}'],
    "OPERATION": ["batch0", "release12", "redrive8001", "batch4_exchange"],
    "TIMES": ["0:9223372036854775807"],
    "LATE": ["true"],
    "APPLIED": ["8714936120213477213"],
    "BACKFILLED": ["[]", '["1:0", "2:1"]'],
    "BY_CLONE": ["true"],
    "IN_DRIVER": ["true"],
    "CUT": ["0", "463210358237954049"],
    "LATE_SHOWN": ["[]", "[5, 8714936120213477213]"],
    "REMOVED": ["0", "463210358237954049"],
    "EXCHANGED_FROM": ["8714936120213477213"],
    "BATCH": ["0", "12"],
    "ORDERING": ["by_offset", "by_commit_ts"],
    "UNFINISHED": ["0", "13"],
    "STREAM_NAMES": ["{}", '{"BBBB": "shop.b", "AAAA": "shop.a"}'],
    "WATERMARKS": ["[]", '[["shop.a", 0, 463210358237954049], ["shop.a", 10, 5]]'],
    "FRONTIERS": ['[["shop.a", 0, 926420716475908099]]'],
    "RESOLVED": ["0", "926420716475908099"],
    "LAST_WATERMARKS": ['[["shop.a", 0, 463210358237954049]]'],
    "TRIED": ['[12, 926420716475908099, {"AAAA": {"0": 12, "10": 3}}]'],
    "APPEND": ["4d1e5bd4a4c14e5f8f3a5e2d4f1a7b90"],
    "STATE_FORM": ["1"],
    "OWNER": ["shop"],
    "CATALOG_FOLDER": ["/data/warehouse"],
    "BINDINGS": ['{"batch": 3, "names": [["shop", "a", "uuid-1"], ["shop", "b", "uuid-2"]]}'],
    "CALLED": ['{"batch": 3, "before": [], "after": [["shop", "a", "Shop", "A"], ["shop", "b", "Shop", "B"]]}'],
    "GONE": ['[["shop", "orders", 0, 9, "[\\"t\\", 9]", "uuid-1"]]'],
    "HOLDS": ["[]", '[["shop", "orders", "DDL_NOT_UNDERSTOOD: ALTER …", 9]]'.replace("…", "\\u2026")],
    "UNDER_WAY": [
        (
            '{"operation": "redrive7", "selection": '
            '{"what": "quarantine", "schema": "", "table": "", "rule": "", "since": ""}}'
        ),
    ],
    "PENDING_DELIVERIES": ["[]", '[["shop", "orders", "AAAA", 0, 11, 2], ["shop", "orders", "AAAA", 1, 7, 0]]'],
}
"""Texts as form 1 has written them since they are there, by constant; `LAYOUT` is tested with layouts."""


def test_each_key_has_an_example():
    assert {*TEXTS, "LAYOUT"} == set(CONSTANTS)


@pytest.mark.parametrize(("constant", "text"), [(name, text) for name, texts in TEXTS.items() for text in texts])
def test_a_value_that_was_read_is_written_with_the_same_bytes(constant, text):
    key = CONSTANTS[constant]
    value = key.read({key.name: text})
    assert not isinstance(value, str) or isinstance(value, stored.State) or value == text
    assert key.entry(value) == {key.name: text}
    assert key.required({key.name: text}) == value


def test_a_layout_is_written_with_the_same_bytes():
    column = Column(1, "v", "v", natural("int"), "int", 1)
    text = Layout(columns=(column,)).to_json()
    assert state.LAYOUT.entry(state.LAYOUT.required({"ticdc.layout": text})) == {"ticdc.layout": text}


@pytest.mark.parametrize("constant", CONSTANTS)
def test_what_is_missing_or_empty_is_nothing(constant):
    key = CONSTANTS[constant]
    assert key.read({}) is None
    assert key.read({key.name: ""}) is None
    assert key.entry(None) == {key.name: ""}
    assert (key.is_in({}), key.is_in({key.name: ""})) == (False, True)


def test_values_are_what_a_reader_expects():
    assert state.ENDS.decode('{"AAAA":{"10":3}}') == {("AAAA", 10): 3}
    assert state.NAME_BINDINGS.decode('[["shop", "orders", 0, 9]]') == (stored.StoredBinding("shop", "orders", 0, 9),)
    assert state.TRIED.decode('[1, 7, {"A": {"0": 2}}]') == stored.Tried(1, 7, {("A", 0): 2})
    assert state.TIMES.decode("3:5") == (3, 5)
    assert state.PENDING_DELIVERIES.decode('[["shop", "t", "A", 0, 1, 2]]') == {
        ("shop", "t"): {stored.Place("A", 0, 1, 2)}
    }
    assert state.CALLED.decode('{"batch": 1, "before": [], "after": [["s", "t", "S", "T"]]}').after == {
        ("s", "t"): TableName("S", "T")
    }


def test_notes_of_a_version_that_did_not_say_what_it_met_are_read():
    assert state.NOTES.decode('{"batch": 3, "notes": []}') == stored.LayoutNotes(3, [], frozenset())


METHODS = {"read", "required", "entry", "is_in"}
TAKE_A_KEY = {"inherited", "inherited_all", "property_of", "added_by", "said_at"}
"""Methods of tables, and the function of `lake.catalog`, that read a value by its key."""
SAY_A_NAME = {
    "pipeline/warehouse/publisher.py": "OPERATION",
    "pipeline/warehouse/retention.py": "ENDS BACKFILLED CALLED",
}
"""Who gives the name of a key to others: an option of Spark's writer, the keys that an expiry looks for."""


def by_hand(path, tree):
    """Uses of keys, and of JSON by a key's name, that are none of the accessors."""
    keys = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "pipeline.warehouse.state"
        for alias in node.names if alias.name in CONSTANTS
    }  # fmt: skip
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name) or node.id not in keys:
            continue
        match parents[node]:
            case ast.Attribute(attr=method) if method in METHODS:
                pass
            case ast.Attribute(attr="name") if keys[node.id] in SAY_A_NAME.get(path, "").split():
                pass
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in TAKE_A_KEY:
                pass
            case ast.Tuple() as several if isinstance(parents[several], ast.For | ast.comprehension):
                pass
            case other:
                yield f"{path}:{node.lineno}: {ast.unparse(other)}"


def test_no_other_module_reads_or_writes_a_value_by_hand():
    files = [file for file in (ROOT / "pipeline").rglob("*.py") if file.name != "state.py"]
    found = [by_hand(str(file.relative_to(ROOT)), ast.parse(file.read_text())) for file in files]
    assert [use for uses in found for use in uses] == []


@pytest.mark.parametrize(
    "code",
    [
        "json.loads(properties[NAME_BINDINGS])",
        "int(properties.get(CUT, 0))",
        "int(properties[CUT.name])",
        "table.set_properties({CUT: '1'})",
        "table.set_properties({CUT.name: '1'})",
        "json.loads(NAME_BINDINGS.codec.encode(()))",
        "NAME_BINDINGS in properties",
    ],
)
def test_what_is_done_by_hand_is_seen(code):
    tree = ast.parse(f"from pipeline.warehouse.state import CUT, NAME_BINDINGS\n{code}")
    assert len(list(by_hand("pipeline/service/pipeline.py", tree))) == 1


def test_no_other_module_imports_the_keys_under_a_module_name():
    named = re.compile(r"from pipeline\.warehouse import .*\bstate\b|import pipeline\.warehouse\.state")
    assert [file.name for file in (ROOT / "pipeline").rglob("*.py") if named.search(file.read_text())] == []


def test_only_the_keys_use_the_codecs():
    codecs = {name for name, value in vars(stored).items() if isinstance(value, stored.Codec)}
    for file in (ROOT / "pipeline").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "pipeline.warehouse.stored":
                assert file.name == "state.py" or codecs.isdisjoint(alias.name for alias in node.names), file
