"""Statement forms that the golden changefeeds do not have."""

import pytest

from pipeline import ddl
from pipeline.ddl import ActionType as A
from pipeline.ddl.classify import classify
from pipeline.ddl.create import created_columns
from pipeline.ddl.kinds import COLUMN_KINDS, NO_EFFECT, NOT_HANDLED
from pipeline.model.columns import NULL_DEFAULT, UNKNOWN_DEFAULT, literal
from pipeline.model.names import TableName

T = TableName("d", "t")
REST = {
    A.CREATE_SCHEMA,
    A.DROP_SCHEMA,
    A.CREATE_TABLE,
    A.CREATE_TABLES,
    A.DROP_TABLE,
    A.TRUNCATE_TABLE,
    A.RENAME_TABLE,
    A.RENAME_TABLES,
}


def parsed(sql, kind=A.MULTI_SCHEMA_CHANGE, table=T, **options):
    return ddl.parse(kind, sql, table, **options)


def names(sql):
    """Actions without the column's details: AddColumn `a`, DropColumn `b` …"""
    found = []
    for action in parsed(sql):
        column = getattr(action, "column", None)
        name = column.name if column else getattr(action, "name", getattr(action, "old", ""))
        found.append((type(action).__name__, name))
    return found


def only(sql, kind=A.MULTI_SCHEMA_CHANGE):
    (action,) = parsed(sql, kind)
    return action


# --- kinds ---


def test_every_kind_of_tidb_is_in_exactly_one_group():
    groups = [set(NO_EFFECT), set(NOT_HANDLED), set(COLUMN_KINDS), REST]
    assert sum(map(len, groups)) == len(A)
    assert set().union(*groups) == set(A)


@pytest.mark.parametrize("kind", [66, 85, 200, 255, -1])
def test_a_kind_that_tidb_will_invent_is_not_understood(kind):
    (action,) = parsed("ALTER TABLE t SOMETHING", kind)
    assert isinstance(action, ddl.NotUnderstood)
    assert str(kind) in action.reason


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE `d`.`t` ADD FULLTEXT INDEX (`v`) WITH PARSER standard",
        "CREATE HYBRID INDEX i_idx ON t(b, c, d, e, g) PARAMETER '{\"a\": [1, 2]}'",
        "ALTER TABLE t ADD INDEX `a` USING BTREE (`a`,(`b` + 1)) COMMENT 'ADD COLUMN x' INVISIBLE, ADD KEY (`c`)",
        "CREATE INDEX IF NOT EXISTS `i` ON `d`.`t` (`a` DESC) USING HASH KEY_BLOCK_SIZE = 8;",
        "ALTER TABLE t ADD VECTOR INDEX v((VEC_COSINE_DISTANCE(`e`))) USING HNSW ADD_COLUMNAR_REPLICA_ON_DEMAND",
    ],
)
def test_an_index_of_a_kind_that_tidb_will_invent_changes_no_row(sql):
    assert parsed(sql, 251) == (ddl.NoEffect("an index"),)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t ADD FULLTEXT INDEX (v), ADD COLUMN x INT",
        "ALTER TABLE t ADD FULLTEXT INDEX (v) PURGE ROWS",
        "ALTER TABLE t ADD UNIQUE INDEX (v)",
        "CREATE UNIQUE INDEX i ON t (v)",
        "ALTER TABLE t ADD PRIMARY KEY (v)",
        "ALTER IGNORE TABLE t ADD INDEX (v)",
        "ALTER TABLE t DROP INDEX i",
        "ALTER TABLE t ADD HYBRID INT",
        "ALTER TABLE t ADD INDEX (v",
        "CREATE INDEX i ON t (v); DROP TABLE t",
        "CREATE TABLE t (v INT)",
        "ALTER TABLE t ADD INDEX",
        "",
    ],
)
def test_a_text_of_an_unknown_kind_that_says_more_than_an_index_is_not_understood(sql):
    assert parsed(sql, 251) == (ddl.NotUnderstood("this version does not know TiDB's DDL type 251"),)


