"""Columns over time: what a version or a clause of a statement makes of a layout."""

import pytest

from pipeline.model import types
from pipeline.model.columns import SchemaId, SourceColumn, TableVersion, literal
from pipeline.model.ddl import AddColumn, DropColumn, ModifyColumn, RenameColumn, TruncateTable
from pipeline.model.names import TableName
from pipeline.warehouse.evolution import Policy, meet, meet_key, newest, obey
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.tables import schema_change

NAME = TableName("s", "t")
KEEP, DROP = Policy(), Policy(keep_dropped_columns=False)
TIDB = {types.INT: "INT", types.BIGINT: "BIGINT", types.STRING: "TEXT"}


def column(name, kind=types.INT, **more):
    return SourceColumn(name, kind, TIDB.get(kind, kind), **more)


def version(number, **columns):
    fields = (column("id"), *(column(name, kind) for name, kind in columns.items()))
    return TableVersion(NAME, SchemaId(number), fields, ("id",))


def met(*versions, policy=KEEP, layout=None):
    layout = layout or Layout()
    for one in versions:
        layout, _ = meet(layout, one, policy)
    return layout


def shown(layout):
    """What the current table has: name → type, with a mark where the newest version has no such column."""
    return {c.name: c.type if c.live else f"({c.type})" for c in layout.current if c.name != "id"}


def actions(notes):
    return [note.action for note in notes]


BASE = met(version(1, c=types.INT))


@pytest.mark.parametrize(
    ("next_version", "policy", "after", "noted"),
    [
        (version(2, c=types.INT, d=types.INT), KEEP, {"c": "int", "d": "int"}, ["add_column"]),
        (version(2), KEEP, {"c": "(int)"}, ["keep_column"]),
        (version(2), DROP, {}, ["drop_column"]),
        (version(2, c=types.BIGINT), KEEP, {"c": "bigint"}, ["widen"]),
        (version(2, c=types.STRING), KEEP, {"c__v1": "(int)", "c": "string"}, ["fork"]),
        (version(2, d=types.INT), KEEP, {"c": "(int)", "d": "int"}, ["keep_column", "add_column"]),
        (version(1, c=types.INT), KEEP, {"c": "int"}, []),
    ],
    ids=["add", "drop, kept", "drop", "widen", "fork", "what may be a rename", "the same"],
)
def test_a_newer_version_changes_the_table(next_version, policy, after, noted):
    layout, notes = meet(BASE, next_version, policy)
    assert (shown(layout), actions(notes)) == (after, noted)


def test_a_name_that_is_used_again_is_another_column_and_the_kept_one_makes_way():
    layout = met(version(1, c=types.INT), version(2), version(3, c=types.INT))
    assert shown(layout) == {"c__v1": "(int)", "c": "int"}


def test_a_fork_shows_the_old_values_converted_and_forks_number_up():
    layout = met(version(1, c=types.INT), version(2, c=types.STRING), version(3, c=types.BIGINT))
    assert shown(layout) == {"c__v1": "(int)", "c__v2": "(string)", "c": "bigint"}
    assert [layout.column(c.conversions[0].source).name for c in layout.columns if c.conversions] == ["c__v1", "c__v2"]


@pytest.mark.parametrize("old", [version(1, c=types.INT), version(1, gone=types.INT), version(1)])
def test_a_stale_version_never_changes_what_the_table_shows_as_its_own(old):
    layout = met(version(2, c=types.BIGINT))
    after, notes = meet(layout, old, KEEP, stale=True)
    assert (shown(after), newest(after), notes) == (shown(layout), 2, ())
    assert {name for name, _ in after.version(SchemaId(1)).fields} == {c.name for c in old.columns}


def test_a_stale_value_that_no_column_holds_is_shown_in_the_column_of_its_name():
    layout, _ = meet(met(version(2, c=types.STRING)), version(1, c=types.BIGINT), KEEP, stale=True)
    hidden = layout.named("c__v1")
    assert (hidden.in_current, hidden.shown_in) == (False, layout.live("c").id)


