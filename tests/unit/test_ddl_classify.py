"""Statements by their text alone, as the Simple protocol needs them."""

import pytest
from unit.test_ddl_golden import SCENARIOS, messages

from pipeline import ddl
from pipeline.ddl import ActionType as A
from pipeline.ddl.classify import classify
from pipeline.ddl.create import created_columns
from pipeline.model.names import TableName

ALL = [message for scenario in SCENARIOS for _, message in messages(scenario)]


@pytest.mark.parametrize("message", ALL, ids=lambda m: m["query"][:60])
def test_the_text_asks_for_what_the_number_says(message):
    table, sql = TableName(message["schema"], message["table"]), message["query"]
    by_number, by_text = (ddl.parse(kind, sql, table) for kind in (message["type"], classify(sql)))
    classified = (ddl.NoEffect, ddl.NotUnderstood)
    assert [type(a) if isinstance(a, classified) else a for a in by_text] == [
        type(a) if isinstance(a, classified) else a for a in by_number
    ]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("TRUNCATE t", A.TRUNCATE_TABLE),
        ("truncate table `a`.`b`", A.TRUNCATE_TABLE),
        ("CREATE OR REPLACE DEFINER = `root`@`%` SQL SECURITY DEFINER VIEW `v` AS SELECT 1", A.CREATE_VIEW),
        ("CREATE UNIQUE INDEX `i` ON `t` (`a`)", A.ADD_INDEX),
        ("CREATE GLOBAL TEMPORARY TABLE `database` (a INT)", A.CREATE_TABLE),
        ("ALTER TABLE `t` RENAME INDEX `a` TO `b`", A.MULTI_SCHEMA_CHANGE),
        ("ALTER TABLE `t` RENAME TO `u`", A.RENAME_TABLE),
        ("ALTER DATABASE `d` CHARACTER SET = utf8mb4", A.MODIFY_SCHEMA_CHARSET_AND_COLLATE),
        ("FLASHBACK TABLE `t` TO `u`", A.RECOVER_TABLE),
        ("FLASHBACK CLUSTER TO TIMESTAMP '2020-01-01'", A.FLASHBACK_CLUSTER),
        ("", A.NONE),
        ("SELECT 1", A.NONE),
        ("DROP `table`", A.NONE),
        ("CREATE TABLE 'x", A.NONE),
    ],
)
def test_a_kind_is_told_by_the_first_words(sql, kind):
    assert classify(sql) is kind


def test_columns_of_a_new_table():
    sql = (
        "CREATE TABLE IF NOT EXISTS `d`.`t` (`id` INT PRIMARY KEY,`s` DECIMAL(5,2) AS (`id`+1) STORED,"
        "`v` INT GENERATED ALWAYS AS (`id`*2) VIRTUAL,UNIQUE KEY `u` (`s`),CONSTRAINT `c` CHECK (`id` > 0)) COMMENT='x'"
    )
    assert [(c.name, c.virtual) for c in created_columns(sql)] == [("id", False), ("s", False), ("v", True)]


@pytest.mark.parametrize(
    "sql", ["CREATE TABLE `a` LIKE `b`", "CREATE TABLE", "CREATE TABLE `a` (", "DROP TABLE `a`", ""]
)
def test_what_has_no_columns_has_none(sql):
    assert created_columns(sql) == ()


@pytest.mark.parametrize(
    ("options", "families"),
    [
        ("", ("TEXT", "TEXT", "BLOB", "INT")),
        ("DEFAULT CHARACTER SET = BINARY", ("BLOB", "TEXT", "BLOB", "INT")),
        ("ENGINE=InnoDB CHARSET binary COMMENT 'c'", ("BLOB", "TEXT", "BLOB", "INT")),
        ("DEFAULT COLLATE='binary'", ("BLOB", "TEXT", "BLOB", "INT")),
        ("CHARSET binary CHARSET utf8mb4", ("TEXT", "TEXT", "BLOB", "INT")),
        ("COMMENT 'CHARSET binary'", ("TEXT", "TEXT", "BLOB", "INT")),
        ("CHARSET binary PARTITION BY HASH (i) PARTITIONS 3", ("BLOB", "TEXT", "BLOB", "INT")),
    ],
)
def test_texts_that_do_not_say_their_character_set_have_that_of_their_table(options, families):
    sql = f"CREATE TABLE t (a VARCHAR(9), b TEXT COLLATE utf8mb4_bin, c CHAR(3) CHARSET binary, i INT) {options}"
    assert tuple(column.type.family for column in created_columns(sql)) == families
