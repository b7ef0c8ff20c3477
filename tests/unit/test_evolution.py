"""Columns over time: what a version or a clause of a statement makes of a layout."""

from dataclasses import replace

import pytest

from pipeline.ddl import AddColumn, DropColumn, ModifyColumn, RenameColumn, TruncateTable
from pipeline.model import types
from pipeline.model.columns import NULL_DEFAULT, UNKNOWN_DEFAULT, SchemaId, SourceColumn, TableVersion, literal
from pipeline.model.names import TableName
from pipeline.warehouse.evolution import Policy, apply_actions, exactly, let_leave, meet, meet_key, newest
from pipeline.warehouse.layout import Layout, LayoutByCommitTs
from pipeline.warehouse.shape import dead_in, era_of
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
    layout, _ = apply_actions(BASE, (RenameColumn("c", "d"),), 9, KEEP)
    layout, _ = meet(layout, version(2, c=types.INT), KEEP, stale=True)
    assert layout.version(SchemaId(2)).column_of("c") == layout.live("d").id


def test_a_version_that_was_met_before_never_undoes_a_statement():
    layout, _ = apply_actions(BASE, (RenameColumn("c", "d"),), 9, KEEP)
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
def test_a_statement_is_applied_once(clauses, after, noted):
    layout, notes = apply_actions(BASE, clauses, 9, KEEP)
    assert (shown(layout), actions(notes)) == (after, noted)
    assert apply_actions(layout, clauses, 9, KEEP) == (layout, ())
    assert apply_actions(layout, (DropColumn("id"),), 8, KEEP) == (layout, ())


def test_a_default_of_a_moment_is_what_the_schema_that_a_statement_has_made_says():
    by_the_session, by_utc = literal("2024-02-29 08:00:00"), literal("2024-02-29 00:00:00Z")
    of_text = (AddColumn(replace(of_type("timestamp", "TIMESTAMP(0)"), default=by_the_session)), DropColumn("d"))
    of_schema = replace(of_type("timestamp", "TIMESTAMP(0)"), name="C", default=by_utc)
    made = TableVersion(NAME, SchemaId(2), (column("id"), of_schema), ("id",))
    added, dropped = exactly(of_text, made)
    assert (added.column.default, added.column.name, dropped) == (by_utc, "c", DropColumn("d"))
    silent = replace(made, columns=(column("id"), replace(of_schema, default=NULL_DEFAULT)))
    assert exactly(of_text, silent) == of_text


def test_a_message_that_bears_a_statement_out_changes_nothing_but_settles_it():
    layout, _ = apply_actions(BASE, (RenameColumn("c", "d"),), 9, KEEP)
    after, notes = meet(layout, version(2, d=types.INT), KEEP)
    assert (shown(after), notes, layout.settled, after.settled) == (shown(layout), (), False, True)


def test_a_new_version_corrects_a_statement_that_was_misread():
    layout, _ = apply_actions(BASE, (AddColumn(column("d", types.INT)),), 9, KEEP)
    after, _ = meet(layout, version(2, c=types.INT, d=types.STRING), KEEP)
    assert shown(after) == {"c": "int", "d__v1": "(int)", "d": "string"}


def of_type(kind, tidb_type, **more):
    return SourceColumn("c", kind, tidb_type, **more)


def modified(before, after):
    """The layout and notes of a MODIFY, of a table whose column was added as `before`."""
    layout, _ = apply_actions(met(version(1)), (AddColumn(before),), 9, KEEP)
    return apply_actions(layout, (ModifyColumn("c", after),), 10, KEEP)


BINARY_4 = of_type(types.BINARY, "BLOB", written="BINARY(4)")
DOUBLE_9_2 = of_type(types.DOUBLE, "DOUBLE", written="DOUBLE(9,2)")
MEMBERS = of_type(types.STRING, "ENUM", members=("a", "b"))


