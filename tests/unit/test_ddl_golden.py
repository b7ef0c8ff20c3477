"""DDL as TiCDC sends it: every statement of the golden changefeeds, against what TiDB made of it."""

import base64
import gzip
import json
import re
from functools import cache
from pathlib import Path

import pytest

from pipeline import ddl
from pipeline.ddl import ActionType as A
from pipeline.model.columns import IN_UTC, NULL_DEFAULT, DefaultKind, SourceColumn, literal
from pipeline.model.names import TableName
from pipeline.protocols.avro.fields import source_column
from registry import read_schema, sanitise

GOLDEN = Path(__file__).parents[1] / "golden"
SCENARIOS = ("ddl", "all_types", "lifecycle", "key_updates")


@cache
def expected(scenario):
    return json.loads(gzip.decompress((GOLDEN / scenario / "expected.json.gz").read_bytes()))


@cache
def messages(scenario):
    """(step, message) of every DDL, once."""
    found = {}
    for line in gzip.decompress((GOLDEN / scenario / "avro_watermark.jsonl.gz").read_bytes()).splitlines():
        record = json.loads(line)
        value = base64.b64decode(record["value"] or "")
        if value[:1] == b"\x01":
            found[record["step"], value] = json.loads(value[1:])
    return [(step, message) for (step, _), message in found.items()]


ALL = [
    pytest.param(step, message, id=f"{scenario}-{step}-{message['table'] or message['schema']}")
    for scenario in SCENARIOS
    for step, message in messages(scenario)
]


def parsed(message, **options):
    table = TableName(message["schema"], message["table"])
    return ddl.parse(message["type"], message["query"], table, **options)


def add(name, kind, tidb_type, default=NULL_DEFAULT, *, nullable=True, **more):
    return ddl.AddColumn(SourceColumn(name, kind, tidb_type, nullable, default, **more))


def modify(name, kind, tidb_type, default=NULL_DEFAULT, *, nullable=True, members=()):
    return ddl.ModifyColumn(name, SourceColumn(name, kind, tidb_type, nullable, default, members=members))


def rename(old, new):
    return (ddl.RenameTable(TableName(*old.split(".")), TableName(*new.split("."))),)


BY_STEP = {  # step of `ddl` and table → actions
    (3, "t"): (add("c", "string", "TEXT"),),
    (6, "t"): (add("d1", "int", "INT", literal("7")),),
    (9, "t"): (add("nn", "int", "INT", literal("42"), nullable=False),),
    (12, "t"): (add("first_col", "string", "TEXT", literal("f")),),
    (15, "t"): (add("mid", "decimal(10,2)", "DECIMAL(10,2)", literal("1.50")),),
    (18, "t"): (add("nd", "string", "TEXT", literal(""), nullable=False),),
    (20, "t"): (ddl.DropColumn("c"),),
    (23, "t"): (modify("a", "bigint", "BIGINT"),),
    (25, "t"): (modify("b", "string", "TEXT"),),
    (27, "t"): (modify("b", "string", "TEXT"),),
    (30, "t"): (modify("d1", "string", "TEXT"),),
    (33, "t"): (ddl.RenameColumn("b", "b_renamed"),),
    (37, "t"): (
        ddl.RenameColumn("b_renamed", "b2"),
        modify("b2", "string", "TEXT", literal("zz"), nullable=False),
    ),
    (39, "t"): (ddl.SetDefault("nn", literal("43")),),
    (41, "t"): (ddl.SetDefault("nn", NULL_DEFAULT),),
    (43, "t"): (modify("mid", "decimal(20,5)", "DECIMAL(20,5)"),),
    (45, "t"): (modify("nn", "int", "INT"),),
    (47, "t"): (
        add("e1", "string", "ENUM", literal("a"), members=("a", "b")),
        add("e2", "string", "JSON"),
        ddl.DropColumn("nd"),
    ),
    (50, "t"): (modify("e1", "string", "ENUM", members=("a", "b", "c")),),
    (67, "t"): (modify("b2", "string", "TEXT"),),
    (70, "t_renamed"): rename("d.t", "d.t_renamed"),
    (73, "t"): rename("d.t_renamed", "d.t"),
    (76, "t"): rename("d.t", "d2.t"),
    (79, "t"): rename("d2.t", "d.t"),
    (84, "x3"): rename("d.x1", "d.x3"),
    (84, "x4"): rename("d.x2", "d.x4"),
    (87, "x2"): rename("d.x3", "d.x2"),
    (88, "x1"): rename("d.x4", "d.x1"),
    (125, "src"): (ddl.NoEffect("a virtual generated column is not sent"),),
    (129, "tz"): (add("ts2", "timestamp", "TIMESTAMP(0)", literal("2021-06-01 12:00:00"), nullable=False),),
    (131, "tz"): (
        add("ts3", "timestamp_ntz", "DATETIME(3)", literal("2021-06-01 12:00:00.123")),
        add("bt", "bigint", "BIT(9)", literal("257")),
        add("st", "string", "SET", literal("b"), nullable=False, members=("a", "b")),
        add("en", "string", "ENUM", literal("q"), nullable=False, members=("q", "r")),
        add("bn", "binary", "BLOB", literal("6162")),
        add("fl", "float", "FLOAT", literal("0.1")),
        add("bu", "decimal(20,0)", "BIGINT UNSIGNED", literal("18446744073709551615"), nullable=False),
        add("de", "decimal(10,4)", "DECIMAL(10,4)", literal("2.5000"), nullable=False),
        add("ye", "int", "YEAR", literal("1999")),
        add("js", "string", "JSON"),
        add("ti", "string", "TIME(2)", literal("-10:00:00.50")),
        add("da", "date", "DATE", literal("2000-02-29"), nullable=False),
        add("ch", "string", "TEXT", literal("é"), nullable=False, written="CHAR"),
    ),
}

