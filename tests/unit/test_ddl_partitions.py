"""Partitioned tables: what the text defines, what statements make of it, and which rows a partition has."""

import base64
import datetime as dt
import gzip
import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import ddl
from pipeline.ddl import ActionType as A
from pipeline.ddl import partitions as p
from pipeline.ddl.classify import classify
from pipeline.ddl.kinds import PARTITION_KINDS
from pipeline.ddl.literals import EXPRESSION, NULL, Literal, LiteralKind
from pipeline.model.names import TableName

GOLDEN = Path(__file__).parents[1] / "golden" / "ddl"
T = TableName("d", "t")
K = p.PartitionKind


def number(value):
    return Literal(LiteralKind.NUMBER, str(value))


def text(value):
    return Literal(LiteralKind.TEXT, value)


def scheme(by, columns="`a` INT, `b` INT", options=""):
    found = p.partitioning(f"CREATE TABLE `d`.`t` ({columns}) {options} PARTITION BY {by}")
    assert p.from_json(json.loads(json.dumps(p.to_json(found)))) == found
    return found


def altered(clause, kind=A.MULTI_SCHEMA_CHANGE, table="`d`.`t`"):
    (action,) = ddl.parse(kind, f"ALTER TABLE {table} {clause}", T, partitions=True)
    return action


def after(found, *clauses):
    for clause in clauses:
        found = p.applied(found, altered(clause))
    return found


def names(found):
    return [partition.name for partition in found.partitions]


# --- what a row lies in, in plain Python: what Spark is held to in tests/spark/test_partitions.py ---


def lies_in(predicate, row):
    """Whether a row {column: value} is one of the predicate's, by the definition of each."""
    match predicate:
        case p.Everything():
            return True
        case p.Ranges():
            return any(_in_span(_shown(predicate.columns, row), span) for span in predicate.spans)
        case p.Members():
            shown = tuple(_shown(predicate.columns, row))
            return shown in predicate.among or (predicate.others is not None and shown not in predicate.others)
    value = row[predicate.column.name] or 0
    signed = value - 2**64 if value >= 2**63 else value
    return abs(signed) % predicate.modulus in predicate.remainders


def _shown(columns, row):
    padded = p.ValueKind.PADDED_TEXT
    return [row[c.name].rstrip(" ") if c.kind is padded and row[c.name] is not None else row[c.name] for c in columns]


def _in_span(values, span):
    above = span.low is None or not _is_below(values, span.low)
    return above and (span.high is None or _is_below(values, span.high))


def _is_below(values, edge):
    keys = [(value is not None, value) for value in values[: len(edge.values)]]
    wanted = [(True, value) for value in edge.values]
    coded = [[(there, _bytes(value)) for there, value in side] for side in (keys, wanted)]
    for mine, bound in zip(*coded, strict=True):
        if mine[0] != bound[0] or mine[1] != bound[1]:
            return mine[0] < bound[0] or mine[1] < bound[1]
    return edge.reached


def _bytes(value):
    return value.encode() if isinstance(value, str) else value


def rows_of(found, partition_names, values, **types):
    """The values, of the only column or of all, whose rows lie in these partitions."""
    predicate = p.predicate(found, partition_names, types)
    assert not isinstance(predicate, ddl.NotUnderstood), predicate.reason
    columns = [column.name for column in found.columns]
    if len(columns) == 1:
        return [value for value in values if lies_in(predicate, {columns[0]: value})]
    return [value for value in values if lies_in(predicate, dict(zip(columns, value, strict=True)))]


def refusal(found, partition_names, **types):
    predicate = p.predicate(found, partition_names, types)
    assert isinstance(predicate, ddl.NotUnderstood)
    return predicate.reason


# --- definitions ---

RANGE = "RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (10),PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
LIST = "LIST (`a`) (PARTITION `p0` VALUES IN (1, -2, NULL),PARTITION `p1` VALUES IN (3))"


def test_ranges_of_a_column():
    assert scheme(RANGE) == p.PartitionScheme(
        K.RANGE,
        (p.PartitionColumn("a"),),
        (p.NamedPartition("p0", below=(number(10),)), p.NamedPartition("p1", below=(p.MAXVALUE,))),
    )


def test_maxvalue_may_stand_without_parenthesis_and_options_behind_a_definition():
    found = scheme(
        "RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (-5) COMMENT = 'a, b)' ENGINE = InnoDB,"
        "PARTITION `p1` VALUES LESS THAN MAXVALUE /*T![placement] PLACEMENT POLICY = `x` */)"
    )
    assert [partition.below for partition in found.partitions] == [(number(-5),), (p.MAXVALUE,)]


def test_ranges_of_several_columns():
    found = scheme(
        "RANGE COLUMNS (`s`,`d`) (PARTITION `p0` VALUES LESS THAN (_UTF8MB4'm', '2024-01-01'),"
        "PARTITION `p1` VALUES LESS THAN ('m', MAXVALUE))",
        "`s` VARCHAR(10) COLLATE utf8mb4_bin, `d` DATE",
    )
    assert found.kind is K.RANGE_COLUMNS
    assert found.columns == (p.PartitionColumn("s", "utf8mb4_bin"), p.PartitionColumn("d"))
    assert [q.below for q in found.partitions] == [(text("m"), text("2024-01-01")), (text("m"), p.MAXVALUE)]


