"""The process dies behind every durable step, and at random moments: the tables come out as if it had not."""

import os
import random
import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from e2e import judging
from e2e.bank import ENTRY, NOTE, Bank
from e2e.deaths import die_here, do_here
from e2e.processes import Process, Workers
from e2e.test_cut_kills import STEPS as CUT_STEPS
from golden.warehouse import Warehouse
from support.slow import EVERY

from pipeline.errors import SettingsError
from pipeline.runtime.failpoints import STEPS, VARIABLE, FailPoints

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

KILLS = int(os.environ.get("TICDC_WAREHOUSE_KILLS", "1"))
SEED = int(os.environ.get("TICDC_WAREHOUSE_SEED", "11"))
BY_CUT = {"partitions-removed", "pending-held", "schemas-appended", "pending-released"}
"""Steps that only the ordering by commit ts has."""
ROOT = Path(__file__).parents[2]
RUN = ("run", "--available-now")
RELEASE = ("tables", "release", "bank.note")
MAINTAIN = {
    f"TICDC_WAREHOUSE__WAREHOUSE__MAINTENANCE__{key}": value
    for key, value in {
        "COMPACT_FILES": "2",
        "COMPACT_DELETES": "2",
        "EXPIRE_AFTER_COMMITS": "1",
        "KEEP_SNAPSHOTS": "4",
        "KEEP_FOR": "1 second",
    }.items()
}
SMALL = {"TICDC_WAREHOUSE__SOURCE__MAX_OFFSETS_PER_TRIGGER": "40"}


@dataclass(frozen=True)
class Act:
    """What the source does, and the step behind which the process that takes it dies (`@3`: the third time).

    `rare`: only with all cases, because the step leaves little that is not there behind its neighbours, too. `real`: a
    process of its own is killed, as all are with all cases; else the run is left in this one.
    """

    step: str
    source: tuple[str, ...] = ()
    words: tuple[str, ...] = RUN
    environment: dict[str, str] = field(default_factory=dict)
    rare: bool = False
    real: bool = EVERY

    def prepare(self, bank):
        for word in self.source:
            {
                "round": lambda: bank.rounds(1),
                "rubbish": bank.rubbish,
                "torn": bank.torn,
                "column": bank.add_column,
                "truncate": lambda: bank.truncate(ENTRY),
                "puzzle": lambda: bank.puzzle(NOTE),
            }[word]()


UNTIL_THE_RELEASE = (
    Act("read", rare=True),
    Act("ddl-applied", rare=True),
    Act("ddl-applied@3", rare=True),
    Act("evolved", rare=True),
    Act("changes-appended", ("round",), real=True),
    Act("unreadable-set-aside@3", ("torn", "round")),
    Act("quarantined", rare=True),
    Act("linked"),
    Act("published"),
    Act("results-appended", rare=True),
    Act("cuts-appended", rare=True),
    Act("ledger-appended", rare=True),
    # the newest record of a partition is set aside, then the ledger is written, then Spark forgets it
    Act("dead-letters-appended", ("round", "rubbish")),
    Act("ledger-appended"),
    Act("dead-letters-appended", ("rubbish",), rare=True),  # a batch of which nothing else is left
    Act("before-spark-commit"),
    Act("backfilled", ("column", "round"), rare=True),
    Act("branch-made", ("truncate", "round"), rare=True),
    Act("truncated", rare=True),
    Act("keys-deleted", rare=True),
    Act("staged", rare=True),
    Act("held-appended", ("puzzle", "round")),  # the statement is of this batch
    Act("held-appended", ("round",), rare=True),
    Act("ledger-appended", rare=True),
)
FROM_THE_RELEASE_ON = (
    Act("release-begun", (), RELEASE, rare=True),
    Act("release-appended", ("round",), RELEASE),
    Act("released"),
    Act("compacted", ("round",), RUN, MAINTAIN, rare=True, real=True),
    Act("expired", ("round", "round", "round"), RUN, {**MAINTAIN, **SMALL}, rare=True, real=True),
)
ACTS = (*UNTIL_THE_RELEASE, *FROM_THE_RELEASE_ON)


