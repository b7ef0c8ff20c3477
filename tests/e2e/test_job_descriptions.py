"""What Spark's jobs say that they are for: its event log and its web page tell them apart by nothing else."""

import json
import logging

import pytest
from e2e.bank import ACCOUNT, SCHEMA
from e2e.test_cut_quality import no_debt
from e2e.test_taken_names import Uncut
from e2e.till import EXCHANGE_PARTITION, NAME, Till

from pipeline.cli import main
from pipeline.observe import logs

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

PUZZLE = "ALTER TABLE `bank`.`account` EXCHANGE PARTITION `p` WITH TABLE `bank`.`other`"


class Jobs:
    """The descriptions of the jobs that have ended since they were last asked for."""

    def __init__(self, spark):
        self._context = spark.sparkContext._jsc.sc()
        self._last = -1
        self.new()

    def new(self):
        self._context.listenerBus().waitUntilEmpty()
        listed, found = self._context.statusStore().jobsList(None).iterator(), {}
        while listed.hasNext():
            job = listed.next()
            found[job.jobId()] = job.description().get() if job.description().isDefined() else None
        fresh = {said for number, said in found.items() if number > self._last}
        self._last = max([self._last, *found])
        return fresh


def of_iceberg(said):
    """The descriptions that Iceberg's actions give to jobs of theirs."""
    return {one for one in said if one and one.startswith("Rewriting ") and " in " in one}


@pytest.fixture
def jobs(spark):
    return Jobs(spark)


@pytest.fixture
def steps(capsys):
    """The durable steps that were logged since, each with its batch and table."""
    handlers, level = logging.getLogger().handlers[:], logging.getLogger("pipeline").level
    logs.configure(logs.LogFormat.JSON, debug=True)

    def read():
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
        events = [event for event in map(json.loads, lines) if event["event"] == "step"]
        return {(event["step"], event.get("batch"), event.get("table")) for event in events}

    yield read
    logging.getLogger().handlers = handlers
    logging.getLogger("pipeline").setLevel(level)


def test_jobs_and_log_events_of_a_batch_of_its_compaction_and_of_operations_say_so(stack, tmp_path, jobs, steps):
    till = Till(stack, tmp_path, "simple")
    till.set("warehouse", maintenance={"compact_files": 2, "expire_after_commits": 1, "keep_snapshots": 1})
    till.accounts((1, 500))
    till.run()
    jobs.new()
    till.accounts((2, 500))
    till.note("one")
    steps()
    till.run()
    told, said = steps(), jobs.new()
    assert {own for own in said if not own.startswith("batch 1: ")} == (compacted := of_iceberg(said)), said
    assert any("bank.account__changes" in one for one in compacted), said
    assert {"batch 1: route", "batch 1: few rows, for the driver", "batch 1: ledger"} <= said, said
    # What the driver appends needs no job of the table's, and linked files need none.
    assert not {own for own in said if own.startswith("batch 1: bank.account: ")}, said
    assert {
        ("changes-appended", 1, "bank.account"), ("published", 1, "bank.account"), ("ledger-appended", 1, None),
        ("compacted", 1, "bank.account__changes"), ("expired", 1, "bank.account"), ("expired", 1, "_pipeline.cuts"),
    } <= told, told  # fmt: skip
    assert main(["tables", "rebuild", str(NAME), "-c", str(till.file)]) == 0
    assert jobs.new() == {"rebuild bank.account"}
    assert main(["tables", "maintain", "-c", str(till.file)]) == 0
    said = jobs.new()
    assert said - of_iceberg(said) == {"forget cuts"}
    till.feed.close()


@pytest.mark.slow
def test_jobs_of_a_release_say_so(stack, tmp_path, jobs):
    uncut = Uncut(stack, tmp_path)
    uncut.say(ACCOUNT, PUZZLE, EXCHANGE_PARTITION, ACCOUNT.name)
    uncut.account(ACCOUNT, 2)
    uncut.run()
    said = jobs.new()
    assert {f"batch 1: {SCHEMA}.account: hold", "batch 1: ledger"} <= said, said
    assert uncut.release(NAME) > 0
    said = jobs.new() - {"open the warehouse"}
    assert {one.partition(":")[0] for one in said} == {"release"}, said
    assert {f"release: {SCHEMA}.account{what}" for what in ("", ": append changes")} <= said, said
    uncut.bank.close()


@pytest.mark.slow
def test_jobs_of_a_redrive_and_of_checks_on_whole_tables_say_so(stack, tmp_path, jobs):
    till = Till(stack, tmp_path, "simple")
    till.expect(no_debt("quarantine"))
    till.accounts((1, 500), (2, -5))
    till.run()
    till.expect()
    jobs.new()
    assert till.redrive().redriven == 1
    assert jobs.new() - {"open the warehouse"} == {"redrive quarantine", "redrive bank.account"}
    till.expect(no_debt("warn"))
    assert main(["checks", "run", "-c", str(till.file)]) == 0
    said = jobs.new() - {"open the warehouse"}
    assert said == {"bank.account: checks on the whole table", "checks on whole tables: ledger"}
    till.feed.close()
