"""The rules that follow from the source schema: what breaks each, and what TiDB returns breaks none."""

from dataclasses import replace

import pytest

from pipeline.model import change
from pipeline.model import types as t
from pipeline.model.columns import SchemaId, SourceColumn, TableVersion
from pipeline.model.messages import ColumnMapping, Target
from pipeline.model.names import TableName
from pipeline.quality.builtin import PREFIX, builtin
from pipeline.quality.rules import PRIVATE, RuleSet
from pipeline.quality.suites import Severity

pytestmark = pytest.mark.spark

NAMES = ("id", "kind", "tags", "size", "day", "code", "raw")
TARGETS = (Target("id", t.BIGINT), Target("kind", t.STRING), Target("tags", t.STRING), Target("size", t.BIGINT),
           Target("day", t.DATE), Target("code", t.STRING), Target("raw", t.BINARY))  # fmt: skip
FRAME = (
    "id bigint, kind string, tags string, size bigint, day date, code string, raw binary, "
    "_op string, _commit_ts bigint, _schema_id bigint, "
    f"_unrepresentable map<string,string>, `{change.ERROR}` string, `{change.CHECKSUM}` boolean"
)
GOOD = {
    "id": 1, "kind": "new", "tags": "a,b", "size": 0, "day": None, "code": "äöü", "raw": b"ab",
    "_op": "insert", "_commit_ts": 5, "_schema_id": 1,
    "_unrepresentable": None, change.ERROR: None, change.CHECKSUM: None,
}  # fmt: skip


def version(number=1, kinds=("new", "old"), **told):
    columns = (
        SourceColumn("id", t.BIGINT, "BIGINT", nullable=True),
        SourceColumn("kind", t.STRING, "ENUM", members=kinds),
        SourceColumn("tags", t.STRING, "SET", members=("a", "b")),
        SourceColumn("size", t.BIGINT, "INT UNSIGNED", unsigned=True),
        SourceColumn("day", t.DATE, "DATE"),
        SourceColumn("code", t.STRING, "TEXT", length=3),
        SourceColumn("raw", t.BINARY, "BLOB", length=2),
    )
    told = {"tells_op": True, "tells_commit_ts": True, **told}
    return TableVersion(TableName("s", "t"), SchemaId(number), columns, ("id",), **told)


def rules_for(*versions):
    mapping = ColumnMapping(TARGETS, {one.version: {name: name for name in NAMES} for one in versions})
    return RuleSet(builtin(versions, mapping))


def broken(spark, rules, *rows):
    """The names of the rules that each row breaks, and how many rows each rule judged."""
    frame = spark.createDataFrame([tuple({**GOOD, **row}.values()) for row in rows], FRAME)
    judged = rules.judged(frame)
    found = [
        [name.removeprefix(PREFIX) for name in row[0]]
        for row in judged.select(rules.broken(), change.COMMIT_TS).collect()
    ]
    counted = judged.agg(*rules.counters).first().asDict()
    return found, {r.rule.removeprefix(PREFIX): (r.evaluated, r.unexpected) for r in rules.results(counted, len(rows))}


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        ({"id": None}, "key_not_null"),
        ({"kind": "NEW"}, "enum_members"),
        ({"tags": "a,c"}, "set_members"),
        ({"code": "four"}, "length"),
        ({"raw": b"abc"}, "length"),
        ({"size": -1}, "unsigned"),
        ({"_unrepresentable": {"day": "0000-00-00"}}, "zero_dates"),
        ({"_op": "upsert"}, "op"),
        ({"_commit_ts": None}, "commit_ts"),
        ({"_commit_ts": 0}, "commit_ts"),
        ({change.CHECKSUM: False}, "checksum"),
    ],
)
def test_a_row_breaks_the_rule_that_is_about_it_and_no_other(spark, row, rule):
    rules = rules_for(version())
    found, counts = broken(spark, rules, row, {})
    assert found == [[rule], []]
    assert {name for name, (_, unexpected) in counts.items() if unexpected} == {rule}