def test_a_stale_version_finds_its_column_under_the_new_name():
    layout, _ = obey(BASE, (RenameColumn("c", "d"),), 9, KEEP)
    layout, _ = meet(layout, version(2, c=types.INT), KEEP, stale=True)
    assert layout.version(SchemaId(2)).column_of("c") == layout.live("d").id


def test_a_version_that_was_met_before_never_undoes_a_statement():
    layout, _ = obey(BASE, (RenameColumn("c", "d"),), 9, KEEP)
    assert meet(layout, version(1, c=types.INT), KEEP) == (layout, ())


@pytest.mark.parametrize(
    ("clauses", "after", "noted"),
    [
        ((AddColumn(column("d", default=literal("7"))),), {"c": "int", "d": "int"}, ["add_column"]),
        ((DropColumn("c"),), {"c": "(int)"}, ["keep_column"]),
        ((DropColumn("c"), AddColumn(column("c"))), {"c__v1": "(int)", "c": "int"}, ["keep_column", "add_column"]),
        ((RenameColumn("c", "d"),), {"d": "int"}, ["rename_column"]),
        ((ModifyColumn("c", column("c", types.BIGINT)),), {"c": "bigint"}, ["widen"]),
        ((ModifyColumn("c", column("c", types.STRING)),), {"c__v1": "(int)", "c": "string"}, ["fork"]),
        ((AddColumn(column("c")),), {"c": "int"}, []),
        ((TruncateTable(NAME),), {"c": "int"}, []),
    ],
    ids=["add", "drop", "drop and add", "rename", "widen", "fork", "add what is there", "not about columns"],
)
def test_a_statement_is_obeyed_once(clauses, after, noted):
    layout, notes = obey(BASE, clauses, 9, KEEP)
    assert (shown(layout), actions(notes)) == (after, noted)
    assert obey(layout, clauses, 9, KEEP) == (layout, ())
    assert obey(layout, (DropColumn("id"),), 8, KEEP) == (layout, ())


def test_a_message_that_bears_a_statement_out_changes_nothing_but_settles_it():
    layout, _ = obey(BASE, (RenameColumn("c", "d"),), 9, KEEP)
    after, notes = meet(layout, version(2, d=types.INT), KEEP)
    assert (shown(after), notes, layout.settled, after.settled) == (shown(layout), (), False, True)


def test_a_new_version_corrects_a_statement_that_was_misread():
    layout, _ = obey(BASE, (AddColumn(column("d", types.INT)),), 9, KEEP)
    after, _ = meet(layout, version(2, c=types.INT, d=types.STRING), KEEP)
    assert shown(after) == {"c": "int", "d__v1": "(int)", "d": "string"}


def test_statements_before_the_first_version_wait_for_it():
    layout, notes = obey(Layout(), (AddColumn(column("d")),), 9, KEEP)
    assert (layout, notes) == (Layout(ddl_at=9), ())


def test_a_key_only_version_makes_the_handle_and_is_never_the_newest():
    layout = meet_key(Layout(), version(5))
    assert ([c.name for c in layout.key], newest(layout)) == (["id"], None)
    layout = meet_key(met(version(1, c=types.INT), layout=layout), version(6))
    assert (newest(layout), shown(layout)) == (1, {"c": "int"})


@pytest.mark.parametrize(
    ("after", "added", "widened", "renamed", "dropped"),
    [
        (met(version(1, c=types.INT), version(2, c=types.INT, d=types.INT)), [("d", "int")], [], [], []),
        (met(version(1, c=types.INT), version(2, c=types.BIGINT)), [], [("c", "bigint")], [], []),
        (met(version(1, c=types.INT), version(2, c=types.STRING)), [("c", "string")], [], [("c", "c__v1")], []),
        (met(version(1, c=types.INT), version(2), policy=DROP), [], [], [], ["c"]),
    ],
    ids=["add", "widen", "fork", "drop"],
)
def test_a_layout_becomes_a_change_of_the_current_tables_schema(after, added, widened, renamed, dropped):
    change = schema_change(BASE.current, after.current, after)
    assert (list(change.add), list(change.widen), list(change.rename), list(change.drop)) == (
        added,
        widened,
        renamed,
        dropped,
    )