def test_sorts_of_index_with_a_ddl_type_of_their_own_change_no_row():
    fulltext, hybrid = "ALTER TABLE `t` ADD FULLTEXT INDEX (`v`)", "CREATE HYBRID INDEX i ON t(a, b) PARAMETER 'x'"
    assert only(fulltext, 230) == only(hybrid, 231) == ddl.NoEffect("an index")
    assert only(fulltext) == only("ALTER TABLE t ADD HYBRID INDEX i (a, b)") == ddl.NoEffect("an index or a constraint")
    assert only(hybrid, classify(hybrid)) == ddl.NoEffect("an index")


def test_soft_deletes_are_not_guessed():
    assert isinstance(only("ALTER TABLE t SOFTDELETE = ON", 79), ddl.NotUnderstood)


@pytest.mark.parametrize("kind", sorted(NO_EFFECT))
def test_kinds_without_effect_are_not_even_read(kind):
    (action,) = parsed("'", kind)
    assert isinstance(action, ddl.NoEffect)


@pytest.mark.parametrize(
    "kind",
    [
        A.TRUNCATE_TABLE_PARTITION,
        A.DROP_TABLE_PARTITION,
        A.EXCHANGE_TABLE_PARTITION,
        A.ADD_PRIMARY_KEY,
        A.DROP_PRIMARY_KEY,
        A.RECOVER_TABLE,
        A.RECOVER_SCHEMA,
        A.FLASHBACK_CLUSTER,
        A.NONE,
    ],
)
def test_kinds_that_change_rows_or_keys_unseen_are_not_understood(kind):
    (action,) = parsed("ALTER TABLE `t` ADD COLUMN `a` INT", kind)
    assert isinstance(action, ddl.NotUnderstood)


@pytest.mark.parametrize("kind", sorted((COLUMN_KINDS | REST) - {A.CREATE_SCHEMA, A.DROP_SCHEMA, A.CREATE_TABLES}))
def test_a_message_about_a_table_that_names_none_is_not_understood(kind):
    (action,) = parsed("ALTER TABLE `t` ADD COLUMN `a` INT", kind, TableName("d", ""))
    assert action == ddl.NotUnderstood("the message names no table")


# --- databases and tables ---


def test_a_database_has_the_name_that_the_message_says():
    assert parsed("CREATE DATABASE `x`", A.CREATE_SCHEMA, TableName("D", "")) == (ddl.CreateDatabase("D"),)
    assert parsed("DROP DATABASE `x`", A.DROP_SCHEMA, TableName("D", "")) == (ddl.DropDatabase("D"),)


@pytest.mark.parametrize("sql", ["DROP DATABASE `a``b.c`", "drop schema if exists `a``b.c`;"])
def test_a_database_that_only_the_text_names_is_read_from_it(sql):
    assert parsed(sql, A.DROP_SCHEMA, TableName("", "")) == (ddl.DropDatabase("a`b.c"),)


def test_a_database_that_nothing_names_is_not_understood():
    (action,) = parsed("DROP TABLE x", A.DROP_SCHEMA, TableName("", ""))
    assert action == ddl.NotUnderstood("expected DATABASE where “TABLE” is")


def test_tables_created_together_are_created_one_by_one():
    sql = "CREATE TABLE `d`.`a` (`x` INT COMMENT ';');CREATE TABLE IF NOT EXISTS `b` (`x` INT);"
    assert parsed(sql, A.CREATE_TABLES) == (
        ddl.CreateTable(TableName("d", "a")),
        ddl.CreateTable(TableName("d", "b")),
    )


# --- renames ---


@pytest.mark.parametrize(
    "sql",
    [
        "RENAME TABLE `d`.`old` TO `d`.`t`",
        "rename table `old` to `t`",
        "ALTER TABLE `old` RENAME AS `t`",
        "ALTER TABLE `old` RENAME TO `t`",
        "ALTER TABLE `d`.`old` RENAME `d`.`t`",
        "ALTER TABLE `d`.`old` RENAME = `t`",
        "/* why */ RENAME TABLE `d`.`old` TO `d`.`t`;",
    ],
)
def test_a_rename_without_databases_is_within_the_message_s_database(sql):
    assert parsed(sql, A.RENAME_TABLE) == (ddl.RenameTable(TableName("d", "old"), T),)


