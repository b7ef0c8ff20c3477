"""Behind the change frame no room names a protocol (DESIGN 3)."""

import re
from pathlib import Path

import pytest

ROOMS = ("warehouse", "quality", "report")
ROOT = Path(__file__).parents[2] / "pipeline"
NAMES = re.compile(
    r"(?i:\b(simple|open)[-_ ]?protocol\b|\bcanal\b|\bavro\b)|\b[Ss]imple\b|\bOpen\b(?! (?:quarantined|dead|records))"
)
FILES = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*")) if file.suffix in (".py", ".j2")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_protocol_is_named(file):
    found = [line for line in file.read_text().splitlines() if NAMES.search(line)]
    assert found == []


def test_the_pattern_finds_what_it_looks_for():
    said = ("the Avro path", "protocol: open-protocol", "SimpleProtocol(", "canal-json", "as Open does", '== "simple"')
    assert [bool(NAMES.search(text)) for text in said] == [True] * len(said)
