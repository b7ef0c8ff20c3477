"""Rows that TiCDC found too large for Kafka, whole again: TiDB's own tables must come out (`large_rows`).

One configuration by default; TICDC_WAREHOUSE_GOLDEN=all runs every one.
"""

import pytest
from golden.checking import currents_differ, set_aside, tables_are_those_of_tidb
from golden.comparing import assert_none
from golden.corpus import GoldenCase
from golden.expected import tables_at_the_end
from golden.objects import unpacked, written_as
from golden.upstream import tables_of
from support.slow import few
from support.tidb import PASSWORD, USER, served

from pipeline.operations.redrive import DEAD_LETTERS, Selection, redrive

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

CLAIMED = few(
    "simple_avro_claim_check_raw_none",
    "canal_json_claim_check_lz4",
    "canal_json_claim_check_raw_none",
    "open_claim_check_lz4",
    "simple_json_claim_check_none",
)

BY_KEY = few(
    "open_handle_key_none", "canal_json_handle_key_none", "simple_avro_handle_key_none", "simple_json_handle_key_none"
)

WITHOUT_KEY = "big.nokey"
"""TiCDC refuses `force-replicate` beside these options, so that the table is not sent."""


def claims(case, folder):
    return {"claim_check": {"path": str(folder), "written_as": written_as(case)}}


def assert_the_end_is_tidbs(run):
    case, warehouse = run.loaded.case, run.warehouse
    assert_none(list(tables_are_those_of_tidb(case, warehouse)))
    sent = [table for source, table in tables_at_the_end(case).items() if source != WITHOUT_KEY]
    assert_none(list(currents_differ(case, warehouse, sent)))


@pytest.mark.parametrize("config", CLAIMED)
def test_a_changefeed_with_claim_check_gives_tidbs_tables(config, running, tmp_path):
    case = GoldenCase("large_rows", config)
    folder = unpacked(case, tmp_path / "objects")
    with running(case, source=claims(case, folder)) as run:
        run.take()
        assert_none(list(set_aside(case, run.warehouse)))
        assert_the_end_is_tidbs(run)
        assert {row["level"] for row in run.warehouse.own("batches")} == {"exact"}


@pytest.fixture(scope="module")
def tidb():
    """Settings of a server that has the rows of all commit ts."""
    with served(tables_of("large_rows")) as port:
        yield {"upstream": {"host": "127.0.0.1", "port": port, "user": USER, "password": PASSWORD}}


@pytest.mark.parametrize("config", BY_KEY)
def test_a_changefeed_with_keys_alone_gives_tidbs_tables(config, running, tidb):
    case = GoldenCase("large_rows", config)
    with running(case, source=tidb) as run:
        run.take()
        assert_none(list(set_aside(case, run.warehouse)))
        assert_the_end_is_tidbs(run)
        assert {row["level"] for row in run.warehouse.own("batches")} == {"exact"}


@pytest.mark.slow
def test_keys_alone_that_waited_come_in_when_there_is_an_upstream(running, tidb, tmp_path):
    case = GoldenCase("large_rows", "canal_json_handle_key_none")
    with running(case) as run:
        run.take(case.records[:-1])
        letters = run.warehouse.own("dead_letters")
        assert {(row["code"], row["status"]) for row in letters} == {("HANDLE_KEY_ONLY", "open")}
        run.settings = run.loaded.settings(tmp_path, source=tidb)
        run.restart()
        done = redrive(run.pipeline.context, Selection(DEAD_LETTERS))
        assert (done.open, done.redriven + done.superseded) == (0, len(letters))
        run.take(case.records[-1:])
        assert_the_end_is_tidbs(run)


@pytest.mark.slow
def test_what_an_earlier_version_left_comes_in_when_its_object_is_there(running, tmp_path):
    case = GoldenCase("large_rows", "canal_json_claim_check_lz4")
    folder = unpacked(case, tmp_path / "objects")
    with running(case) as run:
        run.take(case.records[:-1])
        letters = run.warehouse.own("dead_letters")
        assert {(row["code"], row["status"]) for row in letters} == {("CLAIM_CHECK", "open")}
        run.settings = run.loaded.settings(tmp_path, source=claims(case, tmp_path / "elsewhere"))
        run.restart()
        done = redrive(run.pipeline.context, Selection(DEAD_LETTERS))
        assert (done.redriven, done.open) == (0, len(letters))
        folder.rename(tmp_path / "elsewhere")
        done = redrive(run.pipeline.context, Selection(DEAD_LETTERS))
        assert (done.open, done.redriven + done.superseded) == (0, len(letters))
        run.take(case.records[-1:])  # what a table has not shown yet, it shows with the next watermark
        assert_the_end_is_tidbs(run)
