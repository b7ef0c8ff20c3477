"""Whatever the text, reading it gives actions: never an exception, never a word on stderr."""

import base64
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import ddl
from pipeline.ddl.kinds import COLUMN_KINDS, ActionType
from pipeline.model.columns import DefaultKind
from pipeline.model.names import TableName
from pipeline.model.types import decimal_parameters

GOLDEN = Path(__file__).parents[1] / "golden"
SCENARIOS = ("ddl", "all_types", "lifecycle")
INTERESTING = [
    "'",
    '"',
    "`",
    "\\",
    "(",
    ")",
    ",",
    ";",
    ".",
    "/*",
    "*/",
    "/*T!",
    "--",
    "#",
    "\0",
    "\n",
    "\ud800",
    "\ufffd",
    "é",
    "😀",
    "DEFAULT ",
    "NOT NULL ",
    "_UTF8MB4'",
    "b'",
    "x'",
    "0x",
    "1e999",
    "-",
    "{{",
    "{%",
    "@",
    "ENUM(",
    "ADD COLUMN ",
    "9" * 50,
    " COMMAND ",
    "RENAME ",
    "EXPLAIN ",
    "INTERVAL ",
    " AS ",
    "GENERATED ALWAYS AS(",
    "\u017fET",
    "$$",
    "$tag$",
    "~",
    "?",
]


def golden():
    for scenario in SCENARIOS:
        path = GOLDEN / scenario / "avro_watermark.jsonl.gz"
        for line in gzip.decompress(path.read_bytes()).splitlines():
            value = base64.b64decode(json.loads(line)["value"] or "")
            if value[:1] == b"\x01":
                message = json.loads(value[1:])
                yield message["type"], message["query"]
                if message["type"] == ActionType.CREATE_TABLE and " (" in message["query"]:
                    columns = message["query"].partition("(")[2].replace(" PRIMARY KEY", "")
                    yield ActionType.ADD_COLUMN, f"ALTER TABLE `t` ADD COLUMN ({columns}"


STATEMENTS = sorted(set(golden()))
KINDS = st.one_of(st.sampled_from(sorted(COLUMN_KINDS)), st.sampled_from(list(ActionType)), st.integers(-5, 300))
NAMES = st.builds(TableName, st.text(max_size=3), st.text(max_size=3))
PIECES = st.one_of(st.sampled_from(INTERESTING), st.text(max_size=4))


@st.composite
def mutated(draw):
    """A real statement with pieces cut out, put in, doubled and exchanged."""
    kind, sql = draw(st.sampled_from(STATEMENTS))
    for _ in range(draw(st.integers(1, 4))):
        low = draw(st.integers(0, len(sql)))
        high = draw(st.integers(low, min(len(sql), low + 12)))
        middle = draw(st.one_of(st.just(""), PIECES, st.just(sql[low:high] * 2)))
        sql = sql[:low] + middle + sql[high:]
    return kind, sql


def check(actions):
    assert actions
    for action in actions:
        assert isinstance(action, ddl.Action)
        if isinstance(action, (ddl.NoEffect, ddl.NotUnderstood)):
            assert action.reason
        if isinstance(action, (ddl.AddColumn, ddl.ModifyColumn)):
            check_column(action.column)
    assert len(actions) == 1 or not any(isinstance(action, ddl.NotUnderstood) for action in actions)


def check_column(column):
    text = column.default.text
    if column.default.kind is not DefaultKind.LITERAL:
        assert text == ""
        return
    match column.type:
        case "int":
            assert -(2**31) <= int(text) < 2**31
        case "bigint":
            assert -(2**63) <= int(text) < 2**63
        case "float" | "double":
            assert abs(float(text)) < float("inf")
        case "binary":
            assert bytes.fromhex(text).hex() == text
        case kind if decimal_parameters(kind):
            precision, scale = decimal_parameters(kind)
            whole, _, fraction = text.removeprefix("-").partition(".")
            assert len(fraction) == scale
            assert len(whole.lstrip("0")) <= precision - scale
        case "string" if column.tidb_type == "JSON":
            json.loads(text)
        case _:
            text.encode()


@given(KINDS, st.text(), NAMES, st.none() | NAMES, st.booleans())
def test_any_text_gives_actions(kind, sql, table, old, as_text):
    check(ddl.parse(kind, sql, table, old=old, decimals_as_text=as_text))


@settings(max_examples=1500)
@given(mutated(), st.booleans())
def test_any_damaged_statement_gives_actions(statement, as_text):
    kind, sql = statement
    check(ddl.parse(kind, sql, TableName("d", "t"), decimals_as_text=as_text))


