"""By commit ts too the process dies behind every durable step, and the tables come out as TiDB's."""

import json
import math
import shutil
import signal
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from e2e import judging
from e2e.deaths import die_here, do_here
from e2e.processes import Workers, spark_of
from golden.checking import set_aside, tables_are_those_of_tidb
from golden.checking_cut import AHEAD, changes_differ, cut_of_the_end, cuts_differ, ddl_untold, state_differs
from golden.comparing import assert_none
from golden.corpus import GoldenCase
from golden.delivery import dice_of, in_partitions, uneven
from golden.loading import load
from golden.moments import resolved, tables_at
from golden.warehouse import Warehouse
from support.slow import EVERY

from pipeline.runtime.failpoints import VARIABLE

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

SIMPLE, CANAL = GoldenCase("ddl", "simple_json"), GoldenCase("ddl", "canal_json_content_compatible")
PARTITIONS = 3
RUN = ("run", "--available-now")
SMALL = {"TICDC_WAREHOUSE__SOURCE__MAX_OFFSETS_PER_TRIGGER": "28"}
"""With batches that end anywhere one partition shows a DDL, and rows behind it, before the others do."""


@dataclass(frozen=True)
class Act:
    """The step behind which the process dies (`@3`: the third time), and the scenario's step up to which is sent first.

    `spoil`: with records that nobody can read. `forget`: Spark's checkpoint is lost before. `rare`: only with all
    cases, because what the process leaves is no other than by offset (test_kills.py), or little. `real`: a process of
    its own is killed, as all are with all cases; else the run is left in this one.
    """

    step: str
    upto: int = 0
    spoil: bool = False
    forget: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    rare: bool = False
    real: bool = EVERY


@dataclass(frozen=True)
class Tale:
    """Acts, behind a first run in peace that takes everything up to a step; what is sent ends with another step."""

    name: str
    in_peace: int
    acts: tuple[Act, ...]
    end: int
    case: GoldenCase = SIMPLE

    def pieces(self):
        """The records for the first run, for each act that sends some, and for the last run."""
        sent = [record for record in in_partitions(self.case, PARTITIONS) if record.step <= self.end]
        ends = [self.in_peace, *(act.upto for act in self.acts if act.upto)]
        cuts = [next(at for at, record in enumerate(sent) if record.step > end) for end in ends]
        pieces = list(uneven(sent, cuts, dice_of("kills", self.name)))
        assert len(pieces) == len(cuts) + 1
        return pieces


ONE_TABLE = Tale(
    "one-table",
    5,
    (
        Act("read", 12, rare=True),
        Act("ddl-applied@3", 20, forget=True),
        Act("evolved", rare=True),
        Act("changes-appended", 26, forget=True),  # the retry is longer than the range that was appended
        Act("keys-deleted", rare=True),
        Act("published"),
        Act(
            "pending-held", 40, forget=True, environment=SMALL, real=True
        ),  # and shorter than the one that was published
        Act("pending-released", environment=SMALL),
        Act("changes-appended", 54, forget=True),  # what waited, in a longer range
        Act("results-appended", rare=True),
        Act("cuts-appended@2", 68, environment=SMALL, rare=True),
        Act("schemas-appended"),
        Act("ledger-appended"),
    ),
    75,
)
MANY_TABLES = Tale(
    "many-tables",
    75,
    (
        Act("rows-written@2", 95),
        Act("changes-appended@3"),
        Act("linked@2", forget=True),
        Act("published@2", 101),
        Act("partitions-removed", 112),
        Act("partitions-removed@2"),
        Act("published@3", 117),  # a partition and a table change places: one of them has
        Act("dead-letters-appended", 128, spoil=True),
        Act("unreadable-set-aside@2"),
        Act("before-spark-commit", 134, environment=SMALL),
        Act("cuts-appended", 142, forget=True),
    ),
    146,
)
BY_CANAL_JSON = Tale(
    "canal-json",
    5,
    (
        Act("ddl-applied@3", 20, forget=True),
        Act("changes-appended", 26, forget=True),
        Act("published"),
        Act("changes-appended", 40, environment=SMALL),
        Act("published", 54, forget=True),
        Act("ledger-appended", 68, environment=SMALL),
        Act("before-spark-commit"),
    ),
    75,
    CANAL,
)
TALES = (ONE_TABLE, MANY_TABLES, BY_CANAL_JSON)
SHORTENED = replace(ONE_TABLE, acts=tuple(act for act in ONE_TABLE.acts if not act.rare))
STEPS = {act.step.partition("@")[0] for tale in TALES for act in tale.acts}


