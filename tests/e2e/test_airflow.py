"""The DAG of a changefeed in a real Airflow 3, in an environment of its own, against a real broker and registry."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import docker
import pytest
import yaml
from docker.errors import DockerException, ImageNotFound
from e2e import judging
from e2e.bank import ACCOUNT, SCHEMA, Bank
from e2e.spark_cluster import APPLICATION, SUBMIT, Cluster, java_home
from golden.warehouse import Warehouse
from support.slow import EVERY

from pipeline.runtime.jars.artefacts import cache_folder

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "airflow.txt"
VARIABLE = "TICDC_WAREHOUSE_AIRFLOW"
DAG = "ticdc_warehouse_bank"
IMAGE = "ticdc-warehouse:0.2.0"
NO_DEBT = {"expect_column_values_to_be_between": {"column": "balance", "min_value": 0}, "name": "no_debt"}
FILE = """
import sys
sys.path.insert(0, {package!r})
from pathlib import Path
from pipeline.airflow import Docker, Local, SparkSubmit, changefeed_dag


def held(context, tables):
    Path({held!r}).write_text(" ".join(tables))


dag = changefeed_dag(
    "bank", {config!r}, {execution}, report={report!r}, on_held=held, retries=0,
    environment={{
        "TICDC_WAREHOUSE__HOLD__MAX_RECORDS": "{{{{ var.value.most_held }}}}",
        "TICDC_WAREHOUSE__REGISTRY__URL":
            "http://{{{{ conn.registry.host }}}}:{{{{ conn.registry.port }}}}{{{{ conn.registry.extra_dejson.path }}}}",
        "TICDC_WAREHOUSE__REGISTRY__USERNAME": "{{{{ conn.registry.login }}}}",
        "TICDC_WAREHOUSE__REGISTRY__PASSWORD": "{{{{ conn.registry.password | tojson }}}}",
        "BY_ANOTHER_NAME": "{{{{ conn.registry.password | tojson }}}}",  # which tells nobody that it is to be masked
    }},
)
"""
DOWNSTREAM = """
import sys
sys.path.insert(0, {package!r})
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from pipeline.airflow import table_asset

with DAG("reads_accounts", schedule=[table_asset("bank", "bank.account")]):
    EmptyOperator(task_id="reads")
"""
SECRET = 's3cret #1: "of" the <connection> & ä'  # noqa: S105 - of this test
NOWHERE = {"url": "http://127.0.0.1:9"}
"""A registry that does not answer: where it is comes from Airflow's connection."""


