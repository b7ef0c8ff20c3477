"""What the documents tell a reader to type, to write and to follow: it has to work."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from pipeline.cli import COMMANDS, _loaded
from pipeline.settings import Settings, parse

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FIELDS = Settings.model_fields
KAFKA = {"kind": "kafka", "bootstrap_servers": "localhost:9092", "topics": ["t"]}
JAAS = "TICDC_WAREHOUSE__SOURCE__OPTIONS__KAFKA_SASL_JAAS_CONFIG"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:^|[\s`/])ticdc-warehouse ([a-z][^`#\n]*)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def blocks(*languages):
    return [
        pytest.param(text, id=f"{path.relative_to(ROOT)}-{number}")
        for path in DOCUMENTS
        for number, (language, text) in enumerate(BLOCK.findall(path.read_text()))
        if language in languages
    ]


def calls():
    """Each call of the command line: in blocks, after a prompt, between back quotes; without where it prints to."""
    found = {call.partition(" > ")[0].strip() for path in DOCUMENTS for call in CALL.findall(path.read_text())}
    return sorted(call for call in found if call.split()[0] in COMMANDS)


def anchors(path):
    """The anchors of a document's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")
        for heading in HEADING.findall(path.read_text())
    }


def are_settings(block):
    """Whether a block of YAML is a settings file, or a part of one."""
    read = yaml.safe_load(block.values[0])
    return isinstance(read, dict) and read.keys() <= {field.alias or name for name, field in FIELDS.items()}


def merged(base, part):
    """A tree with what another one says."""
    if not (isinstance(base, dict) and isinstance(part, dict)):
        return part
    return {**base, **{name: merged(base.get(name), value) for name, value in part.items()}}


def whole(part):
    """A part of a settings file, completed to one of its kind of source."""
    kind = (part.get("source") or {}).get("kind")
    of_files = kind == "storage" or {"cleanup", "path"} & (part.get("source") or {}).keys()
    source = {"kind": "storage", "path": "files"} if of_files else KAFKA
    protocol = (part.get("source") or {}).get("protocol", "csv" if of_files else "avro")
    registry = {"registry": {"url": "http://localhost:8081"}} if protocol == "avro" else {}
    base = {"name": "n", "source": source | {"protocol": protocol}, "warehouse": {"path": "w"}, "checkpoint": "c"}
    if "topics" in (part.get("source") or {}) or "topic_pattern" in (part.get("source") or {}):
        base["source"].pop("topics", None)
    return merged(base | registry, part)


@pytest.mark.parametrize("text", [block for block in blocks("yaml") if are_settings(block)])
def test_settings_in_the_documents_are_accepted(text, tmp_path):
    tree = whole(yaml.safe_load(text))
    secrets = {JAAS: "…"} if "from the environment" in text else {}
    assert parse(yaml.safe_dump(tree), tmp_path, secrets).source.kind == tree["source"]["kind"]


def test_there_are_settings_and_calls_to_look_at():
    assert len([block for block in blocks("yaml") if are_settings(block)]) > 20
    assert len(calls()) > 10


@pytest.mark.parametrize("call", calls())
def test_calls_in_the_documents_name_commands_and_options_that_exist(call):
    name, *words = shlex.split(call)
    command = _loaded(name)
    if getattr(command, "commands", None) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= {*known, "--help"}
    positional = [p for p in command.params if p.param_type_name == "argument"]
    if not positional and not getattr(command, "commands", None):
        values = {w for option, w in pairwise(words) if option.startswith("-")}
        assert all(word.startswith("-") or word in values for word in words), "it takes no arguments"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for link in LINK.findall(path.read_text()):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_sizes_for_a_deployment_are_those_that_were_measured():
    names = ("how-to/size-a-deployment.md", "explanation/performance.md")
    deploy, measured = ((ROOT / "docs" / name).read_text() for name in names)
    rows = re.findall(r"^\| (?:Avro|Simple|Open)\b.*", deploy, re.MULTILINE)
    assert len(rows) == 3
    assert [row for row in rows if row not in measured] == []
    for figure in ("1,728", "5,232", "60 MB", "28 µs", "2.8 GiB"):
        assert figure in deploy
        assert figure in measured


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_targets_of_make_exist(path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|[`$] ?)make ([a-z-]+)", path.read_text(), re.MULTILINE))
    assert named <= targets
