"""Types in full: read from their text, and which MODIFY between them gives stored values another look."""

import pytest

from pipeline.model.columns import SourceColumn
from pipeline.model.source_types import SourceType, more_telling, named, rewrites

ABC = "ENUM('a','b','c')"


@pytest.mark.parametrize(
    ("text", "name", "family", "digits"),
    [
        ("INT", "INT", "INT", 0),
        ("BIGINT UNSIGNED", "BIGINT UNSIGNED", "BIGINT UNSIGNED", 0),
        ("BIT(9)", "BIT", "BIT", 0),
        ("DECIMAL(10,2)", "DECIMAL", "DECIMAL", 2),
        ("DECIMAL", "DECIMAL", "DECIMAL", None),
        ("DATETIME(3)", "DATETIME", "DATETIME", 3),
        ("TIME", "TIME", "TIME", None),
        ("DOUBLE(10,2)", "DOUBLE", "DOUBLE", 2),
        ("CHAR", "CHAR", "TEXT", None),
        ("BINARY(8)", "BINARY", "BLOB", None),
        ("VECTOR<FLOAT>", "VECTOR<FLOAT>", "VECTOR<FLOAT>", None),
        ("", "", "", None),
    ],
)
def test_a_type_is_read_from_its_text(text, name, family, digits):
    found = SourceType.of(text)
    assert (found.name, found.family, found.digits) == (name, family, digits)


@pytest.mark.parametrize("members", [("a", "b"), ("it's", "a,b", "(x)"), ("", "'", "''"), ("ü\n",)])
def test_members_survive_their_text(members):
    assert SourceType.of(named("ENUM", members)).members == members
    assert SourceType.of(SourceColumn("c", "string", "SET", members=members).source_type).members == members


@pytest.mark.parametrize(
    ("known", "told", "kept"),
    [
        ("DATETIME(3)", "DATETIME", "DATETIME(3)"),
        ("BINARY(8)", "BLOB", "BINARY(8)"),
        (ABC, "ENUM", ABC),
        (ABC, "ENUM('a')", "ENUM('a')"),
        ("DATETIME(3)", "TIMESTAMP", "TIMESTAMP"),
    ],
)
def test_what_a_protocol_does_not_tell_stays_known(known, told, kept):
    assert more_telling(known, told) == kept


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TIME(3)", "TIME(0)"),
        ("TIME(0)", "TIME(3)"),
        ("TIME", "TIME(0)"),
        ("TEXT", "TIME(0)"),
        ("DATETIME(6)", "DATETIME(3)"),
        ("DATETIME", "DATETIME(3)"),
        ("TIMESTAMP(1)", "TIMESTAMP(0)"),
        ("BINARY(4)", "BINARY(8)"),
        ("BLOB", "BINARY(8)"),
        ("TEXT", "CHAR"),
        ("DECIMAL(50,10)", "DECIMAL(50,5)"),
        ("DECIMAL(50,5)", "DECIMAL(50,10)"),
        ("TEXT", "DECIMAL(50,5)"),
        (ABC, "DECIMAL(50,5)"),
        ("DECIMAL", "DECIMAL(10,2)"),
        ("DECIMAL(20,2)", "INT"),
        ("INT", "YEAR"),
        ("DOUBLE(10,5)", "DOUBLE(10,2)"),
        ("DOUBLE", "DOUBLE(10,2)"),
        ("SET('a','b')", "SET('b','a')"),
        ("TEXT", "SET('b','a')"),
    ],
)
def test_modify_rewrites_values_that_look_otherwise_behind_it(old, new):
    assert rewrites(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TEXT", "TEXT"),
        ("INT", "BIGINT"),
        ("BIGINT UNSIGNED", "BIGINT"),
        ("BIGINT", "INT"),
        ("YEAR", "INT"),
        ("YEAR", "YEAR"),
        ("BINARY(8)", "BINARY(8)"),
        ("BINARY(8)", "BLOB"),
        ("BLOB", "BLOB"),
        ("CHAR", "CHAR"),
        ("CHAR", "TEXT"),
        ("TIME(3)", "TIME(3)"),
        ("TIME(3)", "TEXT"),
        ("DATETIME(3)", "DATETIME(3)"),
        ("DATETIME(3)", "DATETIME(6)"),
        ("DATETIME", "DATETIME(6)"),
        ("TIMESTAMP(0)", "TIMESTAMP(3)"),
        ("DECIMAL(18,4)", "DECIMAL(10,4)"),
        ("DECIMAL(50,5)", "DECIMAL(60,5)"),
        ("DECIMAL(20,0)", "INT"),
        ("BIGINT UNSIGNED", "DECIMAL(20,0)"),
        ("DECIMAL(50,5)", "TEXT"),
        ("DOUBLE(10,2)", "DOUBLE(10,5)"),
        ("DOUBLE(10,2)", "DOUBLE"),
        ("FLOAT", "DOUBLE"),
        ("ENUM('a','b')", ABC),
        (ABC, "TEXT"),
        ("TEXT", "JSON"),
        ("SET('a')", "SET('a','b')"),
        ("SET('a','b')", "SET('a','b')"),
    ],
)
def test_modify_leaves_values_alone_that_look_the_same(old, new):
    assert not rewrites(old, new)
