"""TiCDC's own bytes of the protocols that carry watermarks: at every moment TiDB's own tables must come out.

A few cases by default; TICDC_WAREHOUSE_GOLDEN=all runs each test with every case.
"""

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from golden import decode_open
from golden.checking import (
    OPEN,
    currents_differ,
    held_table,
    needless_exceptions,
    set_aside,
    tables_are_those_of_tidb,
)
from golden.checking_cut import (
    changes_differ,
    cut_of_the_end,
    cuts_differ,
    inexact,
    replay_differs,
    state_differs,
    waiting_places,
)
from golden.checking_history import history_differs
from golden.checking_steps import steps_differ
from golden.comparing import assert_none
from golden.corpus import GoldenCase, manifest
from golden.cut_events import events
from golden.delivery import (
    around_repetition,
    beside_ddl,
    boundaries,
    dice_of,
    in_partitions,
    spread,
    undescribed,
    uneven,
)
from golden.exceptions import READ_PROTOCOLS
from golden.expected import dumped_steps, tables_at_the_end
from golden.loading import slices
from golden.moments import resolved, tables_at
from golden.readers import readers_differ
from golden.values import freeze
from support.slow import EVERY, few

from pipeline.errors import Refused
from pipeline.lake.catalog import reader
from pipeline.lake.pending import pending_sentences

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

READ = [case for case in manifest() if case.by_cut and case.protocol in READ_PROTOCOLS]
SCHEMA_PENDING = "SCHEMA_PENDING"
DDL, DDL_OF_OPEN = GoldenCase("ddl", "simple_json"), GoldenCase("ddl", "open")


def chosen(*names, among=lambda _: True):
    """These cases (`scenario-config`), or all that the test can take."""
    return [case for case in READ if among(case) and (EVERY or str(case) in names)]


def seeded(cases):
    """The cases, each with a word for the dice; those of `ddl` with three, where every case is run."""
    many = [(case, word) for case in cases for word in (("", "a", "b") if EVERY and case.scenario == "ddl" else ("",))]
    return [pytest.param(case, word, id=f"{case}-{word}".rstrip("-")) for case, word in many]


IN_ONE_BATCH = chosen(
    "all_types-simple_json",
    "orders_small-simple_json",
    "key_updates-simple_avro_raw",
    "key_updates-open_updated_only",
    "ddl_nokey-simple_json",
    "lifecycle-canal_json_content_compatible",
)
READ_BY_ALL = ("all_types-simple_json", "lifecycle-canal_json_content_compatible")
"""By default other readers than PyIceberg see these: the first has excerpts in its current tables, the second links."""
AT_RANDOM = seeded(
    chosen(
        "key_updates-open_raw",
        among=lambda case: case.steps_agree and case.scenario != "orders_small",
    )
)
SHOP = chosen(among=lambda case: case.scenario == "orders_small")
UNEVEN = chosen("ddl-simple_json", among=lambda case: case.steps_agree)
IN_SMALL_BATCHES = chosen(among=lambda case: case.steps_agree)
RAW_APART = chosen(among=lambda case: case.config.endswith("_raw") and case.steps_agree)
ONE_BY_ONE = sorted(
    chosen(among=lambda case: case.steps_agree and case.partitions == 1 and case.scenario != "orders_small"),
    key=lambda case: case.protocol,
)
"""Open first: its records have several rows, of several transactions."""
AGAIN = seeded(chosen(among=lambda case: case.steps_agree))
FROM_THE_MIDDLE = chosen(
    "ddl-simple_avro",
    among=lambda case: (
        case.protocol == "simple"
        and case.scenario in ("ddl", "orders_small")
        and case.steps_agree
        and not case.config.startswith("new_")  # too short a time for TiCDC to repeat its BOOTSTRAPs
    ),
)

DROPPED_MIDWAY = chosen(among=lambda case: case.protocol == "simple" and case.scenario == "ddl" and case.steps_agree)


def assert_state(run):
    """What shows is what the records that were sent close, and nothing of what is behind it."""
    assert_none(list(state_differs(run.loaded, run.warehouse)))


def assert_cuts(run):
    """What was ever shown under a commit ts was TiDB's at that ts."""
    assert_none(list(cuts_differ(run.loaded, run.warehouse)))


def assert_the_end_is_tidbs(run):
    """Everything that can be said of the end of a case."""
    case, loaded, warehouse = run.loaded.case, run.loaded, run.warehouse
    assert_none([*set_aside(case, warehouse), *changes_differ(loaded, warehouse), *history_differs(loaded, warehouse)])
    if case.steps_agree:
        assert_none(list(steps_differ(loaded, warehouse)))
    assert_none(list(tables_are_those_of_tidb(case, warehouse)))
    assert_none(list(currents_differ(case, warehouse, tables_at_the_end(case).values())))
    assert_none(list(needless_exceptions(case, warehouse)))
    if case.scenario not in ("ddl", "ddl_nokey"):
        assert_none(list(replay_differs(loaded, warehouse)))


