"""Values whose members nobody has named: a row of the history when a table first has them, in whatever process."""

from types import SimpleNamespace

from unit.test_evolution import KEEP, NAME

from pipeline.ingest.by_commit_ts.table_ordering import MEMBERS_UNKNOWN, TableByCommitTs
from pipeline.ingest.table_work import EvolvedLayout
from pipeline.model import types
from pipeline.model.columns import SchemaId, SourceColumn, TableVersion
from pipeline.model.messages import SeenVersion
from pipeline.model.places import Partition
from pipeline.warehouse.layout import Layout

AT = {Partition("t", 0): 7}


def version(number, **columns):
    """A version with these columns, by TiDB's type; a pair: with the members of an ENUM or SET."""
    found = [SourceColumn("id", types.INT, "INT")]
    for name, kind in columns.items():
        tidb_type, members = kind if isinstance(kind, tuple) else (kind, ())
        found.append(SourceColumn(name, types.STRING, tidb_type, members=members))
    return TableVersion(NAME, SchemaId(number), tuple(found), ("id",))


def told(layout, *versions, key_only=False):
    """The layout behind these versions, and the columns of which a process that knows nothing else has told."""
    protocol = SimpleNamespace(is_newest=lambda _seen: True, sends_before=True)
    rows = TableByCommitTs(SimpleNamespace(protocol=protocol, policy=KEEP))
    evolved = EvolvedLayout(layout)
    for one in versions:
        seen = SeenVersion(one, AT, AT, 1, key_only=key_only, since=int(one.version))
        evolved = rows._met(evolved, seen)
    return evolved.layout, [note.column for note in evolved.notes if note.action == MEMBERS_UNKNOWN]


def test_a_column_is_told_of_once_whatever_else_changes_and_whoever_goes_on():
    layout, names = told(Layout(), version(1, state="ENUM"), version(2, state="ENUM", note="TEXT"))
    assert names == ["state"]
    _, names = told(layout, version(3, State="ENUM"), version(4, state="ENUM", kinds="SET"))
    assert names == ["kinds"]


def test_one_that_was_another_column_or_had_members_is_told_of():
    for before in (version(1, state="TEXT"), version(1, state=("ENUM", ("new", "paid"))), version(1)):
        layout, names = told(Layout(), before)
        assert names == []
        assert told(layout, version(2, state="ENUM"))[1] == ["state"]


def test_a_column_that_has_gone_is_not_told_of_again_by_a_row_from_before():
    layout, _ = told(Layout(), version(1, state="ENUM"), version(5))
    assert told(layout, version(3, state="ENUM", note="TEXT"))[1] == []
