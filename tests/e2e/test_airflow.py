"""The DAG of a changefeed in a real Airflow 3, in an environment of its own, against a real broker and registry."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
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
from golden.corpus import EVERY
from golden.warehouse import Warehouse

from pipeline.devstack.artefacts import cache_folder

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "airflow.txt"
VARIABLE = "TICDC_WAREHOUSE_AIRFLOW"
DAG = "ticdc_warehouse_bank"
IMAGE = "ticdc-warehouse:0.1.0"
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
SECRET = "s3cret #1: of the connection"  # noqa: S105 - of this test
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
        command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m pipeline "$@"\n')
        command.chmod(0o755)
        self.held = folder / "held.txt"
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

    def overdraw(self):
        """A row that the check does not allow."""
        writer = self.bank.database.begin()
        writer.insert(SCHEMA, "account", {"id": 77_000, "owner": "Bob", "balance": -5})
        transaction = self.bank.database.commit(writer)
        self.bank.feed.send(transaction)
        self.bank.last_ts = transaction.commit_ts

    def airflow(self, *words):
        own = {
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
            "AIRFLOW_VAR_MOST_HELD": "1000",
            "AIRFLOW_CONN_REGISTRY": json.dumps(self.connection()),
        }
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        own |= {"JAVA_HOME": java_home()}
        line = [str(self.python), "-m", "airflow", *words]
        return subprocess.run(line, env={**environment, **own}, capture_output=True, text=True, check=False)

    def connection(self):
        where = urlsplit(self.stack.registry_url)
        place = {"host": where.hostname, "port": where.port, "extra": {"path": where.path}}
        return {"conn_type": "http", "login": "me", "password": SECRET, **place}

    def run(self):
        """One run of the DAG: the state of each task, and everything that was said."""
        self.bank.checkpoint()
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

    def events(self):
        """The tables whose assets were updated, once for each time."""
        return [name for (name,) in self.asked("SELECT a.name FROM asset_event e JOIN asset a ON a.id = e.asset_id")]

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")


@pytest.fixture(scope="module")
def office(python, stack, tmp_path_factory):
    made = Office(python, stack, tmp_path_factory.mktemp("office"))
    yield made
    made.bank.close()


SUCCESS = {"run": "success", "checks": "success", "report": "success", "maintain": "success"}


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
    upstream = {"run": [], "checks": ["run"], "report": ["checks"], "maintain": ["checks", "report"]}
    assert json.loads(told.stdout.splitlines()[-1]) == [DAG, 1, False, upstream, [[7200.0, 0]]], told.stderr


def test_a_run_fills_the_tables_and_says_which_changed(office):
    office.bank.rounds(2)
    states, said = office.run()
    assert states == SUCCESS, said[-4000:]
    assert list(judging.untrue(office.bank, office.warehouse)) == []
    assert office.events() == ["bank/bank.account"]
    assert "<html" in (office.folder / "report.html").read_text()
    assert SECRET not in said


def test_a_rerun_changes_nothing(office):
    before = office.warehouse.current(f"{SCHEMA}.account").rows, office.events()
    states, _ = office.run()
    assert states == SUCCESS
    assert (office.warehouse.current(f"{SCHEMA}.account").rows, office.events()) == before


def test_what_a_try_that_failed_has_committed_is_told_by_the_next_one(office):
    before = len(office.events())
    office.bank.rounds(1)
    words = [str(office.folder / "ticdc-warehouse"), "run", "--available-now", "-c", str(office.file)]
    where = {"TICDC_WAREHOUSE__REGISTRY__URL": office.stack.registry_url}
    subprocess.run(
        words, env={**os.environ, **where}, check=True, capture_output=True
    )  # as if Airflow's worker had died behind it
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


def test_a_quality_stop_fails_the_run_with_what_is_broken_and_the_report_is_written(office):
    office.expect(severity="fail")
    office.overdraw()
    states, said = office.run()
    assert states == {"run": "failed", "checks": "upstream_failed", "report": "success", "maintain": "upstream_failed"}
    assert "CHECK_FAILED" in said
    assert "no_debt" in said


@pytest.mark.parametrize(
    ("code", "ended", "kind"),
    [
        ("CHECK_FAILED", 1, "AirflowFailException"),
        ("OFFSETS_LOST", 1, "AirflowFailException"),
        ("KAFKA_UNREACHABLE", 1, "AirflowException"),
        ("REGISTRY_UNREACHABLE", 1, "AirflowException"),
        ("WAREHOUSE_IN_USE", 1, "AirflowException"),
        ("SPARK_ENDED", 1, "AirflowException"),
        ("MAIN_MOVED", 2, "AirflowException"),
    ],
)
def test_what_may_be_over_by_then_is_tried_again(python, code, ended, kind):
    told = json.dumps({"code": code, "message": "why", "hint": "what now"}, indent=2)
    lines = f"from pipeline.airflow.operator import _failed; error = _failed({ended}, [{told!r}], '')"
    told = subprocess.run([python, "-c", f"{lines}; print(type(error).__name__, error)"], cwd=ROOT,
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert told.splitlines()[-2:] == [f"{kind} {code}: why", "what now"]


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
    assert states["maintain"][0] == "upstream_failed"
    said = (folder / "said").read_text().splitlines()
    assert said.count("asked to end") == sum("checks run" in line for line in said) == states["checks"][1]


def test_a_held_table_is_told_and_the_rest_goes_on(office):
    office.expect(severity="hold")
    states, _ = office.run()
    assert states["run"] == "success"
    assert office.held.read_text() == "bank.account"


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
        office.expect(severity="fail")
        office.overdraw()
        states, said = office.run()
        assert states["run"] == "failed"
        assert "CHECK_FAILED" in said
    finally:
        office.bank.close()
        cluster.stop()


def test_a_run_in_a_container(python, stack, tmp_path):
    build = ["docker", "build", "--quiet", "-f", "docker/Dockerfile", "-t", IMAGE, "."]
    try:
        docker.from_env().images.get(IMAGE)
    except ImageNotFound:
        if not EVERY:
            pytest.skip(f"no image {IMAGE}: {' '.join(build)}")
        subprocess.run(build, cwd=ROOT, check=True)
    except DockerException as error:
        pytest.skip(f"no Docker engine: {error}")
    folder = tmp_path / "office"
    volume = f"{folder}:{folder}"
    execution = f"Docker({IMAGE!r}, ({volume!r},), network='host', options=('--user=0:0', '--memory=4g'))"
    office = Office(python, stack, folder, execution)
    try:
        office.bank.rounds(2)
        states, said = office.run()
        assert states == SUCCESS, said[-4000:]
        assert list(judging.untrue(office.bank, office.warehouse)) == []
    finally:
        office.bank.close()