@pytest.fixture(scope="module")
def python():
    """Airflow's own Python: named by a variable, or made in the cache (two minutes) with TICDC_WAREHOUSE_GOLDEN=all."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    folder = cache_folder() / f"airflow-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    if not (folder / "ready").exists():
        if not EVERY:
            pytest.skip(f"no Airflow: `make test-all` makes an environment for it, {VARIABLE} names the Python of one")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(LOCK)]
        subprocess.run(pip, check=True)
        (folder / "ready").touch()
    return folder / "bin" / "python"


class Office:
    """A bank, its warehouse, and an Airflow that has the DAG of its changefeed."""

    def __init__(self, python, stack, folder, execution="Local({command!r})", **changes):
        self.python, self.folder, self.stack = python, folder, stack
        self.bank = Bank(stack, 5, (ACCOUNT,))
        self.bank.open()
        self.file = self.bank.settings(folder, quality={"suites": "./checks"}, registry=NOWHERE, **changes)
        (folder / "checks").mkdir()
        self.expect(severity="warn")
        package = folder / "package"  # the package alone, and nothing beside it
        (package / "pipeline").mkdir(parents=True)
        (package / "pipeline" / "__init__.py").touch()
        (package / "pipeline" / "airflow").symlink_to(ROOT / "pipeline" / "airflow")
        (folder / "dags").mkdir()
        command = folder / "ticdc-warehouse"
        self.handed = folder / "password.yaml"
        command.write_text(
            f'#!/bin/sh\nprintf %s "$TICDC_WAREHOUSE__REGISTRY__PASSWORD" > {self.handed}\n'
            f'PYTHONPATH={ROOT} exec {sys.executable} -m pipeline "$@"\n'
        )
        command.chmod(0o755)
        self.held = folder / "held.txt"
        self.most_held = 1000
        (folder / "dags" / "bank.py").write_text(
            FILE.format(
                package=str(package), held=str(self.held), config=str(self.file), report=str(folder / "report.html"),
                execution=execution.format(command=str(command), folder=str(folder)),
            )
        )  # fmt: skip
        assert self.airflow("db", "migrate").returncode == 0

    def expect(self, **check):
        text = yaml.safe_dump({"table": "bank.account", "checks": [{**NO_DEBT, **check}]})
        (self.folder / "checks" / "account.yaml").write_text(text)

    def overdraw(self, number=77_000):
        """A row that the check does not allow."""
        writer = self.bank.database.begin()
        writer.insert(SCHEMA, "account", {"id": number, "owner": f"Bob {number}", "balance": -5})
        transaction = self.bank.database.commit(writer)
        self.bank.feed.send(transaction)
        self.bank.last_ts = transaction.commit_ts

    def airflow(self, *words):
        own = {
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
            "AIRFLOW_VAR_MOST_HELD": str(self.most_held),
            "AIRFLOW_CONN_REGISTRY": json.dumps(self.connection()),
        }
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        own |= {"JAVA_HOME": java_home()}
        line = [str(self.python), "-m", "airflow", *words]
        return subprocess.run(line, env={**environment, **own}, capture_output=True, text=True, check=False)

    def command(self, *words):
        """The product's command itself, beside Airflow."""
        line = [str(self.folder / "ticdc-warehouse"), *words, "-c", str(self.file)]
        where = {"TICDC_WAREHOUSE__REGISTRY__URL": self.stack.registry_url}
        return subprocess.run(line, env={**os.environ, **where}, capture_output=True, check=False)

    def connection(self):
        where = urlsplit(self.stack.registry_url)
        place = {"host": where.hostname, "port": where.port, "extra": {"path": where.path}}
        return {"conn_type": "http", "login": "me", "password": SECRET, **place}

    def run(self):
        """One run of the DAG behind a watermark: the state of each task, and everything that was said."""
        self.bank.checkpoint()
        return self.rerun()

    def rerun(self):
        """One run of the DAG for what is there."""
        done = self.airflow("dags", "test", DAG)
        states = self.asked(
            "SELECT task_id, state FROM task_instance WHERE run_id = "
            "(SELECT run_id FROM dag_run WHERE dag_id = ? ORDER BY id DESC LIMIT 1)", DAG
        )  # fmt: skip
        return dict(states), done.stdout + done.stderr

    def asked(self, query, *parameters):
        """What Airflow's own database says."""
        with closing(sqlite3.connect(self.folder / "airflow" / "airflow.db")) as database:
            return database.execute(query, parameters).fetchall()

    def state(self):
        """How the last run of the DAG has ended."""
        return self.asked("SELECT state FROM dag_run WHERE dag_id = ? ORDER BY id DESC LIMIT 1", DAG)[0][0]

    def events(self):
        """The tables whose assets were updated, once for each time."""
        return [name for (name,) in self.asked("SELECT a.name FROM asset_event e JOIN asset a ON a.id = e.asset_id")]

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")

    def contents(self):
        """All rows that a run may write: of both tables, with the batch that wrote them, and of the ledger."""
        warehouse = self.warehouse
        changes, batches = warehouse.changes()[f"{SCHEMA}.account"], warehouse.own("batches")
        assert changes
        assert batches
        return judging.currents(warehouse), sorted(map(repr, changes)), sorted(map(repr, batches))


@pytest.fixture(scope="module")
def office(python, stack, tmp_path_factory):
    made = Office(python, stack, tmp_path_factory.mktemp("office"))
    yield made
    made.bank.close()


