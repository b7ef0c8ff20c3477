"""Values of the Open protocol, one by one, and the versions that they are read with."""

import datetime as dt
import json
from decimal import Decimal

import pytest
from pyspark.sql import functions as F
from spark.open_events import Memory, changed, mapping_of, protocol, raw_frame, record, rows_of

from pipeline.model import change
from pipeline.model.messages import ColumnMapping, Target
from pipeline.protocols.open.frame import UNREADABLE
from pipeline.protocols.open.protocol import NOT_OPEN
from pipeline.protocols.open.quoting import unquoted
from pipeline.warehouse.evolution import Policy, meet
from pipeline.warehouse.layout import Layout

pytestmark = pytest.mark.spark

QUOTED = {
    "": b"",
    "abc": b"abc",
    "é": "é".encode(),
    r"\x00\x01\a\b\t\n\v\f\r\x0e\x7f": bytes([0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 127]),
    r"\x89PNG\r\n\x1a\n": b"\x89PNG\r\n\x1a\n",
    r"\xff\xc3": b"\xff\xc3",
    r"\\x41": rb"\x41",
    r"\\\x41": rb"\A",
    r"\"q\'": b"\"q'",
    r"\u0080\u07ff\u2028\uffff": "\u0080\u07ff\u2028\uffff".encode(),
    r"\U0001f600\U0010ffff": "\U0001f600\U0010ffff".encode(),
    "\\": None,
    r"a\x4": None,
    r"\q": None,
    r"\u12": None,
    r"\U00110000": None,
}


def test_what_go_has_quoted_is_unquoted_to_its_bytes(spark):
    frame = spark.createDataFrame([(text,) for text in QUOTED], "text string")
    found = {row["text"]: row["bytes"] for row in rows_of(frame.select("text", unquoted(F.col("text")).alias("bytes")))}
    assert found == QUOTED


def test_a_long_quoted_value_is_unquoted_too(spark):
    frame = spark.range(1).select(unquoted(F.repeat(F.lit(r"a\x00\u00e9"), 100_000)).alias("bytes"))
    assert rows_of(frame)[0]["bytes"] == "a\0é".encode() * 100_000


def key(ts, name="a", kind=1):
    return json.dumps({"ts": ts, "scm": "s", "tbl": name, "t": kind})


def insert(ts, **cells):
    """A row event; each cell is (type, flags, value)."""
    columns = {name: {"t": cell[0], "f": cell[1], "v": cell[2]} for name, cell in cells.items()}
    return key(ts), json.dumps({"u": {"id": {"t": 3, "h": True, "f": 11, "v": ts}} | columns})


def ddl(ts, sql, kind):
    return key(ts, kind=2), json.dumps({"q": sql, "t": kind})


def read(spark, *events, known=None, mapping=None, **options):
    """(messages, change rows) of the events."""
    subject = protocol(known, **options)
    prepared = subject.prepare(raw_frame(spark, [record(*events)]))
    messages = subject.read(prepared)
    (table,) = messages.tables
    frame = subject.recipe(table, mapping or mapping_of(table)).of(prepared.where(subject.where(table)))
    return messages, sorted(rows_of(frame), key=lambda row: row[change.INDEX])


@pytest.mark.parametrize(
    ("code", "flags", "value"),
    [
        (3, 65, "x"),
        (3, 65, 2**31),
        (3, 65, 1.5),
        (8, 193, -1 - 2**80),
        (8, 65, [1]),
        (4, 65, "x"),
        (5, 65, {"a": 1}),
        (13, 193, "soon"),
        (16, 193, "x"),
        (15, 65, "\\x"),
        (252, 65, "!"),
        (225, 65, "no vector"),
    ],
)
def test_a_value_that_cannot_be_read_is_an_error_of_its_row(spark, code, flags, value):
    _, rows = read(spark, insert(1, c=(code, flags, value)), insert(2, c=(code, flags, None)))
    assert [row[change.ERROR] for row in rows] == [UNREADABLE, None]
    assert [row["c"] for row in rows] == [None, None]
    assert json.loads(rows[0][change.VALUE_BYTES][8:])["u"]["c"]["v"] == value