def test_what_tidb_returns_breaks_nothing(spark):
    """'' is what an ENUM has that could not be stored, and a SET without members; a zero date in a key is a value."""
    rows = [
        {}, {"kind": "", "tags": ""}, {"kind": None, "tags": None, "size": None}, {"size": 2**32 - 1},
        {"id": None, "_unrepresentable": {"id": "0000-00-00"}}, {change.CHECKSUM: True}, {"tags": "b"},
        {"code": None, "raw": None}, {"code": "", "raw": b""},
    ]  # fmt: skip
    found, counts = broken(spark, rules_for(version()), *rows)
    assert found == [[]] * len(rows)
    assert counts["checksum"] == (1, 0)  # the others have none to check


def test_deletes_and_what_cannot_be_decoded_are_not_judged(spark):
    bad = {"id": None, "kind": "?", "size": -1, change.CHECKSUM: False}
    found, counts = broken(spark, rules_for(version()), {**bad, "_op": "delete"}, {**bad, change.ERROR: "TORN"})
    assert found == [[], []]
    assert set(counts.values()) == {(0, 0)}


def test_each_version_has_its_own_members_and_says_what_it_says(spark):
    one, two = version(1), version(2, kinds=("new", "old", "lost"), tells_op=False, tells_commit_ts=False)
    rows = [{"kind": "lost", "_schema_id": number, "_op": "upsert", "_commit_ts": None} for number in (1, 2)]
    found, _ = broken(spark, rules_for(one, two), *rows)
    assert found == [["enum_members", "op", "commit_ts"], []]


def test_members_that_ticdc_sends_ambiguously_are_not_judged(spark):
    found, _ = broken(spark, rules_for(version(kinds=("it's", "back\\"))), {"kind": "something else"})
    assert found == [[]]


def test_only_a_null_key_and_a_wrong_checksum_take_rows(spark):  # noqa: ARG001 - columns need a session
    rules = rules_for(version()).rules
    assert {rule.name.removeprefix(PREFIX) for rule in rules if rule.severity is Severity.QUARANTINE} == {
        "key_not_null",
        "checksum",
    }
    assert {rule.severity for rule in rules} == {Severity.QUARANTINE, Severity.WARN}


def test_the_sentence_names_values_but_no_private_ones(spark):
    made = rules_for(version())
    rules = RuleSet(made.rules, private=frozenset({"size"}))
    frame = spark.createDataFrame([tuple({**GOOD, "kind": "x", "size": -7}.values())], FRAME)
    (row,) = rules.judged(frame).select(rules.sentence().alias("said")).collect()
    assert row["said"] == f"{PREFIX}enum_members: kind = x; {PREFIX}unsigned: size = {PRIVATE}"


def test_more_rules_than_a_word_has_bits(spark):
    rules = RuleSet(rules_for(version()).rules * 20)
    frame = spark.createDataFrame([tuple({**GOOD, "size": -7}.values()), tuple(GOOD.values())], FRAME)
    judged = rules.judged(frame)
    counted = judged.agg(*rules.counters).first().asDict()
    results = rules.results(counted, 2)
    assert len(results) == len(rules.rules) > 126
    assert sum(result.unexpected for result in results) == 20
    assert judged.where(rules.breaks(Severity.WARN)).count() == 1


def test_only_what_can_come_to_pass_makes_a_batch_wait_for_its_verdict(spark):  # noqa: ARG001 - as above
    """An append on a branch costs two commits more."""
    keyed = [replace(column, nullable=column.name != "id") for column in version().columns]
    sound = replace(version(), columns=tuple(keyed))
    assert not rules_for(sound).gates
    assert rules_for(replace(sound, has_checksum=True)).gates
    assert rules_for(version()).gates  # its key may be NULL


def test_a_row_is_judged_by_the_key_of_its_own_version(spark):
    moved = replace(version(2), handle=("kind",))
    rows = [{"kind": None, "_schema_id": 1}, {"id": None, "_schema_id": 2}, {"kind": None, "_schema_id": 2}]
    found, _ = broken(spark, rules_for(version(1), moved), *rows)
    assert found == [[], [], ["key_not_null"]]
