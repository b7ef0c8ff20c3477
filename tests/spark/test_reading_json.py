"""The functions of Java that read messages take just what is one JSON object, and take its values as they are."""

import json
import random

import pytest
from pyspark.sql import functions as F
from spark.open_events import raw_frame, record

from pipeline.model.columns import SchemaId, SourceColumn, TableVersion
from pipeline.model.names import TableName
from pipeline.protocols.canal import reading as canal
from pipeline.protocols.open import events
from pipeline.protocols.open.reading import Wanted
from pipeline.protocols.open.reading import event as open_event
from pipeline.protocols.simple import reading as simple

pytestmark = pytest.mark.spark

KEY = '{"ts":5,"scm":"s","tbl":"a","t":1}'
MESSAGE = (
    '{"type":"INSERT","n":-1.5e+3, "list":[1,{"a":null},true,false,[]],"te\\u0078t":"a\\\\\\"\\/\\b\\u00e4ö😀",'
    '"data":{"id":"1"},"u":{"id":{"t":3,"v":1}}}'
)
TEXTS = (
    "null", '""', '"a"', r'"\""', r'"\\"', r'"\\\""', r'"}},\"p\":{"', '"}},"', '"{"', '"["', '"]"',
    r'"\u003c\n\u0000"', r'"\"v\":\"x\""', '"größe 😀"', '","', r'"\\\\"', '":"', r'"\",\"v\":1"', r'"$1 \\$2"',
    '"null"', '"a\x7fb"', r'"\ud83d\ude00"',
)  # fmt: skip
OTHERS = ("null", "0", "-1", "2147483648", "1.5", "1e2", "1e400", "true", "false", "[7]", '{"v": [1]}')
_READERS = {
    "canal": canal.message,
    "simple": simple.message,
    "open": lambda value: open_event(F.concat(F.lit(bytes(16)), value), F.lit(bytes(8))),
}


def mutated(rng, message):
    """A message with a few octets changed, left out or put in; often with ones that mean something."""
    octets = bytearray(message)
    for _ in range(rng.randrange(1, 4)):
        at, some = rng.randrange(len(octets)), rng.choice(b'{}[]":,\\/u0e+-.tfn \n\x00\x1f\xc3\xff')
        way = rng.randrange(3)
        if way == 0:
            octets[at] = some
        elif way == 1:
            del octets[at]
        else:
            octets.insert(at, some)
    return bytes(octets)


def is_object(octets):
    """What Python says, which takes some words more than JSON has."""

    def refuse(word):
        raise ValueError(word)

    try:
        return isinstance(json.loads(octets.decode(), parse_constant=refuse), dict)
    except ValueError:
        return False


@pytest.mark.parametrize("protocol", _READERS)
def test_a_message_is_read_if_it_is_one_object_and_nothing_else(spark, protocol):
    rng, whole = random.Random(30), MESSAGE.encode()  # noqa: S311 - the same ones in each run
    messages = [
        whole,
        *(whole[:end] for end in range(len(whole))),
        *(whole + more for more in (b" \r\n\t", b"x", b"}", b"\0", b"{}", b",")),
        *(mutated(rng, whole) for _ in range(20_000)),
    ]
    was_read = _READERS[protocol](F.col("value")).isNotNull()
    frame = spark.createDataFrame([(at, bytearray(one)) for at, one in enumerate(messages)], "at int, value binary")
    found = {at for at, is_one in frame.select("at", was_read).collect() if is_one}
    expected = {at for at, one in enumerate(messages) if is_object(one)}
    assert found == expected
    assert len(messages) // 20 < len(found) < len(messages) // 2


def image(text, other, columns=("id", "n", "v")):
    shown = {"id": '"t":3,"h":true,"f":11,"v":1', "n": f'"t":3,"f":65,"v":{other}', "v": f'"v":{text},"t":249,"f":64'}
    return ",".join(f'"{name}":{{{shown[name]}}}' for name in columns)


def row(text, other):
    """What is read of such an image: a text is without its quotes, anything else as it is written."""
    values = {"id": "1", "n": other, "v": text}
    read = {name: json.loads(value) if value[0] == '"' else value for name, value in values.items() if value != "null"}
    return [*(read.get(name) for name in ("id", "n", "v")), "249"]


