"""TiCDC's own tree under every layout that some version or option gives it: the same files of the same tables."""

import json
import re
import zlib
from collections import Counter

import pytest
from golden.storage import files_of
from unit.storage_model import MemoryLog, MemoryStore

from pipeline.model.frontier import NEVER, commit_ts_of
from pipeline.protocols.csv.form import CsvForm
from pipeline.settings.sections import SourceSection
from pipeline.sources.storage import inventory as inventories
from pipeline.sources.storage.doubts import KEYLESS, SEVERAL_WRITERS, SHARED
from pipeline.sources.storage.inventory import Inventory
from pipeline.sources.storage.layout import FileLayout
from pipeline.sources.storage.lines import first_csv_commit_ts
from pipeline.sources.storage.paths import METADATA, DataFile, SchemaPath, read_path
from pipeline.sources.storage.planner import plan

_SCHEMA = re.compile(r"(?P<table>.*)/meta/schema_(?P<version>[0-9]+)_[0-9]+\.json")
_ROWS = re.compile(
    r"(?P<table>.*)/(?P<version>[0-9]+)/(?P<partition>[0-9]+/)?(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})/CDC(?P<n>[0-9]+)\.csv"
)


@pytest.fixture(scope="module")
def tree():
    return files_of("lifecycle", "storage_csv_day")


def of_6_5(path):
    """The schema file in the folder of its version, no index, no dates."""
    if path.endswith(".index"):
        return None
    if match := _SCHEMA.fullmatch(path):
        return f"{match['table']}/{match['version']}/schema.json"
    return re.sub(r"/[0-9]{4}-[0-9]{2}-[0-9]{2}/", "/", path)


def of_both(path):
    """As after an upgrade: every second version in the old form."""
    match = _SCHEMA.fullmatch(path) or _ROWS.fullmatch(path)
    return of_6_5(path) if match and int(match["version"]) % 2 and "/" in match["table"] else path


def of_widths(path):
    """Numbers of six digits in every second folder."""
    match = _ROWS.fullmatch(path)
    return re.sub(r"CDC[0-9]{14}", "CDC", path) if match and int(match["version"]) % 2 else path


def of_table_ids(path):
    """Ids for names; statements about databases are not there."""
    schema, _, below = path.partition("/")
    table, _, rest = below.partition("/")
    return f"{zlib.crc32(f'{schema}/{table}'.encode())}/{rest}" if rest and table != "meta" else None


def of_dispatchers(path):
    """Several writers a table."""
    return re.sub(r"/CDC([0-9]+)\.csv", r"/CDC_1a2b-3c_\1.csv", path.replace("CDC.index", "CDC_1a2b-3c.index"))


def of_months(path):
    return re.sub(r"/([0-9]{4}-[0-9]{2})-[0-9]{2}/", r"/\1/", path)


def of_years(path):
    return re.sub(r"/([0-9]{4})-[0-9]{2}-[0-9]{2}/", r"/\1/", path)


def found_in(files):
    """The inventory of these files, and what it finds."""
    store, log = MemoryStore(), MemoryLog()
    for path, content in files.items():
        store.write(path, content)
    section = SourceSection(kind="storage", protocol="csv", path="/changefeed")
    inventory = Inventory(store, log, section, lambda _: True)
    return inventory, inventory.found()


def first_commit_ts(files):
    return lambda entry: first_csv_commit_ts(CsvForm(), files[entry.path]) or 0


def planned(files):
    """What is planned, by what a user knows of it; and how the folders are laid out."""
    inventory, found = found_in(files)
    rows, layouts = Counter(), set()
    for lane in found.new.lanes.values():
        for file in lane:
            planned = inventory.planned(file)
            rows[planned.schema_name, planned.table_name, planned.version, files[planned.path]] += 1
            layouts.add(FileLayout.of(planned.path, file.file, file.file.under(inventory.described)))
    schemas = Counter((file.schema_name, file.table_name, file.version) for file in found.schemas if file.table_name)
    return rows, schemas, layouts, found.damaged


@pytest.mark.parametrize(
    ("layout", "separators"),
    [
        (of_6_5, {"none"}), (of_both, {"none", "day"}), (of_widths, {"day"}), (of_table_ids, {"day"}),
        (of_dispatchers, {"day"}), (of_months, {"month"}), (of_years, {"year"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_the_same_files_of_the_same_tables(tree, layout, separators):
    rows, schemas, _, damaged = planned(tree)
    assert not damaged
    assert sum(rows.values()) == sum(isinstance(read_path(path), DataFile) for path in tree)
    moved = {new: content for path, content in tree.items() if (new := layout(path)) is not None}
    same_rows, same_schemas, layouts, damaged = planned(moved)
    assert not damaged
    assert (same_rows, same_schemas) == (rows, schemas)
    assert {found.separator for found in layouts} == separators


def test_partitions_that_share_a_folder_are_noticed():
    apart, together = (files_of("ddl", config) for config in ("storage_csv_day", "storage_csv_none"))
    assert SHARED not in dict(found_in(apart)[1].doubts)
    assert dict(found_in(together)[1].doubts)[SHARED] == ("d/hash_part", "d/part")


def test_a_keyless_table_of_several_writers_is_noticed(tree):
    keyless = dict(found_in(tree)[1].doubts)[KEYLESS]
    assert SEVERAL_WRITERS not in dict(found_in(tree)[1].doubts)
    moved = {new: content for path, content in tree.items() if (new := of_dispatchers(path)) is not None}
    assert set(dict(found_in(moved)[1].doubts)[SEVERAL_WRITERS]) <= set(keyless)


def test_schema_files_that_are_too_many_for_one_batch(tree, monkeypatch):
    whole = planned(tree)
    monkeypatch.setattr(inventories, "MOST_SCHEMA_FILES", 7)
    inventory, found = found_in(tree)
    rows, schemas, reached = Counter(), [], [NEVER]
    while not schemas or found.schemas:
        assert len(found.schemas) <= 7
        made = plan(found.new, 1 << 40, first_commit_ts(tree), reached[-1])
        files = [inventory.planned(row) for row in made.rows]
        rows.update((file.schema_name, file.table_name, file.version, tree[file.path]) for file in files)
        schemas += found.schemas
        if found.new.deferred:
            assert commit_ts_of(made.progress) < found.new.deferred
        assert all(file.version >= commit_ts_of(reached[-1]) for file in found.schemas)
        reached.append(made.progress)
        inventory.log.add([*found.schemas, *files])
        found = inventory.found()
    assert (rows, Counter((f.schema_name, f.table_name, f.version) for f in schemas if f.table_name)) == whole[:2]
    assert reached == sorted(reached)
    assert commit_ts_of(reached[-1]) >= json.loads(tree[METADATA])["checkpoint-ts"] - 1


def test_a_table_that_is_called_like_a_folder_of_ticdc(tree):
    names = {read_path(path).describes.table for path in tree if isinstance(read_path(path), SchemaPath)}
    assert any("t-1.x" in name for name in names), "the golden tree has one"
