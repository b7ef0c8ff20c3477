"""The records of a file as the raw frame has them: their numbers, their kinds, and what CSV says of each."""

import gzip
import json

import pytest
from unit.storage_model import MemoryStore
from unit.test_storage_cutting import TS, line

from pipeline.protocols.csv.form import CsvForm
from pipeline.protocols.csv.splitting import split_each
from pipeline.protocols.files.head import ROWS
from pipeline.settings import parse
from pipeline.sources.storage.frame import batches
from pipeline.sources.storage.lines import lines_of
from pipeline.sources.storage.plan_log import PlannedFile

ROW = line(CsvForm(), "I", TS, ["1", "a"]).encode()
HEADER = b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,id,a"


def records_of(content, tmp_path, protocol="csv"):
    """Kind, number and bytes of the records of a file."""
    source = {"kind": "storage", "protocol": protocol, "path": "/changefeed"}
    tree = {"name": "n", "source": source, "warehouse": {"path": "w"}, "checkpoint": "c"}
    store = MemoryStore()
    store.write("s/t/7/CDC000001.csv", content)
    file = PlannedFile(3, "s/t/7/CDC000001.csv", 1, len(content), "", 0.0, ROWS, "s", "t", 7)
    lines = lines_of(parse(json.dumps(tree), tmp_path))
    rows = [row for batch in batches(store, lines, file) for row in batch.to_pylist()]
    return [(row["file"]["kind"], row["offset"] - (3 << 32), row["value"]) for row in rows], rows


def test_the_header_counts_as_a_record_and_is_none(tmp_path):
    records, rows = records_of(b"\r\n".join([HEADER, ROW, ROW, b""]), tmp_path)
    assert records == [(ROWS, 1, ROW), (ROWS, 2, ROW)]
    assert {row["file"]["header"] for row in rows} == {"id,a"}
    assert [row["split"]["columns"] for row in rows] == [["1", "a"]] * 2


@pytest.mark.parametrize(
    ("content", "protocol", "kinds"),
    [
        (gzip.compress(ROW + b"\r\n", mtime=0), "csv", {"FILE_NOT_CSV"}),
        (gzip.compress(b"{}\r\n", mtime=0), "canal-json", {"FILE_NOT_JSON"}),
        (b"\x28\xb5\x2f\xfd" + b"\r\n" * 5, "csv", {"FILE_NOT_CSV"}),
        (bytes(1000), "csv", {"FILE_TRUNCATED"}),
        (bytes(1000), "canal-json", {"FILE_TRUNCATED"}),
        (ROW + b"\r\n" + bytes(10), "csv", {ROWS, "FILE_TRUNCATED"}),
    ],
)
def test_what_a_file_has_that_is_no_row_has_a_kind_of_its_own(tmp_path, content, protocol, kinds):
    records, _ = records_of(content, tmp_path, protocol)
    assert {kind for kind, _, _ in records} == kinds
    assert sum(len(value) for _, _, value in records) >= len(content) - 2 * len(records)


def test_a_file_without_anything_has_no_records(tmp_path):
    assert records_of(b"", tmp_path) == ([], [])


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (r'1,\N,"\N","",""""', ["1", None, r"\N", "", '"']),
        ('"a,b","a\r\nb","\\"', ["a,b", "a\r\nb", "\\"]),
        ('"a"b', None),
        ('"a', None),
        ('a"b"', None),
        ('a""', None),
    ],
)
def test_fields_of_a_line(text, columns):
    record = f'"I","t","s",{TS},false,{text}'.encode()
    (split,) = split_each(CsvForm(), [record]).to_pylist()
    assert split == {"op": "insert", "commit_ts": TS, "columns": columns, "after": 0}


@pytest.mark.parametrize(
    ("head", "op", "commit_ts"),
    [
        ('"I","t","s",{}', "insert", TS),
        ('"D","t","s",{},true', "delete", TS),
        ('"U","t","s",{},false', "update", TS),
        ('"I","t","s",{},true', "update", TS),
        ('"I","t","s",12', "insert", None),
        ('"I","t","s",9999999999999999999', "insert", None),
        ('"X","t","s",{}', None, TS),
        ('I,"t","s",{}', None, TS),
        ('"I",t,"s",{}', None, TS),
    ],
)
def test_the_head_of_a_line(head, op, commit_ts):
    (split,) = split_each(CsvForm(), [(head.format(TS) + ",1").encode()]).to_pylist()
    assert (split["op"], split["commit_ts"]) == (op, commit_ts)


@pytest.mark.parametrize(
    ("delimiter", "text", "columns"),
    [
        (",", r"a\,b,\\,\n\r,\N,N", ["a,b", "\\", "\n\r", None, "N"]),
        ("||", r"a\|\|b||||c|||d", ["a||b", "", "c", "|d"]),
        ("aba", "xababax", ["x", "bax"]),
        (",", "a\\", None),
    ],
)
def test_without_a_quote_character_a_backslash_escapes(delimiter, text, columns):
    form = CsvForm(delimiter=delimiter, quote="")
    record = delimiter.join(["I", "t", "s", str(TS), "false", text])
    (split,) = split_each(form, [record.encode()]).to_pylist()
    assert split["columns"] == columns


def test_records_that_were_no_neighbours_are_split_each_by_itself():
    old, new = (line(CsvForm(), letter, TS, ["a"], update=True).encode() for letter in "DI")
    torn = b'"I","t","s"'
    assert [one["op"] for one in split_each(CsvForm(), [old, new]).to_pylist()] == ["delete", "update"]
    assert [one["op"] for one in split_each(CsvForm(), [ROW, torn, ROW]).to_pylist()] == ["insert", None, "insert"]
    assert split_each(CsvForm(), []).to_pylist() == []
