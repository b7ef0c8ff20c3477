"""What is kept in properties and snapshots is listed once, with its meaning; the page that says so is made of it."""

import importlib.util
import re
from collections import Counter
from pathlib import Path

from pipeline.warehouse import state

ROOT = Path(__file__).parents[2]
CONSTANTS = {name: value for name, value in vars(state).items() if isinstance(value, state.StateKey)}


def tool():
    spec = importlib.util.spec_from_file_location("state_page", ROOT / "tools" / "state.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_page_is_what_the_module_says():
    made = tool()
    assert made.PAGE.read_text() == made.page(), "python tools/state.py writes it anew"


def test_each_key_is_there_once():
    assert Counter(key.name for key in state.KEYS).most_common(1)[0][1] == 1


def test_no_other_module_spells_a_key():
    named = re.compile(r'"ticdc\.[a-z]')
    spelled = [file for file in (ROOT / "pipeline").rglob("*.py") if named.search(file.read_text())]
    assert [file.name for file in spelled] == ["state.py"]


def test_each_key_is_used():
    text = "\n".join(file.read_text() for file in (ROOT / "pipeline").rglob("*.py") if file.name != "state.py")
    assert len(CONSTANTS) == len(state.KEYS)
    assert [name for name in CONSTANTS if not re.search(rf"\b{name}\b", text)] == []
