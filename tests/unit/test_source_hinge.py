"""Behind the source seam no room names Kafka (docs/decisions/005-sources.md), as `test_hinge` has it for protocols."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "pipeline"
ROOMS = ("model", "protocols", "ingest", "operations", "warehouse", "quality", "lake", "report")
"""All that records pass on their way. `sources/kafka` is Kafka; settings, the commands, `observe` (metrics),
`simulate`, `devstack` and `demo` have names that users type and read."""
KAFKA = re.compile(r"(?i)kafka|topic|offset|broker")
OF_ANOTHER_MEANING = re.compile(
    r"(?i)by[ _]?offset\b|offset ordering"  # an ordering's name
    r"|change\.(TOPIC|OFFSET)\b"  # the columns `_topic` and `_offset`
    r"|\"(_?topic|_?(kafka_)?partition|_?offset|(start|end)_offsets)\"|_topic, _kafka_partition, _offset"
    r"|<name>@<topic>|source\.(topics|topic_pattern|max_offsets_per_trigger)|sink\.kafka-config"
    r"|_pipeline\.\w+|too[- ]large for a Kafka message"
)
NAMES_OF_COLUMNS = {
    "model/change.py", "model/places.py",  # of the change frame and the raw frame
    "warehouse/records.py", "warehouse/state.py", "ingest/set_aside/fence.py", "report/ledger.py",  # what is stored
}  # fmt: skip
BESIDES = {
    "model/protocols.py": "the kinds of source that bring each",
    "protocols/compressed.py": "what TiCDC's Kafka sink compresses, and with which setting",
}
FILES = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
CHECKED = [file for file in FILES if str(file.relative_to(ROOT)) not in {*NAMES_OF_COLUMNS, *BESIDES}]


def names_kafka(line):
    return bool(KAFKA.search(OF_ANOTHER_MEANING.sub("", line)))


@pytest.mark.parametrize("file", CHECKED, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_room_behind_the_seam_names_kafka(file):
    assert [line for line in file.read_text().splitlines() if names_kafka(line)] == []


def test_every_exception_is_one():
    named = {str(f.relative_to(ROOT)) for f in FILES if any(map(names_kafka, f.read_text().splitlines()))}
    assert named == {*NAMES_OF_COLUMNS, *BESIDES}


def test_only_who_builds_sources_and_looks_at_kafka_for_users_imports_it():
    importing = {
        str(file.relative_to(ROOT))
        for file in ROOT.rglob("*.py")
        if re.search(r"from pipeline\.sources(\.kafka| import kafka)", file.read_text())
        and "sources/kafka" not in str(file)
    }
    assert importing == {
        "sources/build.py",
        "cli/checkup/kafka.py", "cli/checkup/messages.py", "cli/checkup/whole.py",  # doctor
        "cli/inspection.py",  # inspect --topic --partition --offset
    }  # fmt: skip


@pytest.mark.parametrize("line", ["the offset of it", "topic_ids", "KafkaState", "a broker", 'F.col("topic_id")'])
def test_a_line_that_names_kafka_is_found(line):
    assert names_kafka(line)


@pytest.mark.parametrize("line", ["by offset", "Ordering.BY_OFFSET", 'F.col("topic")', "change.OFFSET"])
def test_a_word_of_another_meaning_is_not(line):
    assert not names_kafka(line)
