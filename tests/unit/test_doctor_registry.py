"""What `doctor` says of the registry: which subjects there are, and which of their levels a DDL would break."""

import json

import pytest
from unit.test_registry_compatibility import field, schema

from pipeline.cli import doctor
from pipeline.cli.checkup import registry
from pipeline.cli.checkup.findings import Mark
from pipeline.cli.output import Format
from registry import compare

ID = field("id", "INT", "int")
EXAMPLES = {
    "ADD COLUMN … NOT NULL without default": ([ID], [ID, field("n", "INT", "int")]),
    "NULL to NOT NULL": ([field("id", "INT", "int", nullable=True)], [ID]),
    "DROP of a NOT NULL column without default": ([ID, field("n", "INT", "int")], [ID]),
    "INT to BIGINT": ([ID], [field("id", "BIGINT", "long")]),
    "NOT NULL to NULL": ([ID], [field("id", "INT", "int", nullable=True)]),
    "INT to VARCHAR": ([ID], [field("id", "VARCHAR", "string")]),
}


class Client:
    """A registry by its rules: subject → its own level, "" → the registry's."""

    def __init__(self, rules, subjects):
        self.rules, self.known = rules, subjects

    def subjects(self):
        return self.known

    def rule(self, subject=None):
        return self.rules.get(subject or "")


def found(rules, *topics, subjects=None):
    known = subjects or [f"{topic}-{part}" for topic in topics for part in ("key", "value")]
    return [one for one in registry.examined(Client(rules, known), topics, topics) if one.about == "compatibility"]


def of_level(level):
    """What is said of one subject of this level."""
    (_, told) = found({"": "NONE", "t-value": level}, "t")
    return told


def test_where_no_level_refuses_anything_there_is_one_line():
    (told,) = found({"": "NONE"}, "a", "b")
    assert (told.mark, told.sentence) == (Mark.FINE, "the registry's own level is NONE; 4 of 4 subjects have it")


def test_a_registry_that_says_no_level_refuses_nothing():
    assert [one.mark for one in found({}, "a")] == [Mark.FINE]


def test_the_level_that_subjects_inherit_is_told_of_them():
    first, told = found({"": "BACKWARD", "a-key": "NONE"}, "a")
    assert first.sentence == "the registry's own level is BACKWARD; 1 of 2 subjects have it; 1 has NONE: a-key"
    assert told.mark is Mark.NOTE
    assert told.sentence.startswith("BACKWARD (level of a-value) refuses ADD COLUMN … NOT NULL without default, ")


def test_each_level_that_is_in_use_is_a_line_with_its_subjects():
    first, *told = found({"": "NONE", "a-key": "FORWARD", "b-value": "FULL_TRANSITIVE", "b-key": "FORWARD"}, "a", "b")
    assert first.sentence.endswith("; 2 have FORWARD: a-key, b-key; 1 has FULL_TRANSITIVE: b-value")
    assert [one.sentence.partition(" refuses")[0] for one in told] == [
        "FORWARD (level of a-key, b-key)",
        "FULL_TRANSITIVE (level of b-value)",
    ]


def test_of_a_thousand_subjects_the_levels_are_counted_and_each_is_told_to_programs():
    topics = [f"t{number:03}" for number in range(500)]
    rules = {"": "NONE"} | {f"{topic}-value": "FULL" for topic in topics[:4]}
    rules |= {f"{topic}-key": "BACKWARD" for topic in topics[:300]}
    first, *told = found(rules, *topics)
    assert first.sentence == (
        "the registry's own level is NONE; 696 of 1,000 subjects have it"
        "; 300 have BACKWARD: t000-key, t001-key, t002-key, t003-key, t004-key and 295 more"
        "; 4 have FULL: t000-value, t001-value, t002-value, t003-value"
    )
    assert max(len(str(one)) for one in told) < 400
    assert first.each == {f"{topic}-{part}": "NONE" for topic in topics for part in ("key", "value")} | {
        subject: level for subject, level in rules.items() if subject
    }


def test_every_subject_with_its_level_is_in_the_json(monkeypatch, capsys):
    topics = [f"t{number}" for number in range(20)]
    monkeypatch.setattr(doctor, "examined", lambda _: iter(found({"": "NONE", "t0-key": "FULL"}, *topics)))
    doctor.doctor(output=Format.JSON)
    told = json.loads(capsys.readouterr().out)["findings"]
    assert len(told[0]["each"]) == 40
    assert (told[0]["each"]["t0-key"], told[0]["each"]["t19-key"]) == ("FULL", "NONE")


def test_subjects_and_topics_that_lack_each_other_are_all_told_to_programs():
    known = [f"gone{number}-value" for number in range(9)] + ["there-key"]
    lacking, strays = notes(known, [f"t{number}" for number in range(8)], ["there"])
    assert list(lacking.each) == [f"t{number}-value" for number in range(8)]
    assert list(strays.each) == [f"gone{number}-value" for number in range(9)]


@pytest.mark.parametrize("level", ["BACKWARD", "FORWARD", "FULL"])
@pytest.mark.parametrize("suffix", ["", "_TRANSITIVE"])
def test_every_level_but_none_can_stop_the_changefeed(level, suffix):
    told = of_level(level + suffix)
    assert told.mark is Mark.NOTE
    assert "stops the changefeed itself" in told.sentence
    assert ("versions before the last" in told.sentence) is bool(suffix)
    assert "NONE" in told.todo


@pytest.mark.parametrize("level", ["BACKWARD", "FORWARD", "FULL"])
def test_what_a_level_is_said_to_refuse_is_what_the_comparison_refuses(level):
    for name, (old, new) in EXAMPLES.items():
        verdict = compare(schema(*old), schema(*new))
        passes = {
            "BACKWARD": verdict.backward,
            "FORWARD": verdict.forward,
            "FULL": verdict.backward and verdict.forward,
        }
        assert (name in of_level(level).sentence) is not passes[level], name


def test_a_level_that_nobody_knows_is_not_passed_over():
    assert "does not know" in of_level("SIDEWAYS").sentence


def test_topics_without_a_subject_are_named():
    (told,) = notes(["a-value", "a-key"], ["a", "b.c"])
    assert told.sentence == "no subject for 1 topic: b_c-value"
    assert "schema-registry" in told.todo


def notes(subjects, topics, others=()):
    found = registry.examined(Client({}, subjects), topics, [*topics, *others])
    return [one for one in found if one.mark is Mark.NOTE]


def test_subjects_of_topics_that_kafka_does_not_have_are_named_and_those_of_other_pipelines_are_not():
    (told,) = notes(["a-value", "a-key", "x_y-value", "gone-key", "gone-value", "record.Name"], ["a"], ["x.y"])
    assert told.sentence == "3 subjects without a topic that this user sees: gone-key, gone-value, record.Name"
    assert "DELETE <registry>/subjects/<subject>" in told.todo