@pytest.mark.parametrize(
    ("before", "after", "noted", "was", "becomes"),
    [
        (of_type("string", "TIME(3)"), of_type("string", "TIME(0)"), "rewrite", "TIME(3)", "TIME(0)"),
        (BINARY_4, of_type("binary", "BLOB", written="BINARY(8)"), "rewrite", "BINARY(4)", "BINARY(8)"),
        (of_type("string", "TEXT"), of_type("string", "TEXT", written="CHAR"), "rewrite", "TEXT", "CHAR"),
        (of_type("decimal(20,2)", "DECIMAL(20,2)"), of_type("int", "INT"), "rewrite", "DECIMAL(20,2)", "INT"),
        (
            of_type("float", "FLOAT"),
            of_type("double", "DOUBLE", written="DOUBLE(9,2)"),
            "widen",
            "FLOAT",
            "DOUBLE(9,2)",
        ),
        (of_type("timestamp_ntz", "DATETIME(3)"), of_type("string", "TEXT"), "fork", "DATETIME(3)", "TEXT"),
        (MEMBERS, of_type("int", "INT"), "fork", "ENUM('a','b')", "INT"),
        (of_type("int", "INT"), MEMBERS, "fork", "INT", "ENUM('a','b')"),
        (of_type("double", "DOUBLE"), of_type("float", "FLOAT"), "fork", "DOUBLE", "FLOAT"),
    ],
)
def test_a_conversion_knows_both_types_in_full(before, after, noted, was, becomes):
    layout, notes = modified(before, after)
    (conversion,) = layout.live("c").conversions
    assert (actions(notes), conversion.was, conversion.tidb_type) == ([noted], was, becomes)


@pytest.mark.parametrize(
    ("before", "after", "noted"),
    [
        (of_type("string", "TEXT", length=10), of_type("string", "TEXT", length=20), []),
        (of_type("int", "INT"), of_type("bigint", "BIGINT"), ["widen"]),
        (of_type("bigint", "BIGINT"), of_type("int", "INT"), []),
        (of_type("decimal(20,0)", "BIGINT UNSIGNED"), of_type("bigint", "BIGINT"), []),
        (of_type("decimal(18,4)", "DECIMAL(18,4)"), of_type("decimal(10,4)", "DECIMAL(10,4)"), []),
        (BINARY_4, BINARY_4, []),
        (MEMBERS, of_type("string", "ENUM", members=("a", "b", "c")), []),
        (of_type("timestamp_ntz", "DATETIME(0)"), of_type("timestamp_ntz", "DATETIME(6)"), []),
        (of_type("float", "FLOAT"), of_type("double", "DOUBLE"), ["widen"]),
    ],
)
def test_a_table_is_not_rewritten_where_its_values_stay(before, after, noted):
    layout, notes = modified(before, after)
    assert (actions(notes), layout.live("c").conversions) == (noted, ())


def test_a_column_that_the_settings_make_double_stays_so_while_its_source_is_float():
    layout, notes = modified(of_type("double", "FLOAT"), of_type("float", "FLOAT"))
    assert (shown(layout), notes) == ({"c": "double"}, ())


def test_what_a_statement_said_of_a_type_outlives_a_message_that_says_less():
    layout, _ = apply_actions(met(version(1)), (AddColumn(of_type("timestamp_ntz", "DATETIME(3)")),), 9, KEEP)
    sent = TableVersion(NAME, SchemaId(2), (column("id"), of_type("timestamp_ntz", "DATETIME")), ("id",))
    layout, _ = meet(layout, sent, KEEP)
    assert (layout.live("c").tidb_type, layout.live("c").source_type) == ("DATETIME", "DATETIME(3)")
    layout, _ = apply_actions(layout, (ModifyColumn("c", of_type("string", "TEXT")),), 10, KEEP)
    assert layout.live("c").conversions[0].was == "DATETIME(3)"


