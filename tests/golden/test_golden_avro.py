"""TiCDC's own bytes through Kafka, the registry and the product: TiDB's own rows must come out.

Some cases by default; TICDC_WAREHOUSE_GOLDEN=all runs every one.
"""

import random

import pytest
from golden.checking import (
    changes_differ,
    currents_differ,
    needless_exceptions,
    newest_rows_differ,
    set_aside,
    states_differ,
    tables_are_those_of_tidb,
)
from golden.comparing import assert_none
from golden.corpus import GoldenCase, manifest
from golden.exceptions import unread_table
from golden.expected import dumped_steps, tables_after, tables_at_the_end
from golden.loading import slices
from support.slow import EVERY

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

OF_THE_NEW = ("key_updates-new_avro_before",)
"""Of the new architecture's cases those that are read by default."""
LEFT_OUT = {
    "all_types-avro_noext", "all_types-avro_watermark",
    "key_updates-avro_checksum_watermark", "key_updates-avro_ext_precise_long", "key_updates-avro_ext_string_string",
    "key_updates-avro_watermark", "lifecycle-avro_noext", "lifecycle-avro_ext_string_string",
    "lifecycle-avro_watermark", "lifecycle-avro_checksum_watermark", "ddl-avro_watermark",
    "orders_small-avro_noext", "orders_small-avro_ext_string_string",
    "orders_small-avro_ext_precise_long", "orders_small-avro_watermark", "orders_small-avro_checksum_watermark",
    "lifecycle-avro_ext_precise_long_raw", "ddl-avro_noext",
    "ddl-avro_ext_string_string", "all_types-avro_ext_string_string", "all_types-avro_ext_precise_long",
    *(str(case) for case in manifest() if case.new_architecture and str(case) not in OF_THE_NEW),
}  # fmt: skip
"""By default. Each scenario and each way in which the sink was set is in a case that is read all the same."""
READ = [case for case in manifest() if case.protocol == "avro" and (EVERY or str(case) not in LEFT_OUT)]
WITHOUT_DDL_SENT = [case for case in READ if case.scenario == "ddl" and not case.has_ddl]
STEPWISE = [case for case in READ if case.scenario == "orders_small"]
EVERY_WAY = GoldenCase("key_updates", "avro_noext")
"""Read in one batch, at random boundaries and record by record."""
AT_RANDOM = [GoldenCase("key_updates", "avro_ext_precise_long_p3"), GoldenCase("lifecycle", "avro_ext_precise_long")]
DDL_AT_RANDOM = GoldenCase("ddl", "avro_checksum_watermark")
IN_ONE_BATCH = [case for case in READ if case not in (*WITHOUT_DDL_SENT, *STEPWISE, *AT_RANDOM, DDL_AT_RANDOM)]
A_FEW_SLICES = 5


def tables_read(case):
    return {source for source in tables_at_the_end(case) if unread_table(case, source) is None}


def assert_the_end_is_tidbs(run, compared):
    """Everything that can be said of the end of a case; then, and only then, the case counts as compared."""
    case, warehouse = run.loaded.case, run.warehouse
    assert_none([*set_aside(case, warehouse), *changes_differ(run.loaded, warehouse)])
    assert_none(list(tables_are_those_of_tidb(case, warehouse)))
    if case in WITHOUT_DDL_SENT:
        assert_none(list(newest_rows_differ(run.loaded, warehouse)))
    elif unread_table(case, "*") is None:
        assert_none(list(currents_differ(case, warehouse, tables_at_the_end(case).values())))
        assert_none(list(needless_exceptions(case, warehouse)))
    compared[case] = tables_read(case)


def random_cuts(case, count=A_FEW_SLICES):
    """Positions among the records; the same in every run, others for every case."""
    return random.Random(str(case)).sample(range(1, len(case.records)), count - 1)  # noqa: S311 - no secret


@pytest.mark.parametrize("case", IN_ONE_BATCH, ids=str)
def test_a_whole_scenario_in_one_batch_gives_tidbs_tables(case, running, compared):
    with running(case) as run:
        run.take()
        assert_the_end_is_tidbs(run, compared)
        if case.scenario != "ddl" and not case.has_ddl:
            assert_none(list(states_differ(run.loaded, run.warehouse)))


