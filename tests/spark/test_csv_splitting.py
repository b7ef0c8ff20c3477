"""What a record of CSV says: the function of Java, for each of its rules."""

import pytest
from support import file_records
from unit.test_storage_cutting import FORMS, TS, line

from pipeline.model import types
from pipeline.model.columns import SchemaId, SourceColumn, TableVersion
from pipeline.model.names import TableName
from pipeline.protocols.csv.form import CsvForm
from pipeline.protocols.csv.splitting import SPLIT, split

pytestmark = pytest.mark.spark

VERSION = TableVersion(TableName("s", "t"), SchemaId(7), (SourceColumn("id", types.INT, "INT"),), ("id",))


def splits(spark, form, records):
    """What each of these records says, in their order."""
    raw = file_records.raw_frame(spark, records, VERSION, "csv")
    rows = split(form).of(raw).orderBy("offset").select(f"{SPLIT}.*").collect()
    return [row.asDict() for row in rows]


LINES = [
    (r'1,\N,"\N","",""""', ["1", None, r"\N", "", '"']),
    ('"a,b","a\r\nb","\\"', ["a,b", "a\r\nb", "\\"]),
    ('"ä""""","",1', ['ä""', "", "1"]),
    ("", [""]),
    (",", ["", ""]),
    ('"a"b', None),
    ('"a', None),
    ('a"b"', None),
    ('a""', None),
    ('"a""', None),
    ('""a""', None),
    ('"a"\r\n', None),
]


def test_fields_of_a_line(spark):
    said = splits(spark, CsvForm(), [f'"I","t","s",{TS},false,{text}'.encode() for text, _ in LINES])
    assert [one["after"] for one in said] == [columns for _, columns in LINES]
    assert {one["before"] for one in said} == {None}
    assert {(one["op"], one["commit_ts"]) for one in said[:-1]} == {("insert", TS)}
    assert said[-1]["op"] is None  # another line is behind it


HEADS = [
    ('"I","t","s",{}', "insert", TS, ["1"]),
    ('"D","t","s",{},false', "delete", TS, ["1"]),
    ('"D","t","s",{},true', "delete", TS, None),
    ('"U","t","s",{},false', "update", TS, ["1"]),
    ('"I","t","s",{},true', "update", TS, ["1"]),
    ('"I","t","s",{},"true"', "insert", TS, ["true", "1"]),
    ('"I","a,""b","s",{},false', "insert", TS, ["1"]),
    ('"I","t","s",12', "insert", None, ["1"]),
    ('"I","t","s",9999999999999999999', "insert", None, ["1"]),
    ('"X","t","s",{}', None, TS, None),
    ('I,"t","s",{}', None, TS, None),
    ('"I",t,"s",{}', None, TS, None),
]


def test_the_head_of_a_line(spark):
    said = splits(spark, CsvForm(), [(head.format(TS) + ",1").encode() for head, *_ in HEADS])
    assert [(one["op"], one["commit_ts"], one["after"]) for one in said] == [tuple(wanted) for _, *wanted in HEADS]
    assert [one["before"] for one in said] == [one["after"] if one["op"] == "delete" else None for one in said]


@pytest.mark.parametrize(
    ("delimiter", "lines"),
    [
        (",", [(r"a\,b,\\,\n\r,\N,N", ["a,b", "\\", "\n\r", None, "N"]), ("a\\", None), ("a\\\n", None)]),
        ("||", [(r"a\|\|b||||c|||d", ["a||b", "", "c", "|d"])]),
        ("aba", [("xababax", ["x", "bax"])]),
    ],
)
def test_without_a_quote_character_a_backslash_escapes(spark, delimiter, lines):
    form = CsvForm(delimiter=delimiter, quote="", terminator="\n")
    records = [delimiter.join(["I", "t", "s", str(TS), "false", text]).encode() for text, _ in lines]
    assert [one["after"] for one in splits(spark, form, records)] == [columns for _, columns in lines]


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_two_lines_are_an_update_if_they_say_so(spark, form):
    old, new = line(form, "D", TS, ["a", None], update=True), line(form, "I", TS, ["b", "c"], update=True)
    later, broken = line(form, "I", TS + 1, ["b", "c"], update=True), line(form, "I", TS, ["b"], update=False)
    pairs = [f"{old}{form.terminator}{other}" for other in (new, later, broken, old, f"{new}{form.terminator}{new}")]
    update, *others = splits(spark, form, [pair.encode() for pair in pairs])
    assert update == {"op": "update", "commit_ts": TS, "after": ["b", "c"], "before": ["a", None]}
    assert [(one["op"], one["after"], one["before"]) for one in others] == [(None, None, None)] * len(others)


def test_of_a_pair_with_a_broken_line_there_are_no_values(spark):
    old, new = (line(CsvForm(), letter, TS, ["a"], update=True) for letter in "DI")
    (said,) = splits(spark, CsvForm(), [f"{old[:-1]}\r\n{new}".encode()])
    assert said == {"op": "update", "commit_ts": TS, "after": None, "before": []}


def test_only_text_is_a_row(spark):
    good = line(CsvForm(), "I", TS, ["ä\ufffd"]).encode()
    said = splits(spark, CsvForm(), [good, good.replace(b"\xc3", b"\xff"), b"", b"\x00" * 20])
    assert [(one["op"], one["after"]) for one in said] == [
        ("insert", ["ä\ufffd"]),
        (None, None),
        (None, None),
        (None, None),
    ]
