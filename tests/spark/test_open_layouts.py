"""The layout of an event is found in its text: whatever the values, and never a wrong one."""

import json

import pytest
from golden.corpus import manifest
from pyspark.sql import functions as F
from spark.open_events import golden_frame, protocol, raw_frame, record

from pipeline.model.columns import FAR_FUTURE
from pipeline.protocols.layouts.head import head
from pipeline.protocols.open import events, framing
from pipeline.protocols.open.columns import read_layout
from pipeline.protocols.open.reading import Wanted

pytestmark = pytest.mark.spark

CASES = [case for case in manifest() if case.protocol == "open-protocol"]
KEY = '{"ts":5,"scm":"s","tbl":"a","t":1}'
NAMES = ("id", "v", "p", "u", "d", "t", "größe", "a b", "a,b", "x}},", "{", "null")
VALUES = (
    "null", "1", "-1.5e+10", "true", '""', '"a"', r'"\""', r'"\\"', r'"\\\""', r'"}},\"p\":{"', '"}},"', '"{"',
    r'"\u003c\n"',
    r'"\"v\":\"x\""', '"größe"', '","', r'"\\\\"', '":"', r'"\",\"v\":1"',
)  # fmt: skip
JSON_TEXT = r"{\"a\":1},\\"


def wire(value, **more):
    """A row event as TiCDC writes it, all columns with this JSON for a value."""
    images = {"u": NAMES, **more}
    told = (
        f'"{image}":{{' + ",".join(f'{json.dumps(n, ensure_ascii=False)}:{{"t":15,"f":64,"v":{value}}}' for n in names)
        for image, names in images.items()
    )
    return "{" + "},".join(told) + "}}"


def prepared(spark, values):
    return protocol().prepare(raw_frame(spark, [record((KEY, value)) for value in values]))


