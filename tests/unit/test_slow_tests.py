"""docs/contributing/slow-tests.md has every slow test, with faster ones that check its claim, or what none checks."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/contributing/slow-tests.md"
FAULTS = TESTS / "unit/batch_model/faults.py", TESTS / "unit/commit_ts_model/faults.py"
MODELS = "model by commit ts", "model by offset"
SLOW, CASES = PAGE.read_text().split("\n## Slow cases\n")
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
FEW = {"few", "EVERY"}
"""What a file takes from `support.slow` whose slow cases have no mark."""


def rows(text):
    """The rows of the tables, each with the file that the heading before it names."""
    file = ""
    for line in text.splitlines():
        heading = re.fullmatch(r"### `(.+)`", line)
        file = heading[1] if heading else file
        if line.startswith("| `"):
            yield file, [cell.strip() for cell in line.strip("|").split(" | ")]


def is_marked(node):
    """Whether a decorator, a parameter or `pytestmark` is the mark."""
    return any(isinstance(one, ast.Attribute) and one.attr == "slow" for one in ast.walk(node))


@cache
def marks_of(file):
    """The tests of a file: name → whether all of it, or some case with a mark, is slow."""
    tree = ast.parse((TESTS / file).read_text())
    whole = any(isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "pytestmark" and is_marked(one.value)
                for one in tree.body)  # fmt: skip
    found = {}
    for owner in (tree, *(one for one in tree.body if isinstance(one, ast.ClassDef))):
        slow = whole or any(map(is_marked, getattr(owner, "decorator_list", ())))
        for one in owner.body:
            if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"):
                found[one.name] = slow or any(map(is_marked, one.decorator_list))
    return found


def is_slow_in_part(file):
    """Whether a file takes the cases of some test, or what it does, from `few` or `EVERY`."""
    taken = {
        name.name
        for one in ast.walk(ast.parse((TESTS / file).read_text()))
        if isinstance(one, ast.ImportFrom) and one.module == "support.slow"
        for name in one.names
    }
    return bool(taken & FEW)


def files():
    return sorted(str(file.relative_to(TESTS)) for file in TESTS.rglob("test_*.py"))


def named():
    """Every test of another file that the page names."""
    return sorted(set(TEST.findall(PAGE.read_text())))


def test_the_page_has_every_slow_test_and_no_other():
    wanted = {(file, name) for file in files() for name, slow in marks_of(file).items() if slow}
    assert {(file, cells[0].strip("`")) for file, cells in rows(SLOW)} == wanted


def test_the_page_has_each_file_with_slow_cases_and_no_other():
    wanted = {file for file in files() if is_slow_in_part(file)}
    assert {cells[0].strip("`") for _, cells in rows(CASES)} == wanted


@pytest.mark.parametrize(("file", "name"), named(), ids=lambda part: part)
def test_what_checks_a_claim_instead_is_there_and_runs_by_default(file, name):
    """A test of which some parameter has the mark runs with the others."""
    tests = marks_of(file)
    assert name in tests, f"{file} has no {name}"
    assert not tests[name], f"{file}::{name} is slow itself"


def test_each_claim_is_checked_by_default_or_says_what_is_not():
    for file, (name, claim, instead, gap) in rows(SLOW):
        assert claim.endswith("."), f"{file}, {name}: the claim is a sentence"
        assert TEST.search(instead) or any(model in instead for model in MODELS) or gap, f"{file}, {name}: by what?"


def test_planted_faults_that_the_page_names_are_there():
    planted = {
        one.name for file in FAULTS for one in ast.parse(file.read_text()).body if isinstance(one, ast.FunctionDef)
    }
    assert set(re.findall(r"fault `(\w+)`", PAGE.read_text())) <= planted


def test_a_slow_test_is_found_however_it_is_marked(tmp_path, monkeypatch):
    texts = {
        "decorated": "@pytest.mark.slow\ndef test_a(): ...\ndef test_b(): ...",
        "parameter": "@pytest.mark.parametrize('x', [1, pytest.param(2, marks=pytest.mark.slow)])\ndef test_a(x): ...\n"
        "def test_b(): ...",
        "class": "@pytest.mark.slow\nclass TestAll:\n  def test_a(self): ...\ndef test_b(): ...",
        "in_class": "class TestAll:\n  @pytest.mark.slow\n  def test_a(self): ...\n  def test_b(self): ...",
    }
    monkeypatch.setattr(f"{__name__}.TESTS", tmp_path)
    for name, text in texts.items():
        (tmp_path / f"test_{name}.py").write_text(text)
        assert marks_of(f"test_{name}.py") == {"test_a": True, "test_b": False}
    (tmp_path / "test_all.py").write_text("pytestmark = [pytest.mark.spark, pytest.mark.slow]\ndef test_a(): ...")
    assert marks_of("test_all.py") == {"test_a": True}
    (tmp_path / "test_few.py").write_text("from support.slow import few")
    assert is_slow_in_part("test_few.py")
    assert not is_slow_in_part("test_all.py")
