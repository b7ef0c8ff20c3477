"""What Airflow's tasks make of a command that fails or is to end; these two modules need no Airflow."""

import importlib
import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import time
from itertools import accumulate
from pathlib import Path
from types import ModuleType

import pytest

import pipeline
import registry

FOLDER = Path(pipeline.__file__).parent / "airflow"
REGISTRY = Path(registry.__file__).parent
ROOT = Path(__file__).parents[2]
JVM = [
    "WARNING: Using incubator modules: jdk.incubator.vector\n",
    "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n",
    'Setting default log level to "WARN".\n',
    "26/11/24 12:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform\n",
    "OpenJDK 64-Bit Server VM warning: Option UseThat was deprecated\n",
    "WARNING: All illegal access operations will be denied in a future release\n",
    '{"event": "committed", "batch": 3}\n',
    "\n",
]
TOLD = json.dumps({"code": "CHECK_FAILED", "message": "no_debt", "hint": "mend it"}, indent=2) + "\n"


def module(name):
    """The module alone: its package brings Airflow."""
    spec = importlib.util.spec_from_file_location(f"airflow_{name}", FOLDER / f"{name}.py")
    found = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where a dataclass looks for itself
    spec.loader.exec_module(found)
    return found


outcome, ending, execution = module("outcome"), module("ending"), module("execution")


@pytest.mark.parametrize("behind", [[], JVM], ids=["", "and a JVM speaks last"])
def test_a_refusal_is_told_with_its_code_and_hint(behind):
    assert outcome.failure(1, [*JVM, TOLD, *behind], "") == ("CHECK_FAILED: no_debt\nmend it", True)


def test_a_refusal_on_stdout_is_told_too_and_results_before_it_are_not_taken_for_it():
    results = json.dumps({"checks": [{"rule": "no_debt"}], "failed": 1}, indent=2)
    assert outcome.failure(1, JVM, f"{results}\n{TOLD}") == ("CHECK_FAILED: no_debt\nmend it", True)
    assert outcome.failure(1, [*JVM, TOLD], results) == ("CHECK_FAILED: no_debt\nmend it", True)


@pytest.mark.parametrize("code", [1, 2, 137])
def test_what_a_jvm_says_is_never_the_reason(code):
    assert outcome.failure(code, JVM, "") == (f"exit code {code}: no reason was given", code == 1)


def test_without_a_document_the_last_lines_are_the_reason():
    lines = ["Traceback (most recent call last):\n", "docker: Error response from daemon: no such image.\n", *JVM]
    sentence, final = outcome.failure(125, lines, "")
    assert (sentence.splitlines()[-1], final) == ("docker: Error response from daemon: no such image.", False)
    assert outcome.failure(-9, JVM, "")[0] == "ended by SIGKILL: no reason was given"


@pytest.mark.parametrize(
    ("code", "ended", "final"),
    [
        ("OFFSETS_LOST", 1, True),
        ("FOLDER_UNWRITABLE", 1, True),
        ("KAFKA_UNREACHABLE", 1, False),
        ("CATALOG_UNREADABLE", 1, False),
        ("CATALOG_UNREACHABLE", 1, False),
        ("STORE_UNREACHABLE", 1, False),
        ("STORE_DENIED", 1, True),
        ("ARTEFACTS_UNAVAILABLE", 1, False),
        ("ARTEFACT_CHECKSUM", 1, True),
        ("SPARK_ENDED", 1, False),
        ("MAIN_MOVED", 2, False),
    ],
)
def test_only_what_the_next_try_would_meet_again_is_final(code, ended, final):
    told = json.dumps({"code": code, "message": "why", "hint": ""}, indent=2)
    assert outcome.failure(ended, [told], "") == (f"{code}: why", final)


def test_what_passes_are_codes_that_there_are_and_the_docs_name_them():
    said = " ".join(
        path.read_text() for path in [*FOLDER.parent.rglob("*.py"), *REGISTRY.rglob("*.py")] if path.parent != FOLDER
    )
    docs = (ROOT / "docs/how-to/schedule-with-airflow.md").read_text()
    assert [code for code in outcome.PASSING if f'"{code}"' not in said] == []
    assert [code for code in outcome.PASSING if f"`{code}`" not in docs] == []


RESULT = json.dumps({"tables": [{"source": "shop.a", "state": {}}]}, indent=2) + "\n"