def test_lists_with_null_and_default():
    found = scheme(LIST.replace("IN (3)", "IN (3, DEFAULT)"))
    assert found.partitions == (
        p.NamedPartition("p0", among=((number(1),), (number(-2),), (NULL,))),
        p.NamedPartition("p1", among=((number(3),),), default=True),
    )


@pytest.mark.parametrize("default", ["DEFAULT", "VALUES IN (DEFAULT)"])
def test_a_default_partition_has_no_list(default):
    found = scheme(f"LIST (`a`) (PARTITION `p0` VALUES IN (1),PARTITION `rest` {default})")
    assert found.partitions[1] == p.NamedPartition("rest", default=True)
    assert not found.unsupported


def test_lists_of_several_columns():
    found = scheme("LIST COLUMNS (`a`,`b`) (PARTITION `p0` VALUES IN ((1,'x'),(NULL,'y')))")
    assert found.kind is K.LIST_COLUMNS
    assert found.partitions[0].among == ((number(1), text("x")), (NULL, text("y")))


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("HASH (`a`) PARTITIONS 3", ["p0", "p1", "p2"]),
        ("HASH (`a`)", ["p0"]),
        ("HASH (`a`) (PARTITION `x`,PARTITION `y` COMMENT = 'y')", ["x", "y"]),
        ("HASH ((`t`.`a`)) PARTITIONS 2 (PARTITION `x`,PARTITION `y`)", ["x", "y"]),
    ],
)
def test_hash_partitions_are_numbered_or_named(by, expected):
    found = scheme(by)
    assert (found.kind, names(found), found.unsupported) == (K.HASH, expected, "")
    assert found.columns[0].name == "a"


@pytest.mark.parametrize(
    ("by", "reason"),
    [
        ("RANGE (YEAR(`d`)) (PARTITION `p0` VALUES LESS THAN (2024))", "YEAR ( `d` )"),
        ("RANGE (`a` + 1) (PARTITION `p0` VALUES LESS THAN (1))", "`a` + 1"),
        ("HASH (TO_DAYS(`d`)) PARTITIONS 4", "TO_DAYS"),
        ("HASH ((`a`) + (`b`)) PARTITIONS 4", "+"),
        ("KEY (`a`) PARTITIONS 4", "KEY"),
        ("KEY () PARTITIONS 4", "KEY"),
        ("KEY ALGORITHM = 2 (`a`,`b`) PARTITIONS 4", "KEY"),
        ("LINEAR HASH (`a`) PARTITIONS 4", "LINEAR HASH"),
        ("RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (5 * 2))", "an expression"),
        ("RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (TO_DAYS('2024-01-01')))", "an expression"),
        ("LIST (`a`) (PARTITION `p0` VALUES IN (1 + 1))", "an expression"),
        ("LIST (`a`) (PARTITION `p0` VALUES IN ((1) + 1))", "an expression"),
        ("RANGE (`a`) INTERVAL (10) FIRST PARTITION LESS THAN (0) LAST PARTITION LESS THAN (90)", "by INTERVAL"),
        ("RANGE (`a`) SUBPARTITION BY HASH (`b`) (PARTITION `p0` VALUES LESS THAN (1))", "of partitions"),
        ("RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (1) (SUBPARTITION `s`))", "of partitions"),
        ("RANGE (`a`) (PARTITION `p0` VALUES IN (1))", "does not fit"),
        ("RANGE (`a`) (PARTITION `p0`)", "does not fit"),
        ("HASH (`a`) (PARTITION `p0` VALUES LESS THAN (1))", "does not fit"),
        ("RANGE COLUMNS (`a`,`b`) (PARTITION `p0` VALUES LESS THAN (1))", "does not fit"),
        ("LIST COLUMNS (`a`,`b`) (PARTITION `p0` VALUES IN (1))", "does not fit"),
        ("RANGE (`a`) (PARTITION `p` VALUES LESS THAN (1),PARTITION `P` VALUES LESS THAN (2))", "one name"),
        ("HASH (`a`) PARTITIONS 2 (PARTITION `x`)", "says 2 partitions and defines 1"),
        ("HASH (`a`) PARTITIONS 99999999999999999999", "not a number of partitions"),
        ("HASH (`a`) PARTITIONS 0", "not a number of partitions"),
        ("SYSTEM_TIME (PARTITION `p0` CURRENT)", "RANGE, LIST, HASH or KEY"),
        ("RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (1)", "expected "),
        ("", "RANGE, LIST, HASH or KEY"),
    ],
)
def test_what_cannot_be_followed_is_kept_with_the_reason(by, reason):
    found = scheme(by)
    assert reason in found.unsupported
    assert refusal(found, ("p0",), a="INT", b="INT") == found.unsupported


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE `t` (`a` INT)",
        "CREATE TABLE `t` (`a` INT COMMENT 'PARTITION BY HASH (a)') COMMENT = 'PARTITION BY HASH (a)'",
        "CREATE TABLE `t` LIKE `u`",
        "CREATE VIEW `v` AS SELECT 1",
        "ALTER TABLE `t` PARTITION BY HASH (`a`)",
        "CREATE TABLE `t` (`a` INT",
        "CREATE TABLE",
        "",
        "'",
    ],
)
def test_other_texts_partition_nothing(sql):
    assert p.partitioning(sql) is None