def currents(warehouse):
    """All current tables as something that can be compared."""
    found = {name: warehouse.current(name) for name in warehouse.current_names()}
    return {
        name: Counter(
            (
                ts,
                frozenset((column, freeze(value)) for column, value in row.values.items()),
                frozenset(row.lost.items()),
            )
            for row, ts in zip(table.rows, table.commit_ts, strict=True)
        )
        for name, table in found.items()
    }


def shown_and_told(warehouse):
    """All current tables, and what the history says of each statement."""
    history = Counter((row["commit_ts"], row["sql"], row["action"]) for row in warehouse.own("ddl_history"))
    return currents(warehouse), history


@pytest.mark.parametrize("case", IN_ONE_BATCH, ids=str)
def test_a_whole_scenario_in_one_batch_gives_tidbs_tables(case, running):
    with running(case) as run:
        run.take()
        assert_the_end_is_tidbs(run)
        if EVERY or str(case) in READ_BY_ALL:
            assert_none(list(readers_differ(run.warehouse, run.pipeline.context.spark)))
        held = [held_table(case, source) for source in case.final]
        if not all(held):
            assert_none(list(cut_of_the_end(run.loaded.sent, run.warehouse)))
        if not any(held):
            assert_none(list(inexact(run.warehouse)))


@pytest.mark.parametrize(("case", "word"), AT_RANDOM)
def test_random_boundaries_and_a_restart_show_at_each_moment_what_it_closes(case, word, running):
    records = list(case.records)
    with running(case) as run:
        for number, part in enumerate(slices(records, boundaries(records, 4, dice_of(f"boundaries{word}", case)))):
            if number == 2:
                run.restart()
            run.take(part)
            assert_state(run)
        assert_the_end_is_tidbs(run)
        assert_cuts(run)


@pytest.mark.parametrize("case", SHOP, ids=str)
def test_the_shop_is_tidbs_at_the_steps_where_tidb_was_asked(case, running):
    steps, records = dumped_steps(case), list(case.records)
    ends = [behind_watermark(case, step) for step in steps]
    with running(case) as run:
        for start, end in pairwise([0, *ends]):
            run.take(records[start:end])
            assert tables_at(case, resolved(run.loaded.sent)) is not None
            assert_state(run)
        run.take(records[ends[-1] :])
        assert_the_end_is_tidbs(run)


def behind_watermark(case, step):
    """The position behind the watermark (all its copies) that closes a step and nothing later."""
    ts = next(one["commit_ts"] for one in case.steps if one["step"] == step)
    return 1 + max(at for at, one in enumerate(case.records) if one.kind == "resolved" and one.commit_ts == ts)


@pytest.mark.parametrize("case", UNEVEN, ids=str)
def test_partitions_that_run_ahead_and_lag_show_one_moment(case, running):
    records, dice = in_partitions(case, 3), dice_of("uneven", case)
    with running(case, partitions=3) as run:
        for piece in uneven(records, boundaries(records, 4, dice), dice):
            run.take(piece)
            assert_state(run)
        assert_the_end_is_tidbs(run)