def test_a_rename_ends_in_the_table_that_the_message_names():
    assert only("RENAME TABLE `a`.`x` TO `y`", A.RENAME_TABLE) == ddl.RenameTable(TableName("a", "x"), T)


def test_a_rename_into_a_database_from_an_unnamed_one_is_not_guessed():
    action = only("RENAME TABLE `x` TO `d`.`t`", A.RENAME_TABLE)
    assert action == ddl.NotUnderstood("the statement does not say in which database x was before it became d.t")


@pytest.mark.parametrize(
    ("sql", "old"),
    [
        ("RENAME TABLE `t` TO `d`.`t`", TableName("before", "t")),
        ("RENAME TABLE `t` TO `u`", TableName("before", "t")),
        ("ALTER TABLE `T` RENAME AS `d`.`t`", TableName("before", "t")),
        ("RENAME TABLE `a`.`t` TO `d`.`t`", TableName("a", "t")),
    ],
)
def test_a_name_without_a_database_is_the_one_that_the_protocol_tells(sql, old):
    told = TableName("before", "t")
    assert parsed(sql, A.RENAME_TABLE, old=told) == (ddl.RenameTable(old, T),)
    assert {name.key for name in ddl.named_tables(sql, T, told)} == {T.key, told.key, old.key}


def test_tables_that_an_unclear_statement_names_are_in_its_databases():
    assert ddl.named_tables("ALTER TABLE `x`.`u` HUH TABLE `v`", T) == (T, TableName("x", "u"), TableName("d", "v"))
    assert ddl.named_tables("RENAME TABLE `a` HUH", T, TableName("e", "b")) == (
        T,
        TableName("e", "b"),
        TableName("e", "a"),
    )


@pytest.mark.parametrize(
    ("sql", "table", "database"),
    [
        ("FLASHBACK DATABASE `d` TO `e`", TableName("", ""), "d"),
        ("RESHAPE SCHEMA IF EXISTS `d`", TableName("", ""), "d"),
        ("RESHAPE DATABASE `d`", TableName("told", ""), "told"),
        ("FLASHBACK CLUSTER TO TIMESTAMP '2026-11-24'", TableName("", ""), ""),
        ("RESHAPE DATABASE", TableName("", ""), ""),
        ("RESHAPE 'DATABASE", TableName("", ""), ""),
    ],
)
def test_an_unclear_statement_may_name_a_database(sql, table, database):
    assert ddl.named_database(sql, table) == database


def test_several_renames_keep_their_order_and_their_databases():
    sql = "RENAME TABLE `a` TO `tmp`, `d`.`b` TO `e`.`a`; RENAME TABLE `tmp` TO `b`"
    assert parsed(sql, A.RENAME_TABLES) == (
        ddl.RenameTable(TableName("d", "a"), TableName("d", "tmp")),
        ddl.RenameTable(TableName("d", "b"), TableName("e", "a")),
        ddl.RenameTable(TableName("d", "tmp"), TableName("d", "b")),
    )


@pytest.mark.parametrize(
    "sql", ["RENAME TABLE `a`", "RENAME TABLE `a` TO", "RENAME TABLE `a` TO `b` `c`", "ALTER TABLE `a`"]
)
def test_half_a_rename_is_not_understood(sql):
    assert isinstance(only(sql, A.RENAME_TABLE), ddl.NotUnderstood)


def test_names_may_be_anything_that_back_quotes_hold():
    sql = "RENAME TABLE `Life-2.b`.`t``1` TO `d`.`订单 `"
    assert only(sql, A.RENAME_TABLE) == ddl.RenameTable(TableName("Life-2.b", "t`1"), T)


# --- texts that end in a backslash ---


