"""An event that is taken apart by the shape of its layout has the values that its JSON has."""

import json
from dataclasses import replace

import pytest
from golden.corpus import manifest
from pyspark.sql import functions as F
from spark.open_events import golden_frame, mapping_of, protocol, raw_frame, record, rows_of
from support.slow import EVERY

from pipeline.model import change
from pipeline.protocols.open import events, framing
from pipeline.protocols.open.frame import UNREADABLE, recipe
from pipeline.protocols.open.shapes import LARGEST, Wanted, listed, shape_of

pytestmark = pytest.mark.spark

CASES = [case for case in manifest() if case.protocol == "open-protocol"]
FEW = ("ddl-open", "key_updates-open_updated_only")
KEY = '{"ts":5,"scm":"s","tbl":"a","t":1}'
TEXTS = (
    "null", '""', '"a"', r'"\""', r'"\\"', r'"\\\""', r'"}},\"p\":{"', '"}},"', '"{"', '"["', '"]"',
    r'"\u003c\n\u0000"', r'"\"v\":\"x\""', '"größe 😀"', '","', r'"\\\\"', '":"', r'"\",\"v\":1"', r'"$1 \\$2"',
    '"null"', '"a\x7fb"',
)  # fmt: skip
NUMBERS = (
    "null",
    "0",
    "-1",
    "7",
    "2147483647",
    "2147483648",
    "01",
    "1.5",
    "1e2",
    "1e400",
    '"7"',
    '""',
    "true",
    "-",
    "[7]",
)


def image(text, number, columns=("id", "n", "v", "b")):
    told = {"id": '"t":3,"h":true,"f":11,"v":1', "n": f'"t":3,"f":65,"v":{number}', "v": f'"t":15,"f":64,"v":{text}',
            "b": f'"t":252,"f":64,"v":{text}'}  # fmt: skip
    return ",".join(f'"{name}":{{{told[name]}}}' for name in columns)


def event(text='"a"', number="1", **images):
    own = images or {"u": image(text, number)}
    return "{" + ",".join(f'"{name}":{{{columns}}}' for name, columns in own.items()) + "}"


def both_ways(subject, prepared, table):
    """The change frame of a table, by shapes and by JSON."""
    mapping = mapping_of(table)
    readers = tuple(subject._readers(table))
    assert any(one.shapes for one in readers)
    mine = prepared.where(subject.where(table))
    for shaped in (readers, tuple(replace(one, shapes=()) for one in readers)):
        made = recipe(shaped, mapping, subject.timezone, old_values=True)
        yield sorted(rows_of(made.of(mine)), key=lambda row: tuple(row[name] for name in change.POSITION))


@pytest.mark.parametrize("case", [case for case in CASES if EVERY or str(case) in FEW], ids=str)
def test_every_golden_table_has_the_same_rows_by_shape_and_by_json(spark, case):
    subject = protocol()
    prepared = subject.prepare(golden_frame(spark, case.records)).cache()
    messages = subject.read(prepared)
    for table in messages.tables:
        by_shape, by_json = both_ways(subject, prepared, table)
        assert by_shape == by_json
    prepared.unpersist()
    recipe.cache_clear()


def with_value(*values):
    """Events that have these values as they are and as they were."""
    old = image(*values)
    sent = [event(), event(*values), event(u=image('"b"', "2"), p=old), event(u=old, p=image('"b"', "2")), event(d=old)]
    return [*sent, event(u=image('"b"', "2"), p=image(*values, columns=("id", "v"))), event(d=image('"a"', "1"))]


@pytest.mark.parametrize("which", ["texts", "numbers"])
def test_whatever_the_value_the_two_ways_agree(spark, which):
    """All in one frame: each value of its own is the same statement, and takes two seconds."""
    values = [(text, "1") for text in TEXTS] if which == "texts" else [('"a"', number) for number in NUMBERS]
    events_sent = [one for pair in values for one in with_value(*pair)]
    subject = protocol()
    prepared = subject.prepare(raw_frame(spark, [record((KEY, value)) for value in events_sent]))
    messages = subject.read(prepared)
    (table,) = messages.tables
    by_shape, by_json = both_ways(subject, prepared, table)
    assert by_shape == by_json
    assert len(by_shape) >= 2 * len(values)


def test_what_ticdc_writes_is_taken_apart_by_shape(spark):
    """Else nobody would notice that all was read as JSON."""
    whole = [case for case in CASES if not case.config.endswith("open_updated_only")]
    for case in whole if EVERY else whole[:1]:
        rows = protocol().prepare(golden_frame(spark, case.records)).where(events.head(events.KIND) == events.ROW)
        value = framing.value_json(F.col("value"))
        shapes = [row[0] for row in rows.select(shape_of(value)).distinct().collect()]
        for shape in shapes:
            names = list(json.loads(shape).popitem()[1])
            array = listed(value, shape, Wanted(tuple(names)))
            mine = rows.where((shape_of(value) == shape) & (F.octet_length(value) <= LARGEST))
            for text, updated in mine.select(array, value.contains('}},"p":{')).collect():
                told = json.loads(text)
                assert told[0] == ("u" if updated else shape[2] if shape[2] == "d" else "i")
                assert len(told) == 1 + len(names) * (1 if told[0] == "i" else 2)


def test_a_text_that_json_forbids_makes_its_row_an_error(spark):
    value = event(text=r'"\q"')
    subject = protocol()
    prepared = subject.prepare(raw_frame(spark, [record((KEY, event('"YQ=="'))), record((KEY, value))]))
    messages = subject.read(prepared)
    for rows in both_ways(subject, prepared, messages.tables[0]):
        assert [row[change.ERROR] for row in rows] == [None, UNREADABLE]
