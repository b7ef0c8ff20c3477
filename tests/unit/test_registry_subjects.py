"""Names as TiCDC forms them."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry import Subjects, read_schema, sanitise, subjects_of

GOLDEN = sorted(
    path for path in (Path(__file__).parents[1] / "golden").glob("*/*.registry.json") if path.parent.name != "faults"
)
AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@pytest.mark.parametrize(
    ("name", "sanitised"),
    [
        ("orders", "orders"),
        ("a b", "a_b"),
        ("a.b", "a_b"),
        ("订单", "__"),
        ("😀", "_"),  # one code point, four bytes
        ("1st", "_1st"),
        ("9", "_9"),
        ("-x", "_x"),
        ("é1", "_1"),
        ("_tidb_op", "_tidb_op"),
        ("٣x", "_x"),  # a digit of another script is no digit
    ],
)
def test_a_name_is_sanitised_per_code_point(name, sanitised):
    assert sanitise(name) == sanitised


@given(st.text(min_size=1))
def test_every_name_becomes_an_avro_name_of_its_length_or_one_more(name):
    sanitised = sanitise(name)
    assert AVRO_NAME.fullmatch(sanitised)
    assert len(sanitised) == len(name) + (name[0] in "0123456789")


@given(st.text())
def test_sanitising_twice_changes_nothing(name):
    assert sanitise(sanitise(name)) == sanitise(name)


@given(st.from_regex(AVRO_NAME, fullmatch=True))
def test_an_avro_name_stays_as_it_is(name):
    assert sanitise(name) == name


def test_a_topic_has_a_subject_for_its_keys_and_one_for_its_values():
    assert subjects_of("tidb_shop_orders") == Subjects("tidb_shop_orders-key", "tidb_shop_orders-value")


def test_dots_of_the_topic_are_underscores_in_the_subject_and_nothing_else_changes():
    assert subjects_of("eu.shop.订单-1") == Subjects("eu_shop_订单-1-key", "eu_shop_订单-1-value")


def test_golden_data_is_there():
    assert len(GOLDEN) >= 20


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_golden_subjects_are_those_of_the_topic_that_ticdc_names_after_the_table(path):
    for entry in json.loads(path.read_text()):
        schema = read_schema(entry["schema"])
        subject = entry["subject"]
        stem = subject.removesuffix("-key").removesuffix("-value")
        assert subject in (subjects_of(stem).key, subjects_of(stem).value)
        assert sanitise(stem) == f"tidb_{schema.schema_name}_{schema.table_name}"