SUCCESS = dict.fromkeys(("run", "checks", "report", "maintain", "done"), "success")


def test_the_dag_parses_with_its_tasks_in_order(office):
    code = (
        "import json, runpy, sys; dag = runpy.run_path(sys.argv[1])['dag'];"
        "print(json.dumps([dag.dag_id, dag.max_active_runs, dag.catchup,"
        " {t.task_id: sorted(t.upstream_task_ids) for t in dag.tasks},"
        " sorted({(t.execution_timeout.total_seconds(), t.retries) for t in dag.tasks})]))"
    )
    told = subprocess.run(
        [str(office.python), "-c", code, str(office.folder / "dags" / "bank.py")],
        env={"AIRFLOW_HOME": str(office.folder / "airflow"), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    upstream = {"run": [], "checks": ["run"], "report": ["checks"], "maintain": ["report"]}
    upstream["done"] = sorted(upstream)
    assert json.loads(told.stdout.splitlines()[-1]) == [DAG, 1, False, upstream, [[7200.0, 0]]], told.stderr


def test_a_run_fills_the_tables_and_says_which_changed(office):
    office.bank.rounds(2)
    states, said = office.run()
    assert states == SUCCESS, said[-4000:]
    assert list(judging.untrue(office.bank, office.warehouse)) == []
    assert office.events() == ["bank/bank.account"]
    assert "<html" in (office.folder / "report.html").read_text()
    assert yaml.safe_load(office.handed.read_text()) == SECRET


def test_a_secret_stands_in_no_log_and_nowhere_in_airflows_database(office):
    _, said = office.rerun()
    kept = [text for (text,) in office.asked("SELECT rendered_fields FROM rendered_task_instance_fields")]
    assert any(str(office.file) in text for text in kept)
    stored = b"".join(path.read_bytes() for path in (office.folder / "airflow").rglob("*") if path.is_file())
    assert b"rendered_task_instance_fields" in stored
    assert "s3cret" not in said
    assert b"s3cret" not in stored


def test_a_rerun_changes_nothing(office):
    before = office.contents(), office.events()
    states, _ = office.rerun()
    assert states == SUCCESS
    assert (office.contents(), office.events()) == before


def test_what_a_try_that_failed_has_committed_is_told_by_the_next_one(office):
    before = len(office.events())
    office.bank.rounds(1)
    assert office.command("run", "--available-now").returncode == 0  # as if Airflow's worker had died behind it
    states, _ = office.run()
    assert states == SUCCESS
    assert len(office.events()) == before + 1


def test_a_dag_that_reads_the_table_is_started_when_the_table_changes(office):
    (office.folder / "dags" / "reads.py").write_text(DOWNSTREAM.format(package=str(office.folder / "package")))
    assert office.airflow("dags", "reserialize").returncode == 0
    assert office.airflow("dags", "unpause", "reads_accounts").returncode == 0
    runs = "SELECT run_type FROM dag_run WHERE dag_id = 'reads_accounts'"
    office.run()
    office.airflow("scheduler", "--num-runs", "2")
    assert office.asked(runs) == []
    office.bank.rounds(1)
    office.run()
    office.airflow("scheduler", "--num-runs", "2")
    assert office.asked(runs) == [("asset_triggered",)]


def test_a_whole_table_that_breaks_a_check_fails_the_task_checks_with_the_reason(office):
    office.overdraw(76_999)
    assert office.run()[0] == SUCCESS  # it warns
    office.expect(severity="quarantine")
    states, said = office.run()
    assert states == {**SUCCESS, "checks": "failed", "done": "upstream_failed"}  # and so has the DAG
    assert office.state() == "failed"
    assert "AirflowFailException: CHECK_FAILED: on whole tables: bank.account: no_debt (quarantine)" in said


def test_a_quality_stop_fails_the_run_with_what_is_broken_and_the_report_is_written(office):
    office.expect(severity="fail")
    office.overdraw()
    states, said = office.run()
    assert states == {**SUCCESS, "run": "failed", "checks": "upstream_failed", "done": "upstream_failed"}
    assert office.state() == "failed"
    assert "AirflowFailException: CHECK_FAILED: bank.account: no_debt" in said  # the task `run` has raised it


REFUSED = """
import sys
from pipeline.airflow import WarehouseOperator

class Says:
    def command(self, words, environment):
        return sys.argv[1:]

try:
    WarehouseOperator(task_id="says", words=["run"], config="none.yaml", execution=Says()).called(["run"])
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("code", "ended", "kind"),
    [
        ("CHECK_FAILED", 1, "AirflowFailException"),
        ("OFFSETS_LOST", 1, "AirflowFailException"),
        ("KAFKA_UNREACHABLE", 1, "AirflowException"),
        ("REGISTRY_UNREACHABLE", 1, "AirflowException"),
        ("CATALOG_UNREADABLE", 1, "AirflowException"),
        ("ARTEFACTS_UNAVAILABLE", 1, "AirflowException"),
        ("WAREHOUSE_IN_USE", 1, "AirflowException"),
        ("SPARK_ENDED", 1, "AirflowException"),
        ("MAIN_MOVED", 2, "AirflowException"),
    ],
)
def test_what_may_be_over_by_then_is_tried_again(python, code, ended, kind):
    told = json.dumps({"code": code, "message": "why", "hint": "what now"}, indent=2)
    line = ["sh", "-c", f'echo "$0" >&2; echo WARNING: of the JVM >&2; exit {ended}', told]
    done = subprocess.run([python, "-c", REFUSED, *line], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == [f"{kind} {code}: why", "what now"]


FICKLE = """#!/bin/sh
echo "$@" >> {folder}/said
case "$*" in
  *"checks run"*) trap 'echo asked to end >> {folder}/said; exit 0' TERM; sleep 60 & wait ;;
  *"tables list"*) echo; echo '{{'; echo '"tables": []}}' ;;
  *"run --available-now"*)
    if [ $(grep -c available-now {folder}/said) = 1 ]; then
      printf '\n{{\n"code": "KAFKA_UNREACHABLE", "message": "no answer", "hint": "wait"}}\n' >&2
      exit 1
    fi ;;