COLUMNS_OR_NAMES = ddl.kinds.COLUMN_KINDS | {A.RENAME_TABLE, A.RENAME_TABLES}
BY_KIND = {
    A.CREATE_SCHEMA: lambda m: ddl.CreateDatabase(m["schema"]),
    A.DROP_SCHEMA: lambda m: ddl.DropDatabase(m["schema"]),
    A.CREATE_TABLE: lambda m: ddl.CreateTable(TableName(m["schema"], m["table"])),
    A.DROP_TABLE: lambda m: ddl.DropTable(TableName(m["schema"], m["table"])),
    A.TRUNCATE_TABLE: lambda m: ddl.TruncateTable(TableName(m["schema"], m["table"])),
}
QUIET = {
    A.ADD_INDEX,
    A.DROP_INDEX,
    A.RENAME_INDEX,
    A.ALTER_INDEX_VISIBILITY,
    A.MODIFY_TABLE_COMMENT,
    A.REBASE_AUTO_ID,
    A.MODIFY_TABLE_CHARSET_AND_COLLATE,
    A.MODIFY_SCHEMA_CHARSET_AND_COLLATE,
    A.ADD_TABLE_PARTITION,
    A.REORGANIZE_PARTITION,
    A.CREATE_VIEW,
    A.DROP_VIEW,
}
ROWS_UNSEEN = {A.TRUNCATE_TABLE_PARTITION, A.DROP_TABLE_PARTITION, A.EXCHANGE_TABLE_PARTITION}


@pytest.mark.parametrize(("step", "message"), ALL)
def test_every_statement_is_read_as_what_it_did(step, message):
    actions = parsed(message)
    kind = A(message["type"])
    if kind in COLUMNS_OR_NAMES:
        assert actions == BY_STEP[step, message["table"]]
    elif kind in BY_KIND:
        assert actions == (BY_KIND[kind](message),)
    elif kind in QUIET:
        assert [type(action) for action in actions] == [ddl.NoEffect]
    else:
        assert kind in ROWS_UNSEEN
        assert [type(action) for action in actions] == [ddl.NotUnderstood]


def test_the_golden_statements_cover_every_expectation():
    sent = {(step, m["table"]) for step, m in messages("ddl") if A(m["type"]) in COLUMNS_OR_NAMES}
    assert sent == set(BY_STEP)


def shown(value, kind):
    """A value of expected.json in the text form of defaults."""
    if isinstance(value, dict):
        return str(int(value["hex"], 16)) if kind in ("bigint", "decimal(20,0)") else value["hex"]
    return value


