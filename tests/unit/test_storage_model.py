"""Histories of TiCDC writing files: every row up to the progress is taken, and at the end every row."""

import re
import time
from dataclasses import replace

import pytest
from support.slow import EVERY
from unit import storage_model
from unit.storage_model import play

from pipeline.sources.storage import inventory
from pipeline.sources.storage.lanes import live_folders

HISTORIES = 100_000 if EVERY else 1_500
HUNTED = 600


def failure(seed):
    try:
        play(seed)
    except AssertionError as error:
        return error
    return None


def test_nothing_is_missing_below_the_progress_and_nothing_at_the_end():
    failing = {seed: error for seed in range(HISTORIES) if (error := failure(seed))}
    assert not failing, next(iter(failing.items()))


def replanned(plant, change):
    """A planner that is given other things than there are."""
    original = storage_model.plan
    plant.setattr(storage_model, "plan", lambda *given: original(*change(*given)))


def an_overwritten_file_is_passed_over(plant):
    plant.setattr(inventory, "is_same", lambda planned, _entry: planned is not None)


def what_is_left_holds_nothing_back(plant):
    replanned(plant, lambda new, most, _first, *more: (new, most, lambda _entry: 0, *more))


def what_was_left_is_forgotten(plant):
    original = inventory.Inventory._listed

    def listed(self):
        if self.is_due:
            yield from original(self)
        else:
            yield from self.store.recent(live_folders(self.log.ends, self._described.keys()))

    plant.setattr(inventory.Inventory, "_listed", listed)


def dates_are_an_order(plant):
    """Nothing comes into the folder of a date that is over."""
    original = inventory.Inventory.found

    def found(self, removable=None):
        if self.is_due and self.log.ends:
            self._listed_at = time.time()
        return original(self, removable)

    plant.setattr(inventory.Inventory, "found", found)


def the_greatest_row_that_was_seen_is_the_progress(plant):
    original = storage_model.plan

    def plan(new, most, first, before, given_up):
        made = original(new, most, first, before, given_up)
        firsts = [first(rows.entry) for rows in made.rows]
        return made._replace(progress=max([made.progress, *(ts << 1 for ts in firsts)]))

    plant.setattr(storage_model, "plan", plan)


def the_index_is_trusted(plant):
    """What the index of a folder names has come, though nothing new of the folder is listed: it is not looked for."""
    original = inventory.Inventory.found

    def found(self, removable=None):
        listing, files = original(self, removable), self.store.files
        passed = self.store.__dict__.setdefault("passed", {})
        lanes = {
            lane: [rows for rows in new if rows.file.number > passed.get(lane.folder, 0)]
            for lane, new in listing.new.lanes.items()
        }
        lanes = {lane: new for lane, new in lanes.items() if new}
        with_news = {lane.folder for lane in lanes}
        for path, (content, _) in files.items():
            folder, is_index, _ = path.partition("/meta/CDC.index")
            if is_index and folder not in with_news:
                passed[folder] = int(re.search("[0-9]+", content.decode())[0])
        return listing._replace(new=replace(listing.new, lanes=lanes))

    plant.setattr(inventory.Inventory, "found", found)


FAULTS = (
    the_index_is_trusted,
    an_overwritten_file_is_passed_over,
    what_is_left_holds_nothing_back,
    what_was_left_is_forgotten,
    dates_are_an_order,
    the_greatest_row_that_was_seen_is_the_progress,
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault, monkeypatch):
    fault(monkeypatch)
    assert any(failure(seed) for seed in range(HUNTED)), "not found"
