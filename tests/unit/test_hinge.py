"""Behind the change frame no room names a protocol (design.md, 3)."""

import re
from pathlib import Path

import pytest

ROOMS = ("warehouse", "quality", "report")
ROOT = Path(__file__).parents[2] / "pipeline"
PROTOCOL = re.compile(r"(?i)avro|canal|simple|open")
"""Wherever it stands in a word: `avro_reader`, `SimpleRow`, `"open"`."""
OF_ANOTHER_MEANING = re.compile(
    r"\bsimpleString\("  # how Spark writes a type
    r"|\bopen\(|\bfile-open-cost\b|\b_OPENING\b"  # files, and a bracket of a regex
    # what was set aside, and waits for a person
    r"|\b(?:[Oo]pen (?=quarantined|dead|records|rows|ones)|(?:are|has) open\b|open_up_to\b|OPEN\b)"
    r"|\bstatus\W{1,8}open\b|= \"open\", \"FENCED\""
)
BETWEEN = ("ingest", "operations", "service")
"""Rooms that hand messages from a protocol to the tables."""
FILES = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*")) if file.suffix in (".py", ".j2")]


def names_a_protocol(line):
    return bool(PROTOCOL.search(OF_ANOTHER_MEANING.sub("", line)))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_protocol_is_named(file):
    assert [line for line in file.read_text().splitlines() if names_a_protocol(line)] == []


def test_between_the_frame_and_the_rooms_nobody_names_one():
    files = [file for room in BETWEEN for file in (ROOT / room).rglob("*.py")]
    assert len(files) > 40
    assert [f.name for f in files if re.search(r"(?i)avro|canal|simple|open[-_ ]?protocol", f.read_text())] == []


@pytest.mark.parametrize(
    "line",
    [
        "the Avro path", "protocol: open-protocol", "simple_protocol(", "canal-json", "as Open does", '== "simple"',
        "settings.avro_decimal", "AvroRow", "is_avro", "simple_row", "SimpleRow(", "isSimple", '== "open"', "'open'",
        "open_rows", "OpenRow(", "is_open_protocol", "with open all rows", "openprotocol",
        "CANAL_JSON", "by Open: rows",
    ],
)  # fmt: skip
def test_a_line_that_names_one_is_found(line):
    assert names_a_protocol(line)


@pytest.mark.parametrize(
    "line",
    ['with path.open("rb") as file:', "status = 'open' AND", 'F.col("status") == "open"', "Open quarantined changes"],
)
def test_a_word_of_another_meaning_is_not(line):
    assert not names_a_protocol(line)
