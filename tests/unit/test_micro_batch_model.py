"""The micro-batch under thousands of histories: crashes, re-sends, checkpoints, held tables, schema changes, suites.

The product's own code runs on dictionaries (`unit.batch_model`); invariants hold after every step. A history that
fails is cut down to the steps that matter. `TICDC_WAREHOUSE_HISTORIES` runs that many of each mode.
Each planted fault must be found: a machine that cannot fail proves nothing.
"""

import os

import pytest
from unit.batch_model import batch as model
from unit.batch_model import faults
from unit.batch_model.history import MODES, drawn, play, rule
from unit.batch_model.iceberg import Refusal
from unit.batch_model.known import KNOWN, OPEN

HISTORIES = min(int(os.environ.get("TICDC_WAREHOUSE_HISTORIES", "200")), 20_000)
"""Of 100,000 some fail by causes that are known and open (`OPEN`)."""
HUNTED = 2000
"""So many histories may look for a planted fault; most are found within fifty."""


@pytest.fixture(autouse=True)
def sparkless(monkeypatch):
    for where, name, instead in model.replacements():
        monkeypatch.setattr(where, name, instead)


def failure(mode, steps):
    """What a history fails with; None where it holds."""
    try:
        play(mode, steps)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is a finding
        return error
    return None


def told(mode, steps):
    """A failing history, cut down, as text that `known.py` takes."""
    short = rule.shrunk(steps, lambda shorter: failure(mode, shorter))
    return "\n".join([f"{failure(mode, short)!r:.600}", "", *(f"    {step!r}," for step in short)])


@pytest.mark.parametrize("mode", MODES)
def test_no_history_loses_or_doubles_a_record_or_shows_a_wrong_row(mode, monkeypatch):
    for seed in range(HISTORIES):
        steps = drawn(seed, mode)
        monkeypatch.setattr(model, "CLONES", seed % 2 == 0)  # the other way is that of pairs of earlier versions
        monkeypatch.setattr(model, "SMALL", seed % 3 == 0)
        if failure(mode, steps):
            pytest.fail(f"history {seed} of '{mode}': {told(mode, steps)}")


@pytest.mark.parametrize("clones", [True, False], ids=["cloned", "merged"])
@pytest.mark.parametrize("name", KNOWN)
def test_what_once_went_wrong_goes_right(name, clones, monkeypatch):
    monkeypatch.setattr(model, "CLONES", clones)
    mode, steps = KNOWN[name]
    play(mode, steps)


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.xfail(strict=True, reason="known and open (docs/reference/protocols/avro.md)")
def test_what_goes_wrong_today(name):
    mode, steps = OPEN[name]
    play(mode, steps)


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault, monkeypatch):
    hunt = fault(monkeypatch)
    histories = (drawn(seed, hunt.mode, hunt.rules) for seed in range(hunt.first, hunt.first + HUNTED))
    assert any(isinstance(failure(hunt.mode, steps), (AssertionError, Refusal)) for steps in histories), "not found"