@pytest.mark.parametrize("lines", [[], JVM, ["batch 1\n", "  }\n", "}\n"]])
def test_what_is_said_beside_documents_is_told(lines):
    said = [line.rstrip() for line in lines]
    assert list(outcome.remarks(lines)) == said
    assert list(outcome.remarks([*RESULT.splitlines(True), *lines, *TOLD.splitlines(True), "{}\n"])) == said
    assert list(outcome.remarks([*lines, *RESULT.splitlines(True), *lines])) == [*said, *said]


def test_what_only_begins_as_a_document_is_told_too():
    said = ["{", '  "half": 1,', "what came instead"]
    assert list(outcome.remarks([*said, *RESULT.splitlines(True), "after"])) == [*said, "after"]
    assert list(outcome.remarks(said)) == said


def test_a_line_is_told_when_it_comes():
    def lines():
        yield "batch 1\n"
        pytest.fail("waited for the next one")

    assert next(outcome.remarks(lines())) == "batch 1"


@pytest.mark.parametrize(
    ("counted", "now", "known", "told"),
    [
        ({}, {}, {}, {}),
        ({}, {"a": 3, "b": 0}, {"a": 3}, {}),
        ({"a": {"inserts": 2, "updates": 0, "dead_letters": 1}}, {"a": 5}, {"a": 3}, {"a": {"inserts": 2}}),
        ({"a": {"dead_letters": 1}}, {"a": 3}, {"a": 3}, {}),
        ({}, {"a": 5, "b": 1}, {"a": 3, "b": 1}, {"a": {}}),  # a try that failed has committed that
    ],
)
def test_tables_are_told_that_have_changed_since_they_were_last_told(counted, now, known, told):
    assert outcome.changed(counted, now, known) == told


def test_what_the_very_first_try_has_committed_is_told_by_the_next_where_it_could_not_itself():
    """The catalog did not answer when it asked for the tables behind its batches."""
    assert outcome.changed({}, {"a": 5, "b": 0}, {}) == {"a": {}}


@pytest.mark.parametrize(
    ("held", "news"),
    [
        ({"a": "CHECK_FAILED", "b": None}, []),
        ({"a": "CHECK_FAILED"}, []),  # the other was released
        ({"a": "CHECK_FAILED", "c": "NO_HANDLE_KEY"}, ["c"]),
        ({"a": "QUARANTINE_LIMIT", "b": None}, ["a"]),
        ({}, []),
    ],
)
def test_each_held_table_is_told_once_for_each_reason(held, news):
    assert outcome.newly_held(held, {"a": "CHECK_FAILED", "b": None}) == news


def test_a_table_that_is_held_for_no_reason_that_is_known_is_told_too():
    assert outcome.newly_held({"a": None}, {}) == ["a"]


PARENT = """
import signal, subprocess, sys, time
{trap}
child = subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"])
print(child.pid, flush=True)
time.sleep(60)
"""