esac
"""
IMPATIENT = """
import sys
sys.path.insert(0, {package!r})
from datetime import timedelta
from pipeline.airflow import Local, changefeed_dag

dag = changefeed_dag("fickle", "none.yaml", Local({command!r}), retries=1, retry_delay=timedelta(seconds=1),
                     timeout=timedelta(seconds=3), default_args={{"retry_exponential_backoff": False}})
"""


def test_what_passes_is_tried_again_and_what_takes_too_long_is_asked_to_end(office):
    folder = office.folder / "fickle"
    folder.mkdir()
    command = folder / "command"
    command.write_text(FICKLE.format(folder=folder))
    command.chmod(0o755)
    dag = office.folder / "dags" / "fickle.py"
    dag.write_text(IMPATIENT.format(package=str(office.folder / "package"), command=str(command)))
    try:
        done = office.airflow("dags", "test", "ticdc_warehouse_fickle")
    finally:
        dag.unlink()
    told = done.stdout + done.stderr
    asked = "SELECT task_id, state, try_number FROM task_instance WHERE dag_id = 'ticdc_warehouse_fickle'"
    states = {task: (state, tries) for task, state, tries in office.asked(asked)}
    assert states["run"] == ("success", 2), told[-4000:]
    assert states["checks"][0] == "failed"
    assert states["maintain"][0] == "success"
    assert states["done"][0] == "upstream_failed"
    said = (folder / "said").read_text().splitlines()
    assert said.count("asked to end") == sum("checks run" in line for line in said) == states["checks"][1]


HOLDING = """#!/bin/sh
case "$*" in
  *"run --available-now"*) cat {folder}/refusal >&2; [ ! -s {folder}/refusal ] ;;
  *"tables list"*) cat {folder}/tables; [ -s {folder}/tables ] ;;
