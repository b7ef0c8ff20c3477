"""A protocol is added by its lines in a few tables (docs/contributing/add-a-protocol.md)."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from pipeline.model import protocols
from pipeline.model.messages import Messages, Ordering
from pipeline.model.protocols import PROTOCOLS, ProtocolFacts, facts_of
from pipeline.protocols import build
from pipeline.protocols.build import READERS, ProtocolReader, protocol_of
from pipeline.settings.sections import ChangefeedSettings, SourceSection

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/contributing/add-a-protocol.md").read_text()


def test_each_protocol_has_a_reader_and_no_other_has_one():
    assert {*READERS} == {*PROTOCOLS}


def test_settings_take_the_names_of_the_table():
    assert get_args(SourceSection.model_fields["protocol"].annotation) == tuple(PROTOCOLS)
    optional = get_args(ChangefeedSettings.model_fields["protocol"].annotation)
    assert get_args(optional[0]) == tuple(PROTOCOLS)


@pytest.mark.parametrize("name", [None, 7, ["avro"], {}, "Avro", ""])
def test_what_is_no_name_of_one_has_no_facts(name):
    assert facts_of(name) is None


def test_a_toy_is_added_by_a_line_in_each_table(monkeypatch):
    made = []

    def bind(settings, registry, versions):
        made.append((settings.source.protocol, registry, versions))
        return "the toy"

    monkeypatch.setitem(protocols.PROTOCOLS, "toy", ProtocolFacts(Ordering.BY_COMMIT_TS, own_keys=("toy-",)))
    monkeypatch.setitem(build.READERS, "toy", ProtocolReader(bind, lambda _: "v9", lambda *_: None))
    settings = SimpleNamespace(source=SimpleNamespace(protocol="toy"))
    assert protocol_of(settings, None, "known versions") == "the toy"
    assert made == [("toy", None, "known versions")]
    assert READERS["toy"].sent_by(Messages()) == "v9"
    assert facts_of("toy").sources == ("kafka",)


def test_the_guide_names_files_that_exist():
    named = re.findall(r"`((?:pipeline|tests)/[\w/.]+\.py)`", GUIDE)
    assert len(named) > 6
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_outside_the_tables_few_files_of_the_package_name_a_protocol():
    quoted = re.compile(r"\"(?:avro|simple|open-protocol)\"")
    rooms = ("ingest", "warehouse", "quality", "report", "sources", "cli")
    naming = {
        str(file.relative_to(ROOT / "pipeline"))
        for room in rooms
        for file in (ROOT / "pipeline" / room).rglob("*.py")
        if quoted.search(file.read_text())
    }
    assert naming == {"cli/simulate.py"}