def added():
    for step, message in messages("ddl"):
        for action in parsed(message):
            if isinstance(action, ddl.AddColumn):
                yield pytest.param(step, message, action.column, id=f"{step}-{action.column.name}")


@pytest.mark.parametrize(("step", "message", "column"), list(added()))
def test_existing_rows_show_the_default_that_was_read(step, message, column):
    state = expected("ddl")["steps"][step]["tables"][f"{message['schema']}.{message['table']}"]
    place = [c["name"] for c in state["columns"]].index(column.name)
    rows = {shown(row[place], column.type) for row in state["rows"]}
    assert column.default.kind is not DefaultKind.UNKNOWN
    assert rows == {None if column.default == NULL_DEFAULT else column.default.text}


def definitions():
    """The columns of every CREATE TABLE, as clauses of ADD COLUMN, without its primary key."""
    for scenario in SCENARIOS:
        for step, message in messages(scenario):
            if message["type"] == A.CREATE_TABLE and " LIKE " not in message["query"]:
                plain = re.sub(r"(,?)PRIMARY KEY(\(`.*?`\)| /\*.*?\*/)?", "", message["query"])
                body = re.search(r"\((.*?)\)( AUTO_INCREMENT = 100| PARTITION BY .*)?$", plain, re.DOTALL)[1]
                statement = f"ALTER TABLE x ADD COLUMN ({body})"
                yield pytest.param(scenario, step, message, statement, id=f"{scenario}-{message['table']}")


def registered(scenario, table):
    """Each version of a table in the registry of the same changefeed: its columns, in order."""
    for entry in json.loads((GOLDEN / scenario / "avro_watermark.registry.json").read_text()):
        record = json.loads(entry["schema"])
        names = (record["namespace"].rpartition(".")[2], record["name"])
        if entry["subject"].endswith("-value") and names == (sanitise(table.schema), sanitise(table.table)):
            yield [source_column(column) for column in read_schema(entry["schema"]).columns]


@pytest.mark.parametrize(("scenario", "_step", "message", "statement"), list(definitions()))
def test_the_text_of_a_table_says_the_same_as_its_schema_in_the_registry(scenario, _step, message, statement):
    table = TableName(message["schema"], message["table"])
    actions = ddl.parse(A.ADD_COLUMN, statement, table)
    columns = [action.column for action in actions if isinstance(action, ddl.AddColumn)]
    names = [sanitise(column.name) for column in columns]
    sent = next(version for version in registered(scenario, table) if [c.name for c in version] == names)
    for column, other in zip(columns, sent, strict=True):
        family = re.sub(r"^(DATETIME|TIMESTAMP|TIME)\(\d\)$", r"\1", column.tidb_type)
        assert (column.type, family) == (other.type, other.tidb_type), column.name
        if DefaultKind.LITERAL == column.default.kind == other.default.kind:
            assert comparable(column) == comparable(other), column.name


def comparable(column):
    """A default without what only one side says: fraction digits of a zero, the float behind 0.1, UTC (as all here)."""
    text = column.default.text.removesuffix(IN_UTC) if column.type == "timestamp" else column.default.text
    if column.type in ("float", "double"):
        return pytest.approx(float(text), rel=1e-6)
    return text if text.strip("0-:. ") else text.rstrip("0").rstrip(".")


@pytest.mark.parametrize(("scenario", "step", "message", "statement"), list(definitions()))
def test_the_text_of_a_table_says_the_same_as_tidbs_own_description(scenario, step, message, statement):
    actions = ddl.parse(A.ADD_COLUMN, statement, TableName(message["schema"], message["table"]))
    columns = {action.column.name: action.column for action in actions if isinstance(action, ddl.AddColumn)}
    state = expected(scenario)["steps"][step]["tables"][f"{message['schema']}.{message['table']}"]
    described = {c["name"]: c for c in state["columns"]}
    virtual = {name for name, c in described.items() if c.get("generated") == "virtual"}
    assert list(columns) == [name for name in described if name not in virtual]
    for name, column in columns.items():
        if described[name].get("key") != "PRI":
            assert column.nullable == described[name]["nullable"], name