def test_a_table_like_another_says_which():
    assert p.created_like("CREATE TABLE IF NOT EXISTS `t` (LIKE `u`)", T) == TableName("d", "u")
    assert p.created_like("CREATE TABLE `t` LIKE `e`.`u`", T) == TableName("e", "u")
    for sql in ("CREATE TABLE `t` (`like` INT)", "CREATE TABLE `t` LIKE", "'"):
        assert p.created_like(sql, T) is None


def test_a_model_without_a_database_is_not_looked_for_in_that_of_a_new_table_which_has_one():
    assert p.created_like("CREATE TABLE `d`.`t` LIKE `u`", T) is None


def test_of_several_tables_the_one_that_is_meant():
    sql = (
        "CREATE TABLE `d`.`s` (`a` INT COMMENT ';') PARTITION BY HASH (`a`) PARTITIONS 2;"
        "CREATE TABLE `e`.`t` (`a` INT);CREATE TABLE `T` (`a` INT) PARTITION BY HASH (`a`) PARTITIONS 3;"
    )
    assert len(p.partitioning(sql, T).partitions) == 3
    assert p.partitioning(sql, TableName("e", "t")) is None
    assert p.partitioning(sql, TableName("d", "x")) is None


@pytest.mark.parametrize(
    ("column", "options", "collation"),
    [
        ("VARCHAR(9)", "", ""),
        ("VARCHAR(9)", "DEFAULT CHARACTER SET = UTF8MB4 DEFAULT COLLATE = UTF8MB4_GENERAL_CI", "utf8mb4_general_ci"),
        ("VARCHAR(9)", "COLLATE utf8mb4_unicode_ci CHARSET utf8mb4 COLLATE utf8mb4_0900_bin", "utf8mb4_0900_bin"),
        ("VARCHAR(9)", "ENGINE = InnoDB CHARSET = latin1", "latin1_bin"),
        ("VARCHAR(9) CHARACTER SET UTF8MB4", "COLLATE = utf8mb4_general_ci", "utf8mb4_bin"),
        ("VARCHAR(9) CHARACTER SET UTF8MB4 COLLATE utf8mb4_general_ci", "", "utf8mb4_general_ci"),
        ("VARCHAR(9) CHARACTER SET GBK", "", "gbk_bin"),
        ("A_TYPE_TO_COME", "", "unknown"),
    ],
)
def test_the_collation_is_what_the_column_says_else_the_table(column, options, collation):
    found = scheme("LIST COLUMNS (`A`) (PARTITION `p0` VALUES IN ('x'))", f"`a` {column}", options)
    assert found.columns == (p.PartitionColumn("A", collation),)
    assert not found.unsupported


# --- statements ---


@pytest.mark.parametrize(
    ("clause", "action"),
    [
        ("DROP PARTITION `p0`,`p1`", ddl.DropPartitions(T, ("p0", "p1"))),
        ("DROP PARTITION IF EXISTS p0", ddl.DropPartitions(T, ("p0",))),
        ("TRUNCATE PARTITION `p0`,`all`", ddl.TruncatePartitions(T, ("p0", "all"))),
        ("TRUNCATE PARTITION ALL", ddl.TruncatePartitions(T, None)),
        ("EXCHANGE PARTITION `p` WITH TABLE `d`.`x`", ddl.ExchangePartition(T, "p", TableName("d", "x"))),
        (
            "EXCHANGE PARTITION `p` WITH TABLE `e`.`x` WITH VALIDATION",
            ddl.ExchangePartition(T, "p", TableName("e", "x"), validation=True),
        ),
        (
            "EXCHANGE PARTITION `p` WITH TABLE `e`.`x` WITHOUT VALIDATION",
            ddl.ExchangePartition(T, "p", TableName("e", "x"), validation=False),
        ),
        (
            "ADD PARTITION (PARTITION `p2` VALUES LESS THAN (30), PARTITION `p3` VALUES LESS THAN (MAXVALUE))",
            ddl.AddPartitions(
                T, (p.NamedPartition("p2", below=(number(30),)), p.NamedPartition("p3", below=(p.MAXVALUE,))), number=2
            ),
        ),
        ("ADD PARTITION IF NOT EXISTS PARTITIONS 3", ddl.AddPartitions(T, number=3)),
        ("ADD PARTITION NO_WRITE_TO_BINLOG (PARTITION `x`)", ddl.AddPartitions(T, (p.NamedPartition("x"),), 1)),
        ("COALESCE PARTITION 2", ddl.CoalescePartitions(T, 2)),
        (
            "REORGANIZE PARTITION `a`,`b` INTO (PARTITION `c` VALUES IN (1))",
            ddl.ReorganizePartitions(T, ("a", "b"), (p.NamedPartition("c", among=((number(1),),)),)),
        ),
        (
            "ADD PARTITION (PARTITION `p2` (SUBPARTITION `s`))",
            ddl.UnclearPartitions(T, "partitions of partitions are not understood"),
        ),
        (
            "REORGANIZE PARTITION `a` INTO (PARTITION `c` VALUES IN 1)",
            ddl.UnclearPartitions(T, "expected “(” where “1” is"),
        ),
        ("REMOVE PARTITIONING", ddl.RemovePartitioning(T)),
        (
            "PARTITION BY HASH (`a`) PARTITIONS 1 UPDATE INDEXES (`i` GLOBAL)",
            ddl.PartitionBy(
                T, p.PartitionScheme(K.HASH, (p.PartitionColumn("a", "unknown"),), (p.NamedPartition("p0"),))
            ),
        ),
    ],
)
def test_clauses_about_partitions(clause, action):
    assert altered(clause) == action
    for kind in PARTITION_KINDS:
        assert altered(clause, kind) == action


