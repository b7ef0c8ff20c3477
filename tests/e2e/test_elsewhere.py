"""A warehouse that was copied or moved: nothing that writes works on the original's files, and every way out leads."""

import json
import re
import shutil
import sqlite3
import subprocess

import pytest
from e2e import judging
from e2e.bank import ACCOUNT, Bank
from golden.warehouse import Warehouse

from pipeline.cli import main
from pipeline.errors import Refused
from pipeline.runtime.lock import WriterLock
from pipeline.service import Pipeline
from pipeline.settings import load

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

WRITING = (
    "run --available-now",
    "tables rebuild bank.account",
    "tables maintain",
    "tables maintain --orphans --dry-run",
    "tables as-of",
    "tables release bank.account",
    "tables restore",
    "quarantine redrive",
)


class Place:
    """A bank's changefeed, and the folder of a pipeline that reads it."""

    def __init__(self, bank, folder):
        self.bank, self.folder = bank, folder
        self.file = bank.settings(folder)

    def run(self):
        with Pipeline.open(load(self.file)) as pipeline:
            pipeline.run(available_now=True)

    def say(self, capsys, words):
        capsys.readouterr()
        code = main([*words.split(), "-c", str(self.file)])
        said = capsys.readouterr()
        return code, said.out + said.err

    def files(self):
        return {path for path in (self.folder / "warehouse" / "data").rglob("*") if path.is_file()}

    def names(self):
        with sqlite3.connect(self.folder / "warehouse" / "catalog.db") as catalog:
            return sorted(catalog.execute("SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"))

    def assert_right(self):
        warehouse = Warehouse.at(self.folder / "warehouse")
        assert not list(judging.untrue(self.bank, warehouse))
        assert not list(judging.astray(self.bank, warehouse))
        assert not list(judging.placed_twice(warehouse))


@pytest.fixture
def original(stack, tmp_path):
    bank = Bank(stack, 4, (ACCOUNT,))
    bank.open()
    bank.rounds(1)
    place = Place(bank, tmp_path / "d1")
    place.run()
    yield place
    bank.close()


def test_a_copy_is_refused_by_all_that_writes_and_can_be_looked_at(original, tmp_path, capsys):
    shutil.copytree(original.folder, tmp_path / "d2")
    copy = Place(original.bank, tmp_path / "d2")
    theirs, ours = original.files(), copy.names()
    for words in WRITING:
        code, said = copy.say(capsys, words)
        assert (code, "WAREHOUSE_ELSEWHERE" in said) == (1, True), (words, said)
        assert f"{original.folder}/warehouse/data" in said
        assert f"{copy.folder}/warehouse/data" in said
        assert f"warehouse.path: {original.folder}/warehouse" in said
    assert (original.files(), copy.names()) == (theirs, ours)

    code, said = copy.say(capsys, "tables list")
    assert code == 0
    assert f"lie in {original.folder}/warehouse/data, but the settings say {copy.folder}/warehouse/data" in said
    code, said = copy.say(capsys, "doctor")
    assert (code, "✗ warehouse     WAREHOUSE_ELSEWHERE" in said) == (1, True)
    original.say(capsys, "tables list")

    original.bank.rounds(1)
    copy.file = original.bank.settings(copy.folder, warehouse={"path": str(original.folder / "warehouse")})
    copy.run()
    original.assert_right()
    copy.file = original.bank.settings(copy.folder, warehouse={"path": "./empty"}, checkpoint="./none")
    copy.run()
    assert Warehouse.at(copy.folder / "empty").current_names() == ["bank.account"]
    shutil.rmtree(original.folder / "warehouse")
    shutil.copytree(copy.folder / "warehouse", original.folder / "warehouse")
    original.run()
    original.assert_right()


@pytest.mark.slow
def test_a_copy_whose_catalog_is_lost_is_not_restored_onto_the_originals_files(original, tmp_path, capsys):
    shutil.copytree(original.folder, tmp_path / "d2")
    copy = Place(original.bank, tmp_path / "d2")
    for file in (copy.folder / "warehouse").glob("catalog.db*"):
        file.unlink()
    assert "tables restore" in copy.say(capsys, "run --available-now")[1]
    code, said = copy.say(capsys, "tables restore")
    assert (code, "WAREHOUSE_ELSEWHERE" in said) == (1, True)
    assert copy.names() == []


@pytest.mark.slow
def test_a_table_alone_that_lies_elsewhere_is_refused(original, tmp_path, capsys):
    other = Place(original.bank, tmp_path / "d2")
    other.run()
    astray = {name: place for space, name, place in original.names() if space == "bank"}
    with sqlite3.connect(other.folder / "warehouse" / "catalog.db") as catalog:
        changed = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?"
        catalog.execute(changed, (astray["account__changes"], "account__changes"))
    for words in ("run --available-now", "tables maintain", "tables rebuild bank.account"):
        code, said = other.say(capsys, words)
        assert (code, "WAREHOUSE_ELSEWHERE" in said) == (1, True), (words, said)
        assert "bank.account__changes" in said


@pytest.mark.slow
def test_a_moved_one_is_told_how_it_can_go_on_and_both_paths_have_one_lock(original, tmp_path, capsys):
    moved = Place(original.bank, tmp_path / "new place")
    shutil.rmtree(moved.folder)
    original.folder.rename(moved.folder)
    for words in (*WRITING, "tables list", "doctor", "report"):
        code, said = moved.say(capsys, words)
        assert (code, "WAREHOUSE_ELSEWHERE" in said, "UNEXPECTED" in said) == (1, True, False), (words, said)
    _, said = moved.say(capsys, "tables list --output json")
    hint = json.loads(said)["hint"]
    subprocess.run(["/bin/sh", "-c", hint[re.search(r"mkdir|ln ", hint).start() :]], check=True)
    original.bank.rounds(1)
    moved.run()
    moved.assert_right()
    with WriterLock(moved.folder / "warehouse", "run"):
        for path in (original.folder / "warehouse", moved.folder / ".." / "new place" / "warehouse"):
            with pytest.raises(Refused, match="WAREHOUSE_IN_USE"), WriterLock(path, "run"):
                pass
    original.file = original.bank.settings(
        tmp_path / "settings", warehouse={"path": str(original.folder / "warehouse")}
    )
    original.bank.rounds(1)
    original.run()
    moved.assert_right()


def test_a_catalog_whose_tables_lie_elsewhere_goes_on_where_it_was_moved_to_if_that_is_accepted(
    original, tmp_path, capsys
):
    """`original` gives the changefeed: its own warehouse lies in its folder."""
    lake = {"catalog": {"type": "jdbc", "warehouse": f"file://{tmp_path}/lake"}}
    before, after = (Place(original.bank, tmp_path / name) for name in ("before", "after"))
    before.file = original.bank.settings(before.folder, warehouse=lake)
    before.run()
    shutil.rmtree(after.folder)
    before.folder.rename(after.folder)
    after.file = original.bank.settings(after.folder, warehouse=lake)
    code, said = after.say(capsys, "run --available-now")
    assert (code, "WAREHOUSE_COPIED" in said) == (1, True)
    assert "run --accept WAREHOUSE_COPIED" in said
    code, said = after.say(capsys, "run --available-now --accept WAREHOUSE_COPIED")
    assert code == 0, said
    assert after.say(capsys, "run --available-now")[0] == 0