@pytest.mark.parametrize("case", IN_SMALL_BATCHES, ids=str)
def test_at_every_cut_of_many_small_batches_all_tables_are_tidbs(case, running):
    """Spark takes of each partition by its length, so that the one with more rows lags behind the others."""
    records = in_partitions(case, 3)
    with running(case, partitions=3, source={"max_offsets_per_trigger": len(records) // 8}) as run:
        run.take(records)
        assert_cuts(run)
        assert_the_end_is_tidbs(run)
        assert len({row["cut_ts"] for row in run.warehouse.own("cuts")}) > 3


@pytest.mark.parametrize("case", RAW_APART, ids=str)
def test_parts_of_a_transaction_may_lie_in_any_partition_and_batch(case, running):
    """Of a key that moves, delete and insert have nothing that orders them but what they are."""
    sent = decode_open.singly(case.records) if case.protocol == "open-protocol" else case.records
    first_only = ["ddl"] if case.protocol == "canal-json" else []
    records = spread(list(sent), 3, by=lambda record: record.seq, first_only=first_only)
    parts = {}
    for record in records:
        if record.kind == "row":
            parts.setdefault((record.commit_ts, record.table), set()).add(record.partition)
    assert sum(len(partitions) > 1 for partitions in parts.values()) > 3
    with running(case, partitions=3, source={"max_offsets_per_trigger": len(records) // 8}) as run:
        run.take(records)
        assert_cuts(run)
        assert_the_end_is_tidbs(run)


@pytest.mark.parametrize("case", ONE_BY_ONE, ids=str)
def test_one_batch_per_record_applies_ddl_between_rows(case, running):
    records = [record for record in case.records if EVERY or record.step <= 8]
    with running(case, source={"max_offsets_per_trigger": 1}) as run:
        run.take(records)
        assert_state(run)
        assert_cuts(run)
        assert len(run.warehouse.own("batches")) == len(records)
        if EVERY:
            assert_the_end_is_tidbs(run)


@pytest.mark.slow
def test_what_goes_on_record_by_record_ends_as_it_does_in_one_batch(running, tmp_path):
    """A database is dropped, with all cases also a partition exchanged and one emptied; as in one batch."""
    case = DDL_OF_OPEN
    begins = next(at for at, record in enumerate(case.records) if record.step >= (112 if EVERY else 137))
    with running(case) as run:
        run.take(case.records[:begins])
        run.settings = run.loaded.settings(tmp_path, source={"max_offsets_per_trigger": 1})
        run.restart()
        run.take(case.records[begins:])
        assert len(run.warehouse.own("batches")) == 1 + len(case.records[begins:])
        assert_cuts(run)
        assert_the_end_is_tidbs(run)


@pytest.mark.parametrize("case", few(DDL, DDL_OF_OPEN), ids=str)
@pytest.mark.parametrize("side", few("behind", "before", "none"))
def test_a_watermark_of_a_ddls_ts_may_stand_on_either_side_of_it(side, case, running):
    records = beside_ddl([record for record in case.records if record.step <= 25], side)
    ddl = [at for at, record in enumerate(records) if record.kind == "ddl"]
    with running(case) as run:
        for part in slices(records, [ddl[4], ddl[5] + 1]):
            run.take(part)
            assert_state(run)
        assert_cuts(run)


@pytest.mark.parametrize(("case", "word"), AGAIN)
def test_what_is_sent_again_changes_nothing(case, word, running):
    """From a random earlier record: to where the stream was, then behind a restart, at last of all that there is."""
    records, dice = list(case.records), dice_of(f"again{word}", case)
    [now] = boundaries(records[len(records) // 2 :], 1, dice)
    now += len(records) // 2
    with running(case) as run:
        run.take(records[:now])
        assert_state(run)
        before = shown_and_told(run.warehouse)
        run.take(records[dice.randrange(now) : now])
        assert shown_and_told(run.warehouse) == before
        run.restart()
        run.take(records[dice.randrange(now) :])
        assert_the_end_is_tidbs(run)
        before = shown_and_told(run.warehouse)
        run.take(records[dice.randrange(len(records)) :])
        assert shown_and_told(run.warehouse) == before
        assert_the_end_is_tidbs(run)


@pytest.mark.parametrize("case", FROM_THE_MIDDLE, ids=str)
def test_a_start_in_the_middle_waits_for_the_schema_and_then_lets_each_row_in_once(case, running):
    before, bootstraps, rest = around_repetition(case, 60 if case.scenario == "orders_small" else 2)
    without_schema = {event.place[1:] for event in events(case, before)}
    assert len(undescribed(case, before)) == len(without_schema)
    with running(case) as run:
        run.take(before)
        waiting = waiting_places(run.loaded, run.warehouse, SCHEMA_PENDING)
        assert {place[1:] for place in waiting} == without_schema
        told = pending_sentences(reader(run.settings))
        assert told
        assert all(SCHEMA_PENDING in sentence and "send-bootstrap" in sentence for sentence in told)
        assert_none([*changes_differ(run.loaded, run.warehouse)])
        assert not any(run.warehouse.current(name).rows for name in run.warehouse.current_names())
        run.restart()
        run.take(bootstraps)
        assert waiting_places(run.loaded, run.warehouse) == set()
        assert pending_sentences(reader(run.settings)) == []
        assert_none([*changes_differ(run.loaded, run.warehouse)])
        run.take(rest)
        assert_none([*set_aside(case, run.warehouse), *changes_differ(run.loaded, run.warehouse)])
        assert_none(list(replay_differs(run.loaded, run.warehouse)))
        told = Counter((row["kafka_partition"], row["offset"]) for row in run.warehouse.own("held"))
        assert set(told.values()) == {1}
        assert {row["status"] for row in run.warehouse.own("held")}.isdisjoint({OPEN})


@pytest.mark.parametrize("case", DROPPED_MIDWAY, ids=str)
def test_what_a_drop_says_of_its_table_lets_in_the_rows_that_have_waited_for_a_schema(case, running):
    """From behind the last BOOTSTRAP of d.x1 and d.x2: a TRUNCATE describes one, only its DROP the other."""
    records = list(case.records)
    drops = [at for at, one in enumerate(records) if one.kind == "ddl" and one.step in (94, 98)]
    truncate, drop = drops[0], drops[1]
    start = max(at for at, one in enumerate(records[:truncate]) if one.kind == "bootstrap") + 1
    before, between = records[start:truncate], records[truncate:drop]
    last = max(at for at, one in enumerate(records) if one.step == 100)
    behind = records[drop : last + 2]  # with the watermark that closes it
    assert len(undescribed(case, before)) == len(events(case, before)) == 3
    with running(case) as run:
        for sent, waiting in ((before, 3), (between, 2), (behind, 0)):
            run.take(sent)
            assert len(waiting_places(run.loaded, run.warehouse, SCHEMA_PENDING)) == waiting
            assert_none([*changes_differ(run.loaded, run.warehouse)])
        assert_none(list(set_aside(case, run.warehouse)))
        wanted = {f"d.x1__dropped_{records[drop].commit_ts}": 2, "d.x1": 1}
        shown = {name: len(table) for name, table in currents(run.warehouse).items()}
        assert {name: shown[name] for name in wanted} == wanted


@pytest.mark.slow
def test_more_than_may_wait_stops_every_run_until_more_may(running, tmp_path):
    case = GoldenCase("orders_small", "simple_json")
    before, bootstraps, _ = around_repetition(case, 60)
    with running(case, hold={"max_records": 59}) as run:
        for sent in (before, ()):
            with pytest.raises(Refused, match=r"60 records wait \(shop.customers, ") as stopped:
                run.take(sent)
            assert stopped.value.code == "HELD_TOO_MANY"
            run.restart()
        run.settings = run.loaded.settings(tmp_path, hold={"max_records": 60})
        run.restart()
        run.take(bootstraps)  # with what nobody has taken yet
        assert pending_sentences(reader(run.settings)) == []
        assert_none([*changes_differ(run.loaded, run.warehouse)])


@pytest.mark.slow
def test_a_dropped_table_goes_where_that_is_the_policy_and_its_rows_come_back_as_dead_letters(running):
    case, dropped = GoldenCase("lifecycle", "simple_json"), "life.t_empty_update"
    records = [r for r in case.records if r.kind != "row" or r.table in (dropped, "life.t_like")]
    rows = sum(r.kind == "row" and r.table == dropped for r in records)
    with running(case, warehouse={"drop_table": "drop"}) as run:
        run.take(records)
        assert "life.t_like" in run.warehouse.current_names()
        assert dropped not in run.warehouse.changes()
        before = currents(run.warehouse)
        run.restart()
        run.take(records)
        assert currents(run.warehouse) == before
        letters = [
            (row["code"], row["schema_name"], row["table_name"], row["status"])
            for row in run.warehouse.own("dead_letters")
        ]
        assert letters == [("TABLE_REMOVED", *dropped.split("."), "superseded")] * rows
        assert {row["level"] for row in run.warehouse.own("cuts")} == {"exact"}


def test_a_row_with_another_checksum_waits_in_quarantine_and_cuts_say_so(running):
    case = GoldenCase("key_updates", "simple_json_checksum")
    records = list(case.records)
    last = max(at for at, record in enumerate(records) if record.kind == "row")
    message = json.loads(records[last].value)
    message["checksum"]["current"] ^= 1
    records[last] = replace(records[last], value=json.dumps(message).encode())
    with running(case) as run:
        run.take(records)
        (row,) = run.warehouse.own("quarantine")
        assert (f"{row['schema_name']}.{row['table_name']}", row["commit_ts"]) == (
            records[last].table,
            records[last].commit_ts,
        )
        assert row["rules"] == ["builtin:checksum"]
        assert row["value"] == records[last].value
        assert sum(map(len, run.warehouse.changes().values())) == sum(record.kind == "row" for record in records) - 1
        newest = max(run.warehouse.own("cuts"), key=lambda cut: (cut["batch_id"], cut["cut_ts"]))
        assert (newest["level"], newest["reason"]) == ("partial", "1 in quarantine")


def test_by_default_every_scenario_and_every_protocol_is_read_to_its_end():
    at_random = [one.values[0] for one in (*AT_RANDOM, *AGAIN)]
    to_the_end = [*IN_ONE_BATCH, *at_random, *SHOP, *UNEVEN, *IN_SMALL_BATCHES]
    assert {case.scenario for case in to_the_end} == {case.scenario for case in READ}
    assert {case.protocol for case in to_the_end} == {case.protocol for case in READ}