@pytest.mark.parametrize(
    ("written", "members"),
    [
        (r"ENUM('/','\')", ("/", "\\")),
        (r"ENUM('a\','b')", ("a\\", "b")),
        (r"ENUM('\','\\')", ("\\", "\\\\")),
        (r"SET('it\''s','x\')", ("it\\'s", "x\\")),
        (r"ENUM('back\slash','don\''t')", ("back\\slash", "don\\'t")),
        (r"ENUM('back\slash')", ("back\\slash",)),
    ],
)
def test_members_have_their_backslashes_as_tidb_writes_them(written, members):
    assert only(f"ALTER TABLE `t` ADD COLUMN `a` {written}").column.members == members
    (column,) = created_columns(f"CREATE TABLE `t` (`a` {written} COMMENT 'x') COMMENT = 'C:\\'")
    assert column.type.members == members


def test_a_default_beside_such_a_text_is_still_what_tidb_doubled():
    sql = r"ALTER TABLE `t` ADD COLUMN `a` VARCHAR(9) DEFAULT _UTF8MB4'\\n''\\' COMMENT '\\', ADD COLUMN `e` ENUM('\')"
    first, second = parsed(sql)
    assert first.column.default == literal("\\n'\\")
    assert second.column.members == ("\\",)


@pytest.mark.parametrize("clause", [r"COMMENT = 'C:\dir\'", r"COMMENT = 'don\''t'", r"ADD INDEX `i`(`a`) COMMENT 'x\'"])
def test_comments_of_tables_and_indexes_may_end_in_a_backslash(clause):
    assert names(f"ALTER TABLE `d`.`t` {clause}, {clause}, DROP COLUMN `c`") == [
        ("NoEffect", ""),
        ("NoEffect", ""),
        ("DropColumn", "c"),
    ]
    assert classify(rf"CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY) {clause}") is A.CREATE_TABLE


# --- columns ---


def test_columns_in_parentheses_are_added_one_by_one():
    sql = "ALTER TABLE `t` ADD COLUMN (`a` INT NOT NULL, `b` DECIMAL(10, 2) DEFAULT 1, UNIQUE `u`(`a`, `b`))"
    assert names(sql) == [("AddColumn", "a"), ("AddColumn", "b"), ("NoEffect", "")]


def test_clauses_keep_their_order():
    sql = (
        "ALTER TABLE `d`.`t` DROP COLUMN `a`, ADD COLUMN `a` TEXT FIRST, ADD INDEX `i`(`a`(10), (`b` + 1)),"
        "RENAME COLUMN `b` TO `c`, MODIFY COLUMN `c` INT AFTER `a`, CHANGE COLUMN `e` `f` INT, "
        "DROP INDEX `i`,"
        "ALTER COLUMN `f` SET DEFAULT (-1), RENAME INDEX `i` TO `j`, ALTER INDEX `j` INVISIBLE,"
        "COMMENT = 'a, b'"
    )
    assert names(sql) == [
        ("DropColumn", "a"),
        ("AddColumn", "a"),
        ("NoEffect", ""),
        ("RenameColumn", "b"),
        ("ModifyColumn", "c"),
        ("RenameColumn", "e"),
        ("ModifyColumn", "f"),
        ("NoEffect", ""),
        ("SetDefault", "f"),
        ("NoEffect", ""),
        ("NoEffect", ""),
        ("NoEffect", ""),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE `t` ADD COLUMN IF NOT EXISTS `a` INT",
        "ALTER TABLE t ADD a INT",
        "alter table t add column a int",
        "ALTER IGNORE TABLE `t` ADD COLUMN `a` INT;",
        "ALTER TABLE `d`.`t` ADD COLUMN `t`.`a` INT AFTER `d`.`t`.`id`",
        "ALTER TABLE `t` ADD COLUMN `a` INT COMMENT 'it''s, DEFAULT 5)'",
        "ALTER TABLE `t` ADD COLUMN `a` INT UNIQUE KEY CHECK(`a` > (1)) NOT ENFORCED",
        "ALTER TABLE `t` ADD `a` INT CONSTRAINT `c` CHECK (`a` > 1) REFERENCES `x`(`y`) ON DELETE SET NULL",
        "ALTER TABLE `t` ADD COLUMN `a` INT COLUMN_FORMAT FIXED STORAGE DISK /*T![x] Y */",
        "ALTER TABLE `t` ADD COLUMN `a` INT -- remark\n NULL # remark",
    ],
)
def test_an_added_column_may_be_written_in_many_ways(sql):
    assert names(sql)[0] == ("AddColumn", "a")
    assert parsed(sql)[0].column.default == NULL_DEFAULT


