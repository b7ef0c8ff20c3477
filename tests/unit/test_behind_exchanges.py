"""Statements behind an EXCHANGE PARTITION that waits for one of its tables (by commit ts)."""

from types import SimpleNamespace

from pipeline.ddl import ActionType, parse
from pipeline.ddl.statement import Statement
from pipeline.ingest.ddl.exchange import after_exchanges
from pipeline.model.columns import CommitTs
from pipeline.model.messages import Ddl
from pipeline.model.names import TableName
from pipeline.warehouse.exchange import Exchange
from pipeline.warehouse.layout import Removal
from pipeline.warehouse.pairs import PairByCommitTs

PARTS, OTHER = TableName("s", "parts"), TableName("s", "other")
AT = 100


def said(ts, kind, sql, table=PARTS, old=None):
    ddl = Ddl(CommitTs(ts), table, kind, sql, {}, old=old)
    return Statement(ddl, parse(kind, sql, table, old=old, partitions=True))


def waiting(*statements, exchanging=((PARTS, AT),), held=()):
    known = {table.key: at for table, at in exchanging}
    return [s.ddl.commit_ts for s in after_exchanges(statements, known, {table.key for table in held})]


def add_column(ts, table=PARTS):
    return said(ts, ActionType.ADD_COLUMN, f"ALTER TABLE `s`.`{table.table}` ADD COLUMN `x` INT", table)


def exchange(ts, table=PARTS):
    sql = f"ALTER TABLE `s`.`{table.table}` EXCHANGE PARTITION `p` WITH TABLE `s`.`other`"
    return said(ts, ActionType.EXCHANGE_TABLE_PARTITION, sql, table)


def drop(ts, table):
    return said(ts, ActionType.DROP_TABLE, f"DROP TABLE `s`.`{table.table}`", table)


def rename(ts, old, new):
    sql = f"RENAME TABLE `s`.`{old.table}` TO `s`.`{new.table}`"
    return said(ts, ActionType.RENAME_TABLE, sql, new, old)


def test_those_about_its_columns_wait_and_what_is_behind_them_of_the_same_table():
    truncate = said(103, ActionType.TRUNCATE_TABLE, "TRUNCATE TABLE `s`.`parts`")
    assert waiting(add_column(101, OTHER), add_column(102), truncate, add_column(104, OTHER)) == [102, 103]


def test_others_do_not_nor_those_from_before_it():
    truncate = said(101, ActionType.TRUNCATE_TABLE, "TRUNCATE TABLE `s`.`parts`")
    assert waiting(add_column(99), truncate) == []


def test_the_table_is_followed_under_its_new_name():
    new = TableName("s", "new")
    assert waiting(rename(101, PARTS, new), add_column(102), add_column(103, new)) == [103]


def test_a_name_that_waits_to_be_given_away_lets_all_wait_that_concern_either():
    new = TableName("s", "new")
    drop = said(104, ActionType.DROP_SCHEMA, "DROP DATABASE `s`", TableName("s", ""))
    assert waiting(add_column(101), rename(102, PARTS, new), add_column(103, new), drop) == [101, 102, 103, 104]


def test_an_exchange_of_a_table_that_is_held_waits_and_all_that_is_about_either_behind_it():
    truncate = said(103, ActionType.TRUNCATE_TABLE, "TRUNCATE TABLE `s`.`other`", OTHER)
    statements = truncate, add_column(104), drop(105, OTHER), add_column(106, TableName("s", "third"))
    assert waiting(add_column(101), exchange(102), *statements, exchanging=(), held=[PARTS]) == [102, 103, 104, 105]


def test_an_exchange_with_a_table_that_is_held_does_not_but_what_is_behind_it_waits():
    assert waiting(add_column(101), exchange(102), add_column(103), exchanging=(), held=[OTHER]) == [103]


def test_a_table_that_is_held_is_followed_under_its_new_name_until_it_is_dropped():
    new = TableName("s", "new")
    held = {"exchanging": (), "held": [PARTS]}
    assert waiting(rename(101, PARTS, new), exchange(102), exchange(103, new), **held) == [103]
    assert waiting(drop(101, PARTS), exchange(102), **held) == []


def test_the_drop_of_a_table_whose_exchange_waits_and_what_gets_its_name_behind_it():
    again = said(103, ActionType.CREATE_TABLE, "CREATE TABLE `s`.`parts` (`id` INT)")
    assert waiting(drop(99, PARTS)) == []
    assert waiting(drop(101, OTHER), drop(102, PARTS), again) == [102, 103]


def test_the_drop_of_its_database_and_what_is_made_in_that_anew():
    drop_database = said(102, ActionType.DROP_SCHEMA, "DROP DATABASE `s`", TableName("", ""))
    again = said(103, ActionType.CREATE_TABLE, "CREATE TABLE `s`.`other` (`id` INT)", OTHER)
    others = said(104, ActionType.DROP_SCHEMA, "DROP DATABASE `t`", TableName("", ""))
    assert waiting(add_column(101, OTHER), drop_database, again, others) == [102, 103]


def test_nothing_waits_for_an_exchange_where_there_are_no_current_tables():
    removal = Removal(AT, None, None, ())
    bare, shown = (
        SimpleNamespace(current=None, by_commit_ts=PairByCommitTs()),
        SimpleNamespace(current=object(), by_commit_ts=PairByCommitTs()),
    )
    assert Exchange(bare, bare, removal).done
    assert not Exchange(shown, shown, removal).done
