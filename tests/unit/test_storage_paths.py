"""What a file of a storage changefeed is, by its path; golden trees by default."""

import json
import tarfile
from pathlib import Path

import pytest

from pipeline.sources.storage.metadata import UNREADABLE, read_metadata
from pipeline.sources.storage.paths import DataFile, Foreign, Index, Metadata, SchemaPath, VersionPath, read_path
from pipeline.sources.storage.schema_files import SchemaFileDamaged, read_schema_file
from pipeline.sources.storage.store import FolderStore

GOLDEN = Path(__file__).parents[1] / "golden"
TREES = sorted(GOLDEN.glob("*/*storage_csv*.tar.gz"))


def tree(archive):
    """Path → bytes of the files of an archive."""
    with tarfile.open(archive) as opened:
        files = [(member.name.partition("/")[2], opened.extractfile(member)) for member in opened if member.isfile()]
        return {path: file.read() for path, file in files}


@pytest.mark.parametrize("archive", TREES, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_each_file_of_a_golden_tree_is_known_and_each_schema_file_is_whole(archive):
    described, files, kinds = set(), [], set()
    for path, content in tree(archive).items():
        kind = read_path(path)
        kinds.add(type(kind))
        match kind:
            case SchemaPath(describes, checksum):
                read = read_schema_file(content, checksum)
                assert describes.version == read.version
                described |= {describes} if read.columns else set()
            case DataFile():
                files.append(kind)
            case _:
                assert not isinstance(kind, Foreign), path
    assert {DataFile, SchemaPath, Metadata, Index} >= kinds >= {DataFile, SchemaPath, Metadata}
    assert all(file.under(described) is not None for file in files)


@pytest.mark.parametrize(
    ("path", "versions"),
    [
        ("s/t/45/CDC000001.csv", [("s/t", 45)]),
        ("s/t/45/2026-11-28/CDC000001.csv", [("s/t", 45)]),
        ("s/t/45/7/2026/CDC000001.csv", [("s/t", 45), ("s/t/45", 7), ("s/t/45/7", 2026)]),
        ("s/t/45/7/CDC00000000000000000012.json", [("s/t", 45), ("s/t/45", 7)]),
        ("s/2024/45/CDC_a-b_000001.csv", [("s", 2024), ("s/2024", 45)]),
        ("108/45/CDC000001.csv", [("108", 45)]),
    ],
)
def test_a_path_may_be_read_in_several_ways(path, versions):
    file = read_path(path)
    assert [(reading.table, reading.version) for reading in file.readings] == versions
    assert file.under({VersionPath("s/2024", 45)}) == (VersionPath("s/2024", 45) if path.startswith("s/2024") else None)


@pytest.mark.parametrize(
    "path",
    [
        "CDC000001.csv", "s/t/45/CDC00001.csv", "s/t/45/CDC000001.csv.gz", "s/t/x/CDC000001.csv", "_SUCCESS",
        "s/t/45/.checkpoint", "s/t/meta/schema_x_1.json", "meta/schema_1_0000000001.json", "s/metadata",
    ],
)  # fmt: skip
def test_other_files_are_not_ticdcs(path):
    assert read_path(path) == Foreign()


def schema_file(**changes):
    archive = GOLDEN / "all_types/storage_csv_day.tar.gz"
    path, content = next((p, c) for p, c in tree(archive).items() if "/t_int/meta/schema_" in p)
    return json.dumps({**json.loads(content), **changes}, indent=4).encode(), read_path(path).checksum


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"Table": "other"}, "its checksum is"),
        ({"Version": 2}, "its Version is 2"),
        ({"TableColumns": [{}]}, "a field is missing"),
        ({"TableColumns": "x"}, "TableColumns is no list"),
        ({"TableColumns": ["x"]}, "a column is no object"),
        ({"TableColumns": [[]]}, "a column is no object"),
        ({"TableColumns": [{"ColumnName": "a", "ColumnType": 5}]}, "ColumnType is no text"),
        ({"TableColumns": [{"ColumnName": "a", "ColumnType": "SET", "ColumnElems": [5]}]}, "ColumnElems are no texts"),
        ({"Schema": 5}, "Schema is no text"),
        ({"Table": None}, "Table is no text"),
        ({"Query": 5}, "Query is no text"),
        ({"TableVersion": 1e400}, "OverflowError"),
        ({"Type": 1e400}, "OverflowError"),
        ({"TableColumns": [{}] * 10_001}, "TableColumns is no list of at most 10,000"),
    ],
)
def test_a_schema_file_that_is_not_what_was_written_is_refused(changes, why):
    content, checksum = schema_file(**changes)
    with pytest.raises(SchemaFileDamaged, match=why) as refusal:
        read_schema_file(content, checksum)
    assert refusal.value.code == "SCHEMA_FILE_DAMAGED"


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{" * 10_000, b'{"a":' * 10_000, b" " * (11 << 20)])
def test_what_is_no_schema_file_is_refused_soon(content):
    with pytest.raises(SchemaFileDamaged):
        read_schema_file(content, 1)


@pytest.mark.parametrize(
    "content",
    [
        "", "{}", "[]", "null", '{"checkpoint-ts":-1}', '{"checkpoint-ts":0}', '{"checkpoint-ts":18446744073709551616}',
        '{"checkpoint-ts":true}', '{"checkpoint-ts":1.5}', '{"checkpoint-ts":"1"}', '{"a":' * 100_000,
    ],
)  # fmt: skip
def test_a_metadata_file_without_a_commit_ts_is_waited_for(tmp_path, content):
    (tmp_path / "metadata").write_text(content)
    with pytest.raises(UNREADABLE):
        read_metadata(FolderStore(tmp_path))


def test_statement_type_and_version_are_outside_the_checksum():
    content, checksum = schema_file(Query="ALTER TABLE x", Type=5, TableVersion=9)
    assert read_schema_file(content, checksum).query == "ALTER TABLE x"
