"""`docker/compose.yaml` on a real engine: the demo, the stream, a broker that dies, volumes that stay.

Skipped where no engine answers; `docker info` says why.
"""

import collections
import itertools
import json
import os
import re
import subprocess
import time
import urllib.request
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException
from golden.corpus import EVERY

from pipeline.cli.simulate import _endless
from pipeline.simulate import Shop, wall_clock

ROOT = Path(__file__).parents[2]
COMPOSE = ("docker", "compose", "--file", str(ROOT / "docker" / "compose.yaml"), "--project-name", "ticdc-test")
PROFILES = ("stream", "cluster", "airflow", "tidb")
PORTS = {
    "KAFKA_PORT": "29192",
    "REGISTRY_PORT": "28181",
    "REPORT_PORT": "28188",
    "METRICS_PORT": "29464",
    "AIRFLOW_PORT": "28088",
    "SPARK_PORT": "28080",
    "TIDB_PORT": "24000",
}
SEED, TRANSACTIONS, DIRTY = 7, 3_000, 0.02
BASES = ("python:3.11-slim-bookworm", "apache/kafka:4.1.0", "apicurio/apicurio-registry:3.0.9")
PATIENCE = 240
WORKERS = 2
NOBODY_WAITS_FOR = ("shop", "workload")

pytestmark = pytest.mark.e2e


def compose(*words, check=True):
    done = subprocess.run(
        [*COMPOSE, *words], env={**os.environ, **PORTS}, capture_output=True, text=True, check=False, timeout=1200
    )
    assert done.returncode == 0 or not check, f"{words}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def engine():
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        pytest.skip(f"no Docker engine: {error}")
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker has no compose plugin")
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


def assert_is_the_shop(have, shop, transactions):
    """As many rows as these transactions of the shop leave; some orders are set aside."""
    collections.deque(transactions, maxlen=0)
    for table in shop.database.tables():
        rows = len(shop.database.rows(table.schema, table.name))
        aside = 30 if table.name == "orders" else 0
        assert rows - aside <= have[table.full_name] <= rows, table.full_name


def fetched(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=10) as answer:
        return answer.read().decode()


def metric(name):
    """What the stream tells, added up over tables or topics; None while it does not answer, or does not know."""
    try:
        text = fetched(f"{PORTS['METRICS_PORT']}/metrics")
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


@pytest.mark.parametrize("profile", ["", *PROFILES])
def test_the_file_makes_sense(engine, profile):
    del engine
    told = json.loads(compose(*(("--profile", profile) if profile else ()), "config", "--format", "json"))
    for name, service in told["services"].items():
        assert ":" in service["image"], name
        assert not service["image"].endswith(":latest"), name
        assert int(service["mem_limit"]) > 0, name
        if service["image"].startswith("ticdc-warehouse"):
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
            assert "user" not in service, name  # the image's own, which is not root
        assert "healthcheck" in service or "restart" not in service or name in NOBODY_WAITS_FOR, name


def test_the_demo_fills_the_warehouse_and_ends_well(engine, shown):
    for line in ("batch 0  shop.orders", "quarantined rows wait", "the report: http://127.0.0.1:"):
        assert line in shown
    assert re.search(r"shop\.customers +shop\.customers +\d+ +\d+ +live", shown)  # as `tables list` says it
    shop = Shop(SEED, wall_clock, DIRTY)
    assert_is_the_shop(tables(), shop, shop.transactions(TRANSACTIONS))
    assert "<html" in fetched(f"{PORTS['REPORT_PORT']}/")
    started = container(engine, "demo").attrs
    assert started["Config"]["User"] == "10001:10001"
    assert started["HostConfig"]["ReadonlyRootfs"] is True
    assert started["HostConfig"]["Memory"] > 0


def test_volumes_outlive_down_and_a_second_demo_takes_nothing_twice(engine, shown):
    del shown
    before = tables()
    compose("down")
    compose("up", "--detach", "demo")
    assert "nothing new" in ended(engine, "demo")
    assert tables() == before


@pytest.mark.skipif(not EVERY, reason="a minute: `make test-all` runs it")
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


@pytest.mark.skipif(not EVERY, reason="three minutes: `make test-all` runs it")
def test_a_cluster_makes_the_same_tables(engine, shown):
    del shown
    before = tables()
    compose("--profile", "cluster", "up", "--detach", "submit")
    assert "batch 0" in ended(engine, "submit")
    assert len(engine.containers.list(filters={"name": "ticdc-test-spark-worker"})) == WORKERS
    assert tables("submit") == before
    compose("--profile", "cluster", "rm", "--stop", "--force", "spark-master", "spark-worker")


def test_the_stream_goes_on_when_the_broker_comes_back(engine, shown):
    del shown
    compose("--profile", "stream", "up", "--detach", "stream")
    until(lambda: metric("batches_total"))
    broker = container(engine, "kafka")
    broker.kill()
    time.sleep(5)
    broker.start()
    before = until(lambda: metric("last_batch_timestamp_seconds"))
    until(lambda: (metric("last_batch_timestamp_seconds") or 0) > max(before, time.time() - 5))
    compose("--profile", "stream", "stop", "shop")
    sent = re.findall(r"([\d,]+) transactions, [\d,]+ row events", container(engine, "shop").logs().decode())
    until(lambda: metric("records_behind") == 0)
    compose("--profile", "stream", "stop", "stream")
    stream = container(engine, "stream")
    assert stream.wait(timeout=PATIENCE)["StatusCode"] == 0
    assert stream.attrs["RestartCount"] == 0
    assert "stopped; the next run goes on from here" in stream.logs().decode()
    shop = Shop(SEED, wall_clock, DIRTY)
    rows = (transaction for transaction in _endless(shop, 2_000) if transaction.ddl is None)
    assert_is_the_shop(tables("stream"), shop, itertools.islice(rows, int(sent[-1].replace(",", ""))))


@pytest.mark.skipif(not EVERY, reason="three minutes: `make test-all` runs it")
def test_airflow_runs_the_dag(engine, shown):
    del shown
    compose("--profile", "airflow", "build", "--quiet", "airflow")
    compose("--profile", "airflow", "up", "--detach", "--wait", "airflow")
    office = container(engine, "airflow")
    code, said = office.exec_run(["airflow", "dags", "test", "ticdc_warehouse_demo"])
    assert code == 0, said.decode()[-5000:]
    assert "state=success" in said.decode()
    compose("--profile", "airflow", "stop", "airflow", "shop")
