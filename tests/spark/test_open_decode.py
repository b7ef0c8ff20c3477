"""The Open protocol: TiCDC's own bytes give TiDB's tables, and no bytes end the batch."""

import json
import random

import pytest
from golden.comparing import assert_none, rows_differ
from golden.corpus import GoldenCase
from golden.expected import tables_at_the_end
from spark.open_events import Memory, changed, events_of, golden_frame, protocol, raw_frame, record, replayed
from support.slow import EVERY

from pipeline.model import change
from pipeline.model.conditions import any_of
from pipeline.model.messages import INDEX, Ordering, Part
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.protocols.open import events
from pipeline.protocols.open.reading import Wanted

pytestmark = pytest.mark.spark

CASES = [
    GoldenCase(scenario, config)
    for scenario, configs in {
        "all_types": ["open"],
        "lifecycle": ["open", "open_raw", "open_updated_only"],
        "key_updates": ["open", "open_raw", "open_p3", "open_updated_only"],
        "orders_small": ["open", "open_p3"],
    }.items()
    for config in (configs if EVERY else configs[-1:])
]


def wire_events(records):
    """Every event of the records as (partition, offset, index, key, value): a second reader, small and slow."""
    ends = {}
    for one in records:
        offset = ends[one.partition] = ends.get(one.partition, -1) + 1
        keys, values = parts(one.key[8:]), parts(one.value)
        for index, (key, value) in enumerate(zip(keys, values, strict=True)):
            yield one.partition, offset, index, json.loads(key), json.loads(value) if value else None


def parts(data):
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        found.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_records_replay_to_tidbs_tables(spark, case):
    subject = protocol()
    prepared = subject.prepare(golden_frame(spark, case.records)).cache()
    messages = subject.read(prepared)
    sent = list(wire_events(case.records))
    assert messages.refused == ()
    assert messages.events == len(sent)
    assert messages.control == sum(key["t"] != 1 for *_, key, _ in sent)
    assert {str(table.table): table.rows for table in messages.tables} == counted(sent)
    expected, differences = tables_at_the_end(case), []
    for table in messages.tables:
        rows = changed(subject, prepared, table)
        assert [row[change.ERROR] for row in rows if row[change.ERROR]] == []
        assert len(rows) == table.rows
        if str(table.table) in expected:
            wanted = expected.pop(str(table.table))
            names = [column.name for column in wanted.columns]
            differences += rows_differ(wanted.name, names, wanted.key, wanted.rows, replayed(table, rows))
            assert {c.name: c.type for c in table.versions[-1].version.columns} == wanted.types
    assert_none(differences)
    assert [name for name, table in expected.items() if table.rows] == []
    prepared.unpersist()


def counted(sent):
    found = {}
    for *_, key, _ in sent:
        if key["t"] == 1:
            name = f"{key['scm']}.{key['tbl']}"
            found[name] = found.get(name, 0) + 1
    return found


def test_an_update_tells_the_row_as_it_was_though_only_changed_columns_are_sent(spark):
    whole, part = (befores(spark, GoldenCase("lifecycle", config)) for config in ("open", "open_updated_only"))
    assert whole == part
    assert {op for op, _ in whole} == {"insert", "update", "delete"}
    assert all((before is None) == (op == "insert") for op, before in whole)


def befores(spark, case):
    subject = protocol()
    prepared = subject.prepare(golden_frame(spark, case.records)).cache()
    (table,) = [table for table in subject.read(prepared).tables if table.table.table == "t"]
    return [(row[change.OP], row[change.BEFORE]) for row in changed(subject, prepared, table)]


def test_statements_and_watermarks_are_found_in_every_partition(spark):
    case = GoldenCase("key_updates", "open_p3")
    subject = protocol()
    messages = subject.read(subject.prepare(golden_frame(spark, case.records)).cache())
    sent = list(wire_events(case.records))
    for partition in range(3):
        at = Partition("tidb_cdc", partition)
        assert messages.watermarks[at] == max(k["ts"] for p, *_, k, _ in sent if p == partition and k["t"] == 3)
        assert messages.ends[at] == 1 + max(offset for p, offset, *_ in sent if p == partition)
        assert messages.starts[at] == 0
    statements = {
        (key["ts"], key["scm"], key.get("tbl", ""), value["q"], value["t"]) for *_, key, value in sent if key["t"] == 2
    }
    assert {(d.commit_ts, d.table.schema, d.table.table, d.sql, d.kind) for d in messages.ddl} == statements
    assert all(len(statement.at) == 3 for statement in messages.ddl)
    assert [d.commit_ts for d in messages.ddl] == sorted(d.commit_ts for d in messages.ddl)
    assert subject.ordering is Ordering.BY_COMMIT_TS
    assert subject.sends_before