TYPES = [
    "TINYINT(1)",
    "INT",
    "INT UNSIGNED",
    "BIGINT",
    "BIGINT UNSIGNED",
    "FLOAT",
    "FLOAT(10,2)",
    "DOUBLE",
    "DECIMAL",
    "DECIMAL(5,2)",
    "DECIMAL(65,30)",
    "DECIMAL(38,30)",
    "BIT",
    "BIT(63)",
    "BIT(64)",
    "CHAR(3)",
    "VARCHAR(9)",
    "TEXT",
    "BINARY(3)",
    "VARBINARY(9)",
    "JSON",
    "DATE",
    "DATETIME",
    "DATETIME(6)",
    "TIMESTAMP(3)",
    "TIME",
    "TIME(2)",
    "YEAR",
    "ENUM('a','B','1')",
    "SET('a','B','1')",
    "VECTOR(3)",
]
NUMBERS = st.one_of(st.integers(), st.decimals(), st.floats(), st.integers(0, 2155)).map(str)
FRONTIERS = st.one_of(st.dates(), st.datetimes(), st.times(), st.timedeltas()).map(str)
TEXTS = st.one_of(st.text(), NUMBERS, FRONTIERS, st.text("aB1, ", max_size=6))
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
).map(json.dumps)


def quoted(text):
    return "_UTF8MB4'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


LITERALS = st.one_of(
    NUMBERS,
    TEXTS.map(quoted),
    JSONS.map(quoted),
    st.binary(max_size=9).map(lambda raw: f"x'{raw.hex()}'"),
    st.integers(0, 2**70).map(lambda number: f"b'{number:b}'"),
)


@settings(max_examples=1500)
@given(st.sampled_from(TYPES), LITERALS, st.sampled_from(["", " NOT NULL"]))
def test_any_default_is_right_for_its_type_or_unknown(kind, default, null):
    sql = f"ALTER TABLE `t` ADD COLUMN `c` {kind}{null} DEFAULT {default}"
    check(ddl.parse(ActionType.ADD_COLUMN, sql, TableName("d", "t")))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_any_text_default_of_a_text_column_comes_back(text):
    sql = f"ALTER TABLE `t` ADD COLUMN `c` VARCHAR(99) DEFAULT {quoted(text)} AFTER `d`"
    (action,) = ddl.parse(ActionType.ADD_COLUMN, sql, TableName("d", "t"))
    assert action.column.default.text == text


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_any_name_in_back_quotes_comes_back(name):
    sql = "ALTER TABLE `t` DROP COLUMN `" + name.replace("`", "``") + "`"
    assert ddl.parse(ActionType.DROP_COLUMN, sql, TableName("d", "t")) == (ddl.DropColumn(name),)


RAW = st.text("\\'\\'a,();é ", max_size=6)
"""Nothing that begins a comment or another literal: with `ENUM('\\','#')` the wrong reading ends in a comment."""


@given(RAW, RAW, st.lists(RAW, min_size=1))
def test_texts_beside_one_that_ends_in_a_backslash_come_back(default, comment, members):
    listed = ",".join("'" + member.replace("'", "''") + "'" for member in members)
    sql = (
        f"ALTER TABLE `t` ADD COLUMN `a` VARCHAR(99) DEFAULT {quoted(default)} COMMENT {quoted(comment)[8:]}, "
        f"ADD COLUMN `b` ENUM({listed}) NOT NULL, COMMENT = 'C:\\'"
    )
    first, second, _ = ddl.parse(ActionType.MULTI_SCHEMA_CHANGE, sql, TableName("d", "t"))
    assert first.column.default.text == default
    assert second.column.members == tuple(members)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\\"), max_size=5), min_size=1))
def test_any_first_member_of_an_enum_comes_back(members):
    listed = ",".join("'" + member.replace("'", "''") + "'" for member in members)
    sql = f"ALTER TABLE `t` ADD COLUMN `c` ENUM({listed}) NOT NULL"
    (action,) = ddl.parse(ActionType.ADD_COLUMN, sql, TableName("d", "t"))
    assert action.column.default.text == members[0]


@settings(max_examples=300)
@given(KINDS, st.lists(PIECES, max_size=20))
def test_any_heap_of_pieces_gives_actions(kind, pieces):
    check(ddl.parse(kind, "ALTER TABLE `t` " + "".join(pieces), TableName("d", "t")))


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t ADD COLUMN a INT DEFAULT " + "(" * 100_000,
        "ALTER TABLE t ADD COLUMN a INT DEFAULT " + "(" * 50_000 + ")" * 50_000,
        "ALTER TABLE t " + ", ".join(f"ADD COLUMN c{n} INT" for n in range(5_000)),
        "ALTER TABLE t ADD COLUMN a VARCHAR(10) DEFAULT '" + "x" * 1_000_000 + "'",
        "ALTER TABLE t " + "/*" * 50_000,
    ],
    ids=["open", "nested", "wide", "long", "comments"],
)
def test_a_huge_statement_is_read_without_recursion(sql):
    check(ddl.parse(ActionType.MULTI_SCHEMA_CHANGE, sql, TableName("d", "t")))


@pytest.mark.parametrize("kind", sorted(COLUMN_KINDS | {ActionType.RENAME_TABLE}))
def test_nothing_is_written_to_stderr(kind, capfd, caplog):
    for sql in (
        "RENAME TABLE a TO b, c TO d",
        "ALTER TABLE t CONVERT TO X",
        "SHOW TABLES",
        "ALTER TABLE t ADD x LONG Y",
    ):
        ddl.parse(kind, sql, TableName("d", "t"))
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
