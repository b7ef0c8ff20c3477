"""Messages of Canal-JSON from Kafka: what each is, and that nothing of it is lost."""

import json

import pytest
from spark.open_events import Memory, mapping_of, raw_frame

from pipeline.model import change
from pipeline.model.columns import FAR_FUTURE
from pipeline.model.messages import Ordering
from pipeline.protocols.canal.protocol import PARTIAL_DELETES, CanalProtocol, newest_ordering

pytestmark = pytest.mark.spark

TS = 450000000000000000
MS = TS >> 18
TYPES = {"id": "int", "n": "bigint unsigned", "b": "blob", "e": "enum"}
ROW = {"id": "1", "n": "18446744073709551615", "b": "\x00ÿ", "e": "2"}
PLAIN = {"_tidb": ...}
"""What a message is without that has no extension."""


def message(op="INSERT", row=ROW, old=None, **more):
    sent = {
        "id": 0, "database": "s", "table": "t", "pkNames": ["id"], "isDdl": False, "type": op, "es": MS, "ts": MS + 1,
        "sql": "", "sqlType": dict.fromkeys(row, 4), "mysqlType": {name: TYPES.get(name, "text") for name in row},
        "old": None if old is None else [old], "data": [row], "_tidb": {"commitTs": TS},
    }  # fmt: skip
    return {name: value for name, value in (sent | more).items() if value is not ...}


def statement(sql, **more):
    nothing = dict.fromkeys(("sqlType", "mysqlType", "data", "pkNames"))
    return message("QUERY", **nothing | {"isDdl": True, "sql": sql} | more)


def canal(spark, sent, key=None, **options):
    """The protocol, prepared frame and messages of what was sent: objects, or texts, each with this key."""
    values = [one if isinstance(one, bytes) else json.dumps(one, ensure_ascii=False).encode() for one in sent]
    raw = raw_frame(spark, [(key, value) for value in values])
    protocol = CanalProtocol("UTC", {}, Memory(), **options)
    protocol.begin(None, raw)
    prepared = protocol.prepare(raw).cache()
    messages = protocol.read(prepared)
    while messages.prepare_again:
        prepared = protocol.prepare(raw).cache()
        messages = protocol.read(prepared)
    return protocol, prepared, messages


def changes(spark, sent, **options):
    """The changes of the only table, in order."""
    protocol, prepared, messages = canal(spark, sent, **options)
    (table,) = messages.tables
    frame = protocol.recipe(table, mapping_of(table)).of(prepared.where(protocol.where(table)))
    return frame.orderBy(*change.POSITION).collect()


def refused(spark, sent):
    """How many messages have which code, and how many events there are."""
    _, _, messages = canal(spark, [message(), *sent])
    return {one.code: one.rows for one in messages.refused}, messages.events


@pytest.mark.parametrize("form", [{}, PLAIN], ids=["extension", "plain"])
def test_a_row_that_has_other_columns_than_its_layout_is_a_dead_letter(spark, form):
    rows = [{name: ROW[name] for name in ROW if name != "n"}, {**ROW, "x": "1"}, dict(reversed(ROW.items()))]
    found = changes(spark, [message(**form), *(message(data=[row], **form) for row in rows)])
    assert [row[change.ERROR] for row in found] == [None, "COLUMNS_DIFFER", "COLUMNS_DIFFER", None]
    assert found[3].n == 2**64 - 1


def test_the_key_of_a_message_is_kept_and_says_nothing(spark):
    """`output-row-key`."""
    key = b'{"id":"9"}'
    (with_key,), (without,) = changes(spark, [message()], key=key), changes(spark, [message()])
    assert bytes(with_key[change.KEY_BYTES]) == key
    rows = (with_key.asDict(), without.asDict())
    assert [{**row, change.KEY_BYTES: None} for row in rows] == [without.asDict()] * 2


