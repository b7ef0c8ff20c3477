"""Which columns of a version are virtual: statements, what is known, rows; in this order."""

from dataclasses import replace

import pytest

from pipeline.model import types
from pipeline.model.columns import CommitTs, SchemaId, SourceColumn, TableVersion
from pipeline.model.names import TableName
from pipeline.protocols.described.virtuals import ColumnDdl, Evidence, VirtualColumns, key_of, settle, without

CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT,`g` INT GENERATED ALWAYS AS(`v`) VIRTUAL)"


def version(number, *names, table="t"):
    columns = tuple(SourceColumn(name, types.INT, "INT") for name in names)
    return TableVersion(TableName("s", table), SchemaId(number), columns, names[:1])


def told(sql, now, then=None):
    return ColumnDdl(CommitTs((now or then).version + 1), sql, then, now)


def evidence(*known, settled=None, carried=None):
    def of_tables(tables):
        return [one for one in known if one.table in tables]

    return Evidence(settled or {}, {key_of(one): one for one in known}, carried or {}, of_tables)


def found(statements, *versions, given=None):
    """Virtual columns by version number, marked where they are not settled."""
    settled = settle(statements, versions, given or evidence())
    return {key[1]: "".join(sorted(one.names)) + ("" if one.settled else "?") for key, one in settled.items()}


def chain(*steps):
    """(sql, columns behind it): a table's statements."""
    statements, then = [], None
    for number, (sql, names) in enumerate(steps, 1):
        now = version(number * 10, *names)
        statements.append(told(sql, now, then))
        then = now
    return statements


def test_statements_are_followed():
    statements = chain(
        (CREATE, ("id", "v", "g")),
        ("ALTER TABLE `t` ADD INDEX `i`(`v`)", ("id", "v", "g")),
        ("ALTER TABLE `t` RENAME COLUMN `g` TO `h`, RENAME COLUMN `v` TO `g`", ("id", "g", "h")),
        ("ALTER TABLE `t` CHANGE COLUMN `h` `i` BIGINT GENERATED ALWAYS AS(`v`) VIRTUAL", ("id", "g", "i")),
        ("ALTER TABLE `t` ADD COLUMN `k` INT, ADD COLUMN `l` INT AS (1) VIRTUAL", ("id", "g", "i", "k", "l")),
        ("ALTER TABLE `t` DROP COLUMN `i`", ("id", "g", "k", "l")),
        ("ALTER TABLE `t` ADD COLUMN `i` INT", ("id", "g", "k", "l", "i")),
    )
    assert found(statements) == {10: "g", 20: "g", 30: "h", 40: "i", 50: "il", 60: "l", 70: "l"}


def test_a_text_that_does_not_explain_every_column_settles_nothing():
    assert found(chain(("RECOVER TABLE `t`", ("id", "v", "g")))) == {10: "?"}
    assert found(chain((CREATE, ("id", "v", "g", "x")))) == {10: "g?"}
    statements = chain((CREATE, ("id", "v", "g")), ("ALTER TABLE `t` ADD COLUMN `x` HYPERCUBE", ("id", "v", "g", "x")))
    assert found(statements) == {10: "g", 20: "g?"}
    assert found(statements, given=evidence(carried={(("s", "t"), 20): frozenset({"id", "v"})})) == {10: "g", 20: "gx"}


def test_hidden_columns_of_indexes_on_expressions_are_virtual():
    hidden = "_v$_i_0"
    statements = chain((CREATE, ("id", "v", "g")), ("ALTER TABLE `t` ADD INDEX `i`((1))", ("id", "v", "g", hidden)))
    assert found(statements) == {10: "g", 20: hidden + "g"}
    mine = f"CREATE TABLE `t` (`id` INT,`{hidden}` INT)"
    assert found(chain((mine, ("id", hidden)))) == {10: ""}


def test_a_column_that_is_there_already_is_not_made_virtual():
    sql = "ALTER TABLE `t` ADD COLUMN IF NOT EXISTS `v` INT AS (1) VIRTUAL, ADD COLUMN `x` INT"
    assert found(chain((CREATE, ("id", "v", "g")), (sql, ("id", "v", "g", "x")))) == {10: "g", 20: "g"}


@pytest.mark.parametrize(
    ("given", "before", "behind"),
    [
        (evidence(), "?", "w?"),
        (evidence(replace(version(10, "id", "v"), virtual=("g",))), "g?", "gw?"),
        (evidence(settled={(("s", "t"), 10): frozenset("g")}), "g", "gw"),
        (evidence(carried={(("s", "t"), 10): frozenset({"id", "v"})}), "g", "gw"),
        (evidence(carried={(("s", "t"), 20): frozenset({"id", "v"})}), "?", "gw"),
    ],
)
def test_a_statement_begins_with_what_is_there_of_the_version_before(given, before, behind):
    then, now = version(10, "id", "v", "g"), version(20, "id", "v", "g", "w")
    statement = told("ALTER TABLE `t` ADD COLUMN `w` INT AS (1) VIRTUAL", now, then)
    assert found([statement], given=given) == {10: before, 20: behind}


def test_a_version_that_only_a_bootstrap_describes():
    listed = version(10, "id", "v", "G")
    narrow = replace(version(10, "id", "v"), virtual=("G",))
    assert found([], listed) == {10: "?"}
    assert found([], listed, given=evidence(carried={key_of(listed): frozenset({"id", "v", "g"})})) == {10: ""}
    assert found([], listed, given=evidence(carried={key_of(listed): frozenset({"id", "v"})})) == {10: "g"}
    assert found([], listed, given=evidence(narrow)) == {10: "g?"}
    assert found(chain((CREATE, ("id", "v", "g"))), listed) == {10: "g"}


def test_a_statement_that_keeps_the_version_keeps_what_is_virtual():
    one = version(10, "id", "v", "g")
    renamed = replace(one, table=TableName("s", "u"))
    statements = [
        told(CREATE, one),
        told("TRUNCATE TABLE `t`", one, one),
        told("RENAME TABLE `t` TO `u`", renamed, one),
    ]
    assert settle(statements, (), evidence()) == {
        key_of(one): VirtualColumns(frozenset("g"), settled=True),
        key_of(renamed): VirtualColumns(frozenset("g"), settled=True),
    }


def test_a_table_like_another_has_its_virtual_columns():
    like = told("CREATE TABLE `u` LIKE `t`", version(30, "id", "v", "g", table="u"))
    other = version(25, "id", "x")
    assert found([*chain((CREATE, ("id", "v", "g"))), like], other) == {10: "g", 25: "?", 30: "g"}
    known = replace(version(10, "id", "v"), virtual=("g",))
    later = version(40, "id", "v", "g")
    assert found([like], given=evidence(known, other, later))[30] == "g?"
    assert found([like]) == {30: "?"}
    unsaid = told("CREATE TABLE `s`.`u` LIKE `t`", version(30, "id", "v", "g", table="u"))
    assert found([*chain((CREATE, ("id", "v", "g"))), unsaid]) == {10: "g", 30: "?"}


def test_a_key_with_a_virtual_column_is_none():
    one = version(10, "id", "v", "g")
    assert without(one, frozenset("g")) == replace(one, columns=one.columns[:2], virtual=("g",))
    assert without(one, frozenset({"id"})).handle == ()
    assert without(one, frozenset()) is one
    assert without(replace(one, virtual=("z",)), frozenset("gz")).virtual == ("g", "z")
