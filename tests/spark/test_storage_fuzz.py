"""Lines of TiCDC's own files in which anything has been changed: each is a row or a dead letter, and nothing raises."""

import random
from functools import partial

import pytest
from golden.storage import files_of
from support import file_records
from support.slow import EVERY

from pipeline.model import change
from pipeline.model.columns import CommitTs
from pipeline.model.messages import ColumnMapping, Target
from pipeline.protocols.canal import canal_protocol
from pipeline.protocols.csv import CsvForm, csv_protocol
from pipeline.protocols.csv.lines import csv_records
from pipeline.protocols.described.statements import described
from pipeline.protocols.files.cut import json_lines
from pipeline.protocols.files.schema_messages import message_of
from pipeline.sources.storage.paths import DataFile, SchemaPath, read_path

pytestmark = pytest.mark.spark

FORM = CsvForm()
COUNT, ROUNDS = 2_000, 50 if EVERY else 1
HOSTILE = (b'"', b",", b"\\N", b"\r\n", b"\\", b"\xff", b"\x00", b"[", b"}", b":", b"null", b"0", b"-", b"e9", b'"I",')


class Statement:
    """What `message_of` reads."""

    def __init__(self, content):
        self.content, self.file = content, type("File", (), {"kind": "BOOTSTRAP"})()


def sent(config, cut):
    """A version of the table of all types, and lines of it."""
    files = files_of("all_types", config)
    rows = {path: read_path(path) for path in files if isinstance(read_path(path), DataFile)}
    path = max(rows, key=lambda path: len(files[path]))
    schemas = {read_path(p).describes: p for p in files if isinstance(read_path(p), SchemaPath)}
    content = files[schemas[rows[path].under(schemas)]].decode()
    version = described(message_of(Statement(content))["tableSchema"], {})
    content = files[path]
    starts, ends, _ = cut(content)
    return version, [content[start:end] for start, end in zip(starts, ends, strict=True)]


def changed(line, dice):
    for _ in range(dice.randrange(1, 4)):
        at, to = sorted(dice.randrange(len(line) + 1) for _ in range(2))
        match dice.randrange(4):
            case 0:
                line = line[:at] + dice.choice(HOSTILE) + line[at:]
            case 1:
                line = line[:at] + line[to:]
            case 2:
                line = line[:at] + bytes([dice.randrange(256)]) + line[at + 1 :]
            case 3:
                line = line[:to] + line[at:]
    return line


@pytest.mark.parametrize(
    ("config", "cut", "protocol"),
    [
        ("storage_csv_day", partial(csv_records, FORM), lambda known: csv_protocol(FORM, "UTC", {}, known)),
        ("storage_canal_day", json_lines, lambda known: canal_protocol("UTC", {}, known, {})),
    ],
    ids=["csv", "canal-json"],
)
def test_every_line_is_a_row_or_a_dead_letter(spark, config, cut, protocol):
    version, lines = sent(config, cut)
    dice = random.Random(11)  # noqa: S311 - lines that can be made again
    for _ in range(ROUNDS):
        values = (changed(dice.choice(lines), dice) for _ in range(COUNT))
        reader = protocol(file_records.OneVersion(version))
        prepared = reader.prepare(file_records.raw_frame(spark, values, version, "csv")).cache()
        assert_each_is_told(reader, version, prepared)
        prepared.unpersist(blocking=True)


def assert_each_is_told(reader, version, prepared):
    messages = reader.read(prepared)
    assert messages.events == COUNT
    (read,) = messages.tables
    assert read.rows + sum(refused.rows for refused in messages.refused) == COUNT
    assert all(0 < seen.since <= seen.until < CommitTs(2**63) for seen in read.versions)
    targets = tuple(Target(column.name, column.type) for column in version.columns)
    fields = {version.version: {column.name: column.name for column in version.columns}}
    frame = reader.recipe(read, ColumnMapping(targets, fields, before=True)).of(prepared.where(reader.where(read)))
    codes = {row[change.ERROR]: row["count"] for row in frame.groupBy(change.ERROR).count().collect()}
    assert sum(codes.values()) == read.rows
    assert set(codes) - {None} <= set(reader.sentences())
    assert codes.get(None, 0) < read.rows