def usual(acts):
    """The acts that are played."""
    return [act for act in acts if EVERY or not act.rare]


class History:
    """One source and two warehouses: one whose processes die, and one that is left in peace."""

    def __init__(self, stack, folder):
        self.bank = Bank(stack, SEED)
        self.folder = folder
        self.file = self.bank.settings(folder / "killed", "")
        self.calm_file = self.file
        self.deaths = []
        self.moments = []

    @property
    def killed(self):
        return Warehouse.at(self.file.parent / "warehouse")

    @property
    def calm(self):
        return Warehouse.at(self.calm_file.parent / "warehouse")

    def pass_through(self):
        self._begin()
        with Workers(self.file) as many:
            for act in usual(UNTIL_THE_RELEASE):
                self._die_at(act, many)
            do_here(self.calm_file, RUN)
            do_here(self.calm_file, RELEASE)
            do_here(self.file, RUN)
            for act in usual(FROM_THE_RELEASE_ON):
                self._die_at(act, many)
            self.bank.rounds(4 * KILLS)
            dice = random.Random(SEED)  # noqa: S311 - no secret
            for number in range(KILLS):
                self._die_anywhere(many.take(more=number + 1 < KILLS), dice)
            self.bank.rubbish()
            self.bank.rounds(1)
        do_here(self.calm_file, RUN)
        last = Process.command(self.file, *RUN)
        assert last.ended() == 0, last.complaint()

    def _begin(self):
        """A first batch, in peace; where many processes follow, the classes that it loads let them start sooner."""
        self.bank.open()
        self.bank.rounds(1)
        self.calm_file = self.bank.settings(self.folder / "calm", "")
        if not EVERY:
            do_here(self.calm_file, RUN)
            return
        archive = self.folder / "classes.jsa"
        with Workers(self.bank.settings(self.folder / "calm", f"-XX:ArchiveClassesAtExit={archive}")) as workers:
            first = workers.take(more=False)
            assert first.done(*RUN) == 0, first.complaint()
            first.leave()
        self.file = self.bank.settings(self.folder / "killed", f"-XX:SharedArchiveFile={archive}")

    def _die_at(self, act, workers):
        act.prepare(self.bank)
        if not act.real:
            assert die_here(self.file, act.words, act.environment, act.step), f"{act} was not passed"
            self.deaths.append(f"step {act.step.partition('@')[0]}")
            return
        worker = workers.take(more=EVERY)
        worker.tell(*act.words, **act.environment, **{VARIABLE: act.step})
        assert worker.until("ended ") is None, f"{act} was not passed:\n{worker.complaint()}"
        assert worker.ended() == -signal.SIGKILL
        self.deaths.append(worker.said[-1])

    def _die_anywhere(self, worker, dice):
        began = time.monotonic()
        worker.tell(*RUN, **SMALL)
        assert worker.until("step read") is not None, worker.complaint()
        opened = time.monotonic() - began
        time.sleep(dice.uniform(0, 1.5 * opened))  # on a slow machine batches are as slow as the beginning
        assert worker.lives, worker.complaint()
        worker.kill()
        self.moments.append(f"{worker.said.count('step ledger-appended')} batches, then {worker.said[-1]}")


@pytest.fixture(scope="module")
def history(stack, tmp_path_factory):
    made = History(stack, tmp_path_factory.mktemp("kills"))
    try:
        made.pass_through()
        yield made
    finally:
        made.bank.close()


def assert_none(sentences):
    found = list(sentences)
    assert not found, "\n".join(found[:20])