def test_a_stale_float_is_a_double_where_its_column_is_one():
    layout = met(version(2, c=types.DOUBLE))
    layout, _ = meet(layout, version(1, c=types.FLOAT), KEEP, stale=True)
    assert layout.version(SchemaId(1)).column_of("c") == layout.live("c").id


PRECISE, TEXT = of_type(types.decimal(10, 2), "DECIMAL(10,2)"), of_type(types.STRING, "DECIMAL")


def carries(number, field):
    """A version whose column c is this field."""
    return TableVersion(NAME, SchemaId(number), (column("id"), field), ("id",))


@pytest.mark.parametrize("mode", ["string mode alone", "string mode, then precise again"])
def test_a_decimal_column_takes_decimals_that_are_sent_as_text_and_keeps_its_description(mode):
    layout, notes = meet(met(carries(1, PRECISE)), carries(2, TEXT), KEEP)
    again, _ = meet(layout, carries(3, PRECISE), KEEP)
    after = layout if mode == "string mode alone" else again
    assert (shown(after), notes, after.live("c").source_type) == ({"c": "decimal(10,2)"}, (), "DECIMAL(10,2)")
    assert {v.column_of("c") for v in after.versions} == {after.live("c").id}
    assert layout.live("c").loses, "what does not fit is told by its text"


def test_a_column_of_decimals_that_were_sent_as_text_forks_where_they_become_precise():
    layout, notes = meet(met(carries(1, TEXT)), carries(2, PRECISE), KEEP)
    assert (shown(layout), actions(notes)) == ({"c__v1": "(string)", "c": "decimal(10,2)"}, ["fork"])
    later, notes = meet(layout, carries(3, TEXT), KEEP)
    assert (shown(later), notes) == (shown(layout), ())


def test_a_decimal_column_takes_text_of_an_older_version_unless_another_has_that_as_it_is():
    layout, _ = meet(met(carries(5, PRECISE)), carries(4, TEXT), KEEP, stale=True)
    assert (len(layout.columns), layout.version(SchemaId(4)).column_of("c")) == (2, layout.live("c").id)
    forked, _ = meet(met(carries(1, TEXT), carries(5, PRECISE)), carries(4, TEXT), KEEP, stale=True)
    assert forked.version(SchemaId(4)).column_of("c") == forked.named("c__v1").id


@pytest.mark.parametrize(
    ("before", "after", "noted"),
    [
        (PRECISE, of_type(types.STRING, "DECIMAL(65,30)"), ["fork"]),
        (PRECISE, of_type(types.STRING, "TEXT"), ["fork"]),
        (of_type("decimal(20,0)", "BIGINT UNSIGNED"), TEXT, ["fork"]),
        (of_type(types.STRING, "TEXT"), TEXT, []),
    ],
    ids=["beyond 38 digits", "no decimal any more", "no decimal before", "text before"],
)
def test_any_other_text_is_of_another_column_as_before(before, after, noted):
    _, notes = meet(met(carries(1, before)), carries(2, after), KEEP)
    assert actions(notes) == noted


@pytest.mark.parametrize(
    ("digits", "noted", "becomes"),
    [("12,2", ["widen"], "decimal(12,2)"), ("12,4", ["fork"], "decimal(12,4)"), ("8,2", [], "decimal(10,2)")],
)
def test_modify_of_a_decimal_column_whose_rows_come_as_text_says_its_digits(digits, noted, becomes):
    layout = met(carries(1, PRECISE), carries(2, TEXT))
    stated = of_type(types.STRING, f"DECIMAL({digits})")  # read so while its rows come as text
    layout, notes = apply_actions(layout, (ModifyColumn("c", stated),), 9, KEEP)
    assert (actions(notes), layout.live("c").type) == (noted, becomes)
    layout, notes = meet(layout, carries(3, TEXT), KEEP)
    assert (layout.live("c").type, layout.live("c").source_type, notes) == (becomes, f"DECIMAL({digits})", ())


