"""The micro-batch by commit ts under thousands of histories (decision 004).

The product's own code runs on dictionaries (`unit.commit_ts_model`); invariants hold after every step. A history that
fails is cut down to the steps that matter. `TICDC_WAREHOUSE_HISTORIES` runs that many of each mode.
"""

import os

import pytest
from unit.batch_model import batch
from unit.batch_model.iceberg import Refusal
from unit.commit_ts_model import faults, lake
from unit.commit_ts_model.history import MODES, drawn, play, rule
from unit.commit_ts_model.known import KNOWN

HUNTED = 1500
"""So many histories may look for a planted fault."""
FOUND = (AssertionError, Refusal)
HISTORIES = int(os.environ.get("TICDC_WAREHOUSE_HISTORIES", "400"))


@pytest.fixture(autouse=True)
def sparkless(monkeypatch):
    for where, name, instead in lake.replacements():
        monkeypatch.setattr(where, name, instead)


def failure(steps):
    """What a history fails with; None where it holds."""
    try:
        play(steps)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is a finding
        return error
    return None


def told(steps):
    """A failing history, cut down, as text."""
    short = rule.shrunk(steps, failure)
    return "\n".join([f"{failure(short)!r:.900}", "", *(f"    {step!r}," for step in short)])


@pytest.mark.parametrize("mode", MODES)
def test_at_every_cut_each_table_is_tidbs_and_no_record_stands_twice(mode, monkeypatch):
    for seed in range(HISTORIES):
        steps = drawn(seed, mode)
        monkeypatch.setattr(batch, "CLONES", seed % 2 == 0)  # the other way is that of pairs of earlier versions
        monkeypatch.setattr(batch, "SMALL", seed % 3 == 0)
        if failure(steps):
            pytest.fail(f"history {seed} of '{mode}': {told(steps)}")


@pytest.mark.parametrize("clones", [True, False], ids=["cloned", "merged"])
@pytest.mark.parametrize("name", KNOWN)
def test_what_once_went_wrong_goes_right(name, clones, monkeypatch):
    monkeypatch.setattr(batch, "CLONES", clones)
    play(KNOWN[name])


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault, monkeypatch):
    mode = fault(monkeypatch)
    histories = (*KNOWN.values(), *(drawn(seed, mode) for seed in range(HUNTED)))
    assert any(isinstance(failure(steps), FOUND) for steps in histories), "not found"