def numbers(spark, values):
    """The number of each event; None for one that cannot be read."""
    rows = prepared(spark, values).select("offset", head(events.NUMBER), head(events.KIND)).collect()
    assert all((number is None) == (kind is None) for _, number, kind in rows)
    return [number for _, number, _ in sorted(rows)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_events_of_one_number_have_one_layout(spark, case):
    rows = protocol().prepare(golden_frame(spark, case.records)).where(head(events.KIND) == events.ROW)
    images = F.from_json(framing.value_json(F.col("value")), events._IMAGES, {"columnNameOfCorruptRecord": "broken"})
    found = rows.select(head(events.NUMBER), events._layout(images), head(events.DELETE)).distinct().collect()
    assert {deleted for *_, deleted in found} <= {True, False}
    assert None not in {layout for _, layout, _ in found}
    assert len({number for number, *_ in found}) == len({(number, layout) for number, layout, _ in found})


def test_values_change_nothing(spark):
    inserts = [wire(value) for value in VALUES]
    updates = [wire(value, p=NAMES[:count]) for value in VALUES for count in (1, len(NAMES))]
    assert all(json.loads(value) for value in (*inserts, *updates))
    assert len(set(numbers(spark, [*inserts, *updates]))) == 1


def test_the_layout_of_a_number_has_the_names_as_they_are_sent(spark):
    frame = prepared(spark, [wire("1"), wire('{"v":1}')])
    (number,) = set(numbers(spark, [wire("1"), wire('{"v":1}')]))
    shown = events.shown(frame, {number: 0})
    assert [column.name for column in read_layout(shown[number]).columns] == list(NAMES)


def test_a_delete_has_the_number_of_its_columns_too(spark):
    deleted = wire("1").replace('{"u":{"id"', '{"d":{"id"')
    rows = prepared(spark, [wire("1"), deleted]).select("offset", head(events.NUMBER), head(events.DELETE)).collect()
    (_, number, inserted), (_, own, is_deleted) = sorted(rows)
    assert number == own
    assert (inserted, is_deleted) == (False, True)


@pytest.mark.parametrize("value", [wire("1"), wire('{"v":1}')], ids=["plain", "odd"])
def test_what_is_one_value_and_more_has_no_layout(spark, value):
    sound, *found = numbers(spark, [value, *(value + more for more in ("x", "}", "}}", "{}", value, "\0", ' {"a":1}'))])
    assert sound is not None
    assert found == [None] * len(found)


@pytest.mark.parametrize("change", ["name", "type", "flag", "handle", "order", "one less", "one more"])
def test_another_layout_has_another_number(spark, change):
    value = wire("1")
    other = {
        "name": value.replace("größe", "grösse"),
        "type": value.replace('"id":{"t":15', '"id":{"t":3'),
        "flag": value.replace('"id":{"t":15,"f":64', '"id":{"t":15,"f":65'),
        "handle": value.replace('"id":{"t":15', '"id":{"t":15,"h":true'),
        "order": value.replace('"u":{"t"', '"U":{"t"').replace('"d":{"t"', '"u":{"t"').replace('"U":{"t"', '"d":{"t"'),
        "one less": value.replace('"id":{"t":15,"f":64,"v":1},', ""),
        "one more": value.replace('"id":{', '"more":{"t":15,"f":64,"v":1},"id":{'),
    }[change]
    assert other != value
    assert json.loads(other)
    assert len(set(numbers(spark, [value, other]))) == 2


def test_what_is_cut_off_has_no_layout(spark):
    whole = wire('"x"', p=NAMES[:2])
    sound, *found = numbers(spark, [whole, *(whole[:end] for end in range(len(whole)))])
    assert sound is not None
    assert set(found) == {None}


def test_many_columns_and_many_escapes_need_no_deep_stack(spark):
    wide = [f"column {number}" for number in range(4096)]
    found = numbers(spark, [wire("1", u=wide), wire("2", u=wide), wire(f'"{JSON_TEXT * 100_000}"'), wire("1")])
    assert (found[0], found[2]) == (found[1], found[3])
    assert None not in found


KEYS = {
    '{"ts":5,"scm":"s","tbl":"a","t":1}': ("row", "s", "a", 5),
    '{"ts":5,"scm":"s","tbl":"a","rid":-7,"t":1}': ("row", "s", "a", 5),
    '{"ts":5,"scm":"s","tbl":"a","rid":7,"ptn":106,"t":1}': ("row", "s", "a", 5),
    '{"ts":5,"scm":"s","tbl":"a","t":1,"ptn":106}': ("row", "s", "a", 5),
    '{"ts":450000000078577668,"scm":"größe {,}:","tbl":"$1","t":1}': ("row", "größe {,}:", "$1", 450000000078577668),
    ' {"ts": 5, "scm": "s", "tbl": "a", "t": 1}': ("row", "s", "a", 5),
    '{"t":1,"tbl":"a","scm":"s","ts":5}': ("row", "s", "a", 5),
    r'{"ts":5,"scm":"\"","tbl":"a\\\u003c","t":1}': ("row", '"', "a\\<", 5),
    '{"ts":1902672189849600000,"scm":"s","tbl":"a","t":1}': ("row", "s", "a", FAR_FUTURE),
    '{"ts":1902672189849600001,"scm":"s","tbl":"a","t":1}': None,
    '{"ts":9223372036854775807,"scm":"s","tbl":"a","t":1}': None,
    '{"ts":9223372036854775808,"scm":"s","tbl":"a","t":1}': None,
    '{"ts":0,"scm":"s","tbl":"a","t":1}': None,
    '{"ts":5,"scm":"","tbl":"a","t":1}': None,
    '{"ts":5,"scm":"s","tbl":"a","t":9}': None,
    '{"ts":5,"scm":"s","tbl":"a"': None,
    '{"ts":05,"scm":"s","tbl":"a","t":1}': None,
    '{"ts":5,"scm":"s","tbl":"a","t":1}\n': ("row", "s", "a", 5),
    '{"ts":5,"scm":"s","tbl":"a","t":1}x': None,
    '{"ts":5,"scm":"s","tbl":"a","t":1}}': None,
    '{"ts":5,"scm":"s","tbl":"a","t":1}{"t":1}': None,
    "{}": None,
    '{"ts":5"s"a"1': None,
    '5"s"a"1': None,
    '{"ts":"s"a"1}': None,
}


def test_a_key_is_read_however_it_is_written(spark):
    assert keys_read(protocol().prepare(raw_frame(spark, [record((key, wire("1"))) for key in KEYS]))) == KEYS


def test_a_key_is_read_however_it_is_written_where_rows_of_a_table_are_expected(spark):
    raw = raw_frame(spark, [record((key, wire("1"))) for key in KEYS])
    assert keys_read(events.taken_apart(raw, Wanted(NAMES))) == KEYS


def keys_read(frame):
    """What the keys in `KEYS` are read as."""
    named = (head(name) for name in (events.KIND, events.SCHEMA, events.TABLE, events.COMMIT_TS))
    found = {row[0]: tuple(row[1:]) for row in frame.select("offset", *named).collect()}
    return dict(zip(KEYS, (found[at] if found[at][0] else None for at in range(len(KEYS))), strict=True))
