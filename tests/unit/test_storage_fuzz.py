"""Trees of files in which anything has been broken: they are read or refused, and nothing is taken twice."""

import random
from collections import Counter

import pytest
import yaml
from golden.storage import files_of
from support.slow import EVERY
from unit.storage_model import MemoryLog, MemoryStore

from pipeline.model.frontier import NEVER
from pipeline.settings import parse
from pipeline.sources.storage.cutting import pieces
from pipeline.sources.storage.inventory import Inventory
from pipeline.sources.storage.lines import lines_of
from pipeline.sources.storage.planner import plan

TREES = 1_000 if EVERY else 30
ARCHIVES = (("ddl", "storage_csv_day"), ("ddl", "new_storage_csv_across"), ("key_updates", "storage_canal_day"))
NAMES = (
    "CDC000001.csv", "CDC.csv", "CDC99999999999999999999.csv", "CDC_a_000001.json", "schema.json", "x", "_SUCCESS",
    "meta/CDC.index", "meta/schema_1_0000000000.json", "2026/CDC000002.csv", "2026-01-01/7/CDC000001.csv",
    "é/CDC000001.csv",
)  # fmt: skip


@pytest.fixture(scope="module", params=ARCHIVES, ids="-".join)
def tree(request):
    scenario, config = request.param
    return "csv" if "csv" in config else "canal-json", files_of(scenario, config)


def broken(files, dice):
    """The files, of which some are gone, cut off, damaged, or stand elsewhere, and some more."""
    left = {path: content for path, content in files.items() if dice.random() < 0.9}
    for path in dice.sample(sorted(left), min(len(left), 12)):
        content = left[path]
        at = dice.randrange(len(content) + 1)
        match dice.randrange(6):
            case 0:
                left[path] = content[:at]
            case 1:
                left[path] = bytes(len(content))
            case 2:
                left[path] = content[:at] + dice.randbytes(3) + content[at:]
            case 3:
                left[path] = content[at:]
            case 4:
                folder = path.rpartition("/")[0]
                left[f"{folder}/{dice.choice(NAMES)}"] = content
            case 5:
                left[f"{dice.choice(NAMES)}/{path}"] = left.pop(path)
    return left


class Reader:
    """Lists, plans and cuts, as a run does."""

    def __init__(self, store, settings):
        self.store, self.log, self.lines = store, MemoryLog(), lines_of(settings)
        self.inventory = Inventory(store, self.log, settings.source, self.lines.is_closed)

    def taken(self):
        """How often each file is taken in three batches."""
        progress, taken = NEVER, Counter()
        for _ in range(3):
            self.inventory._listed_at = 0.0
            listing = self.inventory.found()
            made = plan(listing.new, 20_000, self.first_commit_ts, progress)
            assert made.progress >= progress
            progress = made.progress
            for rows in made.rows:
                self.cut(rows.entry)
                taken[rows.entry.path] += 1
            self.log.add([*listing.schemas, *map(self.inventory.planned, made.rows)])
        return taken

    def first_commit_ts(self, entry):
        return self.lines.first_commit_ts(self.store.read(entry.path)) or 0

    def cut(self, entry):
        """Every byte is in a record, but for line ends and the second bytes of those."""
        parts = pieces(lambda start, size: self.store.read(entry.path, start, size), entry.size, self.lines.cut)
        values = [value for piece in parts for value in piece.records()]
        assert sum(map(len, values)) + 2 * len(values) >= entry.size


def test_whatever_a_tree_has_it_is_planned_or_passed_over(tree, tmp_path):
    protocol, files = tree
    settings = parse(
        yaml.safe_dump(
            {
                "name": "fuzz",
                "source": {"kind": "storage", "protocol": protocol, "path": "/changefeed"},
                "warehouse": {"path": "warehouse"},
                "checkpoint": "checkpoint",
            }
        ),
        tmp_path,
    )
    for seed in range(TREES):
        dice = random.Random(seed)  # noqa: S311 - a tree that can be made again
        store = MemoryStore()
        for path, content in broken(files, dice).items():
            store.write(path, content)
        taken = Reader(store, settings).taken()
        assert max(taken.values(), default=1) == 1, f"seed {seed}"