esac
"""
ATTENTIVE = """
import sys
sys.path.insert(0, {package!r})
from pipeline.airflow import Local, changefeed_dag


def held(context, tables):
    with open({told!r}, "a") as file:
        print(*tables, file=file)
    assert "bad" not in tables[0], "a callback of no use"


dag = changefeed_dag("holding", "none.yaml", Local({command!r}), checks=False, retries=0, on_held=held)
"""


class Holding:
    """A DAG whose command says what it is to say, and what its `on_held` was told."""

    def __init__(self, office):
        self.office, self.folder = office, office.folder / "holding"
        self.folder.mkdir()
        command, self.told = self.folder / "command", self.folder / "told"
        command.write_text(HOLDING.format(folder=self.folder))
        command.chmod(0o755)
        self.told.touch()
        self.dag = office.folder / "dags" / "holding.py"
        package = str(office.folder / "package")
        self.dag.write_text(ATTENTIVE.format(package=package, told=str(self.told), command=str(command)))

    def run(self, held, refusal=""):
        """One run where these tables are held, by reason; without `held` nobody can say so."""
        listed = [{"source": name, "state": "held", "held_because": why, "changes": 1} for name, why in held.items()]
        (self.folder / "tables").write_text("\n" + json.dumps({"tables": listed}, indent=2) if held else "")
        told = {"code": refusal, "message": "why", "hint": "what now"}
        (self.folder / "refusal").write_text("\n" + json.dumps(told, indent=2) if refusal else "")
        before = len(self.told.read_text())
        done = self.office.airflow("dags", "test", "ticdc_warehouse_holding")
        return done.stdout + done.stderr, self.told.read_text()[before:].split()


def test_who_wants_to_know_of_held_tables_is_told_once_and_also_by_a_run_that_fails(office):
    holding = Holding(office)
    try:
        said, told = holding.run({"shop.a": "CHECK_FAILED"}, "HELD_TOO_MANY")
        assert "AirflowFailException: HELD_TOO_MANY: why" in said
        assert told == ["shop.a"]
        assert holding.run({"shop.a": "CHECK_FAILED"})[1] == []
        assert holding.run({"shop.a": "QUARANTINE_LIMIT", "shop.b": "NO_HANDLE_KEY"})[1] == ["shop.a", "shop.b"]
        assert holding.run({"shop.a": "QUARANTINE_LIMIT"})[1] == []  # the other was released
        assert "AirflowFailException: HELD_TOO_MANY: why" in holding.run({}, "HELD_TOO_MANY")[0]
        said, told = holding.run({"shop.bad": "NO_HANDLE_KEY"}, "HELD_TOO_MANY")
        assert "AirflowFailException: HELD_TOO_MANY: why" in said
        assert "a callback of no use" in said
        assert told == ["shop.bad"]
        said, told = holding.run({"shop.bad": "NO_HANDLE_KEY"})
        assert told == ["shop.bad"]  # it did not come through
        assert "a callback of no use" in said
        assert "holding/shop.bad" not in office.events()  # the task has failed
        holding.run({"shop.a": "OTHER", "shop.bad": "NO_HANDLE_KEY"})
        assert office.events().count("holding/shop.bad") == 1
    finally:
        holding.dag.unlink()


def test_a_held_table_is_told_and_the_rest_goes_on(office):
    office.expect(severity="hold")
    states, _ = office.run()
    assert states["run"] == "success"
    assert office.held.read_text() == "bank.account"


def test_a_table_that_is_held_by_a_run_that_fails_is_told_and_then_not_again(office):
    assert office.command("tables", "release", f"{SCHEMA}.account").returncode == 0
    assert office.run()[0]["run"] == "success"  # nothing is held
    office.held.unlink()
    office.most_held = 1
    office.overdraw(77_001)
    office.overdraw(77_002)
    states, said = office.run()
    assert states["run"] == "failed"
    assert "AirflowFailException: HELD_TOO_MANY" in said
    assert office.held.read_text() == "bank.account"
    office.held.unlink()
    office.most_held = 1000
    assert office.run()[0]["run"] == "success"
    assert not office.held.exists()


def test_a_run_on_a_spark_cluster(python, stack, tmp_path):
    cluster = Cluster(tmp_path)
    execution = f"SparkSubmit({str(APPLICATION)!r}, '{{folder}}/spark.properties', spark_submit={str(SUBMIT)!r})"
    office = Office(python, stack, tmp_path / "office", execution, spark={"master": cluster.url})
    with (office.folder / "spark.properties").open("w") as told:
        words = ["-m", "pipeline", "config", "spark-submit", "-c", str(office.file)]
        subprocess.run([sys.executable, *words], cwd=ROOT, stdout=told, check=True)
    try:
        office.bank.rounds(2)
        states, said = office.run()
        assert states == SUCCESS, said[-4000:]
        assert list(judging.untrue(office.bank, office.warehouse)) == []
        assert cluster.applications() >= len(("run", "checks", "maintain"))
        assert "pipeline.service.telemetry" in said  # the log, which spark-submit prints on stdout
        office.expect(severity="fail")
        office.overdraw()
        states, said = office.run()
        assert states["run"] == "failed"
        assert "CHECK_FAILED" in said
    finally:
        office.bank.close()
        cluster.stop()


@pytest.fixture(scope="module")
def image():
    """The image of this repository, in an engine that answers."""
    build = ["docker", "build", "--quiet", "-f", "docker/Dockerfile", "-t", IMAGE, "."]
    try:
        docker.from_env().images.get(IMAGE)
    except ImageNotFound:
        if not EVERY:
            pytest.skip(f"no image {IMAGE}: {' '.join(build)}")
        subprocess.run(build, cwd=ROOT, check=True)
    except DockerException as error:
        pytest.skip(f"no Docker engine: {error}")
    return IMAGE


def test_a_run_in_a_container(python, stack, image, tmp_path):
    folder = tmp_path / "office"
    volume = f"{folder}:{folder}"
    execution = f"Docker({image!r}, ({volume!r},), network='host', options=('--user=0:0', '--memory=4g'))"
    office = Office(python, stack, folder, execution)
    try:
        office.bank.rounds(2)
        states, said = office.run()
        assert states == SUCCESS, said[-4000:]
        assert list(judging.untrue(office.bank, office.warehouse)) == []
    finally:
        office.bank.close()


KILLED = """
import sys, threading, time
from pathlib import Path
from pipeline.airflow import Docker, WarehouseOperator, operator

