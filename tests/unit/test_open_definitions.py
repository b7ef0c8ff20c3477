"""What DDL says of columns holds behind its commit ts, in this batch and in later ones."""

import pytest

from pipeline.ddl import ActionType
from pipeline.model.columns import SourceColumn, TableVersion
from pipeline.model.messages import Ddl
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.protocols.definitions import read_definitions
from pipeline.protocols.layouts.columns import version_of

A, B = TableName("s", "a"), TableName("s", "b")
CREATE, ALTER, RENAME = ActionType.CREATE_TABLE, ActionType.MODIFY_COLUMN, ActionType.RENAME_TABLE
CREATED = "CREATE TABLE `a` (`id` INT PRIMARY KEY,`E` ENUM('x','y'),`d` DECIMAL(8,2),`v` INT AS (`id`) VIRTUAL)"


class Memory:
    def __init__(self):
        self.kept = {}

    def of_tables(self, tables):
        names = {table.key for table in tables}
        return [version for (name, _), version in self.kept.items() if name in names]


def statement(ts, sql, kind=ALTER, table=A):
    return Ddl(ts, table, kind, sql, {Partition("t", 0): ts})


def definitions(*statements, memory=None):
    """Read them, and remember what is new."""
    known = memory or Memory()
    found = read_definitions(statements, [A], known.of_tables)
    known.kept |= found.described
    return found


def members(found, ts, table=A, column="e"):
    defined = found.at(table, ts).get(column)
    return None if defined is None else defined.members


def test_a_created_table_defines_its_columns_for_the_rows_behind_it():
    found = definitions(statement(5, CREATED, CREATE))
    assert found.at(A, 5) == {}
    assert {name: column.tidb_type for name, column in found.at(A, 6).items()} == {
        "id": "INT",
        "e": "ENUM",
        "d": "DECIMAL(8,2)",
    }
    assert members(found, 6) == ("x", "y")


def test_each_statement_holds_from_its_commit_ts():
    found = definitions(
        statement(5, CREATED, CREATE),
        statement(8, "ALTER TABLE a MODIFY COLUMN e ENUM('x','y','z')"),
        statement(
            9, "ALTER TABLE a ADD COLUMN s SET('p','q') DEFAULT 'q', DROP COLUMN d", ActionType.MULTI_SCHEMA_CHANGE
        ),
        statement(11, "ALTER TABLE a RENAME COLUMN e TO f"),
    )
    assert [members(found, ts) for ts in (6, 8, 9, 11, 12)] == [("x", "y"), ("x", "y"), *[("x", "y", "z")] * 2, None]
    assert members(found, 12, column="f") == ("x", "y", "z")
    assert found.at(A, 10)["s"].default.text == "q"
    assert "d" not in found.at(A, 10)
    assert found.between(A, 6, 11) == [8, 9]
    assert found.between(A, 8, 8) == []


def test_a_modified_column_keeps_what_the_rows_before_it_show():
    found = definitions(
        statement(5, "ALTER TABLE a ADD COLUMN e ENUM('x') DEFAULT 'x'"),
        statement(6, "ALTER TABLE a MODIFY COLUMN e ENUM('x','y') DEFAULT 'y'"),
    )
    assert found.at(A, 7)["e"].default.text == "x"


def test_definitions_go_with_a_table_that_is_renamed():
    memory = Memory()
    definitions(statement(5, CREATED, CREATE), memory=memory)
    found = definitions(statement(9, "RENAME TABLE s.a TO s.b", RENAME, B), memory=memory)
    assert members(found, 10, B) == ("x", "y")
    assert found.at(B, 9) == {}


def test_a_rename_from_a_database_that_nobody_names_takes_no_definitions():
    memory = Memory()
    definitions(statement(5, CREATED, CREATE), memory=memory)
    other = TableName("e", "a")
    found = definitions(statement(9, "RENAME TABLE `a` TO `e`.`a`", RENAME, other), memory=memory)
    assert found.at(other, 10) == {}


def test_a_table_that_is_created_like_another_has_its_definitions():
    found = definitions(statement(5, CREATED, CREATE), statement(6, "CREATE TABLE `s`.`b` LIKE `s`.`a`", CREATE, B))
    assert members(found, 7, B) == ("x", "y")


def test_a_model_in_a_database_that_nobody_names_defines_nothing():
    like = statement(7, "CREATE TABLE `s`.`b` LIKE `a`", CREATE, B)
    found = definitions(statement(5, CREATED, CREATE), statement(6, CREATED, CREATE, B), like)
    assert (found.at(B, 7) != {}, found.at(B, 8)) == (True, {})


def test_a_model_and_a_new_table_without_databases_are_in_the_same():
    found = definitions(statement(5, CREATED, CREATE), statement(6, "CREATE TABLE `b` (LIKE `a`)", CREATE, B))
    assert members(found, 7, B) == ("x", "y")


