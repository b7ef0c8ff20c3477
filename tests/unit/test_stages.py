"""Where DDL stands among the messages of a batch: stages, timelines, and which versions are older than a statement."""

import pytest

from pipeline.ddl import AddColumn, CreateTable, DropTable, RenameTable
from pipeline.ddl.statement import Statement
from pipeline.ddl.table_ref import CreatedTable
from pipeline.ingest.by_offset.stages import is_stale, rebound, restricted, split_at_ddl, timeline
from pipeline.model import types
from pipeline.model.columns import CommitTs, SchemaId, SourceColumn, TableVersion
from pipeline.model.messages import Ddl, SeenVersion, TableMessages
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.warehouse.layout import Layout, LayoutByOffset

A, B, X = (TableName("s", name) for name in "abx")
A0, A1 = Partition("a", 0), Partition("a", 1)
ADD = AddColumn(SourceColumn("c", types.INT, "INT"))


def statement(ts, action, at, table=A):
    return Statement(Ddl(CommitTs(ts), table, 0, f"statement {ts}", at), (action,))


def seen(number, first, last=None, *, key_only=False, table=A):
    version = TableVersion(table, SchemaId(number), ())
    return SeenVersion(version, first, last or first, 1, key_only)


def messages(*versions, table=A):
    return TableMessages(table, versions)


def in_stages(statements, tables, bindings):
    """Per stage: the statements' commit ts, and the tables with their bounds."""
    return [
        (
            [s.commit_ts for s in stage.statements],
            {rows.table.table: dict(bounds or {}) for rows, bounds in stage.rows},
        )
        for stage in split_at_ddl(statements, tables, bindings)
    ]


def test_a_batch_without_statements_is_one_stage():
    assert in_stages((), (messages(seen(1, {A0: 0})),), {}) == [([], {"a": {}})]


def test_a_statement_about_columns_does_not_cut_and_its_table_is_worked_on_without_rows():
    assert in_stages((statement(5, ADD, {A0: 3}),), (), {A.key: "uuid"}) == [([5], {"a": {}})]


def test_a_drop_and_create_cut_the_partition_where_they_stand():
    drop, create = statement(5, DropTable(A), {A0: 3}), statement(6, CreateTable(A), {A0: 4})
    stages = in_stages((drop, create), (messages(seen(1, {A0: 0}, {A0: 9})),), {A.key: "uuid"})
    assert [ddl for ddl, _ in stages] == [[], [5], [6]]
    assert stages[0][1] == {"a": {A0: (0, 3)}}
    assert stages[1][1] == {}
    assert stages[2][1]["a"][A0][1] == 2**62


def test_a_late_copy_of_a_create_does_not_cut():
    create = statement(1, CreateTable(A), {A1: 0})
    assert in_stages((create,), (messages(seen(1, {A1: 1})),), {A.key: "uuid"}) == [([1], {"a": {}})]


def test_a_statement_belongs_to_the_stage_in_which_its_name_means_a_table():
    away, there = statement(5, RenameTable(A, X), {A0: 1}, X), statement(6, RenameTable(B, A), {("b", 0): 1}, A)
    added = statement(7, ADD, {A0: 2})
    stages = in_stages((away, there, added), (), {A.key: "first", B.key: "second"})
    assert [ddl for ddl, _ in stages] == [[], [5], [6, 7]]


@pytest.mark.parametrize(
    ("action", "after"),
    [
        (CreateTable(X), {A.key: "1", B.key: "2", X.key: CreatedTable(9, X.key)}),
        (CreateTable(A), {A.key: "1", B.key: "2"}),
        (DropTable(A), {B.key: "2"}),
        (RenameTable(A, X), {X.key: "1", B.key: "2"}),
        (RenameTable(X, A), {A.key: "1", B.key: "2"}),
        (ADD, {A.key: "1", B.key: "2"}),
    ],
)
def test_names_mean_other_tables_after_a_statement(action, after):
    assert rebound({A.key: "1", B.key: "2"}, statement(9, action, {A0: 0})) == after


@pytest.mark.parametrize(
    ("bounds", "first", "last"),
    [
        ({A0: (0, 10)}, {A0: 2}, {A0: 8}),
        ({A0: (4, 6)}, {A0: 4}, {A0: 5}),
        ({A0: (0, 10), A1: (0, 10)}, {A0: 2, A1: 3}, {A0: 8, A1: 3}),
        ({A0: (9, 10)}, None, None),
        ({}, None, None),
    ],
)
def test_messages_are_restricted_to_bounds(bounds, first, last):
    part = restricted(messages(seen(1, {A0: 2, A1: 3}, {A0: 8, A1: 3})), bounds)
    assert (part and (part.messages.versions[0].first, part.messages.versions[0].last)) == (first and (first, last))


def order(entries):
    return [e.version.version if isinstance(e, SeenVersion) else f"ts {e.ddl.commit_ts}" for e in entries]


@pytest.mark.parametrize(
    ("versions", "statements", "expected"),
    [
        ([seen(2, {A0: 1}), seen(1, {A0: 0})], [], [1, 2]),
        ([seen(1, {A0: 0}), seen(2, {A0: 5})], [statement(9, ADD, {A0: 3})], [1, "ts 9", 2]),
        ([seen(1, {A0: 5})], [statement(9, ADD, {A0: 3}), statement(8, ADD, {A0: 1})], ["ts 8", "ts 9", 1]),
        ([seen(1, {A0: 0}), seen(2, {A1: 5})], [statement(9, ADD, {A0: 3, A1: 2})], [1, "ts 9", 2]),
        ([seen(1, {A0: 0}, key_only=True), seen(2, {A0: 1})], [], [2, 1]),
        ([seen(1, {A0: 5}), seen(2, {("b", 0): 0})], [statement(9, ADD, {A0: 3})], ["ts 9", 1, 2]),
    ],
    ids=["ids", "around a statement", "statements by ts", "another partition", "keys last", "another topic"],
)
def test_versions_and_statements_form_one_timeline(versions, statements, expected):
    assert order(timeline(messages(*versions), statements)) == expected


@pytest.mark.parametrize(
    ("layout", "version", "statements", "expected"),
    [
        (Layout(), seen(1, {A0: 0}), [], False),
        (Layout(altered_at=9, by_offset=LayoutByOffset((("a", 0),))), seen(1, {A0: 7}), [], False),
        (Layout(altered_at=9, by_offset=LayoutByOffset((("a", 0),))), seen(1, {A1: 7}), [], True),
        (Layout(altered_at=9, by_offset=LayoutByOffset((("a", 0),))), seen(1, {A0: 7, A1: 7}), [], False),
        (
            Layout(altered_at=9, by_offset=LayoutByOffset((("a", 0),))),
            seen(1, {A0: 2}),
            [statement(9, ADD, {A0: 3})],
            True,
        ),
        (Layout(altered_at=9), seen(1, {A0: 2}, {A0: 4}), [statement(9, ADD, {A0: 3})], False),
    ],
    ids=["no statement", "it was seen", "not here", "in one of two", "a second try", "on both sides"],
)
def test_a_version_is_late_that_stands_before_what_the_layout_has_applied(layout, version, statements, expected):
    assert is_stale(layout, version, statements) is expected
