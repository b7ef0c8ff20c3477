"""Lines of Canal-JSON in files as changes: whatever a value has, it comes back as it was."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import file_records

from pipeline.model import change, types
from pipeline.model.columns import SchemaId, SourceColumn, TableVersion
from pipeline.model.messages import ColumnMapping, Target
from pipeline.model.names import TableName
from pipeline.model.projection import through
from pipeline.protocols.canal import canal_protocol
from pipeline.protocols.described.frame import recipe
from pipeline.protocols.described.head import MessageKind, field_of

pytestmark = pytest.mark.spark

TS = 450000000000000000
COLUMNS = (
    SourceColumn("id", types.INT, "INT"),
    SourceColumn("big", types.UNSIGNED_BIGINT, "BIGINT UNSIGNED"),
    SourceColumn("bytes", types.BINARY, "BLOB"),
    SourceColumn("text", types.STRING, "TEXT"),
    SourceColumn("one", types.STRING, "ENUM", members=("a", "ü,'")),
    SourceColumn("some", types.STRING, "SET", members=("x", "y", "z")),
)
VERSION = TableVersion(TableName("s", "t"), SchemaId(7), COLUMNS, ("id",), tells_op=True, tells_commit_ts=True)
MAPPING = ColumnMapping(
    tuple(Target(column.name, column.type) for column in COLUMNS),
    {VERSION.version: {column.name: column.name for column in COLUMNS}},
    before=True,
)
ROW = {"id": "1", "big": "18446744073709551615", "bytes": "\x00ÿ\n", "text": "t", "one": "2", "some": "5"}


def message(op, row, old=None, **more):
    told = {
        "id": 0, "database": "s", "table": "t", "pkNames": ["id"], "isDdl": False, "type": op, "es": 1, "ts": 2,
        "sql": "",
        "sqlType": dict.fromkeys(row, 4), "mysqlType": dict.fromkeys(sorted(row), "int"),
        "old": None if old is None else [old], "data": [row], "_tidb": {"commitTs": TS},
    }  # fmt: skip
    return json.dumps(told | more, ensure_ascii=False)


def decoded(spark, records, version=VERSION, members=None):
    """The change frame of records of a file, and the messages that they are."""
    protocol = canal_protocol("UTC", {}, file_records.OneVersion(version), members or {})
    sent = [record.encode("utf-8", "surrogateescape") for record in records]
    return file_records.decoded(protocol, file_records.raw_frame(spark, sent, version, "json"), MAPPING)


def values(row):
    return tuple(row[column.name] for column in COLUMNS)


def test_a_row_has_the_types_of_its_version_not_those_of_the_message(spark):
    changes, messages = decoded(spark, [message("INSERT", ROW), message("DELETE", ROW), message("UPDATE", ROW, ROW)])
    assert messages.refused == ()
    assert [one[change.OP] for one in changes] == ["insert", "delete", "update"]
    assert [one[change.ERROR] for one in changes] == [None] * 3
    wanted = (1, 2**64 - 1, b"\x00\xff\n", "t", "ü,'", "x,z")
    assert [(values(one)) for one in changes] == [wanted] * 3
    assert changes[0][change.BEFORE] is None
    assert [values(one[change.BEFORE]) for one in changes[1:]] == [wanted] * 2


def test_an_update_may_carry_only_what_was_changed(spark):
    updates = [message("UPDATE", ROW, {"text": "u"}), message("UPDATE", ROW, {"text": None, "one": "1"})]
    changes, _ = decoded(spark, updates)
    before = [one[change.BEFORE] for one in changes]
    assert [(was.id, was.big, was.text, was.one) for was in before] == [
        (1, 2**64 - 1, "u", "ü,'"),
        (1, 2**64 - 1, None, "a"),
    ]


@settings(max_examples=6, deadline=None)
@given(texts=st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=20)), min_size=1, max_size=20))
def test_texts_and_bytes_come_back_as_they_were(spark, texts):
    rows = [
        {**ROW, "id": str(n), "text": text, "bytes": octets.decode("latin-1")} for n, (text, octets) in enumerate(texts)
    ]
    records = [json.dumps(json.loads(message("INSERT", row))) for row in rows]  # any character escaped
    changes, messages = decoded(spark, [*(message("INSERT", row) for row in rows), *records])
    assert messages.refused == ()
    assert [one[change.ERROR] for one in changes] == [None] * len(changes)
    assert [(one.text, bytes(one.bytes)) for one in changes] == [*texts, *texts]


FAULTS = [
        (message("INSERT", {**ROW, "bytes": "€"}), "BINARY_UNREADABLE"),
        (message("INSERT", {**ROW, "bytes": "half"}).replace("half", r"\ud800"), "BINARY_UNREADABLE"),
        (message("INSERT", {**ROW, "bytes": "half"}).replace("half", r"\udc00\ud800"), "BINARY_UNREADABLE"),
        (message("INSERT", {**ROW, "bytes": "pair"}).replace("pair", r"\ud83d\ude00"), "BINARY_UNREADABLE"),
        (message("INSERT", {**ROW, "text": "half"}).replace("half", r"\ud800"), None),
        (message("INSERT", {**ROW, "id": "one"}), "CANAL_VALUE_UNREADABLE"),
        (message("INSERT", {**ROW, "id": "2147483648"}), "CANAL_VALUE_UNREADABLE"),
        (message("INSERT", {**ROW, "one": "3"}), "CANAL_VALUE_UNREADABLE"),
        (message("INSERT", {**ROW, "some": "8"}), "CANAL_VALUE_UNREADABLE"),
        (message("INSERT", {**ROW, "text": {"a": 1}}), None),
        (message("INSERT", ROW, data=[]), "CANAL_VALUE_UNREADABLE"),
        (message("INSERT", ROW, data=[ROW, ROW]), "CANAL_VALUE_UNREADABLE"),
        (message("INSERT", ROW, data=7), "CANAL_VALUE_UNREADABLE"),
        (message("INSERT", {name: ROW[name] for name in ROW if name != "text"}), "COLUMNS_DIFFER"),
        (message("INSERT", {**ROW, "more": "1"}), "COLUMNS_DIFFER"),
        (message("INSERT", ROW, sqlType=None), "COLUMNS_DIFFER"),
        (message("INSERT", dict(reversed(ROW.items()))), None),
        (message("DELETE", {"id": "1"}), "COLUMNS_DIFFER"),
]  # fmt: skip
NO_ROWS = [
        ("", "CANAL_UNREADABLE"), ("x", "CANAL_UNREADABLE"), ("{}", "CANAL_UNREADABLE"), ("[]", "CANAL_UNREADABLE"),
        (message("INSERT", ROW)[:-1], "CANAL_UNREADABLE"), (message("INSERT", ROW) + "}", "CANAL_UNREADABLE"),
        (message("INSERT", ROW) * 2, "CANAL_UNREADABLE"), (message("UPSERT", ROW), "CANAL_UNREADABLE"),
        (message("INSERT", ROW, isDdl=True), "CANAL_UNREADABLE"),
        (message("INSERT", {**ROW, "text": "\udcff"}), "CANAL_UNREADABLE"),
        (message("INSERT", ROW, _tidb=None), "COMMIT_TS_MISSING"),
        (message("INSERT", ROW, _tidb={}), "COMMIT_TS_MISSING"),
        (message("INSERT", ROW, _tidb={"commitTs": -1}), "COMMIT_TS_MISSING"),
]  # fmt: skip


@pytest.mark.parametrize(("record", "code"), FAULTS)
def test_what_is_wrong_with_a_row_is_its_code(spark, record, code):
    changes, _ = decoded(spark, [message("INSERT", ROW), record])
    assert [one[change.ERROR] for one in changes] == [None, code]


@pytest.mark.parametrize(("record", "code"), NO_ROWS)
def test_what_is_no_row_is_refused_and_the_others_are_taken(spark, record, code):
    changes, messages = decoded(spark, [message("INSERT", ROW), record, message("INSERT", ROW)])
    assert [(refusal.code, refusal.rows) for refusal in messages.refused] == [(code, 1)]
    assert [one.id for one in changes] == [1, 1]


def test_a_line_that_is_read_in_one_pass_is_the_change_that_it_is_in_two(spark):
    """What it cannot be read as has no head, and is left to the two."""
    lines = [
        message("INSERT", ROW), message("UPDATE", ROW, {"text": None, "one": "1"}), message("DELETE", ROW),
        *(record for record, _ in (*FAULTS, *NO_ROWS)), message("UPDATE", ROW, {**ROW, "text": None}),
    ]  # fmt: skip
    wanted, _ = decoded(spark, lines)
    sent = [line.encode("utf-8", "surrogateescape") for line in lines]
    encoding = canal_protocol("UTC", {}, file_records.OneVersion(VERSION), {}).encoding.at_once(VERSION)
    prepared = through(encoding.prepared(), file_records.raw_frame(spark, sent, VERSION, "json"))
    rows = prepared.where(field_of("kind") == MessageKind.DML)
    found = recipe((VERSION,), MAPPING, "UTC", encoding).of(rows).orderBy(change.OFFSET).collect()
    assert [one for one in found if one[change.ERROR] is None] == [one for one in wanted if one[change.ERROR] is None]
    assert {one[change.ERROR] for one in found} == {None, "CANAL_VALUE_UNREADABLE", "BINARY_UNREADABLE"}
    kinds = {row.kind for row in prepared.select(field_of("kind").alias("kind")).collect()}
    assert kinds == {MessageKind.DML, "COMMIT_TS_MISSING", None}


def test_members_that_nobody_has_named_stay_numbers_until_the_user_does(spark):
    nameless = TableVersion(
        VERSION.table, VERSION.version, tuple(
            SourceColumn(c.name, c.type, c.tidb_type) for c in COLUMNS
        ), ("id",), tells_op=True, tells_commit_ts=True,
    )  # fmt: skip
    changes, messages = decoded(spark, [message("INSERT", ROW)], nameless)
    assert (changes[0].one, changes[0].some) == ("2", "5")
    assert [column.name for column in messages.tables[0].versions[0].unnamed] == ["one", "some"]
    members = {"s.t.one": ("a", "b"), "s.t.some": ("x", "y", "z")}
    changes, messages = decoded(spark, [message("INSERT", ROW)], nameless, members)
    assert (changes[0].one, changes[0].some) == ("b", "x,z")
    assert messages.tables[0].versions[0].unnamed == ()