def test_a_table_that_is_created_anew_has_its_own():
    found = definitions(statement(5, CREATED, CREATE), statement(6, "CREATE TABLE a (e ENUM('n'))", CREATE))
    assert (members(found, 7), "d" in found.at(A, 7)) == (("n",), False)


def test_earlier_batches_are_remembered():
    memory = Memory()
    definitions(statement(5, CREATED, CREATE), memory=memory)
    assert set(memory.kept) == {(A.key, 5)}
    assert members(definitions(memory=memory), 6) == ("x", "y")
    found = definitions(statement(9, "ALTER TABLE a MODIFY COLUMN e ENUM('z')"), memory=memory)
    assert [members(found, ts) for ts in (9, 10)] == [("x", "y"), ("z",)]
    assert members(definitions(memory=memory), 10) == ("z",)


def test_a_statement_that_comes_again_is_not_applied_again():
    memory = Memory()
    definitions(
        statement(5, CREATED, CREATE),
        statement(7, "ALTER TABLE a MODIFY COLUMN e ENUM('y')"),
        statement(9, "ALTER TABLE a MODIFY COLUMN e ENUM('z')"),
        memory=memory,
    )
    found = definitions(statement(7, "ALTER TABLE a MODIFY COLUMN e ENUM('y')"), memory=memory)
    assert found.described == {}
    assert members(found, 8) == ("y",)
    later = definitions(
        statement(7, "ALTER TABLE a MODIFY COLUMN e ENUM('y')"),
        statement(12, "ALTER TABLE a ADD COLUMN n INT", ActionType.ADD_COLUMN),
        memory=memory,
    )
    assert [members(later, ts) for ts in (8, 13)] == [("y",), ("z",)]


def test_rows_that_come_late_are_read_with_what_held_for_them():
    memory = Memory()
    definitions(statement(5, CREATED, CREATE), memory=memory)
    definitions(statement(7, "ALTER TABLE a MODIFY COLUMN e ENUM('y')"), memory=memory)
    late = definitions(memory=memory)
    assert [members(late, ts) for ts in (5, 7, 8)] == [None, ("x", "y"), ("y",)]
    assert [late.since(A, ts) for ts in (5, 6, 7, 8)] == [0, 5, 5, 7]


def test_versions_of_rows_define_nothing():
    memory = Memory()
    column = SourceColumn("e", "string", "ENUM", members=("q",))
    version = TableVersion(A, version_of(3, [column], key_only=False), (column,))
    memory.kept[A.key, version.version] = version
    assert definitions(memory=memory).at(A, 99) == {}


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        (ActionType.ADD_INDEX, "CREATE UNIQUE INDEX c ON a (id)"),
        (ActionType.DROP_INDEX, "ALTER TABLE a DROP INDEX c"),
        (ActionType.DROP_INDEXES, "ALTER TABLE a DROP INDEX c, DROP INDEX d"),
        (ActionType.ADD_PRIMARY_KEY, "ALTER TABLE a ADD PRIMARY KEY (id)"),
        (ActionType.DROP_PRIMARY_KEY, "ALTER TABLE a DROP PRIMARY KEY"),
        (ActionType.MULTI_SCHEMA_CHANGE, "ALTER TABLE a DROP INDEX c, ADD UNIQUE INDEX d (d)"),
    ],
)
def test_what_may_change_the_handle_parts_the_rows_and_defines_what_there_was(kind, sql):
    memory = Memory()
    definitions(statement(5, CREATED, CREATE), memory=memory)
    found = definitions(statement(9, sql, kind), memory=memory)
    assert found.at(A, 10) == found.at(A, 9) != {}
    assert [found.since(A, ts) for ts in (9, 10)] == [5, 9]
    assert definitions(memory=memory).since(A, 10) == 9
    unseen = definitions(statement(9, sql, kind))
    assert (unseen.at(A, 10), unseen.since(A, 10)) == ({}, 9)


@pytest.mark.parametrize(
    "clauses",
    [
        "DROP PRIMARY KEY, ADD COLUMN s ENUM('p','q')",
        "ADD COLUMN s ENUM('p','q'), ADD PRIMARY KEY (s)",
        "ADD COLUMN s ENUM('p','q') PRIMARY KEY",
    ],
)
def test_clauses_about_the_primary_key_leave_the_definitions_beside_them(clauses):
    found = definitions(statement(5, f"ALTER TABLE a {clauses}", ActionType.MULTI_SCHEMA_CHANGE))
    assert members(found, 6, column="s") == ("p", "q")


def test_statements_that_define_no_columns_and_texts_that_are_none_say_nothing():
    found = definitions(
        statement(5, "ALTER TABLE a COMMENT 'c'", ActionType.MODIFY_TABLE_COMMENT),
        statement(6, "ALTER TABLE ' (", ALTER),
        statement(7, "CREATE DATABASE d", ActionType.CREATE_SCHEMA, TableName("d", "")),
        statement(8, "?", 4711),
    )
    assert found.described == {}
    assert found.at(A, 99) == {}
