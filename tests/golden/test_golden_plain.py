"""TiCDC's own bytes of Canal-JSON without `enable-tidb-extension`, through Kafka and the product, by offset.

Some cases by default; TICDC_WAREHOUSE_GOLDEN=all runs every one.
"""

import json
import random
from dataclasses import replace

import pytest
from e2e.deaths import Death
from golden.checking import currents_differ, needless_exceptions, set_aside, tables_are_those_of_tidb
from golden.comparing import assert_none
from golden.corpus import GoldenCase, manifest
from golden.exceptions import HOLDING, unread_table
from golden.expected import dumped_steps, tables_after, tables_at_the_end
from golden.loading import slices
from support.slow import EVERY

from pipeline.model.messages import Ordering

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

DEFAULT = ("ddl-canal_json_plain",)
CASES = [case for case in manifest() if case.config.endswith("_plain") and (EVERY or str(case) in DEFAULT)]
IN_PARTS = GoldenCase("key_updates", "canal_json_plain")


def row_messages(case):
    """The messages of rows of tables that are not held, in order."""
    messages = (json.loads(record.value) for record in case.records)
    return [
        message
        for message in messages
        if not message["isDdl"] and unread_table(case, f"{message['database']}.{message['table']}") not in HOLDING
    ]


def assert_the_end_is_tidbs(run):
    case, warehouse = run.loaded.case, run.warehouse
    assert_none(list(set_aside(case, warehouse)))
    assert_none(list(tables_are_those_of_tidb(case, warehouse)))
    assert_none(list(currents_differ(case, warehouse, tables_at_the_end(case).values())))
    assert_none(list(needless_exceptions(case, warehouse)))
    assert {row["level"] for row in warehouse.own("batches")} == {"none"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_whole_scenario_in_one_batch_gives_tidbs_tables(case, running):
    with running(case) as run:
        run.take()
        assert_the_end_is_tidbs(run)
        assert run.pipeline.context.protocol.ordering is Ordering.BY_OFFSET
        changes = [row for rows in run.warehouse.changes().values() for row in rows]
        assert {row["_commit_ts"] for row in changes} <= {None}
        times = sorted(int(row["_commit_time"].timestamp() * 1000) for row in changes)
        assert times == sorted(message["es"] for message in row_messages(case))


def dies_behind_dead_letters(step):
    if step == "dead-letters-appended":
        raise Death


def test_a_first_batch_of_nothing_that_can_be_read_does_not_tell_the_order(running):
    records = IN_PARTS.records[:20]
    with running(IN_PARTS) as run:
        run.loaded.produce([replace(records[0], value=b"no message")])
        run.pipeline.context = replace(run.pipeline.context, step=dies_behind_dead_letters)
        with pytest.raises(Death):
            run.pipeline.run(available_now=True)
        run.restart()
        run.take([])
        assert run.pipeline.context.run.ledger.ordering is None
        run.restart()
        run.take(records)
        assert run.pipeline.context.run.ledger.ordering is Ordering.BY_OFFSET
        assert [row["code"] for row in run.warehouse.own("dead_letters")] == ["CANAL_UNREADABLE"]


@pytest.mark.slow
def test_random_boundaries_and_restarts_give_the_same_tables(running):
    cuts = random.Random(7).sample(range(1, len(IN_PARTS.records)), 3)  # noqa: S311 - no secret
    with running(IN_PARTS) as run:
        for part in slices(IN_PARTS.records, cuts):
            run.take(part)
            run.restart()
        assert_the_end_is_tidbs(run)


@pytest.mark.slow
def test_what_is_sent_again_changes_nothing(running):
    with running(IN_PARTS) as run:
        run.take()
        run.take(IN_PARTS.records[len(IN_PARTS.records) // 2 :])
        assert_the_end_is_tidbs(run)


@pytest.mark.slow
def test_ddl_is_applied_between_the_rows_where_it_stands(running):
    case = GoldenCase("ddl", "canal_json_plain")
    chosen = sorted(random.Random(1).sample(dumped_steps(case)[:-1], 4))  # noqa: S311 - no secret
    with running(case) as run:
        for before, step in zip((-1, *chosen), chosen, strict=False):
            run.take([record for record in case.records if before < record.step <= step])
            assert_none(list(currents_differ(case, run.warehouse, tables_after(case, step).values())))


def test_in_a_topic_of_several_partitions_a_statement_that_does_anything_holds_its_table(running):
    case = GoldenCase("ddl", "canal_json_plain")
    with running(case, partitions=3) as run:
        run.take()
        states = {row["table_name"]: row["state"] for row in run.warehouse.own("tables")}
        reasons = {row["reason"] for row in run.warehouse.own("held")}
        history = [row for row in run.warehouse.own("ddl_history") if (row["sql"] or "").startswith("CREATE TABLE")]
    assert {reason for reason in reasons if "has 3 partitions, and without enable-tidb-extension" in reason}
    assert {reason.partition(":")[0] for reason in reasons} <= {"DDL_NOT_UNDERSTOOD", "NO_HANDLE_KEY"}
    assert "held" in states.values()
    assert "held" not in {row["status"] for row in history}
