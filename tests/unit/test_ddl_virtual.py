"""Which columns a statement makes virtual, and what becomes of their names."""

import base64
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ddl.virtual import created_like, renamed_columns, virtual_columns
from pipeline.model.names import TableName

GOLDEN = Path(__file__).parents[1] / "golden"
PIECES = st.sampled_from(
    ["CREATE ", "ALTER ", "TABLE ", "`t` ", "LIKE ", "ADD ", "MODIFY ", "CHANGE ", "RENAME ", "COLUMN ", "(", ")", ",",
     "`a` ", "INT ", "GENERATED ALWAYS AS(", "VIRTUAL ", "STORED ", "IF NOT EXISTS ", "PRIMARY KEY ", "'", "`", "/*",
     "*/", "\0", "\ud800", "ENUM('a','b') ", "9" * 40, ";", ".", "DEFAULT ", "TO "]
)  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("CREATE TABLE `t` (`a` INT,`v` INT GENERATED ALWAYS AS(`a`+1) VIRTUAL)", [("a", False), ("v", True)]),
        ("CREATE TABLE `t` (`a` INT,`s` INT GENERATED ALWAYS AS(`a`+1) STORED)", [("a", False), ("s", False)]),
        ("create table if not exists t (a int, v int as (a+1), primary key (a))", [("a", False), ("v", True)]),
        ("CREATE TABLE `t` LIKE `u`", []),
        ("ALTER TABLE `d`.`t` ADD COLUMN `v` INT GENERATED ALWAYS AS(`a`+1) VIRTUAL", [("v", True)]),
        ("ALTER TABLE t ADD v INT AS (a) FIRST, ADD b INT AFTER v", [("v", True), ("b", False)]),
        ("ALTER TABLE `t` ADD COLUMN (`v` INT AS (`a`), INDEX `i`(`v`), `b` INT)", [("v", True), ("b", False)]),
        ("ALTER TABLE `t` ADD COLUMN IF NOT EXISTS `v` INT AS (`a`) VIRTUAL", [("v", True)]),
        ("ALTER TABLE `t` ADD INDEX `i`((`a`+1)), DROP COLUMN `x`, ADD COLUMN `v` INT AS (1) VIRTUAL", [("v", True)]),
        ("ALTER TABLE `t` MODIFY COLUMN `v` BIGINT GENERATED ALWAYS AS(`a`) VIRTUAL", [("v", True)]),
        ("ALTER TABLE `t` CHANGE COLUMN `v` `w` BIGINT GENERATED ALWAYS AS(`a`) VIRTUAL", [("w", True)]),
        ("ALTER TABLE `t` COMMENT = 'x', ADD COLUMN `v` INT AS (`a`) COMMENT 'VIRTUAL, (STORED'", [("v", True)]),
        ("ALTER TABLE `t` ADD COLUMN `v` INT AS (`a`), ADD COLUMN `w` HYPERCUBE, ADD COLUMN `x` INT", [("v", True)]),
        ("ALTER TABLE `t` ADD CONSTRAINT `c` CHECK (`a` > 0), ADD PARTITION (PARTITION `p` VALUES LESS THAN (1))", []),
        ("DROP TABLE `t`", []),
        ("", []),
    ],
)
def test_columns_that_a_text_defines(sql, found):
    assert list(virtual_columns(sql)) == found


def test_renames_are_followed():
    sql = (
        "ALTER TABLE `t` RENAME COLUMN `a` TO `b`, RENAME INDEX `i` TO `j`, CHANGE COLUMN `c` `d` INT, DROP COLUMN `x`"
    )
    assert renamed_columns(sql) == (("a", "b"), ("c", "d"))
    assert renamed_columns("ALTER TABLE `t` RENAME AS `u`") == ()


def test_a_table_like_another_is_told():
    assert created_like("CREATE TABLE `d`.`t` LIKE `e`.`u`", "d") == TableName("e", "u")
    assert created_like("CREATE TABLE IF NOT EXISTS t (LIKE u)", "d") == TableName("d", "u")
    assert created_like("CREATE TABLE `t` (`like` INT)", "d") is None
    assert created_like("CREATE TABLE `t` LIKE", "d") is None


def test_golden_statements_say_what_tidb_says():
    """`types.t_generated` was created with one, `d.src` got one later; all other definitions are of plain columns."""
    found = set()
    for scenario in ("ddl", "all_types", "lifecycle"):
        lines = gzip.decompress((GOLDEN / scenario / "simple_json.jsonl.gz").read_bytes()).splitlines()
        for record in map(json.loads, lines):
            if record["kind"] == "ddl":
                sql = json.loads(base64.b64decode(record["value"]))["sql"]
                found |= {(scenario, name) for name, virtual in virtual_columns(sql) if virtual}
    assert found == {("ddl", "vg"), ("all_types", "vg")}


@given(st.one_of(st.text(), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_gives_an_answer(sql):
    assert all(isinstance(name, str) and isinstance(virtual, bool) for name, virtual in virtual_columns(sql))
    assert isinstance(renamed_columns(sql), tuple)
    assert created_like(sql, "d") is None or isinstance(created_like(sql, "d"), TableName)