operator.GRACE_SECONDS = 1
folder, image = sys.argv[1:]
options = (f"--entrypoint={folder}/stubborn", "--user=0:0", "--name=not-this")
docker = Docker(image, (f"{folder}:{folder}",), options=options)
task = WarehouseOperator(task_id="lasts", words=["run"], config="none.yaml", execution=docker)


def kill():
    while not Path(folder, "started").exists():
        time.sleep(0.1)
    task.on_kill()


killer = threading.Thread(target=kill)
killer.start()
try:
    task.called(["run"])
except Exception as error:
    print(error)
killer.join()
"""


def test_a_container_does_not_outlive_its_task(python, image, tmp_path):
    stubborn = tmp_path / "stubborn"
    stubborn.write_text(f"#!/bin/sh\ntrap '' TERM\ntouch {tmp_path}/started\nsleep 300\n")
    stubborn.chmod(0o755)
    mine = {"filters": {"volume": str(tmp_path)}, "all": True}
    line = [python, "-c", KILLED, str(tmp_path), image]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert "ended by SIGKILL" in done.stdout
    engine, until = docker.from_env(), time.monotonic() + 20
    while (left := engine.containers.list(**mine)) and time.monotonic() < until:
        time.sleep(0.5)
    for container in left:
        container.remove(force=True)
    assert left == []