def test_both_rows_of_a_message_are_changes_and_each_has_a_message_of_its_own(spark):
    rows = [ROW | {"id": "7", "n": "1"}, ROW | {"id": "8", "n": "2", "b": '"\\'}]
    olds = [ROW | {"id": "7"}, ROW | {"id": "8"}]
    sent = [message("UPDATE", data=rows), message("DELETE", data=rows[:1])]
    sent[0]["old"] = olds
    found = changes(spark, sent)
    assert [(row[change.OFFSET], row[change.INDEX], row["id"], row["n"]) for row in found] == [
        (0, 0, 7, 1), (0, 1, 8, 2), (1, 0, 7, 1),
    ]  # fmt: skip
    assert [row[change.BEFORE].n for row in found] == [2**64 - 1, 2**64 - 1, 1]
    assert [row[change.ERROR] for row in found] == [None] * 3
    own = [json.loads(row[change.VALUE_BYTES]) for row in found[:2]]
    alone = [(one["data"], one["old"], one["_tidb"], one["type"], one["es"]) for one in own]
    assert alone == [([row], [old], {"commitTs": TS}, "UPDATE", MS) for row, old in zip(rows, olds, strict=True)]


SEVERAL_THAT_ARE_NONE = [
    {"data": [1, 2]},
    message("UPSERT", data=[ROW, ROW]),
    message(data=[ROW, ROW], table=""),
    message(data=[ROW, ROW], sqlType=None),
    message(data=[ROW, ROW], _tidb={"commitTs": 0}),
]


def test_a_message_of_several_items_that_is_no_row_is_refused_and_the_others_are_taken(spark):
    several = message(data=[ROW, ROW | {"id": "2"}])
    assert refused(spark, [*SEVERAL_THAT_ARE_NONE, several]) == ({"CANAL_UNREADABLE": 5}, 8)
    _, prepared, messages = canal(spark, [message(), *SEVERAL_THAT_ARE_NONE])
    assert messages.tables[0].versions[0].rows == 1
    (unread,) = messages.refused
    values = [bytes(row.value) for row in prepared.where(unread.where).collect()]
    assert [json.loads(value) for value in values] == SEVERAL_THAT_ARE_NONE


def test_a_row_whose_sides_are_no_rows_is_a_dead_letter(spark):
    wrong = [message(data=7), message(data=[7]), message(data=None), message("UPDATE", data=[ROW], old=[7])]
    wrong.append(message("UPDATE") | {"old": 7})
    found = changes(spark, [message("UPDATE", old=ROW), message("UPDATE"), *wrong])
    assert [row[change.ERROR] for row in found] == [None, None, *["CANAL_VALUE_UNREADABLE"] * len(wrong)]


def test_numbers_and_names_are_as_long_as_spark_reads_them(spark):
    long = [message(x=int("9" * 1_001)), message(**{"x" * 50_001: 1})]
    assert refused(spark, long) == ({"CANAL_UNREADABLE": 2}, 3)
    assert refused(spark, [message(x=int("9" * 1_000)), message(**{"x" * 50_000: 1})]) == ({}, 3)


def test_of_members_that_are_there_twice_the_last_one_counts(spark):
    twice = json.dumps(message(), ensure_ascii=False)[:-1] + ', "_tidb": null}'
    assert refused(spark, [twice.encode()])[0] == {"COMMIT_TS_MISSING": 1}


def test_a_table_without_a_key_is_unfit_where_its_deletes_have_a_part_of_the_row(spark):
    part = {name: ROW[name] for name in ("id", "n")}
    deleted = {"row": part, "pkNames": None, "_tidb": {"commitTs": TS + 1}}
    sent = [message(pkNames=None), message("DELETE", **deleted)]
    assert unfit(spark, sent) == {4: "", 2: PARTIAL_DELETES}
    created = statement("CREATE TABLE `s`.`t` (`id` INT, `n` BIGINT UNSIGNED, `v` TEXT)", _tidb={"commitTs": TS})
    assert unfit(spark, [created, sent[1]]) == {2: PARTIAL_DELETES}
    assert unfit(spark, [message("DELETE", row=part, pkNames=None)]) == {2: ""}
    assert unfit(spark, [message(), message("DELETE", row=part)]) == {4: "", 2: ""}