@pytest.mark.parametrize(
    "clause",
    [
        "DROP PARTITION",
        "DROP PARTITION `p0` `p1`",
        "DROP PARTITION `p0`, DROP COLUMN `a`",
        "TRUNCATE PARTITION",
        "TRUNCATE PARTITION ALL, `p`",
        "EXCHANGE PARTITION `p` WITH `x`",
        "EXCHANGE PARTITION `p` WITH TABLE `x`",
        "EXCHANGE PARTITION `p`,`q` WITH TABLE `d`.`x`",
        "EXCHANGE PARTITION `p` WITH TABLE `d`.`x` WITHOUT",
        "ADD PARTITION",
        "ADD PARTITION (PARTITION `p` VALUES LESS THAN (1)",
        "ADD PARTITION (PARTITION `p` VALUES LESS THAN (1)) `x`",
        "COALESCE PARTITION `p`",
        "REORGANIZE PARTITION",
        "FIRST PARTITION LESS THAN (10)",
        "IMPORT PARTITION `p` TABLESPACE",
        "DISCARD PARTITION ALL TABLESPACE",
        "REMOVE PARTITIONING `x`",
        "TRUNCATE PARTITION '`",
    ],
)
def test_half_a_clause_about_partitions_is_not_understood(clause):
    assert isinstance(altered(clause), ddl.NotUnderstood)


def test_without_databases_a_table_is_exchanged_within_the_message_s():
    action = altered("EXCHANGE PARTITION `p` WITH TABLE `x`", table="`t`")
    assert action == ddl.ExchangePartition(T, "p", TableName("d", "x"))


def test_an_exchange_is_of_the_table_that_the_text_names():
    action = altered("EXCHANGE PARTITION `p` WITH TABLE `d`.`t`", table="`d`.`whole`")
    assert action == ddl.ExchangePartition(TableName("d", "whole"), "p", T)


def test_the_placement_of_a_partition_is_an_option():
    assert isinstance(altered("PARTITION `p` ATTRIBUTES = 'x'"), ddl.NoEffect)
    assert isinstance(altered("COMMENT = 'DROP PARTITION p'"), ddl.NoEffect)


@pytest.mark.parametrize("kind", sorted(PARTITION_KINDS))
def test_who_keeps_no_definitions_is_told_nothing_of_them(kind):
    (action,) = ddl.parse(kind, "ALTER TABLE `t` DROP PARTITION `p`", T)
    assert isinstance(action, ddl.NoEffect | ddl.NotUnderstood)
    (action,) = ddl.parse(A.MULTI_SCHEMA_CHANGE, "ALTER TABLE `t` DROP PARTITION `p`", T)
    assert isinstance(action, ddl.NotUnderstood)


def test_a_message_about_partitions_that_names_no_table_is_not_understood():
    (action,) = ddl.parse(
        A.DROP_TABLE_PARTITION, "ALTER TABLE `t` DROP PARTITION `p`", TableName("d", ""), partitions=True
    )
    assert action == ddl.NotUnderstood("the message names no table")


# --- what statements make of a scheme ---


def test_partitions_are_added_behind_and_dropped_where_they_are():
    found = scheme("RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (10),PARTITION `p1` VALUES LESS THAN (20))")
    found = after(found, "ADD PARTITION (PARTITION `p2` VALUES LESS THAN (30))", "DROP PARTITION `P1`")
    assert names(found) == ["p0", "p2"]
    assert not found.unsupported
    assert rows_of(found, ("p2",), [None, 9, 10, 19, 29, 30], a="INT") == [10, 19, 29]


def test_reorganized_partitions_stand_where_the_first_of_them_stood():
    found = scheme(
        "RANGE (`a`) (PARTITION `a` VALUES LESS THAN (1),PARTITION `b` VALUES LESS THAN (2),"
        "PARTITION `c` VALUES LESS THAN (3),PARTITION `d` VALUES LESS THAN (4))"
    )
    into = "(PARTITION `x` VALUES LESS THAN (2),PARTITION `c` VALUES LESS THAN (3))"
    found = after(found, f"REORGANIZE PARTITION `b`,`c` INTO {into}")
    assert names(found) == ["a", "x", "c", "d"]
    assert not found.unsupported


def test_hash_partitions_come_and_go_at_the_end():
    found = scheme("HASH (`a`) (PARTITION `x`,PARTITION `y`)")
    found = after(found, "ADD PARTITION PARTITIONS 2")
    assert names(found) == ["x", "y", "p2", "p3"]
    found = after(found, "COALESCE PARTITION 1", "ADD PARTITION (PARTITION `z`)")
    assert names(found) == ["x", "y", "p2", "z"]
    assert rows_of(found, ("z",), [3, 7, -3, -7, 4], a="INT") == [3, 7, -3, -7]


