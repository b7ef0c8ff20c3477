"""What `inspect` shows of a record: the bytes of one that cannot be read, the rules that a row breaks."""

import json
from types import SimpleNamespace

import pytest

from pipeline.cli.inspect import _show
from pipeline.cli.inspection import Inspected, ShownChange, _dump, _judged
from pipeline.cli.output import Format, opened
from pipeline.model import change
from pipeline.quality.suites import Severity


def shown(found, output, capsys):
    with opened(output) as out:
        _show(out, found)
    return capsys.readouterr().out


def test_programs_get_the_bytes_that_people_see(capsys):
    found = Inspected({"record": "t, partition 0"}, dump=[*_dump("key", b"who"), *_dump("value", b"no Avro at all\0")])
    lines = [
        "key, 3 bytes",
        f"000000  {'77 68 6f':<47}  who",
        "value, 15 bytes",
        f"000000  {'6e 6f 20 41 76 72 6f 20 61 74 20 61 6c 6c 00':<47}  no Avro at all.",
    ]
    assert json.loads(shown(found, Format.JSON, capsys))["hex"] == lines
    assert shown(found, Format.TEXT, capsys).endswith("\n".join(lines) + "\n")


def test_a_record_that_can_be_read_has_no_dump(capsys):
    assert json.loads(shown(Inspected({"record": "t"}), Format.JSON, capsys))["hex"] == []


def test_a_long_part_is_dumped_as_far_as_it_says():
    header, *lines = _dump("value", bytes(1000))
    assert header == "value, 1000 bytes, the first 256"
    assert len(lines) == 16


@pytest.mark.parametrize(("severity", "aside"), [(Severity.QUARANTINE, True), (Severity.WARN, False)])
def test_a_rule_that_a_row_breaks_is_named_with_its_severity(severity, aside, capsys):
    rules = SimpleNamespace(rules=[SimpleNamespace(name=name, severity=severity) for name in ("not_negative", "known")])
    row = {"broken": ["not_negative"], "sentence": "balance is -5", change.CHECKSUM: None}
    verdicts = _judged(row, rules)
    assert verdicts[:2] == [f"✗ not_negative ({severity.value})", "  balance is -5"]
    assert ("  it would be set aside" in verdicts) is aside
    assert verdicts[-1] == "✓ 1 of 2 rules are kept"
    found = Inspected(changes=[ShownChange("insert of t", ("column",), [("id",)], verdicts)])
    assert f"✗ not_negative ({severity.value})" in shown(found, Format.TEXT, capsys)
