"""A layout as data: it survives its JSON, also that of a warehouse written by an older release."""

import json
from dataclasses import replace

import pytest

from pipeline.model import types
from pipeline.model.columns import SchemaId, literal
from pipeline.warehouse.keys import Keys
from pipeline.warehouse.layout import Column, Conversion, Layout, LayoutByCommitTs, LayoutByOffset, Removal, Version
from pipeline.warehouse.shape import Shape

CONVERTED = (Conversion(2, 2, "CHAR", "INT"),)
FULL = Layout(
    columns=(
        Column(1, "id", "id", types.INT, "INT", added=1),
        Column(2, "c__v1", "c", types.INT, "INT", added=1, default=literal("7"), live=False),
        Column(
            3, "c", "C", types.STRING, "TEXT", added=2, conversions=(Conversion(2, 2, "CHAR", "INT"),), written="CHAR"
        ),
        Column(4, "c__v2", "c", types.BIGINT, "BIGINT", added=-1, live=False, in_current=False, shown_in=3),
    ),
    versions=(
        Version(SchemaId(1), 1, (("id", 1), ("c", 2))),
        Version(SchemaId(7), 1, (("id", 1),), key_only=True),
    ),
    head=2,
    handle=(1,),
    ddl_at=9,
    settled=False,
    altered_at=9,
    by_offset=LayoutByOffset((("t", 0), ("t", 1))),
    renamed=(("b", "c"),),
)
_FIRST = {"columns", "versions", "head", "handle", "ddl_at", "settled"}
_LATER = {"altered_at", "altered_in", "renamed", "before", "handles", "met_at", "partitions", "removals"}


@pytest.mark.parametrize(
    ("tidb_type", "kind", "loses"),
    [
        ("INT", types.INT, False),
        ("INT", types.BIGINT, False),
        ("BIGINT UNSIGNED", types.UNSIGNED_BIGINT, False),
        ("DECIMAL(12,2)", types.decimal(12, 2), False),
        ("DECIMAL(12,2)", types.decimal(14, 2), False),
        ("DECIMAL(40,2)", types.STRING, True),
        ("BIT(64)", types.UNSIGNED_BIGINT, False),
        ("TEXT", types.STRING, True),
        ("ENUM", types.STRING, True),
        ("BLOB", types.BINARY, False),
        ("DATE", types.DATE, True),
        ("DATETIME(3)", types.TIMESTAMP_NTZ, True),
        ("DATE", types.STRING, True),
        ("TEXT", types.INT, True),
        ("BIGINT", types.INT, True),
        ("DECIMAL(12,2)", types.decimal(5, 2), True),
        ("DECIMAL", types.decimal(18, 4), True),
        ("DECIMAL(40,2)", types.decimal(38, 2), True),
    ],
)
def test_a_column_loses_values_by_a_type_of_the_users_or_as_calendars_do(tidb_type, kind, loses):
    column = Column(1, "c", "c", kind, tidb_type, added=1)
    assert column.loses == loses
    condition, _ = Keys((column,), Shape({}, None)).match(None, None)
    assert condition == ("t.`c` <=> s.k0 AND t._unrepresentable[:n0] <=> s.k0t" if loses else "t.`c` = s.k0")


@pytest.mark.parametrize("layout", [Layout(), FULL])
def test_a_layout_survives_its_json(layout):
    assert Layout.from_json(layout.to_json()) == layout


def test_what_an_ordering_knows_stands_beside_the_rest_as_in_older_releases():
    removal = Removal(7, ("p0",), {"kind": "range"}, (("id", 1, "INT"),), "uuid")
    known = LayoutByCommitTs(handles=((0, (1,)), (100, ())), met_at=9, removals=(removal,))
    layout = replace(FULL, by_commit_ts=known)
    raw = json.loads(layout.to_json())
    assert sorted(raw) == sorted({*_FIRST, *_LATER})
    assert (raw["altered_in"], raw["handles"], raw["met_at"]) == ([["t", 0], ["t", 1]], [[0, [1]], [100, []]], 9)
    assert raw["removals"] == [
        {"at": 7, "names": ["p0"], "scheme": {"kind": "range"}, "columns": [["id", 1, "INT"]], "other": "uuid"}
    ]
    assert Layout.from_json(layout.to_json()) == layout


def test_a_layout_of_an_older_release_is_read():
    raw = {key: value for key, value in json.loads(FULL.to_json()).items() if key not in _LATER}
    raw["columns"] = [{k: v for k, v in c.items() if k not in ("shown_in", "written")} for c in raw["columns"]]
    for column in raw["columns"]:
        column["conversions"] = [{k: v for k, v in c.items() if k != "was"} for c in column["conversions"]]
    raw["versions"] = [{k: v for k, v in c.items() if k != "key_only"} for c in raw["versions"]]
    read = Layout.from_json(json.dumps(raw))
    assert [c.name for c in read.columns] == ["id", "c__v1", "c", "c__v2"]
    assert read.column(3).conversions == (Conversion(2, 2, "CHAR"),)
    assert read.column(3).source_type == "TEXT"


@pytest.mark.parametrize(("name", "found"), [("C", 3), ("c", 3), ("ID", 1), ("c__v1", None)])
def test_a_source_name_means_the_live_column_whatever_its_case(name, found):
    column = FULL.live(name)
    assert (column and column.id) == found


def test_names_and_ids_are_never_used_twice():
    assert (FULL.free_name("c"), FULL.free_name("d"), FULL.next_id()) == ("c__v3", "d__v1", 5)


def test_the_current_table_has_no_column_that_only_stale_versions_fill():
    assert [c.name for c in FULL.current] == ["id", "c__v1", "c"]
