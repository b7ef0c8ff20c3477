"""A layout of the Open protocol as columns: what is sent decides, what DDL says completes it."""

import json

import pytest

from pipeline.model.columns import UNKNOWN_DEFAULT, SourceColumn, literal
from pipeline.protocols.layouts.columns import (
    ColumnSettings,
    defined_columns,
    is_defined,
    layout_of,
    source_columns,
    version_of,
)
from pipeline.protocols.open.columns import read_layout


def columns(*sent, defined=(), said=ColumnSettings()):  # noqa: B008 - frozen
    layout = json.dumps([dict(zip("ntfh", column, strict=False)) for column in sent])
    known = {column.name.casefold(): column for column in defined}
    return source_columns(read_layout(layout).columns, known, said)


@pytest.mark.parametrize(
    ("code", "flags", "tidb_type", "kind"),
    [
        (1, 129, "INT", "int"),
        (2, 129, "INT", "int"),
        (9, 129, "INT", "int"),
        (3, 1, "INT", "int"),
        (3, 129, "INT UNSIGNED", "bigint"),
        (8, 1, "BIGINT", "bigint"),
        (8, 129, "BIGINT UNSIGNED", "decimal(20,0)"),
        (4, 193, "FLOAT", "float"),
        (5, 1, "DOUBLE", "double"),
        (246, 1, "DECIMAL", "string"),
        (16, 129, "BIT", "decimal(20,0)"),
        (15, 0, "TEXT", "string"),
        (254, 64, "TEXT", "string"),
        (253, 65, "BLOB", "binary"),
        (252, 64, "TEXT", "string"),
        (249, 65, "BLOB", "binary"),
        (10, 1, "DATE", "date"),
        (14, 1, "DATE", "date"),
        (12, 1, "DATETIME", "timestamp_ntz"),
        (7, 1, "TIMESTAMP", "timestamp"),
        (11, 1, "TIME", "string"),
        (13, 129, "YEAR", "int"),
        (247, 0, "ENUM", "string"),
        (248, 0, "SET", "string"),
        (245, 1, "JSON", "string"),
        (225, 1, "VECTOR", "array<float>"),
        (255, 1, "TEXT", "string"),
    ],
)
def test_type_and_flags_decide_what_no_ddl_defines(code, flags, tidb_type, kind):
    (column,) = columns(("c", code, flags))
    assert (column.tidb_type, column.type) == (tidb_type, kind)
    assert column.nullable == bool(flags & 64)
    assert column.unsigned == bool(flags & 128)
    assert column.default == UNKNOWN_DEFAULT


@pytest.mark.parametrize(
    ("code", "tidb_type", "kind"),
    [
        (246, "DECIMAL(10,2)", "decimal(10,2)"),
        (246, "DECIMAL(65,30)", "string"),
        (16, "BIT(10)", "bigint"),
        (16, "BIT(64)", "decimal(20,0)"),
        (12, "DATETIME(3)", "timestamp_ntz"),
    ],
)
def test_a_definition_of_the_same_type_completes_it(code, tidb_type, kind):
    (column,) = columns(("C", code, 1), defined=[SourceColumn("c", "int", tidb_type, default=literal("7"))])
    assert (column.name, column.tidb_type, column.type, column.default) == ("C", tidb_type, kind, literal("7"))


def test_a_definition_of_another_type_is_not_believed():
    (column,) = columns(("c", 3, 1), defined=[SourceColumn("c", "string", "ENUM", members=("a",))])
    assert (column.tidb_type, column.type, column.members) == ("INT", "int", ())


@pytest.mark.parametrize(
    ("code", "tidb_type", "kind", "unsigned"),
    [
        (252, "BLOB", "binary", False),
        (15, "BLOB", "binary", False),
        (254, "BLOB", "binary", False),
        (252, "TEXT", "string", False),
        (8, "BIGINT UNSIGNED", "decimal(20,0)", True),
        (3, "INT UNSIGNED", "bigint", True),
        (8, "BIGINT", "bigint", False),
    ],
)
def test_where_flags_say_nothing_the_definition_does(code, tidb_type, kind, unsigned):
    (column,) = columns(("c", code, 0), defined=[SourceColumn("c", kind, tidb_type)])
    assert (column.tidb_type, column.type, column.unsigned, column.nullable) == (tidb_type, kind, unsigned, True)


@pytest.mark.parametrize(
    ("code", "flags", "defined", "tidb_type"),
    [
        (252, 64, "BLOB", "TEXT"),
        (252, 65, "TEXT", "BLOB"),
        (8, 1, "BIGINT UNSIGNED", "BIGINT"),
        (8, 0, "INT UNSIGNED", "BIGINT"),
        (252, 0, "BIGINT", "TEXT"),
        (12, 0, "TIMESTAMP(0)", "DATETIME"),
    ],
)
def test_a_definition_does_not_outrank_flags_nor_a_type_code(code, flags, defined, tidb_type):
    (column,) = columns(("c", code, flags), defined=[SourceColumn("c", "string", defined)])
    assert column.tidb_type == tidb_type


def test_flags_decide_where_no_statement_has_defined_the_column():
    assert [c.tidb_type for c in columns(("b", 252, 0), ("u", 8, 0))] == ["TEXT", "BIGINT"]


def test_the_settings_have_the_last_word_on_the_type():
    (column,) = columns(("C", 246, 1), said=ColumnSettings(types={"c": "decimal(18,4)"}))
    assert (column.tidb_type, column.type) == ("DECIMAL", "decimal(18,4)")


def test_the_number_of_a_version_tells_layout_key_and_definitions():
    layout = 2**30 - 1
    plain, named, other = (
        columns(("e", 247, 0), defined=[SourceColumn("e", "string", "ENUM", members=members)] if members else ())
        for members in ((), ("a", "b"), ("b", "a"))
    )
    numbers = [version_of(layout, some, key_only=key_only) for some in (plain, named, other) for key_only in (0, 1)]
    assert len(set(numbers)) == 6
    assert {layout_of(number) for number in numbers} == {layout}
    assert all(0 < number < 2**63 for number in numbers)
    assert version_of(layout, named, key_only=False) == numbers[2]
    assert not any(is_defined(number) for number in numbers)
    assert is_defined(2**46 << 14)


def test_a_layout_that_comes_again_behind_a_statement_is_another_version():
    plain = columns(("c", 3, 1))
    numbers = {version_of(7, plain, ts, key_only=False) for ts in (0, 5, 6)}
    assert len(numbers) == 3
    assert {layout_of(number) for number in numbers} == {7}


def test_the_settings_name_the_members_of_enum_and_set_alone():
    said = ColumnSettings(members={"e": ("a", "b"), "s": ("p",), "c": ("x",)})
    found = columns(("E", 247, 0), ("s", 248, 0), ("c", 3, 0), said=said)
    assert [column.members for column in found] == [("a", "b"), ("p",), ()]


def test_members_that_a_statement_defines_outrank_those_of_the_settings():
    said = ColumnSettings(members={"e": ("a", "b")})
    defined = [SourceColumn("e", "string", "ENUM", members=("b", "a", "c"))]
    assert [one.members for one in columns(("E", 247, 0), defined=defined, said=said)] == [("b", "a", "c")]
    assert [one.members for one in defined_columns(defined, said)] == [("b", "a", "c")]