def started(trap):
    """A command in a session of its own with a child that no SIGTERM ends; and that child's number."""
    words = [sys.executable, "-c", PARENT.format(trap=trap)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    return process, int(process.stdout.readline())


def lives(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def over(number, seconds=15):
    until = time.monotonic() + seconds
    while lives(number) and time.monotonic() < until:
        time.sleep(0.1)
    return not lives(number)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to look into")
class TestEnd:
    @pytest.mark.parametrize("trap", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"], ids=["ends", "does not"])
    def test_nothing_of_a_command_is_left_after_the_grace(self, trap):
        process, child = started(trap)
        ending.end(process, 1)
        assert process.returncode == (-signal.SIGKILL if trap else -signal.SIGTERM)
        assert over(child)

    def test_it_is_so_too_where_the_one_who_asked_is_killed(self):
        process, child = started("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
        asker = os.fork()
        if asker == 0:
            ending.end(process, 2)
            os._exit(0)
        time.sleep(0.5)
        os.kill(asker, signal.SIGKILL)
        os.waitpid(asker, 0)
        assert process.wait(15) == -signal.SIGKILL
        assert over(child)

    def test_a_command_that_ends_in_time_is_left_alone(self):
        process, child = started("signal.signal(signal.SIGTERM, lambda *_: (child.kill(), sys.exit(0)))")
        ending.end(process, 30)
        assert process.returncode == 0
        assert over(child)

    @pytest.mark.parametrize("trap", ["", "trap '' TERM;"], ids=["ends", "does not"])
    def test_a_container_is_stopped_with_what_is_left_of_the_grace(self, trap, tmp_path, monkeypatch):
        docker = tmp_path / "docker"
        docker.write_text(
            f'#!/bin/sh\ncase $1 in\n run) {trap} exec sleep 60 ;;\n *) echo "$@" > {tmp_path}/said ;;\nesac\n'
        )
        docker.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        line = execution.Docker("image", (), options=("--name", "not-this")).command(["run"], [])
        name = execution.container(line)
        process = subprocess.Popen(line, start_new_session=True)
        time.sleep(0.5)
        ending.end(process, 3, name)
        until = time.monotonic() + 15
        while not (said := tmp_path / "said").exists() and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(0.1)
        left = (0,) if trap else (2, 3)  # it may be seen once before it is reaped
        assert said.read_text() in [f"stop --time {seconds} {name}\n" for seconds in left]


def test_each_try_has_a_container_of_its_own_and_other_commands_have_none():
    docker = execution.Docker("image", (), options=("--name", "not-this"))
    one, other = (docker.command(["run"], []) for _ in range(2))
    assert execution.container(one) != execution.container(other)
    assert one[-3] == f"--name={execution.container(one)}"  # behind the options: the last one counts
    assert execution.container(execution.Local().command(["run"], [])) == ""


class Templated:
    """What an operator of Airflow's is here: it renders what stands between braces."""

    template_fields = ()
    log = logging.getLogger("airflow.task")

    def __init__(self, **task):
        self.task = task

    def render_template(self, content, context):
        return {name: context.get(value.strip("{} "), value) for name, value in content.items()}


@pytest.fixture
def operator(monkeypatch):
    """The module of operators with the few names of Airflow's that it needs."""
    sdk, exceptions = ModuleType("airflow.sdk"), ModuleType("airflow.sdk.exceptions")
    for name in ("DAG", "Asset", "AssetAlias", "Variable"):
        setattr(sdk, name, type(name, (), {}))
    sdk.BaseOperator = Templated
    for name in ("AirflowException", "AirflowFailException"):
        setattr(exceptions, name, type(name, (Exception,), {}))
    folders = accumulate(("providers", "standard", "operators", "empty"), "{}.{}".format, initial="airflow")
    *others, empty = map(ModuleType, folders)
    empty.EmptyOperator = Templated
    for one in (sdk, exceptions, *others, empty):
        monkeypatch.setitem(sys.modules, one.__name__, one)
    before = set(sys.modules)
    yield importlib.import_module("pipeline.airflow.operator")
    for name in set(sys.modules) - before:
        del sys.modules[name]


class Prints:
    """A command that prints a variable as a document."""

    def command(self, _words, environment):
        code = "import json, os, sys; print(json.dumps({name: os.environ[name] for name in sys.argv[1:]}, indent=2))"
        return [sys.executable, "-c", code, *environment]


def test_secrets_reach_the_command_and_no_field_that_airflow_keeps(operator, caplog):
    caplog.set_level(logging.DEBUG)
    rendered = '"s3cret \\u0026 \\u003c of the connection"'
    template = {"PASSWORD": "{{ conn.registry.password | tojson }}"}
    task = operator.WarehouseOperator(
        task_id="run", words=["run"], config="shop.yaml", execution=Prints(), environment=template
    )
    assert task.execute({"conn.registry.password | tojson": rendered}) == {"PASSWORD": rendered}
    assert "s3cret" not in str([getattr(task, name) for name in task.template_fields])
    assert (task.environment, "environment" in task.template_fields) == (template, False)
    assert "PASSWORD" in caplog.text
    assert "s3cret" not in caplog.text


class Submits:
    """A command that says everything on stdout, as `spark-submit` does, and a document at the end."""

    def command(self, _words, _environment):
        return [sys.executable, "-c", f"print('batch 1'); print({RESULT!r}); print('the JVM ends')"]


def test_the_log_of_a_command_that_says_everything_on_stdout_is_the_tasks(operator, caplog):
    caplog.set_level(logging.INFO)
    task = operator.WarehouseOperator(task_id="run", words=["run"], config="shop.yaml", execution=Submits())
    assert task.execute({}) == json.loads(RESULT)
    said = [record.message for record in caplog.records[1:]]
    assert [line for line in said if line] == ["batch 1", "the JVM ends"]