def test_truncating_and_exchanging_leave_the_definitions():
    found = scheme(RANGE)
    assert after(found, "TRUNCATE PARTITION `p0`", "EXCHANGE PARTITION `p0` WITH TABLE `d`.`x`") == found
    assert p.applied(found, ddl.AddColumn(None)) == found


@pytest.mark.parametrize(
    ("by", "clause", "reason"),
    [
        (RANGE, "EXCHANGE PARTITION `p0` WITH TABLE `d`.`x` WITHOUT VALIDATION", "without validation"),
        (RANGE, "ADD PARTITION (PARTITION `p2` VALUES LESS THAN (1, 2))", "does not fit"),
        (RANGE, "ADD PARTITION (PARTITION `P0` VALUES LESS THAN (1))", "one name"),
        (RANGE, "ADD PARTITION (PARTITION `p2` VALUES LESS THAN (1 + 1))", "an expression"),
        (RANGE, "ADD PARTITION (PARTITION `p2` (SUBPARTITION `s`))", "not understood"),
        (RANGE, "ADD PARTITION PARTITIONS 1", "RANGE have no numbers"),
        (RANGE, "REORGANIZE PARTITION `p7` INTO (PARTITION `x` VALUES LESS THAN (1))", "not all"),
        (RANGE, "DROP PARTITION `p0`,`p1`", "0 partitions"),
        (RANGE, "COALESCE PARTITION 1", "were coalesced"),
        ("HASH (`a`) PARTITIONS 2", "COALESCE PARTITION 2", "0 partitions"),
        ("HASH (`a`) PARTITIONS 2", "DROP PARTITION `p1`", "by name"),
        ("HASH (`a`) PARTITIONS 8000", "ADD PARTITION PARTITIONS 8000", "16000 partitions"),
        ("HASH (`a`) (PARTITION `p1`)", "ADD PARTITION PARTITIONS 1", "one name"),
    ],
)
def test_what_definitions_do_not_tell_any_more_is_held_until_the_table_is_partitioned_anew(by, clause, reason):
    found = after(scheme(by), clause)
    assert reason in found.unsupported
    assert refusal(found, ("p0",), a="INT") == found.unsupported
    assert after(found, "ADD PARTITION (PARTITION `p9` VALUES LESS THAN (90))") == found
    assert after(found, f"PARTITION BY {LIST}").partitions == scheme(LIST).partitions
    assert after(found, "REMOVE PARTITIONING") is None


def test_what_was_never_seen_stays_so():
    assert after(None, "ADD PARTITION (PARTITION `p2` VALUES LESS THAN (1))", "DROP PARTITION `p`") is None
    assert "no statement has said" in refusal(None, ("p",))


def test_a_renamed_column_goes_on_to_decide():
    found = p.applied(scheme(RANGE), ddl.RenameColumn("A", "x"))
    assert found.columns == (p.PartitionColumn("x"),)
    assert p.applied(found, ddl.RenameColumn("a", "y")) == found


# --- rows ---

NUMBERS = [None, -(2**63), -11, -1, 0, 9, 10, 11, 2**63 - 1]
UNSIGNED = [None, 0, 10, 2**63 - 1, 2**63, 2**64 - 4, 2**64 - 3, 2**64 - 1]


def test_all_partitions_are_every_row_however_it_is_partitioned():
    for found in (None, scheme("KEY (`a`) PARTITIONS 4"), scheme(RANGE)):
        assert p.predicate(found, None, {}) == p.Everything()


def test_null_is_in_the_lowest_range():
    found = scheme(RANGE)
    assert rows_of(found, ("p0",), NUMBERS, a="BIGINT") == NUMBERS[:6]
    assert rows_of(found, ("P1",), NUMBERS, a="BIGINT") == NUMBERS[6:]
    assert rows_of(found, ("p1", "p0"), NUMBERS, a="BIGINT") == NUMBERS


def test_ranges_side_by_side_are_one_span():
    found = scheme(f"RANGE (`a`) ({','.join(f'PARTITION `p{n}` VALUES LESS THAN ({n})' for n in range(9))})")
    found = p.predicate(found, [f"p{n}" for n in (7, 1, 2, 3, 0, 5)], {"A": "INT"})
    edges = [(span.low and span.low.values, span.high.values) for span in found.spans]
    assert found.columns == (p.Deciding("A", p.ValueKind.NUMBER),)
    assert edges == [(None, (3,)), ((4,), (5,)), ((6,), (7,))]


def test_unsigned_ranges_go_to_two_to_the_64():
    by = "RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (9223372036854775808),PARTITION `p1` VALUES LESS THAN MAXVALUE)"
    assert rows_of(scheme(by), ("p1",), UNSIGNED, a="BIGINT UNSIGNED") == UNSIGNED[4:]


def test_tuples_compare_from_the_left():
    found = scheme(
        "RANGE COLUMNS (`a`,`b`) (PARTITION `p0` VALUES LESS THAN (10, 5),PARTITION `p1` VALUES LESS THAN "
        "(10, MAXVALUE),PARTITION `p2` VALUES LESS THAN (20, 0),PARTITION `p3` VALUES LESS THAN (MAXVALUE, 0))"
    )
    by_partition = {
        "p0": [(None, None), (None, 99), (9, 99), (10, None), (10, 4)],
        "p1": [(10, 5), (10, 99)],
        "p2": [(11, None), (11, 0), (20, None), (20, -1)],
        "p3": [(20, 0), (99, None)],
    }
    rows = [row for rows in by_partition.values() for row in rows]
    for name, expected in by_partition.items():
        assert rows_of(found, (name,), rows, a="INT", b="INT") == expected


