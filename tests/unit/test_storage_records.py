"""The records of a file as the raw frame has them: their numbers and their kinds."""

import gzip
import json

import numpy as np
import pytest
from unit.storage_model import MemoryStore
from unit.test_storage_cutting import TS, line

from pipeline.protocols.csv.form import CsvForm
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
    sent = [row for batch in batches(store, lines, file) for row in batch.to_pylist()]
    rows = [(piece["file"]["kind"], *record) for piece in sent for record in numbered(piece)]
    return rows, sent


def numbered(piece):
    """Number and bytes of the records of a piece."""
    places = np.frombuffer(piece["bounds"], "<i4").reshape(-1, 2)
    return [(piece["first"] - (3 << 32) + n, piece["content"][start:end]) for n, (start, end) in enumerate(places)]


def test_the_header_counts_as_a_record_and_is_none(tmp_path):
    records, sent = records_of(b"\r\n".join([HEADER, ROW, ROW, b""]), tmp_path)
    assert records == [(ROWS, 1, ROW), (ROWS, 2, ROW)]
    assert [piece["file"]["header"] for piece in sent] == ["id,a"]


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