def test_deletes_that_have_all_columns_that_are_left_are_whole(spark):
    part = {name: ROW[name] for name in ("id", "n")}
    created = statement("CREATE TABLE `s`.`t` (`id` INT, `n` BIGINT UNSIGNED, `b` BLOB, `e` ENUM('a'))")
    kinds = [f"ALTER TABLE `s`.`t` DROP COLUMN `{name}`" for name in ("b", "e")]
    dropped = [statement(sql, _tidb={"commitTs": TS + 2 + at}) for at, sql in enumerate(kinds)]
    after = message("DELETE", row=part, pkNames=None, _tidb={"commitTs": TS + 9})
    assert unfit(spark, [created, message(pkNames=None, _tidb={"commitTs": TS + 1}), *dropped, after]) == {4: "", 2: ""}


def unfit(spark, sent):
    """By the number of its columns, why each version of the only table is unfit."""
    _, _, messages = canal(spark, sent)
    (table,) = messages.tables
    return {len(seen.version.columns): seen.unfit for seen in table.versions}


def test_a_message_of_a_thousand_rows_and_one_of_too_many(spark):
    most = [{"id": str(number)} for number in range(1_000)]
    found = changes(spark, [message(row=most[0], data=most)])
    assert [row["id"] for row in found] == [*range(1_000)]
    assert refused(spark, [message(row=most[0], data=[*most, most[0]])]) == ({"CANAL_UNREADABLE": 1}, 2)
    too_many = json.dumps(message(row=most[0], data=[*most, most[0]]), ensure_ascii=False).encode()
    _, prepared, messages = canal(spark, [too_many])
    (letter,) = prepared.where(messages.refused[0].where).collect()
    assert bytes(letter.value) == too_many


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", "CANAL_UNREADABLE"), (b"x", "CANAL_UNREADABLE"), (b"[]", "CANAL_UNREADABLE"),
        (b"\xff", "CANAL_UNREADABLE"), (message(type=...), "CANAL_UNREADABLE"),
        (message("UPSERT"), "CANAL_UNREADABLE"), (json.dumps(message()).encode() * 2, "CANAL_UNREADABLE"),
        (message(_tidb={"commitTs": str(TS)}), "CANAL_UNREADABLE"),
        (message(_tidb={"commitTs": 2**64}), "CANAL_UNREADABLE"),
        (message(_tidb={"commitTs": FAR_FUTURE + 1}), "CANAL_UNREADABLE"),
        (message(_tidb={"commitTs": 0}), "CANAL_UNREADABLE"),
        (message(table=""), "CANAL_UNREADABLE"), (message(sqlType=None), "CANAL_UNREADABLE"),
        (message(mysqlType={}), "CANAL_UNREADABLE"),
        (statement(None), "CANAL_UNREADABLE"), (message(**PLAIN), "COMMIT_TS_MISSING"),
        (statement("DROP TABLE t", **PLAIN), "COMMIT_TS_MISSING"),
        (message(id=3), "CANAL_NOT_OF_TICDC"), ({"data": [ROW], "type": "INSERT"}, "CANAL_NOT_OF_TICDC"),
        (message(_tidb={"commitTs": TS, "onlyHandleKey": True}), "HANDLE_KEY_ONLY"),
        (message(_tidb={"commitTs": TS, "claimCheckLocation": "file:///x"}), "CLAIM_CHECK"),
    ],
)  # fmt: skip
def test_what_is_no_row_has_a_code_and_the_others_go_on(spark, sent, code):
    assert refused(spark, [sent]) == ({code: 1}, 2)


@pytest.mark.parametrize("es", [None, 0, -1, 2**62])
def test_without_the_extension_a_row_needs_its_millisecond(spark, es):
    _, _, messages = canal(spark, [message(**PLAIN), message(**PLAIN, es=es)])
    assert {one.code: one.rows for one in messages.refused} == {"CANAL_UNREADABLE": 1}


def test_without_the_extension_rows_have_a_time_and_no_commit_ts(spark):
    sent = [message(**PLAIN), message("UPDATE", ROW | {"id": "2"}, ROW, **PLAIN, es=MS + 7)]
    found = changes(spark, sent)
    assert [row[change.COMMIT_TS] for row in found] == [None, None]
    assert [row[change.COMMIT_TIME].timestamp() * 1000 for row in found] == [MS, MS + 7]
    assert found[1][change.BEFORE].id == 1