@pytest.mark.parametrize("name", ["select", "a.b", "a`b", "a b", "订单", "ünï", "1st", "_ok$", "unique", "İ", "key"])
def test_a_column_may_have_any_name_in_back_quotes(name):
    quoted = name.replace("`", "``")
    assert only(f"ALTER TABLE `t` ADD COLUMN `{quoted}` INT").column.name == name
    assert only(f"ALTER TABLE `t` ADD `{quoted}` INT").column.name == name
    assert only(f"ALTER TABLE `t` DROP `{quoted}`") == ddl.DropColumn(name)
    assert only(f"ALTER TABLE `t` RENAME COLUMN `{quoted}` TO `{quoted}2`") == ddl.RenameColumn(name, name + "2")


def test_dropping_a_column_if_it_exists_drops_it():
    assert only("ALTER TABLE `t` DROP COLUMN IF EXISTS `a` CASCADE") == ddl.DropColumn("a")


def test_a_change_that_keeps_the_name_is_a_modify():
    action = only("ALTER TABLE `t` CHANGE COLUMN `a` `a` BIGINT NOT NULL")
    assert (type(action), action.name, action.column.type, action.column.nullable) == (
        ddl.ModifyColumn,
        "a",
        "bigint",
        False,
    )


def test_a_change_that_only_alters_case_renames():
    assert parsed("ALTER TABLE `t` CHANGE `a` `A` INT")[0] == ddl.RenameColumn("a", "A")


@pytest.mark.parametrize(
    ("written", "default"),
    [
        ("SET DEFAULT 43", literal("43")),
        ("SET DEFAULT (-1.5)", literal("-1.5")),
        ("SET DEFAULT -1.5", literal("-1.5")),
        ("SET DEFAULT _UTF8MB4'it''s'", literal("it's")),
        ("SET DEFAULT NULL", NULL_DEFAULT),
        ("SET DEFAULT (UUID())", UNKNOWN_DEFAULT),
        ("SET DEFAULT CURRENT_TIMESTAMP(3)", UNKNOWN_DEFAULT),
        (" DROP DEFAULT", NULL_DEFAULT),
    ],
)
def test_a_new_default_is_taken_as_written(written, default):
    assert only(f"ALTER TABLE `t` ALTER COLUMN `a` {written}", A.SET_DEFAULT_VALUE) == ddl.SetDefault("a", default)


@pytest.mark.parametrize(
    "clause",
    [
        "ADD COLUMN `g` INT GENERATED ALWAYS AS(`a`+1) VIRTUAL NOT NULL",
        "ADD COLUMN `g` INT AS (`a`)",
        "MODIFY COLUMN `g` BIGINT GENERATED ALWAYS AS(`a`+1) VIRTUAL",
        "CHANGE COLUMN `f` `g` BIGINT GENERATED ALWAYS AS(`a`+1) VIRTUAL",
    ],
)
def test_a_virtual_column_has_no_effect(clause):
    assert isinstance(only(f"ALTER TABLE `t` {clause}"), ddl.NoEffect)


def test_a_stored_column_has_values_that_only_tidb_knows():
    action = only("ALTER TABLE `t` ADD COLUMN `g` INT GENERATED ALWAYS AS(CONCAT(`b`, _UTF8MB4')')) STORED NOT NULL")
    assert action.column.default == UNKNOWN_DEFAULT


@pytest.mark.parametrize(
    "clause",
    [
        "ADD COLUMN `a` INT PRIMARY KEY",
        "ADD `a` BIGINT /*T![auto_rand] AUTO_RANDOM(5) */ PRIMARY KEY /*T![clustered_index] CLUSTERED */",
        "ADD PRIMARY KEY(`a`)",
        "ADD CONSTRAINT `p` PRIMARY KEY (`a`)",
        "ADD CONSTRAINT PRIMARY KEY (`a`)",
        "DROP PRIMARY KEY",
        "DROP PARTITION `p`",
        "TRUNCATE PARTITION ALL",
        "EXCHANGE PARTITION `p` WITH TABLE `x`",
    ],
)
def test_one_clause_about_keys_or_unseen_rows_holds_the_whole_statement(clause):
    (action,) = parsed(f"ALTER TABLE `t` ADD COLUMN `b` INT, {clause}, DROP COLUMN `c`")
    assert isinstance(action, ddl.NotUnderstood)