def test_texts_compare_by_their_bytes_without_spaces_at_the_end():
    found = scheme(
        "RANGE COLUMNS (`s`) (PARTITION `p0` VALUES LESS THAN ('a'),PARTITION `p1` VALUES LESS THAN ('é '),"
        "PARTITION `p2` VALUES LESS THAN (MAXVALUE))",
        "`s` VARCHAR(9)",
    )
    assert rows_of(found, ("p1",), [None, "", "A", "a", "a ", "a\t", "z", "é", "é  ", "\uffff", "😀"], s="TEXT") == [
        "a", "a ", "a\t", "z",
    ]  # fmt: skip
    assert rows_of(found, ("p2",), ["\uffff", "😀"], s="TEXT") == ["\uffff", "😀"]


def test_without_padding_a_space_counts():
    by = "LIST COLUMNS (`s`) (PARTITION `p0` VALUES IN ('a ', NULL, ''))"
    padded = scheme(by, "`s` VARCHAR(9)")
    exact = scheme(by, "`s` VARCHAR(9) COLLATE utf8mb4_0900_bin")
    values = [None, "", " ", "a", "a ", "A"]
    assert rows_of(padded, ("p0",), values, s="TEXT") == [None, "", " ", "a", "a "]
    assert rows_of(exact, ("p0",), values, s="TEXT") == [None, "", "a "]


def test_days_and_moments():
    found = scheme(
        "RANGE COLUMNS (`d`,`m`) (PARTITION `p0` VALUES LESS THAN ('2024-2-29', MAXVALUE),"
        "PARTITION `p1` VALUES LESS THAN (DATE '9999-12-31', '2024-03-01 12:00'))",
        "`d` DATE, `m` DATETIME(3)",
    )
    predicate = p.predicate(found, ("p1",), {"d": "DATE", "m": "DATETIME(3)"})
    assert predicate.spans == (
        p.ValueRange(
            p.Edge((dt.date(2024, 2, 29),), reached=True),
            p.Edge((dt.date(9999, 12, 31), dt.datetime(2024, 3, 1, 12, 0))),  # noqa: DTZ001
        ),
    )


def test_lists_have_what_they_name_and_the_default_the_rest():
    by = f"{LIST[:-1]},PARTITION `rest` DEFAULT)"
    values = [None, -2, 0, 1, 3]
    assert rows_of(scheme(by), ("p0",), values, a="INT") == [None, -2, 1]
    assert rows_of(scheme(by), ("rest",), values, a="INT") == [0]
    assert rows_of(scheme(by), ("rest", "p1"), values, a="INT") == [0, 3]
    assert rows_of(scheme(by.replace("1, -2, NULL", "1")), ("rest",), values, a="INT") == [None, -2, 0]
    assert rows_of(scheme(LIST.replace("IN (3)", "IN (3, DEFAULT)")), ("p1",), values, a="INT") == [0, 3]


TENS = ",".join(f"PARTITION `p{n}` VALUES LESS THAN ({10 * n})" for n in range(9))
LISTS = ",".join(f"PARTITION `p{n}` VALUES IN ({n}, {10 + n})" for n in range(9))
MANY = (
    f"RANGE (`a`) ({TENS})",
    f"RANGE (`a`) ({TENS},PARTITION `p9` VALUES LESS THAN MAXVALUE)",
    f"LIST (`a`) ({LISTS})",
    f"LIST (`a`) ({LISTS},PARTITION `p9` DEFAULT)",
    "HASH (`a`) PARTITIONS 9",
)


@given(st.sampled_from(MANY), st.sets(st.integers(0, 8), min_size=1))
def test_partitions_that_do_not_decide_may_be_left_out(by, chosen):
    found, wanted = scheme(by), [f"P{number}" for number in sorted(chosen, key=lambda number: number % 4)]
    for partitions in (wanted, [*wanted, *names(found)[9:]]):
        left = found.deciding(partitions)
        assert p.predicate(left, partitions, {"a": "INT"}) == p.predicate(found, partitions, {"a": "INT"})


@pytest.mark.parametrize(
    ("by", "left"),
    [(MANY[0], "p2 p3 p6 p7"), (MANY[1], "p2 p3 p6 p7"), (MANY[2], "p3 p7"), (MANY[3], "p3 p7"), (MANY[4], "all")],
)
def test_those_that_decide_are_as_many_as_are_named_and_the_edges_before_them(by, left):
    """Of HASH all are needed: their number is the divisor."""
    found = scheme(by)
    assert names(found.deciding(("p7", "P3"))) == (names(found) if left == "all" else left.split())
    assert names(found.deciding(("p0",)))[0] == "p0"


def test_tuples_of_a_list_may_have_null():
    by = "LIST COLUMNS (`a`,`b`) (PARTITION `p0` VALUES IN ((1,NULL),(2,2)),PARTITION `rest` DEFAULT)"
    values = [(1, None), (1, 2), (2, 2), (None, None)]
    assert rows_of(scheme(by), ("p0",), values, a="INT", b="INT") == [(1, None), (2, 2)]
    assert rows_of(scheme(by), ("rest",), values, a="INT", b="INT") == [(1, 2), (None, None)]