def test_an_event_that_is_stored_alone_is_the_same_event(spark):
    subject = protocol()
    prepared = events_of(subject.prepare(golden_frame(spark, GoldenCase("lifecycle", "open").records)))
    alone = raw_frame(spark, [(row["key"], row["value"]) for row in prepared])
    again = events_of(subject.prepare(alone))
    assert len(again) == len(prepared) > max(row[INDEX] for row in prepared) > 1
    for stored, row in zip(prepared, again, strict=True):
        assert [row[name] for name in (INDEX, "key", "value", "event")] == [
            stored[name] for name in (INDEX, "key", "value", "event")
        ]


ROW_KEY = '{"ts":7,"scm":"s","tbl":"a","t":1}'
ROW = '{"u":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
KEY, VALUE = record((ROW_KEY, ROW), (ROW_KEY, ROW))
MANY = record(*[(ROW_KEY, ROW)] * 300)


def test_a_record_may_have_hundreds_of_events(spark):
    found = events_of(protocol().prepare(raw_frame(spark, [MANY])))
    assert [row[INDEX] for row in found] == list(range(300))
    assert {row["event"]["kind"] for row in found} == {"row"}


FRAMED_OTHERWISE = {
    "nothing": (None, None),
    "empty": (b"", b""),
    "no value": (KEY, None),
    "no key": (None, VALUE),
    "no event": (KEY[:8], b""),
    "key cut off": (KEY[:-1], VALUE),
    "value cut off": (KEY, VALUE[:-1]),
    "key followed by a byte": (KEY + b"\0", VALUE),
    "more values than keys": (KEY, VALUE + bytes(8)),
    "more keys than values": (KEY + KEY[8:], VALUE),
    "another version": (b"\0" * 7 + b"\2" + KEY[8:], VALUE),
    "an index below zero": (b"\x80" + KEY[1:], VALUE),
    "an index that is too large": (b"\x7f\xff\xff\xff" + KEY[4:], VALUE),
    "a length below zero": (KEY[:8] + b"\xff" * 8 + KEY[16:], VALUE),
    "a huge length": (KEY[:8] + b"\x7f" + b"\xff" * 7 + KEY[16:], VALUE),
    "four gigabytes": (KEY, b"\0\0\0\0\xff\xff\xff\xff" + VALUE[8:]),
    "braces": (b"{" * 5000, b"{" * 5000),
}


def test_a_record_that_is_framed_otherwise_is_one_event_and_refused(spark):
    """Each between good ones: whatever it is, it takes none of them along."""
    subject, damaged = protocol(), list(FRAMED_OTHERWISE.values())
    prepared = subject.prepare(raw_frame(spark, [one for pair in damaged for one in (pair, (KEY, VALUE))]))
    rows = [row for row in events_of(prepared) if row["offset"] % 2 == 0]
    assert [(row[INDEX], row["key"], row["value"]) for row in rows] == [(0, *pair) for pair in damaged]
    messages = subject.read(prepared)
    assert {one.code for one in messages.refused} == {"OPEN_UNREADABLE"}
    assert sum(one.rows for one in messages.refused) == len(damaged)
    refused = events_of(prepared.where(any_of(one.where for one in messages.refused)))
    assert [row["offset"] for row in refused] == [2 * number for number in range(len(damaged))]
    assert [table.rows for table in messages.tables] == [2 * len(damaged)]
    assert messages.events == 3 * len(damaged)


NOT_TICDCS_JSON = {
    "empty key": ("{}", ROW),
    "key is no JSON": (ROW_KEY[:-1], ROW),
    "a row without a table": ('{"ts":7,"scm":"s","t":1}', ROW),
    "no commit ts": ('{"scm":"s","tbl":"a","t":1}', ROW),
    "no 64 bits": ('{"ts":99999999999999999999,"scm":"s","tbl":"a","t":1}', ROW),
    "another kind": ('{"ts":7,"scm":"s","tbl":"a","t":4}', ROW),
    "a row without a value": (ROW_KEY, ""),
    "no columns": (ROW_KEY, '{"u":{}}'),
    "a column without type": (ROW_KEY, '{"u":{"id":{"v":1}}}'),
    "a column that is a number": (ROW_KEY, '{"u":{"id":5}}'),
    "a column without a name": (ROW_KEY, '{"u":{"":{"t":3,"v":1}}}'),
    "two columns of one name": (ROW_KEY, '{"u":{"a":{"t":3},"A":{"t":3}}}'),
    "of one name, as TiCDC writes": (ROW_KEY, '{"u":{"a":{"t":3,"v":1},"A":{"t":3,"v":1}}}'),
    "value is no JSON": (ROW_KEY, ROW[:-1]),
    "nested deeply": (ROW_KEY, "[" * 100_000),
    "a statement without type": ('{"ts":7,"scm":"s","t":2}', '{"q":5}'),
    "a watermark with a value": ('{"ts":7,"t":3}', "{}"),
}


