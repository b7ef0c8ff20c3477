"""Versions as `_pipeline.schemas` keeps them."""

import json
from dataclasses import replace

from pipeline.model import types
from pipeline.model.columns import SchemaId, SourceColumn, TableVersion, literal
from pipeline.model.names import TableName
from pipeline.warehouse.descriptions import Descriptions, as_row, from_row

PLAIN = TableVersion(
    TableName("d", "t"),
    SchemaId(7),
    (
        SourceColumn("id", types.INT, "INT", nullable=False),
        SourceColumn("e", types.STRING, "ENUM", default=literal("x"), members=("x", "y")),
        SourceColumn("b", types.BINARY, "BLOB", length=8, written="BINARY(8)"),
        SourceColumn("vg", types.INT, "INT"),
    ),
    ("id",),
    tells_op=True,
    tells_commit_ts=True,
)
KNOWN = replace(PLAIN, columns=PLAIN.columns[:2], virtual=("vg",))


class NothingWritten:
    """Records of an empty warehouse."""

    class _Table:
        def head(self):
            return None

    tables = {"schemas": _Table()}  # noqa: RUF012 - never changed


def again(version):
    row = as_row(version)
    return from_row(row["schema_name"], row["table_name"], row["version"], row["columns"])


def test_a_version_comes_back_as_it_was_written():
    assert again(PLAIN) == PLAIN
    assert again(KNOWN) == KNOWN


def test_virtual_columns_are_entries_of_their_own():
    assert json.loads(as_row(KNOWN)["columns"])[-1] == {"name": "vg", "virtual": True}


def test_what_is_virtual_stays_so_when_the_version_is_described_again():
    found = Descriptions(NothingWritten())
    found.learn([PLAIN])
    found.learn([KNOWN])
    found.learn([PLAIN])
    assert found.versions([(PLAIN.table, PLAIN.version)]) == {(("d", "t"), 7): KNOWN}
    assert found.unwritten() == [as_row(KNOWN)]
    found.written()
    found.learn([KNOWN, PLAIN])
    assert found.unwritten() == []


def test_all_versions_of_a_name_are_given_whatever_its_case():
    found = Descriptions(NothingWritten())
    other = replace(PLAIN, table=TableName("d", "u"))
    found.learn([KNOWN, other])
    assert found.of_tables([TableName("D", "T")]) == [KNOWN]