def test_hash_counts_null_as_0_and_reads_64_bits_as_signed():
    found = scheme("HASH (`a`) PARTITIONS 4")
    assert rows_of(found, ("p0",), [None, 0, 4, -4, 1], a="INT") == [None, 0, 4, -4]
    assert rows_of(found, ("p3", "p1"), NUMBERS, a="BIGINT") == [-11, -1, 9, 11, 2**63 - 1]
    assert rows_of(found, ("p3",), UNSIGNED, a="BIGINT UNSIGNED") == [2**63 - 1, 2**64 - 3]
    assert rows_of(found, ("p1",), UNSIGNED, a="BIGINT UNSIGNED") == [2**64 - 1]


@pytest.mark.parametrize(
    ("by", "tidb_type", "reason"),
    [
        ("HASH (`a`) PARTITIONS 2", "TEXT", "not a whole number"),
        ("HASH (`a`) PARTITIONS 2", "BIT(8)", "of type BIT(8)"),
        ("HASH (`a`) PARTITIONS 2", "TIMESTAMP(3)", "of type TIMESTAMP(3)"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN ('x'))", "BLOB", "of type BLOB"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN ('10:00'))", "TIME(0)", "of type TIME(0)"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN ('1'))", "INT", "no exact INT: 1"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN (1.5))", "INT", "no exact INT: 1.5"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN (1))", "TEXT", "no exact TEXT"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN (x'41'))", "TEXT", "no exact TEXT"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN ('\ufffd'))", "TEXT", "no exact TEXT"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN (20240101))", "DATE", "no exact DATE"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN ('2024-02-30'))", "DATE", "no exact DATE"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN ('0000-00-00'))", "DATE", "no exact DATE"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN ('2024-01-01 00:00:00.5'))", "DATETIME(0)", "DATETIME"),
        ("RANGE COLUMNS (`a`) (PARTITION `p0` VALUES LESS THAN (NULL))", "INT", "no exact INT"),
    ],
)
def test_values_that_are_not_exactly_of_the_column_are_not_guessed(by, tidb_type, reason):
    assert reason in refusal(scheme(by), ("p0",), a=tidb_type)


def test_collations_without_case_are_refused_unless_the_protocol_knows_better():
    by = "LIST COLUMNS (`a`) (PARTITION `p0` VALUES IN ('x'))"
    for column in ("VARCHAR(9) COLLATE utf8mb4_general_ci", "VARCHAR(9) CHARACTER SET gbk", "A_TYPE_TO_COME"):
        found = scheme(by, f"`a` {column}")
        assert "whose collation is" in refusal(found, ("p0",), a="TEXT")
        assert p.predicate(found, ("p0",), {"a": "TEXT"}, {"A": "UTF8MB4_BIN"}).among == (("x",),)
    overruled = p.predicate(scheme(by), ("p0",), {"a": "TEXT"}, {"a": "utf8mb4_unicode_ci"})
    assert isinstance(overruled, ddl.NotUnderstood)


def test_the_collation_of_a_table_that_is_partitioned_later_stands_elsewhere():
    found = after(None, "PARTITION BY LIST COLUMNS (`a`) (PARTITION `p0` VALUES IN ('x'))")
    assert "whose collation is unknown" in refusal(found, ("p0",), a="TEXT")
    assert p.predicate(found, ("p0",), {"a": "TEXT"}, {"a": "utf8mb4_bin"}).among == (("x",),)


def test_unknown_partitions_and_columns_are_refused():
    assert refusal(scheme(RANGE), ("p0", "p7"), a="INT") == "partition p7 is not known"
    assert "column a, which it does not have" in refusal(scheme(RANGE), ("p0",), b="INT")


# --- names and hostile texts ---


def test_names_are_whatever_back_quotes_hold():
    name = "p`0'),(\"; DROP TABLE x -- 订单"
    quoted = name.replace("`", "``")
    found = scheme(f"RANGE (`{quoted}`) (PARTITION `{quoted}` VALUES LESS THAN (1))", f"`{quoted}` INT")
    assert (found.columns[0].name, names(found), found.unsupported) == (name, [name], "")
    assert altered(f"DROP PARTITION `{quoted}`,`MAXVALUE`") == ddl.DropPartitions(T, (name, "MAXVALUE"))
    assert rows_of(found, (name,), [0, 1], **{name: "INT"}) == [0]


def test_a_value_may_be_the_text_maxvalue():
    by = "LIST COLUMNS (`a`) (PARTITION `p0` VALUES IN ('MAXVALUE','DEFAULT','NULL'))"
    assert scheme(by, "`a` VARCHAR(9)").partitions[0].among == tuple(
        (text(t),) for t in ("MAXVALUE", "DEFAULT", "NULL")
    )


