"""The layout of an event is found in its text without reading the JSON: whatever the values, and never a wrong one."""

import json

import pytest
from golden.corpus import manifest
from pyspark.sql import functions as F
from spark.open_events import golden_frame, protocol, raw_frame, record

from pipeline.model.columns import FAR_FUTURE
from pipeline.model.names import TableName
from pipeline.protocols.layouts.head import head
from pipeline.protocols.open import events, framing
from pipeline.protocols.open.columns import read_layout
from pipeline.protocols.open.shapes import Wanted, is_plain, is_shaped, shape_of

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
def test_what_ticdc_sends_is_told_without_reading_it_and_rightly(spark, case):
    rows = protocol().prepare(golden_frame(spark, case.records)).where(head(events.KIND) == events.ROW)
    value = framing.value_json(F.col("value"))
    shape = shape_of(value)
    by_json = events._layout(events._images(value))
    told = rows.select(head(events.NUMBER), by_json, head(events.DELETE), is_plain(shape)).distinct().collect()
    assert all(plain for *_, plain in told)
    assert len({number for number, *_ in told}) == len(
        {(number, layout, deleted) for number, layout, deleted, _ in told}
    )


def test_values_change_nothing(spark):
    inserts = [wire(value) for value in VALUES]
    updates = [wire(value, p=NAMES[:count]) for value in VALUES for count in (1, len(NAMES))]
    assert all(json.loads(value) for value in (*inserts, *updates))
    assert len(set(numbers(spark, [*inserts, *updates]))) == 1


def test_a_value_that_is_an_object_is_read_as_json(spark):
    plain, odd = numbers(spark, [wire("1"), wire('{"v":1}')])
    assert plain != odd
    texts = {
        number: read_layout(text)
        for number, (text, _) in events.shown(prepared(spark, [wire("1"), wire('{"v":1}')]), {plain: 0, odd: 1}).items()
    }
    assert texts[plain] == texts[odd]
    assert [column.name for column in texts[plain].columns] == list(NAMES)


@pytest.mark.parametrize("value", [wire("1"), wire('{"v":1}')], ids=["plain", "odd"])
def test_what_is_one_value_and_more_has_no_layout(spark, value):
    sound, *found = numbers(spark, [value, *(value + more for more in ("x", "}", "}}", "{}", value, "\n", ' {"a":1}'))])
    assert sound is not None
    assert found == [None] * len(found)


@pytest.mark.parametrize("change", ["name", "type", "flag", "handle", "order", "one less", "one more", "deleted"])
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
        "deleted": value.replace('{"u":{"id"', '{"d":{"id"'),
    }[change]
    assert other != value
    assert json.loads(other)
    assert len(set(numbers(spark, [value, other]))) == 2


def test_a_text_is_held_against_a_shape_as_if_its_own_were_found(spark):
    whole = wire('"x"', p=NAMES[:2])
    texts = [
        *(wire(value) for value in VALUES),
        *(wire(value, p=NAMES) for value in VALUES),
        *(whole[:end] for end in range(len(whole))),
        *(whole[:at] + other + whole[at + 1 :] for at in range(len(whole)) for other in ("", "}", '"', "\\", "1")),
        *(wire("1") + more for more in ("\n", "}", " ", ',"p":{')),
        *(wire("1").replace('{"u":{', '{"d":{'), wire("1", u=NAMES[:1]), ""),
    ]
    shapes = [wire("0"), wire("0").replace('{"u":{', '{"d":{'), wire("0", u=NAMES[:1])]
    text = F.col("text")
    frame = spark.createDataFrame([(one,) for one in texts], "text string").cache()
    for shape in shapes:
        own = shape_of(text) == shape
        told = frame.select(own, is_shaped(text, shape)).collect()
        assert [is_alike for _, is_alike in told] == [is_own for is_own, _ in told]
        assert any(is_own for is_own, _ in told)


def test_what_is_no_plain_shape_is_not_taken_for_one():
    with pytest.raises(ValueError, match="not a plain shape"):
        is_shaped(F.col("text"), '{"u":{}}')


def test_what_is_cut_off_has_no_layout_but_that_of_the_whole(spark):
    whole = wire('"x"', p=NAMES[:2])
    wanted, *found = numbers(spark, [whole, *(whole[:end] for end in range(len(whole)))])
    assert set(found) == {wanted, None}


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
    '{"ts":5,"scm":"s","tbl":"a","t":1}\n': None,
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


@pytest.mark.parametrize("wanted", [None, Wanted(NAMES)], ids=["compared", "taken-apart"])
@pytest.mark.parametrize("name", [("s", "a"), ("größe {,}:", "$1"), ('"', "a\\<"), ("another", "table")], ids=str)
def test_a_key_is_read_however_it_is_written_where_rows_of_a_table_are_expected(spark, name, wanted):
    raw = raw_frame(spark, [record((key, wire("1"))) for key in KEYS])
    familiar = events.Familiar(TableName(*name), ((7, wire("0")),), wanted)
    assert keys_read(events.compared(raw, familiar)) == KEYS


def keys_read(frame):
    """What the keys in `KEYS` are read as."""
    named = (head(name) for name in (events.KIND, events.SCHEMA, events.TABLE, events.COMMIT_TS))
    found = {row[0]: tuple(row[1:]) for row in frame.select("offset", *named).collect()}
    return dict(zip(KEYS, (found[at] if found[at][0] else None for at in range(len(KEYS))), strict=True))
