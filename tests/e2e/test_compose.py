"""`docker/compose.yaml` on a real engine: the demo, the stream, a broker that dies, volumes that stay.

Skipped where no engine answers; `docker info` says why. Whether compose understands the file needs no engine.
"""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException

ROOT = Path(__file__).parents[2]
COMPOSE = ("docker", "compose", "--file", str(ROOT / "docker" / "compose.yaml"), "--project-name", "ticdc-test")
ALWAYS = {"kafka", "registry", "changefeed", "demo", "report"}
PROFILES = {
    "": set(),
    "stream": {"stream", "shop"},
    "canal": {"canal-shop", "canal-stream"},
    "files": {"file-shop", "file-stream"},
    "cluster": {"spark-master", "spark-worker", "submit"},
    "airflow": {"airflow", "shop"},
    "tidb": {"pd", "tikv", "tidb", "ticdc", "ticdc-changefeed", "workload", "tidb-stream"},
}
PORTS = {
    "KAFKA_PORT": "29192",
    "REGISTRY_PORT": "28181",
    "REPORT_PORT": "28188",
    "METRICS_PORT": "29464",
    "FILES_METRICS_PORT": "29466",
    "CANAL_METRICS_PORT": "29467",
    "AIRFLOW_PORT": "28088",
    "SPARK_PORT": "28080",
    "TIDB_PORT": "24000",
}
TRANSACTIONS, MOST_ASIDE = 3_000, 30
JUDGE = Path(__file__).with_name("container_judge.py").read_text()
BASES = ("python:3.11-slim-bookworm", "apache/kafka:4.1.0", "apicurio/apicurio-registry:3.0.9")
PATIENCE = 240
WORKERS = 2

pytestmark = pytest.mark.e2e


def compose(*words, check=True):
    done = subprocess.run(
        [*COMPOSE, *words], env={**os.environ, **PORTS}, capture_output=True, text=True, check=False, timeout=1200
    )
    assert done.returncode == 0 or not check, f"{words}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def plugin():
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode
    ):
        pytest.skip("docker has no compose plugin")


@pytest.fixture(scope="module")
def engine(plugin):
    del plugin
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        pytest.skip(f"no Docker engine: {error}")
    for image in BASES:
        if subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode:
            line = ["timeout", "300", "docker", "pull", "--quiet", image]
            pulled = subprocess.run(line, capture_output=True, text=True, check=False)
            if pulled.returncode:
                pytest.skip(f"{image} is not here and cannot be had: {pulled.stderr.strip()[-200:]}")
    return client


@pytest.fixture(scope="module")
def shown(engine):
    """The demo, from nothing; what it said."""
    compose("--profile", "*", "down", "--volumes", "--remove-orphans")
    compose("build", "--quiet", "demo")
    compose("up", "--detach", "demo")
    yield ended(engine, "demo")
    compose("--profile", "*", "down", "--volumes", "--remove-orphans")


def container(engine, service):
    return engine.containers.get(f"ticdc-test-{service}-1")


def ended(engine, service):
    """Wait for a service's end; what it said."""
    found = container(engine, service)
    code = found.wait(timeout=PATIENCE)["StatusCode"]
    said = found.logs().decode()
    assert code == 0, said[-5000:]
    return said


def tables(service="demo"):
    told = compose(
        "run", "--rm", "--no-deps", "--entrypoint", "ticdc-warehouse", service, "tables", "list", "--output", "json"
    )
    return {table["source"]: table["rows"] for table in json.loads(told)["tables"]}


def assert_is_the_shop(service, transactions, *words):
    """Row for row what so many transactions of the shop leave, each change once; some orders are set aside."""
    line = ("run", "--rm", "--no-deps", "--entrypoint", "python", service, "-c", JUDGE, str(transactions), *words)
    told = json.loads(compose(*line).splitlines()[-1])
    assert len(told) == 5
    for table, verdict in told.items():
        assert verdict["differences"] == [], table
        assert verdict["most"] == 1, table
        assert verdict["rows"] > verdict["aside"], table
        assert verdict["aside"] <= (MOST_ASIDE if table == "shop.orders" else 0), table


