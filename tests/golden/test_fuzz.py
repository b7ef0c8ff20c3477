"""Whatever stands in a record: it becomes a dead letter with its bytes, nothing else, and its neighbours land."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from golden import simple_avro
from golden.checking import currents_differ
from golden.comparing import assert_none
from golden.corpus import GoldenCase
from golden.cut_events import events
from golden.delivery import boundaries, dice_of
from golden.expected import tables_at_the_end
from golden.loading import slices
from golden.moments import resolved, tables_at
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.slow import EVERY, few

from pipeline.protocols.large.codes import CLAIM_CHECK, HANDLE_KEY_ONLY

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

CASES = [GoldenCase("key_updates", config) for config in few("open", "simple_json", "simple_avro", "canal_json")]
EXAMPLES, RECORDS = 6 if EVERY else 2, 150
NOT_UTF8 = b"\xff\xfe"
LONG = b"\xff" * 10
"""In Avro a number, or a length, that is longer than any."""
STRANGE = [None, b"", b"[" * 100_000, b'{"a":' * 50_000, b"\x16\x06\x06" + LONG, b"\x00" * 8 + b"\x7f" + LONG]
UNREADABLE = "unreadable"
LENGTH = 8


def prefixes(whole):
    """What is left of bytes of which the end was lost."""
    return st.integers(0, len(whole) - 1).map(lambda end: whole[:end])


def damaged(whole):
    """Bytes that lost their end, were sent twice, have something in between, or are others altogether."""
    swollen = st.integers(0, len(whole)).map(lambda at: whole[:at] + LONG + whole[at:])
    return prefixes(whole) | swollen | st.sampled_from([whole * 2, *STRANGE]) | st.binary(max_size=100)


def overwritten(whole):
    """Bytes of which two are no text any more."""
    return st.integers(0, len(whole) - 2).map(lambda at: whole[:at] + NOT_UTF8 + whole[at + 2 :])


def mislabelled(whole):
    """Events of Open of which one is said to have another length."""
    starts = [0]
    while (end := starts[-1] + LENGTH + length(whole, starts[-1])) < len(whole):
        starts.append(end)

    def other(start):
        lengths = {0, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**64 - 1, length(whole, start) + 1, length(whole, start) - 1}
        wrong = sorted(one % 2**64 for one in lengths - {length(whole, start)})
        return st.sampled_from(wrong).map(
            lambda said: whole[:start] + said.to_bytes(LENGTH, "big") + whole[start + LENGTH :]
        )

    return st.sampled_from(starts).flatmap(other)


def length(whole, start):
    """What an event of Open says of its length."""
    return int.from_bytes(whole[start : start + LENGTH], "big")


def unreadable(case, record):
    """The record as no reader can take for what it was, nor for another message.

    Avro has room for bytes that are no text; a record of Open has several events, and one that is no text leaves the
    others (`beside`).
    """
    values = damaged(record.value)
    if case.config in ("simple_json", "canal_json"):
        values |= overwritten(record.value)
    found = values.map(lambda value: replace(record, value=value))
    if case.protocol == "open-protocol":
        keys = damaged(record.key) | mislabelled(record.key[LENGTH:]).map(lambda rest: record.key[:LENGTH] + rest)
        found |= keys.map(lambda key: replace(record, key=key))
        found |= mislabelled(record.value).map(lambda value: replace(record, value=value))
    return found


def too_large(case, record):
    """The record as TiCDC writes it where the row does not fit, by the code that it has then: of Simple."""
    claimed = {"claimCheckLocation": "s3://bucket/1.json", "handleKeyOnly": True}
    told = {HANDLE_KEY_ONLY: {"handleKeyOnly": True}, CLAIM_CHECK: claimed}
    if case.encoding == "avro":
        return {code: replace(record, value=simple_avro.with_told(record.value, **more)) for code, more in told.items()}
    message = json.loads(record.value)
    [event] = events(case, [record])
    images = {
        side: {name: message[side][name] for name in event.handle} for side in ("data", "old") if message.get(side)
    }
    return {
        code: replace(record, value=json.dumps({**message, **more, **images}).encode()) for code, more in told.items()
    }


def bad(case):
    """Bad records of a case, with what is said of them."""
    rows = [one for one in case.records if one.kind == "row"]
    found = st.sampled_from(case.records).flatmap(
        lambda record: unreadable(case, record).map(lambda one: (one, UNREADABLE))
    )
    if case.protocol == "simple":
        wide = [(one, code) for record in rows[::7] for code, one in too_large(case, record).items()]
        found |= st.sampled_from(wide)
    return st.lists(found, min_size=RECORDS, max_size=RECORDS)


def mixed(sound, others, dice):
    """Both in one sequence, each in its order."""
    turns = [True] * len(sound) + [False] * len(others)
    dice.shuffle(turns)
    one, other = iter(sound), iter(others)
    return [next(one if turn else other) for turn in turns]


def parts(data):
    """The JSON of each event of a key (behind its version) or value of Open."""
    while data:
        end = LENGTH + length(data, 0)
        yield data[LENGTH:end]
        data = data[end:]


def framed(some):
    """The inverse of `parts`."""
    return b"".join(len(part).to_bytes(LENGTH, "big") + part for part in some)


def beside(record, dice):
    """A record of Open with a bad event among its own, and that event as a record of its own, with what is said of it.

    What it stands for are rows that TiCDC sends in a record of their own, and damage within one event.
    """
    keys, values = list(parts(record.key[LENGTH:])), list(parts(record.value))
    model, at = dice.randrange(len(keys)), dice.randrange(len(keys) + 1)
    key, value = keys[model], values[model]
    said = dice.choice([UNREADABLE, CLAIM_CHECK, *([HANDLE_KEY_ONLY] if not value.startswith(b'{"d"') else [])])
    if said == UNREADABLE:
        middle = len(value) // 2
        value = value[:middle] + NOT_UTF8 + value[middle + len(NOT_UTF8) :]
    more = {HANDLE_KEY_ONLY: b',"ohk":true}', CLAIM_CHECK: b',"ohk":true,"ccl":"s3://bucket/1.json"}'}.get(said, b"}")
    key = key.removesuffix(b"}") + more
    version = record.key[:LENGTH]
    whole = replace(
        record,
        key=version + framed([*keys[:at], key, *keys[at:]]),
        value=framed([*values[:at], value, *values[at:]]),
    )
    alone = at.to_bytes(LENGTH // 2, "big") + version[LENGTH // 2 :] + framed([key])
    return whole, (replace(record, key=alone, value=framed([value])), said)


def with_neighbours(case, records, dice):
    """Sound records, of Open some with a bad event; and those events."""
    if case.protocol != "open-protocol":
        return records, []
    found = [beside(record, dice) if record.kind == "row" else (record, None) for record in records]
    return [one for one, _ in found], [event for _, event in found if event]


def letters_of(warehouse):
    """Key, value and what is said of each dead letter."""
    known = (HANDLE_KEY_ONLY, CLAIM_CHECK)
    return Counter(
        (row["key"], row["value"], row["code"] if row["code"] in known else UNREADABLE)
        for row in warehouse.own("dead_letters")
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bad_records_are_dead_letters_and_all_others_land(case, running):
    dice = dice_of("fuzz", case)
    pieces = slices(case.records, boundaries(case.records, EXAMPLES, dice))
    sound, expected = list(next(pieces)), Counter()
    with running(case) as run:
        run.take(sound)

        @settings(
            max_examples=EXAMPLES, derandomize=True, database=None, phases=(Phase.generate,)
        )  # what was taken cannot be taken again, so nothing is made smaller
        @given(bad(case))
        def fuzzed(some):
            piece = list(next(pieces, ()))
            neighbours, events_within = with_neighbours(case, piece, dice)
            run.take(mixed(neighbours, [record for record, _ in some], dice))
            sound.extend(piece)
            expected.update((record.key, record.value, said) for record, said in (*some, *events_within))
            assert_landed(case, run.warehouse, sound, expected)

        fuzzed()
        rest = [record for piece in pieces for record in piece]
        run.take(rest)
        assert_landed(case, run.warehouse, [*sound, *rest], expected)
        assert_none(list(currents_differ(case, run.warehouse, tables_at_the_end(case).values())))


def assert_landed(case, warehouse, sound, expected):
    """The letters are these; the tables are what the sound records close."""
    assert letters_of(warehouse) == expected
    assert {row["status"] for row in warehouse.own("dead_letters")} == {"open"}
    assert not warehouse.own("held")
    assert not warehouse.own("quarantine")
    changes = Counter({name: len(rows) for name, rows in warehouse.changes().items() if rows})
    assert changes == Counter(event.table for event in events(case, sound))
    tables = tables_at(case, resolved(sound)) or {}
    assert_none(list(currents_differ(case, warehouse, tables.values())))
