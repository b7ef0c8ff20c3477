"""Simple's DDL messages as statements: kinds, tables and versions, against TiDB's own words for the same."""

import base64
import gzip
import json
from functools import cache
from pathlib import Path

import pytest

from pipeline import ddl
from pipeline.ddl import ActionType as A
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.protocols.described.statements import SentDdl, read_statements

GOLDEN = Path(__file__).parents[1] / "golden"
SCENARIOS = ("ddl", "ddl_nokey", "lifecycle", "all_types", "key_updates")
AT = Partition("tidb_cdc", 0)
OF_PARTITIONS = ("PARTITION", "PRIMARY KEY")


@cache
def statements(scenario):
    """What the DDL messages of a scenario say."""
    lines = gzip.decompress((GOLDEN / scenario / "simple_json.jsonl.gz").read_bytes()).splitlines()
    values = [base64.b64decode(record["value"]) for record in map(json.loads, lines) if record["kind"] == "ddl"]
    return read_statements([SentDdl(AT, offset, json.loads(value)) for offset, value in enumerate(values)], {})


def schema(table="t", version=7, **said):
    column = {"name": "id", "dataType": {"mysqlType": "int"}, "nullable": False, "default": None}
    return {"schema": "s", "table": table, "version": version, "columns": [column], "indexes": [], **said}


def one_of(sql, kind="QUERY", **sides):
    """What a single message says."""
    said = read_statements([SentDdl(AT, 0, {"type": kind, "sql": sql, "commitTs": 9, **sides})], {})
    assert said.bad == ()
    (one,) = said.ddl
    return one, said


def found(scenario, start):
    (one,) = [one for one in statements(scenario).ddl if one.sql.startswith(start)]
    return one


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_all_are_read_in_order(scenario):
    said = statements(scenario)
    assert said.bad == ()
    assert [one.commit_ts for one in said.ddl] == sorted(one.commit_ts for one in said.ddl)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_all_are_understood_but_those_of_partitions_and_primary_keys(scenario):
    for one in statements(scenario).ddl:
        actions = ddl.parse(one.kind, one.sql, one.table)
        unclear = [action for action in actions if isinstance(action, ddl.NotUnderstood)]
        assert not unclear or any(words in one.sql for words in OF_PARTITIONS), (one.sql, unclear)


@pytest.mark.parametrize(
    ("start", "kind", "table", "has_version"),
    [
        ("CREATE DATABASE `d`", A.CREATE_SCHEMA, TableName("", ""), False),
        ("ALTER TABLE `d`.`t` RENAME AS", A.RENAME_TABLE, TableName("d", "t_renamed"), True),
        ("RENAME TABLE `d`.`x1` TO `d`.`x3`", A.RENAME_TABLE, TableName("d", "x3"), True),
        ("TRUNCATE TABLE `d`.`x1`", A.TRUNCATE_TABLE, TableName("d", "x1"), True),
        ("DROP TABLE `d`.`x1`", A.DROP_TABLE, TableName("d", "x1"), False),
        ("ALTER DATABASE `d`", A.MODIFY_SCHEMA_CHARSET_AND_COLLATE, TableName("", ""), False),
        ("ALTER TABLE `d`.`part` EXCHANGE", A.EXCHANGE_TABLE_PARTITION, TableName("d", "part"), True),
    ],
)
def test_kind_and_table_are_those_that_the_parser_wants(start, kind, table, has_version):
    one = found("ddl", start)
    assert (one.kind, one.table, one.version is not None) == (kind, table, has_version)


def test_a_database_is_named_by_the_text_alone():
    one = found("ddl", "CREATE DATABASE `d`")
    assert ddl.parse(one.kind, one.sql, one.table) == (ddl.CreateDatabase("d"),)


def test_views_are_no_tables():
    for start in ("CREATE ALGORITHM", "DROP VIEW"):
        one = found("lifecycle", start)
        assert (one.version, one.table) == (None, TableName("life", "v"))
    assert TableName("life", "v") not in {version.table for version in statements("lifecycle").described}


def test_a_statement_of_ttl_brings_the_version_of_the_rows_behind_it():
    sql = "ALTER TABLE `t` /*T![ttl] TTL = `at` + INTERVAL 1 DAY */"
    one, said = one_of(sql, tableSchema=schema(version=8), preTableSchema=schema())
    assert (one.table, one.version.version) == (TableName("s", "t"), 8)
    assert [version.version for version in said.described] == [7, 8]
    assert [type(action) for action in ddl.parse(one.kind, sql, one.table)] == [ddl.NoEffect]