def fetched(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=10) as answer:
        return answer.read().decode()


def page():
    """When the report was made; it is the page of the demo's pipeline, not the list of a folder."""
    text = fetched(f"{PORTS['REPORT_PORT']}/")
    assert re.search(r"<title>\S+ demo: \w", text), text[:500]
    return re.search(r'data quality report.*?<time datetime="([\d:TZ.-]+)"', text, re.DOTALL)[1]


def metric(name, port="METRICS_PORT"):
    """What a stream tells, added up over tables or topics; None while it does not answer, or does not know."""
    try:
        text = fetched(f"{PORTS[port]}/metrics")
    except OSError:
        return None
    found = re.findall(rf"^ticdc_warehouse_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, found)) if found else None


def until(wanted):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := wanted():
            return found
        time.sleep(1)
    raise AssertionError("it never came")


@pytest.mark.parametrize(("profile", "services"), PROFILES.items())
def test_compose_understands_the_file(plugin, profile, services):
    """Without an engine; what stands in it is tested in `tests/unit/test_docker_compose.py`."""
    del plugin
    told = json.loads(compose(*(("--profile", profile) if profile else ()), "config", "--format", "json"))
    assert told["services"].keys() == ALWAYS | services
    for name, service in told["services"].items():
        assert int(service["mem_limit"]) > 0, name
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"]), name
    assert told["services"]["demo"]["read_only"] is True
    assert told["services"]["demo"]["depends_on"]["changefeed"]["condition"] == "service_completed_successfully"


def test_the_demo_fills_the_warehouse_and_ends_well(engine, shown):
    for line in ("batch 0  shop.orders", "quarantined rows are open", "the report: http://127.0.0.1:"):
        assert line in shown
    assert re.search(r"shop\.customers +shop\.customers +\d+ +\d+ +live", shown)  # as `tables list` says it
    assert_is_the_shop("demo", TRANSACTIONS)
    started = container(engine, "demo").attrs
    assert page() > started["State"]["StartedAt"]
    assert started["Config"]["User"] == "10001:10001"
    assert started["HostConfig"]["ReadonlyRootfs"] is True
    assert started["HostConfig"]["Memory"] > 0
    assert "/scratch" in {mount["Destination"] for mount in started["Mounts"] if mount["Type"] == "volume"}


def test_volumes_outlive_down_and_a_second_demo_takes_nothing_twice(engine, shown):
    del shown
    before = tables()
    compose("down")
    compose("up", "--detach", "demo")
    assert "nothing new" in ended(engine, "demo")
    assert tables() == before


def test_a_script_gets_the_code_of_the_demo_itself(shown):
    """Of its own script, on its own configuration; the second time that makes no sense."""
    del shown
    wrong = ["--env", "TICDC_WAREHOUSE__SOURCE__PROTOCOL=nothing"]
    for words, code, said in (([], 0, "the report: http://"), (wrong, 1, "SETTINGS_INVALID")):
        done = subprocess.run(
            [*COMPOSE, "run", "--rm", *words, "demo"],
            env={**os.environ, **PORTS}, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == code, done.stderr[-3000:]
        assert said in done.stdout + done.stderr
        assert ("the report:" in done.stdout) is (code == 0)


@pytest.mark.slow
def test_the_image_needs_no_network(engine, shown):
    """Broker, registry, source and pipeline in one container, whose jars and libraries are there."""
    del shown
    image = container(engine, "demo").image.id
    folders = {"/tmp": "mode=1777,exec"}  # noqa: S108 - in a container
    told = engine.containers.run(
        image, ["demo"], network_mode="none", mem_limit="4g", remove=True, read_only=True, tmpfs=folders,
        working_dir="/data",
    )  # fmt: skip
    assert "equal" in told.decode()


@pytest.mark.slow
def test_a_cluster_makes_the_same_tables(engine, shown):
    del shown
    compose("--profile", "cluster", "up", "--detach", "submit")
    assert "batch 0" in ended(engine, "submit")
    workers = engine.containers.list(filters={"name": "ticdc-test-spark-worker"})
    assert [worker.logs().count(b"Asked to launch executor") > 0 for worker in workers] == [True] * WORKERS
    assert_is_the_shop("submit", TRANSACTIONS)
    compose("--profile", "cluster", "rm", "--stop", "--force", "spark-master", "spark-worker")


def test_the_stream_goes_on_when_the_broker_comes_back(engine, shown):
    del shown
    compose("--profile", "stream", "up", "--detach", "stream")
    until(lambda: metric("batches_total"))
    until(lambda: container(engine, "stream").attrs["State"]["Health"]["Status"] == "healthy")
    _, mapped = container(engine, "stream").exec_run(["sh", "-c", "cat /proc/[0-9]*/maps"])
    assert b"/ticdc-warehouse-" in mapped  # the classes of the image: Java is silent where it cannot use them
    broker = container(engine, "kafka")
    broker.kill()
    time.sleep(5)
    broker.start()
    before = until(lambda: metric("last_batch_timestamp_seconds"))
    until(lambda: (metric("last_batch_timestamp_seconds") or 0) > max(before, time.time() - 5))
    compose("--profile", "stream", "stop", "shop")
    sent = re.findall(r"([\d,]+) transactions, [\d,]+ row events", container(engine, "shop").logs().decode())
    until(lambda: metric("consumer_lag_records") == 0)
    compose("--profile", "stream", "stop", "stream")
    stream = container(engine, "stream")
    assert stream.wait(timeout=PATIENCE)["StatusCode"] == 0
    assert stream.attrs["RestartCount"] == 0
    assert "stopped; the next run goes on from here" in stream.logs().decode()
    assert_is_the_shop("stream", int(sent[-1].replace(",", "")), "endless")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "service", "port"), [("files", "file", "FILES_METRICS_PORT"), ("canal", "canal", "CANAL_METRICS_PORT")]
)
def test_what_the_shop_sends_is_read_while_it_goes_on(engine, shown, profile, service, port):
    del shown
    stream, shop = f"{service}-stream", f"{service}-shop"
    compose("--profile", profile, "up", "--detach", stream)
    until(lambda: metric("batches_total", port))
    until(lambda: container(engine, stream).attrs["State"]["Health"]["Status"] == "healthy")
    compose("--profile", profile, "stop", shop)
    sent = re.findall(r"([\d,]+) transactions, [\d,]+ row events", container(engine, shop).logs().decode())
    time.sleep(25)  # the last commit ts is complete 10 s after the last `metadata`, and shows with the next trigger
    until(lambda: metric("consumer_lag_records", port) == 0)
    compose("--profile", profile, "stop", stream)
    assert container(engine, stream).wait(timeout=PATIENCE)["StatusCode"] == 0
    assert_is_the_shop(stream, int(sent[-1].replace(",", "")), "endless")


@pytest.mark.slow
def test_airflow_runs_the_dag(engine, shown):
    del shown
    of_the_demo = page()
    compose("--profile", "airflow", "build", "--quiet", "airflow")
    compose("--profile", "airflow", "up", "--detach", "--wait", "airflow")
    office = container(engine, "airflow")
    states = ["sh", "-c", "airflow dags list-runs ticdc_warehouse_demo --output json 2>/dev/null | tail -1"]
    runs = until(lambda: [run for run in json.loads(office.exec_run(states).output or "[]") if run["end_date"]])
    assert [run["state"] for run in runs] == ["success"]  # the first that the scheduler has begun by itself
    filled = tables("airflow")
    assert filled.keys() == {f"shop.{name}" for name in ("customers", "order_items", "orders", "payments", "products")}
    assert all(filled.values())
    assert page() > of_the_demo
    compose("--profile", "airflow", "stop", "airflow", "shop")