def test_rows_without_a_key_are_tidbs_when_their_old_values_are_sent_again(running):
    case = GoldenCase("key_updates", "new_avro_before")
    with running(case) as run:
        run.take()
        run.take(case.records[len(case.records) // 2 :])
        assert_none(list(currents_differ(case, run.warehouse, tables_at_the_end(case).values())))


@pytest.mark.parametrize("case", WITHOUT_DDL_SENT, ids=str)
def test_without_ddl_in_the_stream_rows_of_the_newest_schema_are_tidbs(case, running, compared):
    with running(case) as run:
        run.take()
        assert_the_end_is_tidbs(run, compared)


@pytest.mark.parametrize("case", STEPWISE, ids=str)
def test_the_shop_is_tidbs_at_the_steps_where_tidb_was_asked(case, running, compared):
    steps = dumped_steps(case)
    chosen = [steps[len(steps) // 2], steps[-1]]
    with running(case) as run:
        for before, step in zip((-1, *chosen), (*chosen, None), strict=True):
            run.take([r for r in case.records if r.step > before and (step is None or r.step <= step)])
            if step is not None:
                assert_none(list(currents_differ(case, run.warehouse, tables_after(case, step).values())))
        assert_the_end_is_tidbs(run, compared)


@pytest.mark.parametrize("case", [*AT_RANDOM, EVERY_WAY][: None if EVERY else -1], ids=str)
def test_random_boundaries_give_the_same_tables_and_each_state_between(case, running, compared):
    with running(case) as run:
        for part in slices(case.records, random_cuts(case)):
            run.take(part)
            assert_none(list(states_differ(run.loaded, run.warehouse)))
        assert_the_end_is_tidbs(run, compared)


def test_ddl_cut_at_random_boundaries_gives_the_same_tables(running, compared):
    case = DDL_AT_RANDOM
    with running(case) as run:
        for part in slices(case.records, random_cuts(case)):
            run.take(part)
        assert_the_end_is_tidbs(run, compared)


@pytest.mark.slow
def test_ddl_is_applied_between_the_rows_where_it_stands(running):
    case = GoldenCase("ddl", "avro_watermark")
    chosen = sorted(random.Random(1).sample(dumped_steps(case)[:-1], A_FEW_SLICES))  # noqa: S311 - no secret
    with running(case) as run:
        for before, step in zip((-1, *chosen), chosen, strict=False):
            run.take([record for record in case.records if before < record.step <= step])
            assert_none(list(currents_differ(case, run.warehouse, tables_after(case, step).values())))


@pytest.mark.slow
def test_one_batch_per_record_gives_tidbs_tables(running, compared):
    case = EVERY_WAY
    with running(case, source={"max_offsets_per_trigger": 1}) as run:
        run.take()
        assert_the_end_is_tidbs(run, compared)
        largest = max(batch["rows_in"] for batch in run.warehouse.own("batches"))
        assert largest <= len(case.topics), "Spark takes one record of each topic, the least it can"


@pytest.mark.slow
def test_one_batch_per_record_applies_ddl_between_rows(running):
    case, last = GoldenCase("ddl", "avro_watermark"), 20
    with running(case, source={"max_offsets_per_trigger": 1}) as run:
        run.take([record for record in case.records if record.step <= last])
        assert_none(list(currents_differ(case, run.warehouse, tables_after(case, last).values())))


def test_everything_that_was_to_be_read_was_compared_but_for_the_exceptions(request, compared):
    """Runs last: it looks at what the tests above compared."""
    planned = {
        item.callspec.params["case"]
        for item in request.session.items
        if hasattr(item, "callspec") and "case" in item.callspec.params
    } | {DDL_AT_RANDOM}
    if not planned >= set(READ):
        pytest.skip("only a part of the golden tests was asked for")
    expected = {case: tables_read(case) for case in READ}
    print("\n".join(f"{case}: {len(tables)} tables" for case, tables in compared.items()))  # noqa: T201
    assert compared == expected
