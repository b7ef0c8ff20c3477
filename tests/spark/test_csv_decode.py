"""Lines of CSV as changes: whatever a text has, it comes back as it was; what is no line is a dead letter."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import file_records
from unit.test_storage_cutting import FORMS, HOSTILE, TS, line

from pipeline.model import change, types
from pipeline.model.columns import SchemaId, SourceColumn, TableVersion
from pipeline.model.messages import ColumnMapping, Target
from pipeline.model.names import TableName
from pipeline.protocols.csv import CsvForm, csv_protocol

pytestmark = pytest.mark.spark

VERSION = TableVersion(
    TableName("s", "t"),
    SchemaId(7),
    (
        SourceColumn("id", types.INT, "INT"),
        SourceColumn("a", types.STRING, "TEXT"),
        SourceColumn("b", types.STRING, "TEXT"),
    ),
    ("id",),
    tells_op=True,
    tells_commit_ts=True,
)
MAPPING = ColumnMapping(
    (Target("id", types.INT), Target("a", types.STRING), Target("b", types.STRING)),
    {VERSION.version: {"id": "id", "a": "a", "b": "b"}},
    before=True,
)


def decoded(spark, form, records, version=VERSION, mapping=MAPPING):
    """The change frame of records of a file, and the messages that they are."""
    protocol = csv_protocol(form, "UTC", {}, file_records.OneVersion(version))
    sent = [record.encode("utf-8", "surrogateescape") for record in records]
    return file_records.decoded(protocol, file_records.raw_frame(spark, sent, version, "csv"), mapping)


def row(form, op, ts, number, texts, *, update=False):
    return line(form, op, ts, [None, *texts], update=update).replace(form.null, str(number), 1)


TEXTS = st.lists(st.tuples(HOSTILE | st.none(), HOSTILE | st.none()), min_size=1, max_size=12)


@pytest.mark.parametrize("form", FORMS, ids=repr)
@settings(max_examples=4, deadline=None)
@given(texts=TEXTS)
def test_texts_come_back_as_they_were(spark, form, texts):
    records = []
    for number, pair in enumerate(texts):
        if number % 3 == 2:
            old = row(form, "D", TS + number, number, texts[0], update=True)
            records.append(old + form.terminator + row(form, "I", TS + number, number, pair, update=True))
        else:
            records.append(row(form, "ID"[number % 3], TS + number, number, pair))
    changes, messages = decoded(spark, form, records)
    assert messages.refused == ()
    assert [one[change.ERROR] for one in changes] == [None] * len(texts)
    assert [(one.id, one.a, one.b) for one in changes] == [(n, *pair) for n, pair in enumerate(texts)]
    assert [one[change.OP] for one in changes] == [("insert", "delete", "update")[n % 3] for n in range(len(texts))]
    was = [(one[change.BEFORE].a, one[change.BEFORE].b) for one in changes if one[change.OP] == "update"]
    assert was == [texts[0]] * len(was)
    assert {one[change.TOPIC] for one in changes} == {"s/t/7/CDC000001.csv"}
    assert [one[change.OFFSET] for one in changes] == list(range(len(texts)))


GOOD = f'"I","t","s",{TS},1,"x","y"'


@pytest.mark.parametrize(
    ("record", "code", "column"),
    [
        (f'"I","t","s",{TS},1,"x"', "COLUMNS_DIFFER", None),
        (f'"I","t","s",{TS},1,"x","y","z"', "COLUMNS_DIFFER", None),
        (f'"I","t","s",{TS},1,"x"w,"y"', "CSV_VALUE_UNREADABLE", None),
        (f'"I","t","s",{TS},1,"x""y","y', "CSV_VALUE_UNREADABLE", None),
        (f'"I","t","s",{TS},one,"x","y"', "CSV_VALUE_UNREADABLE", "id"),
        (f'"I","t","s",{TS},99999999999,"x","y"', "CSV_VALUE_UNREADABLE", "id"),
    ],
)
def test_a_line_that_is_not_what_its_version_says_is_a_dead_letter(spark, record, code, column):
    changes, messages = decoded(spark, CsvForm(), [GOOD, record])
    assert messages.refused == ()
    assert [(one[change.ERROR], one[change.UNREAD]) for one in changes] == [(None, None), (code, column)]
    assert bytes(changes[1][change.VALUE_BYTES]) == record.encode()
    assert b'"path":"s/t/7/CDC000001.csv"' in bytes(changes[1][change.KEY_BYTES])


@pytest.mark.parametrize(("binary", "good", "bad"), [("hex", "00FF41", ("0g", "0")), ("base64", "AP9B", ("A!9B",))])
def test_bytes_are_written_as_the_settings_say(spark, binary, good, bad):
    columns = (VERSION.columns[0], SourceColumn("b", types.BINARY, "BLOB"))
    mapping = ColumnMapping(
        (Target("id", types.INT), Target("b", types.BINARY)), {VERSION.version: {"id": "id", "b": "b"}}, before=True
    )
    records = [f'"I","t","s",{TS},{number},"{sent}"' for number, sent in enumerate((good, *bad, ""))]
    version = replace(VERSION, columns=columns)
    changes, _ = decoded(spark, CsvForm(binary=binary), records, version, mapping)
    assert [one[change.ERROR] for one in changes] == [None, *["CSV_VALUE_UNREADABLE"] * len(bad), None]
    assert [one[change.UNREAD] for one in changes] == [None, *["b"] * len(bad), None]
    assert (changes[0].b, changes[-1].b) == (b"\x00\xff\x41", b"")


@pytest.mark.parametrize(
    "record",
    [
        "", "x", '"I"', '"I","t","s"', f'"X","t","s",{TS},1,"x","y"', f'I,t,s,{TS},1,"x","y"',
        f'"I","t","s",{TS},1,"\udcff","y"', f'"I","t","s",{TS},\udcff,"x","y"', "\x00" * 20, '{"id":1}',
    ],
)  # fmt: skip
def test_what_is_no_line_is_refused_and_the_others_are_taken(spark, record):
    changes, messages = decoded(spark, CsvForm(), [GOOD, record, GOOD])
    assert [(refusal.code, refusal.rows) for refusal in messages.refused] == [("CSV_UNREADABLE", 1)]
    assert [one.id for one in changes] == [1, 1]


@pytest.mark.parametrize("text", ["\udcff", "\\\udcff"])
def test_without_quotes_too_a_text_is_utf_8(spark, text):
    form = CsvForm(quote="")
    good = row(form, "I", TS, 1, ("x", "y"))
    changes, messages = decoded(spark, form, [good, good.replace("x", text)])
    assert [(refusal.code, refusal.rows) for refusal in messages.refused] == [("CSV_UNREADABLE", 1)]
    assert [one.id for one in changes] == [1]


@pytest.mark.parametrize("record", ['"I","t","s",1,"x","y"', f'"I","t","s",{TS}999999,1,"x","y"'])
def test_a_line_without_a_commit_ts_says_so(spark, record):
    changes, messages = decoded(spark, CsvForm(), [GOOD, record])
    assert [(refusal.code, refusal.rows) for refusal in messages.refused] == [("COMMIT_TS_MISSING", 1)]
    assert [one.id for one in changes] == [1]