def test_of_a_column_that_a_statement_alone_has_made_decimal_its_rows_say_whether_it_is_text():
    layout, _ = apply_actions(met(version(1)), (AddColumn(PRECISE),), 9, KEEP)
    layout, notes = meet(layout, carries(2, TEXT), KEEP)
    assert (layout.live("c").type, actions(notes)) == (types.STRING, ["fork"])


def test_statements_before_the_first_version_wait_for_it():
    layout, notes = apply_actions(Layout(), (AddColumn(column("d")),), 9, KEEP)
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


def stored(layout):
    """Warehouse name by source name, of the columns that live."""
    return {column.source: column.name for column in layout.columns if column.live}


def test_of_two_columns_that_java_takes_for_one_the_later_gets_another_name():
    both = {"id": "id", "i": "i", "ı": "ı__v1"}  # noqa: RUF001
    assert stored(met(version(1, i=types.INT, ı=types.INT))) == both
    assert stored(apply_actions(met(version(1, i=types.INT)), (AddColumn(column("ı")),), 5, KEEP)[0]) == both  # noqa: RUF001
    renamed = apply_actions(met(version(1, i=types.INT, x=types.INT)), (RenameColumn("x", "ı"),), 5, KEEP)[0]  # noqa: RUF001
    assert stored(renamed) == both
    assert stored(apply_actions(renamed, (RenameColumn("ı", "y"),), 6, KEEP)[0]) == {"id": "id", "i": "i", "y": "y"}  # noqa: RUF001


def test_of_two_columns_on_one_of_our_names_the_later_has_it():
    assert stored(met(version(1, _op=types.INT, _op__src=types.INT))) == {
        "id": "id", "_op": "_op__src__v1", "_op__src": "_op__src",
    }  # fmt: skip


def test_a_version_has_no_longer_what_was_dropped_or_replaced_before_it():
    layout = met(version(1, c=types.INT), version(2, c=types.STRING, d=types.INT), version(3, d=types.INT))
    assert [sorted(dead_in(layout, one)) for one in layout.versions] == [[], ["c__v1"], ["c", "c__v1"]]


def test_a_version_guesses_what_older_rows_show_in_columns_that_came_with_an_unknown_default():
    def one(number, *names, kind=types.INT):
        told = (column(name, kind, default=UNKNOWN_DEFAULT) for name in names)
        return TableVersion(NAME, SchemaId(number), tuple(told), None)

    layout = met(one(1, "a"), one(2, "a", "b"), one(3, "a", "b", "c"), one(4, "a", "b"))
    guesses = [[sorted(guess) for guess in era_of(layout, each).guesses] for each in layout.versions]
    assert guesses == [[], [["b"]], [["c"], ["b", "c"]], [["b"]]]
    forked = met(one(5, "a", "b", kind=types.STRING), layout=layout)
    assert era_of(forked, forked.versions[-1]).guesses == (frozenset({"b"}),)


def test_a_dropped_key_column_leaves_the_current_table_behind_the_rows_of_its_time():
    known = replace(met(version(1, v=types.INT)), by_commit_ts=LayoutByCommitTs(handles=((0, (1,)), (100, ()))))
    dropped, _ = apply_actions(known, (DropColumn("id"),), 200, DROP)
    assert [c.name for c in dropped.current] == ["v"]
    kept = let_leave(dropped, known, shown=50)
    assert [c.name for c in kept.current] == ["id", "v"]
    assert Layout.from_json(kept.to_json()) == kept
    gone = let_leave(kept, kept, shown=100)
    assert gone == dropped
    assert let_leave(gone, gone, shown=50) == gone, "its values are gone"
    again = let_leave(gone, Layout(), shown=0)
    assert [c.name for c in again.current] == ["id", "v"], "to be built anew"
    assert let_leave(again, gone, shown=100) == gone