@pytest.mark.parametrize(
    "clause",
    [
        "ADD UNIQUE KEY `u`(`a`)",
        "ADD CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `x`(`y`)",
        "DROP FOREIGN KEY `f`",
        "ADD CONSTRAINT CHECK (`a` > 1) ENFORCED",
        "DROP CHECK `c`",
        "ALTER CHECK `c` NOT ENFORCED",
        "ADD FULLTEXT INDEX `i`(`a`)",
        "ADD VECTOR INDEX `v`((VEC_COSINE_DISTANCE(`a`))) USING HNSW",
        "CONVERT TO CHARACTER SET UTF8MB4 COLLATE UTF8MB4_BIN",
        "AUTO_INCREMENT = 5",
        "ENGINE = InnoDB COMMENT = 'x'",
        "ALGORITHM = INSTANT",
        "LOCK = NONE",
        "SHARD_ROW_ID_BITS = 4",
        "TTL = `a` + INTERVAL 1 DAY",
        "CACHE",
        "SET TIFLASH REPLICA 1",
        "REMOVE PARTITIONING",
        "ORDER BY `a`",
        "FORCE",
        "ADD PARTITION (PARTITION `p` VALUES LESS THAN (1))",
    ],
)
def test_clauses_about_anything_but_columns_and_rows_have_no_effect(clause):
    actions = parsed(f"ALTER TABLE `t` {clause}")
    assert [type(action) for action in actions] == [ddl.NoEffect]


@pytest.mark.parametrize(
    "clause",
    [
        "/*T![ttl] TTL = `t` + INTERVAL 1 DAY */ /*T![ttl] TTL_ENABLE = 'OFF' */",
        "/*T![ttl] TTL_JOB_INTERVAL = '7h' */",
        "/*T![ttl] REMOVE TTL */;",
        "/*T![auto_rand_base] AUTO_RANDOM_BASE = 7 */",
        "/*T![auto_id_cache] AUTO_ID_CACHE = 100 */",
        "/*T![placement] PLACEMENT POLICY = `p` */",
        "/*T![clustered_index] CLUSTERED */",
        "/*T! SHARD_ROW_ID_BITS = 4 */",
        "\n/*T![ttl] REMOVE TTL */",
    ],
)
@pytest.mark.parametrize("partitions", [False, True])
def test_a_body_that_stands_in_tidbs_own_comments_has_no_effect(clause, partitions):
    (action,) = parsed(f"ALTER TABLE `t` {clause}", partitions=partitions)
    assert isinstance(action, ddl.NoEffect)


def test_a_clause_in_tidbs_own_comment_may_stand_between_others():
    sql = "ALTER TABLE `t` DROP COLUMN `a`, /*T![ttl] TTL_ENABLE = 'OFF' */, DROP COLUMN `b`"
    assert names(sql) == [("DropColumn", "a"), ("NoEffect", ""), ("DropColumn", "b")]