def test_an_event_that_is_not_ticdcs_json_is_refused_alone(spark):
    subject, strange = protocol(), list(NOT_TICDCS_JSON.values())
    sent = [record((ROW_KEY, ROW), one, (ROW_KEY, ROW)) for one in strange]
    prepared = subject.prepare(raw_frame(spark, sent))
    messages = subject.read(prepared)
    assert {one.code for one in messages.refused} == {"OPEN_UNREADABLE"}
    assert sum(one.rows for one in messages.refused) == len(strange)
    refused = events_of(prepared.where(any_of(one.where for one in messages.refused)))
    assert [(row["offset"], row[INDEX]) for row in refused] == [(number, 1) for number in range(len(strange))]
    assert [table.rows for table in messages.tables] == [2 * len(strange)]


def test_damaged_bytes_are_refused_or_dead_letters_and_never_end_the_batch(spark):
    rng = random.Random(4)  # noqa: S311 - no secret
    records = [(one.key, one.value) for one in GoldenCase("all_types", "open").records]
    damaged = [flipped(rng, *rng.choice(records)) for _ in range(400 if EVERY else 100)]
    garbage = [(rng.randbytes(rng.randrange(60)), rng.randbytes(rng.randrange(60))) for _ in range(40)]
    subject = protocol()
    prepared = subject.prepare(raw_frame(spark, [*records, *damaged, *garbage])).cache()
    messages = subject.read(prepared)
    assert sum(refused.rows for refused in messages.refused) > 40
    found = sum(len(changed(subject, prepared, table)) for table in messages.tables)
    refused = sum(one.rows for one in messages.refused)
    assert found + refused + messages.control == messages.events == prepared.count()
    prepared.unpersist()


def flipped(rng, key, value):
    part = bytearray(rng.choice([key, value]))
    for _ in range(rng.randrange(1, 4)):
        part[rng.randrange(len(part))] ^= 1 << rng.randrange(8)
    return (bytes(part), value) if len(part) == len(key) else (key, bytes(part))


def test_parts_choose_rows_by_name_and_commit_ts(spark):
    old, new = TableName("s", "old"), TableName("s", "new")
    keys = [
        f'{{"ts":{ts},"scm":"S","tbl":"{name}","t":1}}'
        for ts, name in ((1, "old"), (2, "Old"), (3, "old"), (3, "new"), (4, "new"))
    ]
    subject = protocol(Memory())
    prepared = subject.prepare(raw_frame(spark, [record(*((key, ROW) for key in keys))]))
    table = subject.read(prepared).tables[0]
    assert [row[INDEX] for row in events_of(prepared.where(subject.where(table)))] == [0, 1, 2]
    named = subject.where_named([Part(old, 1, 2), Part(new, 3)])
    assert [row[INDEX] for row in events_of(prepared.where(named))] == [1, 4]


ALONE = '{"d":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
TOO_LARGE = {
    (',"ohk":true', ROW): "HANDLE_KEY_ONLY",
    (',"ohk":true', ROW[:-1] + ROW.replace('{"u"', ',"p"')): "HANDLE_KEY_ONLY",
    (',"ohk":true', ALONE): "row",
    (',"ohk":false', ROW): "row",
    (',"ccl":"s3://bucket/a.json"', ROW): "CLAIM_CHECK",
    (',"ccl":"s3://bucket/a.json"', ALONE): "CLAIM_CHECK",
    (',"ccl":"s3://bucket/a.json"', ""): "CLAIM_CHECK",
    ("", ROW): "row",
}  # fmt: skip


def test_a_row_that_was_too_large_is_no_row_but_a_delete_needs_its_handle_alone(spark):
    sent = [(ROW_KEY[:-1] + more + "}", value) for more, value in TOO_LARGE]
    raw = raw_frame(spark, [record(*sent)])
    subject = protocol()
    prepared = subject.prepare(raw)
    assert [row["event"]["kind"] for row in events_of(prepared)] == list(TOO_LARGE.values())
    messages = subject.read(prepared)
    assert {one.code: one.rows for one in messages.refused} == {"HANDLE_KEY_ONLY": 2, "CLAIM_CHECK": 3}
    assert all(one.message == subject.sentences()[one.code] for one in messages.refused)
    wanted = {
        code: [at for at, kind in enumerate(TOO_LARGE.values()) if kind == code] for code in set(TOO_LARGE.values())
    }
    assert {one.code: [row[INDEX] for row in events_of(prepared.where(one.where))] for one in messages.refused} == {
        code: at for code, at in wanted.items() if code != "row"
    }
    (table,) = messages.tables
    assert [(row[change.INDEX], row[change.OP]) for row in changed(subject, prepared, table)] == [
        (2, "delete"), (3, "insert"), (7, "insert"),
    ]  # fmt: skip
    at_once = [row["event"]["kind"] for row in events_of(events.taken_apart(raw, Wanted(("id",))))]
    assert at_once == list(TOO_LARGE.values())