def test_values_of_open_are_taken_as_they_are_whatever_they_are(spark):
    sent, expected = [], []
    for text, other in [*((text, "1") for text in TEXTS), *(('"a"', other) for other in OTHERS)]:
        mine, plain = image(text, other), image('"b"', "2")
        part, rest = image(text, other, ("id", "v")), [row(text, other)[0], "2", *row(text, other)[2:]]
        own, new = row(text, other), row('"b"', "2")
        for value, after, before in (
            (f'{{"u":{{{mine}}}}}', own, None),
            (f'{{"u":{{{plain}}},"p":{{{mine}}}}}', new, own),
            (f'{{"p":{{{plain}}},"u":{{{mine}}}}}', own, new),
            (f'{{"d":{{{mine}}}}}', own, own),
            (f'{{"u":{{{plain}}},"p":{{{part}}}}}', new, rest),
        ):
            sent.append(record((KEY, value)))
            expected.append((after, before))
    read = events.taken_apart(raw_frame(spark, sent), Wanted(("id", "n", "v"), ("v",)))
    found = read.select("offset", events.AFTER, events.BEFORE).orderBy("offset").collect()
    assert [(one[events.AFTER], one[events.BEFORE]) for one in found] == expected


@pytest.mark.parametrize("cell", ["5", '"a"', "[]", "true", '{"t":"x","v":"YQ=="}'])
def test_a_wanted_column_that_cannot_be_read_leaves_no_row(spark, cell):
    value = f'{{"u":{{"id":{{"t":252,"v":"YQ=="}}}},"p":{{"id":{cell}}}}}'
    read = events.taken_apart(raw_frame(spark, [record((KEY, value))]), Wanted(("id",), ("id",))).first()
    assert read[events.AFTER] is read[events.BEFORE] is None
    assert read["event"]["kind"] == "row"


def test_what_is_in_the_wrong_place_of_the_row_as_it_was_is_passed_over(spark):
    """TiCDC's new architecture, where a column becomes NULL (`only-output-updated-columns`)."""
    value = (
        '{"u":{"id":{"t":3,"h":true,"f":11,"v":1},"price":{"t":246,"f":65,"v":null}},"p":{"t":246,"f":65,"v":"7.77"}}'
    )
    read = events.taken_apart(raw_frame(spark, [record((KEY, value))]), Wanted(("id", "price"))).first()
    assert (read["event"]["kind"], read[events.AFTER], read[events.BEFORE]) == ("row", ["1", None], ["1", None])


def test_events_of_one_number_are_read_as_one_layout(spark):
    """Else one odd event would speak for all others."""
    plain = '{"id":{"t":3,"v":1}}'
    odd = (
        f'{{"u":{plain},"d":{{"id":{{"t":"x"}}}}}}',
        f'{{"u":{{"id":{{"t":"x"}}}},"u":{plain}}}',
        f'{{"u":5,"d":{plain}}}',
        '{"u":{"id":{"t":3,"v":1},"v":null}}',
        '{"u":{"id":{"t":3,"t":15,"v":1}}}',
        '{"u":{"id":{"t":15,"t":3,"f":1,"v":1}}}',
    )
    frame = events.taken_apart(raw_frame(spark, [record((KEY, value)) for value in (f'{{"u":{plain}}}', *odd)]))
    numbers = [row[0] for row in frame.orderBy("offset").select("event.number").collect()]
    assert numbers[1:5] == [None] * 4
    assert len(set(numbers)) == 4


def test_a_name_may_have_any_character(spark):
    names = ("a\0b", "", "größe", "c")
    value = json.dumps({"u": {name: {"t": 3, "v": place} for place, name in enumerate(names)}})
    read = events.taken_apart(raw_frame(spark, [record((KEY, value))]), Wanted(names)).first()
    assert read[events.AFTER] == ["0", "1", "2", "3"]


def test_of_a_timestamp_that_simple_sends_twice_the_last_is_taken(spark):
    moment = SourceColumn("m", "timestamp", "TIMESTAMP")
    version = TableVersion(TableName("s", "a"), SchemaId(1), (moment,), ("m",))
    whole = '"m":{"location":"A","value":"x"}'
    rows = [whole, f'{whole},"m":null', f'{whole},"m":{{"location":"B"}}', f'"m":null,{whole}', '"m":"x"']
    sent = [f'{{"data":{{{row}}}}}'.encode() for row in rows]
    frame = spark.createDataFrame([(at, one) for at, one in enumerate(sent)], "at int, value binary")
    read = frame.orderBy("at").select(simple.message(F.col("value"), version).alias("m")).select("m.*").collect()
    assert [row["is_sound"] for row in read] == [True, True, False, True, False]
    assert [read[place]["after"] for place in (0, 1, 3)] == [["x", "A"], [None, None], ["x", "A"]]