class TestKills:
    def test_every_step_has_killed_its_process_there(self, history):
        assert [said.removeprefix("step ") for said in history.deaths] == [
            a.step.partition("@")[0] for a in usual(ACTS)
        ]

    def test_so_many_random_kills_came_to_pass(self, history):
        print("\n".join(history.moments))  # noqa: T201
        assert len(history.moments) == KILLS

    def test_current_tables_are_the_sources_rows(self, history):
        assert_none(judging.untrue(history.bank, history.calm))
        assert_none(judging.untrue(history.bank, history.killed))

    def test_current_tables_are_equal_row_by_row(self, history):
        assert set(judging.currents(history.calm)) == {"bank.account", "bank.entry", "bank.note"}
        assert_none(judging.differences(judging.currents(history.killed), judging.currents(history.calm)))

    def test_no_coordinate_stands_twice(self, history):
        assert_none(judging.placed_twice(history.killed))

    def test_changes_are_equal_but_for_the_number_of_the_batch(self, history):
        assert_none(judging.differences(judging.changes(history.killed), judging.changes(history.calm)))

    def test_dead_letters_are_equal(self, history):
        killed, calm = (judging.aside(warehouse, "dead_letters") for warehouse in (history.killed, history.calm))
        assert {code for *_, code, _ in calm} == {"NOT_CONFLUENT", "AVRO_VALUE_UNREADABLE"}
        assert_none(judging.differences(killed, calm))

    def test_what_was_held_is_released_and_was_rightly_held(self, history):
        """A batch holds its table's records whole, so that the one with the longer batches has held more."""
        killed, calm = (judging.aside(warehouse, "held") for warehouse in (history.killed, history.calm))
        assert killed
        assert set(killed) <= set(calm)
        assert {row["status"] for row in history.killed.own("held")} == {"released"}

    def test_every_record_is_in_one_place(self, history):
        assert_none(judging.astray(history.bank, history.killed))

    @pytest.mark.parametrize("which", ["calm", "killed"])
    def test_every_batch_adds_up(self, history, which):
        assert_none(judging.unaccounted(history.bank, getattr(history, which)))

    @pytest.mark.parametrize("which", ["calm", "killed"])
    def test_cuts_show_what_was_there(self, history, which):
        assert_none(judging.cut_short(getattr(history, which)))

    def test_both_end_at_the_same_cut(self, history):
        newest = [max(cut["cut_ts"] for cut in w.own("cuts")) for w in (history.killed, history.calm)]
        assert newest == [history.bank.last_ts] * 2

    @pytest.mark.parametrize(
        ("name", "columns"),
        [
            ("ddl_history", ("commit_ts", "schema_name", "table_name", "ddl_type", "sql")),
            ("schemas", ("schema_name", "table_name", "version", "columns")),
            ("tables", ("schema_name", "table_name", "warehouse_name", "handle_columns", "state")),
        ],
    )
    def test_what_was_said_of_the_tables_is_equal(self, history, name, columns):
        killed, calm = (judging.said(warehouse, name, *columns) for warehouse in (history.killed, history.calm))
        assert_none(judging.differences(killed, calm))


class TestFailPoints:
    def test_every_step_of_the_product_is_killed_behind(self):
        elsewhere = {"speculated"}  # test_speculation.py: not in a stream with watermarks
        elsewhere |= {step for step in STEPS if step.startswith("redrive-")}  # test_quality.py
        elsewhere |= (BY_CUT | {"rows-written"}) & CUT_STEPS
        elsewhere |= {"release-stepped-aside"}  # tests/unit/batch_model: names that change in a circle
        assert {act.step.partition("@")[0] for act in ACTS} | elsewhere == set(STEPS)

    def test_every_step_of_the_product_is_listed(self):
        sources = [file.read_text() for file in (ROOT / "pipeline").rglob("*.py")]
        assert {step for text in sources for step in re.findall(r'\bstep\("([^"]+)"\)', text)} == set(STEPS)

    def test_a_fail_point_that_does_not_exist_is_refused(self):
        with pytest.raises(SettingsError, match="changes-appended"):
            FailPoints("changes_appended")