@pytest.mark.parametrize("sql", ["RENAME TABLE `t` TO `e`.`u`", "ALTER TABLE `t` RENAME AS `e`.`u`"])
def test_a_rename_begins_with_the_table_that_it_was_whatever_database_its_text_leaves_out(sql):
    one, _ = one_of(sql, "RENAME", tableSchema=schema("u", schema="e"), preTableSchema=schema())
    old, new = TableName("s", "t"), TableName("e", "u")
    assert (one.old, one.table) == (old, new)
    assert ddl.parse(one.kind, one.sql, one.table, old=one.old) == (ddl.RenameTable(old, new),)
    assert ddl.named_tables(one.sql, one.table, one.old) == (new, old)


def test_renames_in_tidbs_own_words_begin_where_their_messages_say():
    renames = [one for one in statements("ddl").ddl if one.kind == A.RENAME_TABLE]
    assert len(renames) == 8
    for one in renames:
        assert ddl.parse(one.kind, one.sql, one.table) == (ddl.RenameTable(one.old, one.table),)
    assert all(one.old is None for one in statements("ddl").ddl if one.kind != A.RENAME_TABLE)


def test_a_table_of_a_restore_is_created_with_its_version():
    one, said = one_of("CREATE TABLE `t` (`id` INT)", tableSchema=schema())
    assert ddl.parse(one.kind, one.sql, one.table) == (ddl.CreateTable(TableName("s", "t")),)
    assert (one.version.version, one.version) == (7, *said.described)


@pytest.mark.parametrize("told", [schema(columns=[]), schema(columns=None), schema(table="")])
def test_a_query_without_a_table_or_columns_describes_none(told):
    one, said = one_of("ALTER DATABASE `s`", tableSchema=told)
    assert (one.version, said.described) == (None, ())


def test_the_table_before_and_the_table_behind_are_described():
    described = {(str(version.table), version.version) for version in statements("ddl").described}
    renamed = found("ddl", "RENAME TABLE `d`.`x1` TO `d`.`x3`").version.version
    assert {("d.x1", renamed), ("d.x3", renamed)} <= described


@pytest.mark.parametrize("side", ["tableSchema", "preTableSchema"])
def test_a_drop_describes_the_table_that_is_gone_and_none_behind_it(side):
    one, said = one_of("DROP TABLE `t`", "ERASE", **{side: schema(version=8)})
    assert (one.table, one.version) == (TableName("s", "t"), None)
    assert [(str(version.table), version.version) for version in said.described] == [("s.t", 8)]
    assert [(told.then.version, told.now) for told in said.column_ddl] == [(8, None)]


def test_of_the_two_sides_of_a_drop_the_table_before_it_is_described():
    _, said = one_of("DROP TABLE `t`", "ERASE", tableSchema=schema(version=9), preTableSchema=schema(version=8))
    assert [version.version for version in said.described] == [8]


@pytest.mark.parametrize(
    "message",
    [
        None,
        {},
        {"type": "ALTER", "commitTs": 1},
        {"type": "ALTER", "sql": "ALTER", "commitTs": "x"},
        {"type": "ALTER", "sql": "ALTER", "commitTs": 1, "tableSchema": {"table": "t"}},
        {"type": "ALTER", "sql": "ALTER", "commitTs": 1, "tableSchema": 7},
        {"type": "ALTER", "sql": "ALTER", "commitTs": 1, "tableSchema": {"schema": 1, "table": "t"}},
        {"type": "ALTER", "sql": "ALTER", "commitTs": 1, "tableSchema": {"schema": "s", "table": "t", "version": 1}},
        {"type": "QUERY", "sql": "ALTER", "commitTs": 1, "tableSchema": 7},
        {"type": "QUERY", "sql": "ALTER", "commitTs": 1, "tableSchema": schema(), "preTableSchema": [7]},
        {"type": "QUERY", "sql": "ALTER", "commitTs": 1, "tableSchema": schema(columns=[7])},
    ],
)
def test_a_message_that_is_no_statement_is_told(message):
    sent = SentDdl(AT, 3, message)
    said = read_statements([sent], {})
    assert (said.ddl, said.described, said.bad) == ((), (), (sent,))


def test_statements_of_one_commit_ts_are_told_apart_by_their_tables():
    common = {"type": "ERASE", "sql": "DROP TABLE `a`", "commitTs": 1}
    schemas = [{"schema": "s", "table": name, "version": 1, "columns": []} for name in "ab"]
    sent = [SentDdl(AT, offset, {**common, "preTableSchema": schema}) for offset, schema in enumerate(schemas)]
    assert [(str(one.table), one.at) for one in read_statements(sent, {}).ddl] == [("s.a", {AT: 0}), ("s.b", {AT: 1})]
