"""Differences between two versions of a subject, in sentences."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry import compare, read_schema

GOLDEN = sorted(
    path for path in (Path(__file__).parents[1] / "golden").glob("*/*.registry.json") if path.parent.name != "faults"
)
NOTHING = object()


def field(name, tidb, avro, default=NOTHING, *, nullable=False, logical=(), **parameters):
    branch = {"type": avro, "connect.parameters": {"tidb_type": tidb, **parameters}}
    if logical:
        branch |= {"logicalType": "decimal", "precision": logical[0], "scale": logical[1]}
    union = ["null", branch] if default is None or default is NOTHING else [branch, "null"]
    described = {"name": name, "type": union if nullable else branch}
    return described if default is NOTHING else described | {"default": default}


ID = field("id", "INT", "int")
OWN = [{"name": "_tidb_op", "type": "string", "default": ""}] + [
    {"name": name, "type": "long", "default": 0} for name in ("_tidb_commit_ts", "_tidb_commit_physical_time")
]


def schema(*fields, name="t", namespace="default.shop"):
    return read_schema(json.dumps({"type": "record", "name": name, "namespace": namespace, "fields": list(fields)}))


CASES = {
    "a column with a default is added": (
        [ID],
        [ID, field("n", "INT", "int", 7, nullable=True)],
        "n added: INT, nullable with default 7.",
        (True, True),
    ),
    "a nullable column is added": (
        [ID],
        [ID, field("n", "TEXT", "string", None, nullable=True)],
        "n added: TEXT, nullable.",
        (True, True),
    ),
    "a NOT NULL column without default is added": (
        [ID],
        [ID, field("n", "INT", "int")],
        "n added: INT NOT NULL without default. A reader of the new schema cannot read old data.",
        (False, True),
    ),
    "a NOT NULL decimal is added in precise mode": (
        [ID],
        [ID, field("d", "DECIMAL", "bytes", logical=(10, 2))],
        (
            "d added: DECIMAL(10,2) NOT NULL without default (TiCDC shows none of a DECIMAL in precise mode)."
            " A reader of the new schema cannot read old data."
        ),
        (False, True),
    ),
    "a column with a wrapped default is added": (
        [ID],
        [ID, field("u", "BIGINT UNSIGNED", "long", -1)],
        "u added: BIGINT UNSIGNED NOT NULL with default 18446744073709551615.",
        (True, True),
    ),
    "a column with a default in bytes is added": (
        [ID],
        [ID, field("b", "BIT", "bytes", "Cg==", length="10")],
        "b added: BIT(10) NOT NULL with default 'Cg==' in base64.",
        (True, True),
    ),
    "a column with a default is dropped": (
        [ID, field("n", "INT", "int", None, nullable=True)],
        [ID],
        "n dropped.",
        (True, True),
    ),
    "a column without default is dropped": (
        [ID, field("n", "INT", "int")],
        [ID],
        "n dropped. A reader of the old schema cannot do without it: it has no default.",
        (True, False),
    ),
    "a column is renamed": (
        [ID, field("a", "TEXT", "string", None, nullable=True)],
        [ID, field("b", "TEXT", "string", None, nullable=True)],
        "Avro does not tell a renamed column from a dropped and an added one.",
        (True, True),
    ),
    "INT becomes BIGINT": (
        [ID],
        [field("id", "BIGINT", "long")],
        "id widened from INT to BIGINT. A reader of the old schema cannot read new data (long as int).",
        (True, False),
    ),
    "BIGINT becomes INT": (
        [field("id", "BIGINT", "long")],
        [ID],
        "id changed from BIGINT to INT. A reader of the new schema cannot read old data (long as int).",
        (False, True),
    ),
    "INT becomes TEXT": (
        [ID],
        [field("id", "TEXT", "string")],
        (
            "id changed from INT to TEXT. A reader of the new schema cannot read old data (int as string). "
            "A reader of the old schema cannot read new data (string as int)."
        ),
        (False, False),
    ),
    "TEXT becomes BLOB": (
        [field("id", "TEXT", "string")],
        [field("id", "BLOB", "bytes")],
        "id changed from TEXT to BLOB.",
        (True, True),
    ),
    "a decimal grows": (
        [field("d", "DECIMAL", "bytes", logical=(10, 2))],
        [field("d", "DECIMAL", "bytes", logical=(20, 5))],
        "d widened from DECIMAL(10,2) to DECIMAL(20,5).",
        (True, True),
    ),
    "a decimal loses digits before the point": (
        [field("d", "DECIMAL", "bytes", logical=(10, 2))],
        [field("d", "DECIMAL", "bytes", logical=(10, 4))],
        "d changed from DECIMAL(10,2) to DECIMAL(10,4).",
        (True, True),
    ),
    "BIT grows": (
        [field("b", "BIT", "bytes", length="8")],
        [field("b", "BIT", "bytes", length="64")],
        "b widened from BIT(8) to BIT(64).",
        (True, True),
    ),
    "the changefeed's decimal mode changes": (
        [field("d", "DECIMAL", "bytes", logical=(10, 2))],
        [field("d", "DECIMAL", "string")],
        "d is DECIMAL sent as string, it was sent as bytes (avro-decimal-handling-mode changed).",
        (True, True),
    ),
    "the changefeed's mode of unsigned bigints changes": (
        [field("u", "BIGINT UNSIGNED", "long")],
        [field("u", "BIGINT UNSIGNED", "string")],
        (
            "u is BIGINT UNSIGNED sent as string, it was sent as long "
            "(avro-bigint-unsigned-handling-mode changed). "
            "A reader of the new schema cannot read old data (long as string). "
            "A reader of the old schema cannot read new data (string as long)."
        ),
        (False, False),
    ),
    "a column becomes nullable": (
        [ID, field("n", "INT", "int")],
        [ID, field("n", "INT", "int", None, nullable=True)],
        "n became nullable. A reader of the old schema cannot read new NULLs.",
        (True, False),
    ),
    "a column becomes NOT NULL": (
        [ID, field("n", "INT", "int", None, nullable=True)],
        [ID, field("n", "INT", "int")],
        "n became NOT NULL. A reader of the new schema cannot read old NULLs.",
        (False, True),
    ),
    "a default changes": (
        [ID, field("n", "INT", "int", 7)],
        [ID, field("n", "INT", "int", 8)],
        "n: default changed from 7 to 8; rows are sent in full.",
        (True, True),
    ),
    "a member is added at the end": (
        [field("e", "ENUM", "string", allowed="a,b")],
        [field("e", "ENUM", "string", allowed="a,b,c\\,d")],
        "e: members added at the end: ('c,d'). Names are sent, so readers do not mind.",
        (True, True),
    ),
    "a member is added in front": (
        [field("e", "ENUM", "string", allowed="a,b")],
        [field("e", "ENUM", "string", allowed="z,a,b")],
        "e: members added: ('z'). Names are sent, so readers do not mind.",
        (True, True),
    ),
    "a member is removed": (
        [field("e", "SET", "string", allowed="a,b")],
        [field("e", "SET", "string", allowed="b")],
        "e: members removed: ('a'). Names are sent, so readers do not mind.",
        (True, True),
    ),
    "members are reordered": (
        [field("e", "ENUM", "string", allowed="a,b,c")],
        [field("e", "ENUM", "string", allowed="c,b,a")],
        "e: members reordered. Names are sent, so readers do not mind.",
        (True, True),
    ),
    "a column moves": (
        [ID, field("n", "INT", "int")],
        [field("n", "INT", "int"), ID],
        "Columns changed their order; readers match them by name.",
        (True, True),
    ),
    "the extension is turned on": (
        [ID],
        [ID, *OWN],
        "The changefeed turned enable-tidb-extension on.",
        (True, True),
    ),
}


@pytest.mark.parametrize(("old", "new", "sentence", "judgement"), CASES.values(), ids=CASES.keys())
def test_it_is_said_and_judged_when(old, new, sentence, judgement):
    verdict = compare(schema(*old), schema(*new))
    assert sentence in verdict.sentences
    assert (verdict.backward, verdict.forward) == judgement


def test_nothing_changed_is_said_too():
    verdict = compare(schema(ID), schema(ID))
    assert verdict.sentences == ("Nothing changed; the changefeed goes on.",)
    assert verdict.backward
    assert verdict.forward


def test_a_changefeed_stops_under_backward_only_where_the_new_schema_cannot_read_old_data():
    stopped = compare(schema(ID), schema(ID, field("n", "INT", "int")))
    assert "refuses" in stopped.changefeed
    assert "NONE" in stopped.changefeed
    assert "accepts" in compare(schema(ID), schema(field("id", "BIGINT", "long"))).changefeed


def test_another_key_is_another_identity():
    verdict = compare(schema(ID), schema(field("name", "TEXT", "string")), key=True)
    assert verdict.sentences[0] == ("Key columns changed from (id) to (name): rows have another identity from here on.")
    assert not any("renamed" in sentence for sentence in verdict.sentences)
    assert not any(c.kind == "key" for c in compare(schema(ID), schema(ID), key=True).changes)


def test_another_table_under_the_same_subject_can_read_nothing():
    verdict = compare(schema(ID), schema(ID, name="u"))
    assert (verdict.backward, verdict.forward) == (False, False)
    assert "another table" in verdict.sentences[0]


def test_another_namespace_is_said_and_minded_by_nobody():
    verdict = compare(schema(ID), schema(ID, namespace="other.shop"))
    assert (verdict.backward, verdict.forward) == (True, True)
    assert "default.shop" in verdict.sentences[0]


def test_a_thousand_members_stay_one_readable_line():
    many = ",".join(f"m{n}" for n in range(1000))
    verdict = compare(
        schema(field("e", "ENUM", "string", allowed="a")), schema(field("e", "ENUM", "string", allowed=many))
    )
    assert "and 990 more" in verdict.sentences[0]
    assert len(verdict.sentences[0]) < 300


def histories():
    for path in GOLDEN:
        subjects = {}
        for entry in json.loads(path.read_text()):
            subjects.setdefault(entry["subject"], []).append(read_schema(entry["schema"]))
        yield from subjects.items()


HISTORIES = list(histories())


def test_golden_histories_have_versions_to_compare():
    assert sum(len(versions) - 1 for _, versions in HISTORIES) > 100


def test_every_step_of_every_golden_subject_is_explained():
    for subject, versions in HISTORIES:
        for old, new in itertools.pairwise(versions):
            verdict = compare(old, new, key=subject.endswith("-key"))
            same = old.columns == new.columns and old.fields == new.fields and old.table_name == new.table_name
            assert bool(verdict.changes) == (not same)


SCHEMAS = [version for _, versions in HISTORIES for version in versions]


@given(st.sampled_from(SCHEMAS), st.sampled_from(SCHEMAS))
def test_what_is_backward_one_way_is_forward_the_other_way(one, other):
    there, back = compare(one, other), compare(other, one)
    assert (there.backward, there.forward) == (back.forward, back.backward)


@given(st.sampled_from(SCHEMAS))
def test_a_schema_agrees_with_itself(version):
    assert compare(version, version).changes == ()