@pytest.mark.parametrize(
    ("sent", "ordering"),
    [
        ([message(**PLAIN), message()], Ordering.BY_OFFSET),
        ([message(), message(**PLAIN)], Ordering.BY_COMMIT_TS),
        ([message(id=4, **PLAIN), b"x", message()], Ordering.BY_COMMIT_TS),
        ([b"x"], Ordering.BY_COMMIT_TS),
    ],
)
def test_the_first_messages_tell_the_ordering(spark, sent, ordering):
    protocol, _, _ = canal(spark, sent)
    assert protocol.ordering is ordering


def test_the_newest_messages_tell_what_a_new_warehouse_would_have(spark):
    mark = message(type="TIDB_WATERMARK", isDdl=False, _tidb={"watermarkTs": TS})
    for sent, ordering in (
        ([message(**PLAIN), message()], Ordering.BY_COMMIT_TS),
        ([message(**PLAIN), mark], Ordering.BY_COMMIT_TS),
        ([message(), message(**PLAIN)], Ordering.BY_OFFSET),
        ([b"x"], None),
    ):
        values = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in sent]
        assert newest_ordering(raw_frame(spark, [(None, value) for value in values])) is ordering


def test_an_ordering_that_a_warehouse_has_stays(spark):
    raw = raw_frame(spark, [(None, json.dumps(message()).encode())])
    protocol = CanalProtocol("UTC", {}, Memory())
    protocol.begin(Ordering.BY_OFFSET, raw)
    assert protocol.ordering is Ordering.BY_OFFSET
    prepared = protocol.prepare(raw)
    (table,) = protocol.read(prepared).tables
    (row,) = protocol.recipe(table, mapping_of(table)).of(prepared.where(protocol.where(table))).collect()
    assert row[change.COMMIT_TS] == TS


def test_statements_without_the_extension_say_that_they_stand_alone(spark):
    sent = [message(**PLAIN), statement("ALTER TABLE t ADD COLUMN c INT", **PLAIN), message(**PLAIN)]
    messages = canal(spark, sent)[2]
    (ddl,) = messages.ddl
    assert ddl.commit_ts == MS << 18
    assert "partition 0 alone" in ddl.alone
    assert not canal(spark, [message(), statement("ALTER TABLE t ADD COLUMN c INT")])[2].ddl[0].alone


def test_a_value_of_16_mib_is_read_and_a_row_of_ten_thousand_columns_is_none_of_tidbs(spark):
    large = "ä" * (8 << 20)
    wide = {f"c{number}": "1" for number in range(10_000)}
    sent = [message(row=ROW | {"x": large}), message("DELETE", row=ROW | {"x": large}), message(row=wide)]
    found = changes(spark, sent)
    assert [(row[change.OP], row["x"] == large, row["b"]) for row in found] == [
        ("insert", True, b"\x00\xff"), ("delete", True, b"\x00\xff"),
    ]  # fmt: skip
    assert refused(spark, [message(row=wide)]) == ({"CANAL_UNREADABLE": 1}, 2)


def test_values_around_the_limits_of_unsigned_numbers_make_one_version(spark):
    """`sqlType` says another type where a number is beyond its signed range."""
    widths = {"tinyint": (7, -6, 5), "smallint": (15, 5, 4), "int": (31, 4, -5), "bigint": (63, -5, 3)}
    columns = {"id": "int", **{f"u{name}": f"{name} unsigned" for name in widths}}
    sent = []
    for number in range(100_000):
        row, kinds = {"id": str(number)}, {"id": 4}
        for at, (name, (bits, small, large)) in enumerate(widths.items()):
            value = 2**bits - 2 + (number + at) % 4
            row[f"u{name}"], kinds[f"u{name}"] = str(value), large if value >= 2**bits else small
        sent.append(message(row=row, sqlType=kinds, mysqlType=columns))
    protocol, prepared, messages = canal(spark, sent)
    (table,) = messages.tables
    assert [seen.rows for seen in table.versions] == [100_000]
    frame = protocol.recipe(table, mapping_of(table)).of(prepared.where(protocol.where(table)))
    found = frame.where(f"`{change.ERROR}` IS NULL AND ubigint >= 9223372036854775808").count()
    assert found == 50_000