class History:
    """TiCDC's own bytes over several partitions, and a warehouse whose processes die."""

    def __init__(self, tale, stack, folder):
        self.tale = tale
        self.loaded = load(tale.case, stack, f"kills-{tale.name}", PARTITIONS)
        self.folder = folder
        self.deaths = []
        self.letters = 0
        self.pieces = tale.pieces()

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")

    def pass_through(self):
        file = self._settings("")
        self.loaded.produce(self.pieces.pop(0))
        if EVERY:  # many processes: the classes that the first one loads make the others start twice as fast
            archive = self.folder / "classes.jsa"
            with Workers(self._settings(f"-XX:ArchiveClassesAtExit={archive}")) as workers:
                first = workers.take(more=False)
                assert first.done(*RUN) == 0, first.complaint()
                first.leave()
            file = self._settings(f"-XX:SharedArchiveFile={archive}")
        else:
            do_here(file, RUN)
        with Workers(file) as workers:
            for act in self.tale.acts:
                self._prepare(act)
                if act.real:
                    self._kill_at(act, workers.take(more=EVERY and act is not self.tale.acts[-1]))
                else:
                    assert die_here(file, RUN, act.environment, act.step), f"{act} was not passed"
                    self.deaths.append(f"step {act.step.partition('@')[0]}")
        self.loaded.produce(self.pieces.pop(0))
        assert not self.pieces
        do_here(file, RUN)

    def _settings(self, java):
        tree = self.loaded.settings_tree(self.folder, warehouse={"table_threads": 2}, spark=spark_of(java))
        file = self.folder / "ticdc-warehouse.yaml"
        file.write_text(json.dumps(tree))  # JSON is YAML
        return file

    def _prepare(self, act):
        if act.upto:
            self.loaded.produce(self.pieces.pop(0))
        if act.spoil:
            self._spoil()
        if act.forget:
            shutil.rmtree(self.folder / "checkpoint" / "spark")

    def _kill_at(self, act, worker):
        worker.tell(*RUN, **act.environment, **{VARIABLE: act.step})
        assert worker.until("ended ") is None, f"{act} was not passed:\n{worker.complaint()}"
        assert worker.ended() == -signal.SIGKILL
        self.deaths.append(worker.said[-1])

    def _spoil(self):
        """Send what is no message, to each partition, and a row whose key is no number."""
        row = next(record for record in reversed(self.loaded.sent) if record.table == "d.src" and record.kind == "row")
        told = json.loads(row.value)
        told["data"]["id"] = "one"
        records = [replace(row, partition=at, kind="spoiled", value=b"no message") for at in range(PARTITIONS)]
        records.append(replace(row, kind="spoiled", value=json.dumps(told).encode()))
        self.loaded.produce(records)
        self.letters += len(records)


@pytest.fixture(scope="module", params=TALES if EVERY else (SHORTENED,), ids=lambda tale: tale.name)
def history(request, stack, tmp_path_factory):
    made = History(request.param, stack, tmp_path_factory.mktemp(request.param.name))
    made.pass_through()
    return made


def name_of(row):
    return f"{row['schema_name']}.{row['table_name']}"


class TestCutKills:
    def test_every_step_has_killed_its_process_there(self, history):
        died = [said.removeprefix("step ") for said in history.deaths]
        assert died == [act.step.partition("@")[0] for act in history.tale.acts]

    def test_current_tables_are_tidbs(self, history):
        assert tables_at(history.tale.case, resolved(history.loaded.sent))
        assert_none(list(tables_are_those_of_tidb(history.tale.case, history.warehouse)))
        assert_none(list(state_differs(history.loaded, history.warehouse)))

    def test_every_change_stands_once_where_it_was_sent(self, history):
        assert_none(list(changes_differ(history.loaded, history.warehouse)))
        assert list(judging.placed_twice(history.warehouse)) == []

    def test_rows_and_statements_have_waited_and_wait_no_more(self, history):
        held = history.warehouse.own("held")
        assert {row["status"] for row in held} <= {"released"}
        assert {row["reason"].partition(":")[0] for row in held} <= {"DDL_PENDING"}
        if "pending-held" in {act.step for act in history.tale.acts}:
            assert {json.loads(row["value"])["type"] for row in held} >= {"ALTER", "INSERT"}

    def test_nothing_is_set_aside_but_what_is_no_message(self, history):
        codes = Counter(row["code"] for row in history.warehouse.own("dead_letters"))
        spoiled = {"SIMPLE_UNREADABLE": PARTITIONS, "SIMPLE_VALUE_UNREADABLE": 1}
        assert codes == (spoiled if history.letters else {})
        assert len(list(set_aside(history.tale.case, history.warehouse))) == history.letters

    def test_every_ddl_is_in_the_history_once(self, history):
        assert_none(list(ddl_untold(history.loaded, history.warehouse)))
        told = Counter(
            (row["commit_ts"], row["sql"], row["ddl_type"], name_of(row))
            for row in history.warehouse.own("ddl_history") if row["sql"]
        )  # fmt: skip
        clauses = {about: about[1].count("ADD COLUMN") if about[2] == "AddColumn" else 1 for about in told}
        assert told == clauses

    def test_a_cut_is_exact_unless_something_is_open(self, history):
        cuts, letters = history.warehouse.own("cuts"), history.warehouse.own("dead_letters")
        since = min((letter["batch_id"] for letter in letters), default=math.inf)
        early = {(row["level"], row["reason"]) for row in cuts if row["batch_id"] < since}
        ahead = ("partial", AHEAD)  # a second try may be shorter
        assert early - {ahead} == {("exact", "")}
        found = {(row["level"], row["reason"]) for row in cuts if row["batch_id"] >= since}
        assert found == ({("partial", f"{history.letters} dead letters")} if letters else set())

    def test_no_cut_goes_back(self, history):
        cuts = sorted(history.warehouse.own("cuts"), key=lambda row: row["recorded_at"])
        assert [row["cut_ts"] for row in cuts] == sorted(row["cut_ts"] for row in cuts)

    def test_cuts_show_tidbs_tables_of_their_moment(self, history):
        assert_none(list(cuts_differ(history.loaded, history.warehouse)))
        assert_none(list(cut_of_the_end(history.loaded.sent, history.warehouse)))

    def test_each_version_is_told_in_one_way(self, history):
        told = {(name_of(row), row["version"], row["columns"]) for row in history.warehouse.own("schemas")}
        assert len({about[:2] for about in told}) == len(told)

    def test_no_branch_is_left(self, history):
        branches = history.warehouse.branches()
        assert {name for name, found in branches.items() if found - {"main"}} == set()