@pytest.mark.parametrize(
    "sql",
    [
        "",
        ";",
        "ALTER TABLE `t` /* remark */",
        "ALTER TABLE `/*T![ttl] REMOVE TTL */`",
        "ALTER TABLE /*T![ttl] REMOVE TTL */ `t`",
        "ALTER TABLE `t` DROP COLUMN `a` /*T![ttl] REMOVE TTL */, , DROP COLUMN `b`",
        "ALTER",
        "ALTER TABLE",
        "ALTER TABLE `t`",
        "ALTER TABLE `t` ADD",
        "ALTER TABLE `t` ADD COLUMN `a`",
        "ALTER TABLE `t` ADD COLUMN `a` FOO",
        "ALTER TABLE `t` ADD COLUMN `a` INT GARBAGE",
        "ALTER TABLE `t` ADD COLUMN `a` INT,",
        "ALTER TABLE `t` ADD COLUMN `a` INT, , DROP COLUMN `b`",
        "ALTER TABLE `t` ADD COLUMN `a` INT) ",
        "ALTER TABLE `t` ADD COLUMN (`a` INT",
        "ALTER TABLE `t` ADD COLUMN ()",
        "ALTER TABLE `t` ADD COLUMN `` INT",
        "ALTER TABLE `t` ADD COLUMN `a` INT DEFAULT",
        "ALTER TABLE `t` ADD COLUMN `a` INT DEFAULT (1",
        "ALTER TABLE `t` ADD COLUMN `a` VARCHAR(5) DEFAULT 'a' 'b'",
        "ALTER TABLE `t` ADD COLUMN `a` INT FIRST NOT NULL",
        "ALTER TABLE `t` ADD COLUMN `a` INT DEFAULT `b`",
        "ALTER TABLE `t` ADD COLUMN `a` ENUM()",
        "ALTER TABLE `t` ADD COLUMN `a` ENUM('x' 'y')",
        "ALTER TABLE `t` ADD COLUMN `a` DECIMAL(66,2)",
        "ALTER TABLE `t` ADD COLUMN `a` DECIMAL(5,6)",
        "ALTER TABLE `t` ADD COLUMN `a` BIT(65)",
        "ALTER TABLE `t` ADD COLUMN `a` DATETIME(7)",
        "ALTER TABLE `t` ADD COLUMN `a` BINARY(99999999999)",
        "ALTER TABLE `t` RENAME COLUMN `a` `b`",
        "ALTER TABLE `t` RENAME `b`",
        "ALTER TABLE `t` ADD COLUMN `a` VARCHAR(5) DEFAULT 'unfinished",
        "ALTER TABLE `t` ADD COLUMN `a` INT /* unfinished",
        "DROP TABLE `t`",
        "ALTER TABLE `t` ADD COLUMN `a` INT 5",
        "ALTER TABLE `t` ADD COLUMN `a\ud800` INT",
    ],
)
def test_what_is_no_statement_about_columns_is_not_understood_and_says_why(sql):
    (action,) = parsed(sql)
    assert isinstance(action, ddl.NotUnderstood)
    assert len(action.reason) > 10


@pytest.mark.parametrize(
    ("kind", "sql", "expected"),
    [
        (A.MULTI_SCHEMA_CHANGE, "ALTER TABLE t ADD PRIMARY KEY (a)", ()),
        (A.MULTI_SCHEMA_CHANGE, "ALTER TABLE t DROP PRIMARY KEY, DROP COLUMN b", (ddl.DropColumn("b"),)),
        (A.ADD_PRIMARY_KEY, "ALTER TABLE t ADD PRIMARY KEY (a)", ()),
        (A.DROP_PRIMARY_KEY, "ALTER TABLE t DROP PRIMARY KEY", ()),
    ],
)
def test_a_key_that_the_protocol_tells_needs_no_understanding(kind, sql, expected):
    found = ddl.parse(kind, sql, TableName("d", "t"), keys=True)
    assert tuple(action for action in found if not isinstance(action, ddl.NoEffect)) == expected
    assert isinstance(ddl.parse(kind, sql, TableName("d", "t"))[0], ddl.NotUnderstood)


EXCHANGE = "ALTER TABLE `d`.`part` EXCHANGE PARTITION `p3` WITH TABLE `d`.`part_x`"


@pytest.mark.parametrize(
    ("sql", "named", "altered"),
    [
        (EXCHANGE, "part_x", "part"),
        (EXCHANGE, "part", "part"),
        ("ALTER TABLE part EXCHANGE PARTITION p3 WITH TABLE part_x", "part_x", "part"),
        ("EXCHANGE of something else", "part_x", "part_x"),
    ],
)
def test_an_exchange_of_partitions_is_about_the_partitioned_table_whichever_its_message_names(sql, named, altered):
    table = TableName("d", named)
    assert ddl.altered(A.EXCHANGE_TABLE_PARTITION, sql, table) == TableName("d", altered)
    assert ddl.altered(A.ADD_COLUMN, sql, table) == table
