"""Statements about tables of the source that are sent under one name and in one topic."""

import pytest

from pipeline.ddl import AddColumn, CreateTable, DropDatabase, DropTable, NotUnderstood, RenameTable
from pipeline.ddl.statement import Statement
from pipeline.ingest.by_offset.shared_names import checked
from pipeline.model import types
from pipeline.model.columns import CommitTs, SourceColumn
from pipeline.model.messages import Ddl
from pipeline.model.names import TableName

SENT = TableName("s", "a_b")
BLANK, PLAIN, OTHER = (TableName("s", name) for name in ("a b", "a_b", "c d"))
ADD = AddColumn(SourceColumn("c", types.INT, "INT"))


def about(source, action, sent=SENT, *, of=None):
    ddl = Ddl(CommitTs(1), sent, 0, f"{action}", {}, in_source=source)
    return Statement(ddl, (action,), (sent,), ((sent.key, of or source),))


def outcome(*statements, called=None, tables=()):
    found, known = checked(statements, called or {}, tables)
    return [[type(action) for action in one.actions] for one in found], known


@pytest.mark.parametrize("action", [CreateTable(SENT), DropTable(SENT), ADD], ids=lambda action: type(action).__name__)
def test_a_statement_about_another_table_of_the_name_is_not_applied(action):
    (actions,), known = outcome(about(PLAIN, action), called={SENT.key: BLANK})
    assert (actions, known) == ([NotUnderstood], {SENT.key: BLANK})


def test_it_says_which_tables_are_meant():
    (found,), _ = checked([about(PLAIN, DropTable(SENT))], {SENT.key: BLANK}, ())
    assert "TiCDC sends both s.a b and s.a_b as s.a_b" in found.actions[0].reason
    assert found.tables == (SENT,)


def test_what_is_not_known_is_learned():
    assert outcome(about(BLANK, ADD)) == ([[AddColumn]], {SENT.key: BLANK})


def test_case_tells_no_tables_apart():
    assert outcome(about(TableName("S", "A B"), ADD), called={SENT.key: BLANK})[0] == [[AddColumn]]


def test_a_name_that_was_given_up_may_be_another_tables():
    away = TableName("s", "c_d")
    steps = [
        about(BLANK, DropTable(SENT)),
        about(PLAIN, CreateTable(SENT)),
        about(OTHER, RenameTable(SENT, away), away, of=PLAIN),
        about(BLANK, CreateTable(SENT)),
    ]
    steps[2] = Statement(steps[2].ddl, steps[2].actions, (away,), ((SENT.key, PLAIN),))
    actions, known = outcome(*steps, called={SENT.key: BLANK})
    assert actions == [[DropTable], [CreateTable], [RenameTable], [CreateTable]]
    assert known == {SENT.key: BLANK, away.key: OTHER}


def drop_database(source):
    ddl = Ddl(CommitTs(1), TableName("my_db", ""), 0, "DROP DATABASE", {}, in_source=TableName(source, ""))
    return Statement(ddl, (DropDatabase("my_db"),))


def test_a_database_that_shares_its_name_takes_its_own_tables_alone():
    own, others, unknown = (("my_db", name) for name in ("own", "others", "unknown"))
    called = {own: TableName("my-db", "own"), others: TableName("my_db", "others")}
    (found,), _ = checked([drop_database("my-db")], called, [own, others, unknown, ("else", "own")])
    assert [action.table.key for action in found.actions if isinstance(action, DropTable)] == [own]
    assert [table.key for table in found.tables] == [unknown]
    assert isinstance(found.actions[-1], NotUnderstood)


def test_where_tables_of_a_database_come_from_two_origins_none_is_dropped():
    names = [("my_db", "orders"), ("my_db", "orders@other_topic")]
    called = {names[0]: TableName("my_db", "orders")}
    (found,), _ = checked([drop_database("my_db")], called, names)
    assert [type(action) for action in found.actions] == [NotUnderstood]
    assert [table.key for table in found.tables] == names


def test_a_database_of_its_own_name_goes_whole():
    assert outcome(drop_database("my_db"), tables=[("my_db", "orders")])[0] == [[DropDatabase]]