def test_what_no_warehouse_text_holds_is_kept_as_it_was_sent_whatever_the_users_type(spark):
    events = (
        insert(1, c=(252, 64, "/w=="), d=(10, 65, "0000-00-00"), e=(252, 64, "/w==")),
        insert(2, c=(252, 64, "ZQ=="), d=(10, 65, "2024-01-01"), e=(252, 64, "MS41")),
        insert(3, c=(252, 64, None), d=(10, 65, None), e=(252, 64, None)),
    )
    _, rows = read(spark, *events, overrides={"s.a.d": "timestamp_ntz", "s.a.e": "decimal(6,2)"})
    assert [row[change.ERROR] for row in rows] == [None] * 3
    assert [(row["c"], row["d"], row["e"]) for row in rows] == [
        (None, None, None),
        ("e", dt.datetime(2024, 1, 1), Decimal("1.50")),  # noqa: DTZ001 - a wall clock
        (None, None, None),
    ]
    lost = [dict(row[change.UNREPRESENTABLE] or ()) for row in rows]
    assert lost == [{"c": "/w==", "d": "0000-00-00", "e": "/w=="}, {}, {}]


def test_dates_and_times_that_are_to_be_text_are_as_they_were_sent_but_instants_that_there_are(spark):
    kinds = {"d": (10, 65), "m": (12, 65), "at": (7, 65)}
    sent = (
        ("0000-00-00", "2024-02-29 01:02:03.500", "2024-02-29 01:02:03.500"),
        ("2024-02-29", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        (None, None, None),
    )
    events = (
        insert(ts, **{name: (*kinds[name], value) for name, value in zip(kinds, row, strict=True)})
        for ts, row in enumerate(sent, 1)
    )
    overrides = {f"s.a.{name}": "string" for name in kinds}
    _, rows = read(spark, *events, overrides=overrides, timezone="Asia/Shanghai")
    assert [row[change.ERROR] for row in rows] == [row[change.UNREPRESENTABLE] for row in rows] == [None] * 3
    wanted = [(*sent[0][:2], "2024-02-28 17:02:03.5"), *sent[1:]]
    assert [(row["d"], row["m"], row["at"]) for row in rows] == wanted


def test_members_are_named_by_the_definition_that_a_row_was_written_under(spark):
    memory = Memory()
    _, before = read(spark, insert(1, e=(247, 64, 2), s=(248, 64, 2)), known=memory)
    assert [(row["e"], row["s"]) for row in before] == [("2", "2")]
    messages, rows = read(
        spark,
        ddl(2, "CREATE TABLE a (id INT PRIMARY KEY, e ENUM('x','y'), s SET('p','q'))", 3),
        insert(3, e=(247, 64, 2), s=(248, 64, 3)),
        insert(4, e=(247, 64, 0), s=(248, 64, 0)),
        ddl(5, "ALTER TABLE a MODIFY COLUMN e ENUM('y','x','z')", 12),
        insert(6, e=(247, 64, 2), s=(248, 64, 2)),
        insert(7, e=(247, 64, 3), s=(248, 64, None)),
        insert(8, e=(247, 64, 4), s=(248, 64, 1)),
        insert(9, e=(247, 64, 1), s=(248, 64, 4)),
        known=memory,
    )
    memory.keep(messages)
    named = [(row["e"], row["s"]) for row in rows]
    assert named == [("y", "p,q"), ("", ""), ("x", "q"), ("z", None), (None, "p"), ("y", None)]
    assert [row[change.ERROR] for row in rows] == [None] * 4 + [UNREADABLE] * 2
    (table,) = messages.tables
    assert [(seen.since, seen.until, seen.rows) for seen in table.versions] == [(3, 4, 2), (6, 9, 4)]
    assert {row[change.SCHEMA_ID] for row in rows} == {seen.version.version for seen in table.versions}
    assert messages.warnings == ()
    later, rows = read(spark, insert(10, e=(247, 64, 1), s=(248, 64, 1)), known=memory)
    assert [(row["e"], row["s"]) for row in rows] == [("y", "p")]
    assert later.tables[0].versions[0].version == table.versions[1].version


def test_members_that_no_ddl_has_defined_are_numbers_and_a_warning(spark):
    messages, rows = read(spark, insert(1, e=(247, 64, 2), s=(248, 64, 2**64 - 1)))
    assert [(row["e"], row["s"], row[change.ERROR]) for row in rows] == [("2", "18446744073709551615", None)]
    assert [warning.partition(":")[0] for warning in messages.warnings] == ["s.a.e", "s.a.s"]


def test_a_set_may_have_sixty_four_members(spark):
    names = [f"m{n}" for n in range(64)]
    create = f"CREATE TABLE a (id INT PRIMARY KEY, s SET({','.join(map(repr, names))}))"
    _, rows = read(spark, ddl(1, create, 3), insert(2, s=(248, 64, 2**64 - 1)), insert(3, s=(248, 64, 2**63 + 1)))
    assert [row["s"] for row in rows] == [",".join(names), "m0,m63"]


def test_flags_of_indexes_make_no_version_of_their_own(spark):
    messages, rows = read(spark, insert(1, c=(3, 65, 1)), insert(2, c=(3, 65 | 16, 2)), insert(3, c=(3, 65 | 32, 3)))
    assert len(messages.tables[0].versions) == 1
    assert [row["c"] for row in rows] == [1, 2, 3]


def test_versions_of_one_table_are_read_each_in_its_way(spark):
    messages, rows = read(
        spark,
        insert(1, c=(3, 65, 5)),
        insert(2, c=(252, 64, "Zml2ZQ==")),
        insert(3, C=(15, 64, "plain")),
        mapping=None,
    )
    table = messages.tables[0]
    assert len(table.versions) == 3
    assert [row[change.ERROR] for row in rows] == [None] * 3
    first, second, third = (seen.version.version for seen in table.versions)
    mapping = ColumnMapping(
        (Target("id", "bigint"), Target("c__v1", "int"), Target("c", "string")),
        {first: {"id": "id", "c": "c__v1"}, second: {"id": "id", "c": "c"}, third: {"id": "id", "C": "c"}},
    )
    _, rows = read(
        spark,
        insert(1, c=(3, 65, 5)),
        insert(2, c=(252, 64, "Zml2ZQ==")),
        insert(3, C=(15, 64, "plain")),
        mapping=mapping,
    )
    assert [(row["id"], row["c__v1"], row["c"]) for row in rows] == [
        (1, 5, None),
        (2, None, "five"),
        (3, None, "plain"),
    ]
    assert change.BEFORE not in rows[0]


def test_a_type_of_the_users_takes_what_it_can(spark):
    overrides = {"s.a.d": "decimal(6,2)", "s.a.n": "string"}
    _, rows = read(
        spark, insert(1, d=(246, 65, "1.50"), n=(8, 65, 7)), insert(2, d=(246, 65, "1.505"), n=(8, 65, None)),
        overrides=overrides,
    )  # fmt: skip
    assert [(row["d"], row["n"]) for row in rows] == [(Decimal("1.50"), "7"), (None, None)]
    assert [dict(row[change.UNREPRESENTABLE] or ()) for row in rows] == [{}, {"d": "1.505"}]


def test_a_decimal_column_takes_decimals_that_no_ddl_has_defined_as_they_are_and_as_they_were(spark):
    statement = ddl(1, "CREATE TABLE a (id INT PRIMARY KEY, d DECIMAL(6,2))", 3)
    told, _ = read(spark, statement, insert(2, d=(246, 65, "1.50")))
    fields = {name: {"t": 246, "f": 65, "v": value} for name, value in (("p", "2.5"), ("u", "2.505"))}
    image = {"id": {"t": 3, "h": True, "f": 11, "v": 3}}
    update = key(3), json.dumps({side: {**image, "d": field} for side, field in fields.items()})
    unrecorded, _ = read(spark, update)
    layout = Layout(before=True)
    for messages in (told, unrecorded):
        (seen,) = messages.tables[0].versions
        layout, _ = meet(layout, seen.version, Policy())
    assert [(column.name, column.type) for column in layout.columns] == [("id", "int"), ("d", "decimal(6,2)")]
    _, (row,) = read(spark, update, mapping=layout.mapping)
    assert (row["d"], dict(row[change.UNREPRESENTABLE])) == (None, {"d": "2.505"})
    assert row[change.BEFORE] == {"id": 3, "d": Decimal("2.50"), change.UNREPRESENTABLE: None}


def test_a_delete_of_the_handle_alone_is_of_a_version_of_its_own(spark):
    gone = json.dumps({"d": {"id": {"t": 3, "h": True, "f": 11, "v": 1}}})
    messages, rows = read(spark, insert(1, c=(3, 65, 5)), (key(2), gone), tells_op=False)
    full, alone = messages.tables[0].versions
    assert (full.key_only, alone.key_only) == (False, True)
    assert alone.version.handle == ("id",)
    assert [row[change.OP] for row in rows] == ["upsert", "delete"]
    assert [row[change.SCHEMA_ID] for row in rows] == [full.version.version, alone.version.version]
    assert alone.version not in messages.described
    assert full.version in messages.described


def test_a_table_of_handle_columns_alone_tells_deletes_from_inserts(spark):
    cell = {"id": {"t": 3, "h": True, "f": 11, "v": 1}}
    messages, rows = read(spark, (key(1), json.dumps({"u": cell})), (key(2), json.dumps({"d": cell})))
    assert [seen.key_only for seen in messages.tables[0].versions] == [False, True]
    assert [(row[change.OP], row["id"], row[change.ERROR]) for row in rows] == [
        ("insert", 1, None),
        ("delete", 1, None),
    ]
    assert rows[1][change.BEFORE] == {"id": 1, change.UNREPRESENTABLE: None}


def test_a_longtext_may_be_longer_than_twenty_million_characters(spark):
    _, rows = read(spark, insert(1, c=(15, 64, "x" * 21_000_000)))
    assert (len(rows[0]["c"]), rows[0][change.ERROR]) == (21_000_000, None)


def test_without_before_images_an_update_is_still_one(spark):
    cell = {"id": {"t": 3, "h": True, "f": 11, "v": 1}, "c": {"t": 3, "f": 65, "v": 1}}
    update = key(1), json.dumps({"u": cell, "p": {"c": {"t": 3, "f": 65, "v": 0}}})
    subject = protocol()
    prepared = subject.prepare(raw_frame(spark, [record(update)]))
    (table,) = subject.read(prepared).tables
    (row,) = changed(subject, prepared, table, before=False)
    assert (row[change.OP], row["c"], change.BEFORE in row) == ("update", 1, False)
    (row,) = changed(subject, prepared, table)
    assert row[change.BEFORE] == {"id": 1, "c": 0, change.UNREPRESENTABLE: None}


def test_a_layout_that_comes_back_behind_a_statement_about_keys_is_another_version(spark):
    def row(ts, *, keyed):
        handle = {"h": True, "f": 11} if keyed else {"f": 0}
        return key(ts), json.dumps({"u": {"id": {"t": 3, **handle, "v": 2}, "b": {"t": 3, "f": 65, "v": 2}}})

    events = [
        row(1, keyed=False),
        ddl(2, "ALTER TABLE a ADD PRIMARY KEY (id)", 32),
        row(3, keyed=True),
        ddl(4, "ALTER TABLE a DROP PRIMARY KEY", 33),
        row(5, keyed=False),
        row(5, keyed=False),
    ]
    memory = Memory()
    messages, _ = read(spark, *events, known=memory)
    versions = messages.tables[0].versions
    assert [(seen.since, seen.until, seen.version.handle) for seen in versions] == [
        (1, 1, ()),
        (3, 3, ("id",)),
        (5, 5, ()),
    ]
    assert len({seen.version.version for seen in versions}) == 3
    memory.keep(messages)
    later, _ = read(spark, row(6, keyed=False), known=memory)
    assert later.tables[0].versions[0].version == versions[-1].version


def test_what_has_something_behind_its_old_image_is_no_event(spark):
    image = json.dumps({"id": {"t": 3, "h": True, "f": 11, "v": 1}})
    sound = f'{{"u":{image},"p":{image}}}'.replace(" ", "")
    behind = ("", "xyz", "}}", "}", "\0", sound, sound[1:], ',"x":{}}')
    messages, rows = read(spark, *((key(1), sound + more) for more in behind))
    assert [row[change.ERROR] for row in rows] == [None]
    assert [(one.code, one.rows) for one in messages.refused] == [(NOT_OPEN, len(behind) - 1)]


@pytest.mark.parametrize("old_values", [True, False])
def test_a_table_without_a_key_needs_old_values_and_is_told_once(spark, old_values):
    subject = protocol(tells_op=old_values)
    keyless = key(1), json.dumps({"u": {"id": {"t": 3, "f": 0, "v": 1}}})
    prepared = subject.prepare(raw_frame(spark, [record(insert(1), keyless)]))
    told = [subject.read(prepared).warnings for _ in range(2)]
    assert [len(warnings) for warnings in told] == [0 if old_values else 1, 0]
    assert old_values or "s.a has no key" in told[0][0]