PIECES = [
    "PARTITION ", "BY ", "RANGE ", "COLUMNS ", "LIST ", "HASH ", "KEY ", "VALUES ", "LESS THAN ", "IN ", "MAXVALUE",
    "DEFAULT", "NULL", "(", ")", ",", "`a`", "`p0`", "p1", "'x'", "x'4", "1", "-", "1e9", "9" * 400, ".", "+", "'", "`",
    "PARTITIONS ", "DROP ", "ADD ", "TRUNCATE ", "EXCHANGE ", "REORGANIZE ", "INTO ", "COALESCE ", "WITH TABLE ",
    "ALL ", "REMOVE PARTITIONING ", "INTERVAL ", "DATE ", "_UTF8MB4", ";", "CREATE TABLE `t` ", "LIKE ", "COLLATE ",
    "CHARSET ", "/*", "*/", "\0", "\ud800", "\ufffd", "²", "٣",
]  # fmt: skip


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join))
def test_no_text_is_an_exception(tail):
    for head in ("", "CREATE TABLE `t` (`a` INT) PARTITION BY RANGE (`a`) (", "CREATE TABLE `t` PARTITION BY "):
        found = p.partitioning(head + tail, T)
        p.created_like(head + tail, T)
        assert found is None or p.from_json(json.loads(json.dumps(p.to_json(found)))) == found
        p.predicate(found, ("p0",), {"a": "INT"})
    for verb in ("", "DROP PARTITION ", "ADD PARTITION (PARTITION `p1` VALUES ", "PARTITION BY "):
        actions = ddl.parse(A.MULTI_SCHEMA_CHANGE, f"ALTER TABLE `t` {verb}{tail}", T, partitions=True)
        assert actions
        for action in actions:
            p.applied(scheme(RANGE), action)


def test_every_literal_survives_json():
    among = tuple((value,) for value in (NULL, EXPRESSION, text("MAXVALUE"), number("-1.5")))
    raw = Literal(LiteralKind.BYTES, raw=b"\x00\xff")
    found = p.PartitionScheme(
        K.LIST, (p.PartitionColumn("a", "c"),), (p.NamedPartition("p", (p.MAXVALUE, raw), among, default=True),), "why"
    )
    assert p.from_json(json.loads(json.dumps(p.to_json(found)))) == found


# --- TiCDC's own texts, and TiDB's rows ---


@cache
def sent(protocol):
    """(step, kind or None, table, text) of every statement, in order, each once."""
    found = {}
    for line in gzip.decompress((GOLDEN / f"{protocol}.jsonl.gz").read_bytes()).splitlines():
        record = json.loads(line)
        if record["kind"] == "ddl":
            value = base64.b64decode(record["value"])
            message = json.loads(value[8:] if protocol.endswith("open") else value)
            query = message["q"] if protocol.endswith("open") else message["sql"]
            found[record["step"], record["table"], query] = message.get("t")
    return [(step, kind, TableName(*table.split(".", 1)), query) for (step, table, query), kind in found.items()]


@cache
def states():
    """For each step the tables as they are after it, as {table: ((column, …), {row, …})}."""
    found, tables = {}, {}
    for step in json.loads(gzip.decompress((GOLDEN / "expected.json.gz").read_bytes()))["steps"]:
        tables = tables | {
            name: (tuple(column["name"] for column in dump["columns"]), frozenset(map(tuple, dump["rows"])))
            for name, dump in step.get("tables", {}).items()
            if "part" in name
        }
        found[step["step"]] = tables
    return found


TYPES = {"d.part": {"id": "INT", "v": "TEXT"}, "d.hash_part": {"id": "BIGINT UNSIGNED", "v": "INT"}}


def lying(predicate, table, state):
    columns, rows = state[str(table)]
    return {row for row in rows if lies_in(predicate, dict(zip(columns, map(_typed, columns, row), strict=True)))}


def _typed(column, shown):
    return int(shown) if column == "id" and shown is not None else shown


@pytest.mark.parametrize("protocol", ["open", "simple_json", "new_open"])
def test_the_rows_that_vanish_in_tidb_are_those_of_the_predicate(protocol):
    schemes, seen = {}, []
    for step, kind, named, query in sent(protocol):
        number_of_kind = classify(query) if kind is None else kind
        table = ddl.altered(number_of_kind, query, named)
        for action in ddl.parse(number_of_kind, query, table, partitions=True):
            if isinstance(action, ddl.CreateTable):
                schemes[table] = p.partitioning(query, table)
            before, now = states()[step - 1] if step else {}, states()[step]
            if isinstance(action, ddl.DropPartitions | ddl.TruncatePartitions | ddl.ExchangePartition):
                chosen = (action.name,) if isinstance(action, ddl.ExchangePartition) else action.names
                found = lying(p.predicate(schemes[table], chosen, TYPES[str(table)]), table, before)
                assert found == before[str(table)][1] - now[str(table)][1]
                assert found
                seen.append(type(action).__name__)
            if isinstance(action, ddl.ExchangePartition):
                taken = before[str(action.with_table)][1]
                assert now[str(action.with_table)][1] == found
                assert now[str(table)][1] == (before[str(table)][1] - found) | taken
            schemes[table] = p.applied(schemes.get(table), action)
    assert seen == ["TruncatePartitions", "DropPartitions", "ExchangePartition", "TruncatePartitions"]
    partitioned = {str(table): found for table, found in schemes.items() if found is not None}
    assert {table: names(found) for table, found in partitioned.items()} == {
        "d.part": ["p0", "p2a", "p2b", "p3"],
        "d.hash_part": ["p0", "p1", "p2", "p3"],
    }
    assert not any(found.unsupported for found in partitioned.values())
