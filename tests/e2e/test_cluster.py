"""The same job on a Spark cluster of several processes, by `spark-submit`: a master and two workers on this machine."""

import json
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from e2e.spark_cluster import APPLICATION, PATIENCE, ROOT, SUBMIT, Cluster, answer, java_home, until
from golden.warehouse import CHANGES, Warehouse

from pipeline.cli import main
from pipeline.devstack.ports import free_port

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

OF_THE_BATCH = {"_batch_id", "_ingested_at"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()


class Shop:
    """A shop's changes in Kafka, and the warehouses that are made of them."""

    def __init__(self, stack, folder):
        self.stack, self.folder, self.prefix = stack, folder, f"cluster{uuid.uuid4().hex[:6]}"
        file = self.file("source", master="local[2]")
        assert main(["simulate", "--transactions", "1500", "--prefix", self.prefix, "-c", str(file)]) == 0

    def file(self, name, master):
        file = self.folder / f"{name}.yaml"
        told = {
            "name": "shop",
            "source": {
                "kind": "kafka", "protocol": "avro", "bootstrap_servers": self.stack.bootstrap_servers,
                "topic_pattern": f"{self.prefix}_.*", "max_offsets_per_trigger": 4_000,
            },
            "registry": {"url": self.stack.registry_url},
            "warehouse": {"path": f"./{name}"},
            "checkpoint": f"./{name}-checkpoint",
            "spark": {"master": master, "conf": {"spark.driver.memory": "1g"}},
        }  # fmt: skip
        file.write_text(yaml.safe_dump(told))
        return file

    def rows(self, name):
        """Every table's rows, changes included, without what tells the batch; as a multiset."""
        warehouse = Warehouse.at(self.folder / name)
        found = {one: sorted(map(repr, warehouse.current(one).rows)) for one in warehouse.current_names()}
        for one, rows in warehouse.changes().items():
            told = ({name: value for name, value in row.items() if name not in OF_THE_BATCH} for row in rows)
            found[one + CHANGES] = sorted(map(repr, told))
        return found


@pytest.fixture(scope="module")
def shop(stack, tmp_path_factory):
    return Shop(stack, tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def local(shop):
    """What one process makes of the topics."""
    file = shop.file("local", "local[2]")
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "run", "--available-now", "-c", str(file)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    rows = shop.rows("local")
    assert sum(map(len, rows.values())) > 3_000
    return rows


@dataclass(frozen=True)
class Installed:
    """Where the product and Spark's commands are; `archive`: what executors are given."""

    python: str
    submit: Path
    application: Path
    environment: dict
    archive: str = ""


HERE = Installed(sys.executable, SUBMIT, APPLICATION, {"PYTHONPATH": str(ROOT)})


class Submitted:
    """One `spark-submit` of the product."""

    def __init__(self, shop, name, cluster, *, properties=True, installed=HERE):
        self.events = shop.folder / f"{name}-events"
        self.events.mkdir()
        self.page = free_port()
        file = shop.file(name, cluster.url)
        line = [str(installed.submit)]
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK", "PYSPARK"))
        }
        environment = {**inherited, "JAVA_HOME": java_home(), **installed.environment}
        if properties:
            told = shop.folder / f"{name}.properties"
            words = [installed.python, "-m", "pipeline", "config", "spark-submit", "-c", str(file)]
            with told.open("w") as out:
                subprocess.run(words, cwd=shop.folder, env=environment, stdout=out, check=True)
            line += ["--properties-file", str(told)]
        else:
            line += ["--master", cluster.url]
            environment["PYSPARK_DRIVER_PYTHON"] = installed.python
        if installed.archive:
            line += ["--archives", installed.archive, "--conf", "spark.pyspark.python=./environment/bin/python"]
        conf = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.ui.enabled": "true",
            "spark.ui.port": str(self.page),
            "spark.driver.host": "127.0.0.1",
        }
        line += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        self.errors = shop.folder / f"{name}.err"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*line, str(installed.application), "run", "--available-now", "-c", str(file)],
                cwd=shop.folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip

    def busy(self):
        """An executor that has a task under way; None while there is none."""
        for one in answer(self.page, "/api/v1/applications") or ():
            told = answer(self.page, f"/api/v1/applications/{one['id']}/executors") or ()
            found = [each["id"] for each in told if each["id"] != "driver" and each["activeTasks"]]
            if found:
                return found[0]
        return None

    def ended(self):
        out, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out

    def told(self, event):
        """What the event log tells of these events."""
        (log,) = [one for one in self.events.iterdir() if one.is_file()]
        return [told for told in map(json.loads, log.read_text().splitlines()) if told["Event"] == event]

    def tasks(self):
        """The ends of all tasks."""
        return self.told("SparkListenerTaskEnd")

    def descriptions(self):
        """What each job says that it is for."""
        return {job["Properties"].get("spark.job.description", "") for job in self.told("SparkListenerJobStart")}


@pytest.mark.slow
def test_a_cluster_makes_the_same_tables(shop, local, cluster):
    job = Submitted(shop, "cluster", cluster)
    code, out = job.ended()
    assert code == 0, job.errors.read_text()[-4000:]
    assert "batch 0" in out
    assert shop.rows("cluster") == local
    executors = {task["Task Info"]["Executor ID"] for task in job.tasks()}
    assert executors == {"0", "1"}


@pytest.mark.slow
def test_a_worker_that_dies_has_its_task_repeated_elsewhere(shop, local, cluster):
    job = Submitted(shop, "killed", cluster)
    executor = until(job.busy, "a task")
    worker = cluster.worker_of(executor)
    os.kill(worker, signal.SIGKILL)
    code, _ = job.ended()
    assert code == 0, job.errors.read_text()[-4000:]
    assert shop.rows("killed") == local
    lost = [task for task in job.tasks() if task["Task End Reason"]["Reason"] == "ExecutorLostFailure"]
    assert lost
    for task in lost:
        assert task["Task Info"]["Executor ID"] == executor
        again = [
            other["Task Info"]
            for other in job.tasks()
            if other["Stage ID"] == task["Stage ID"]
            and other["Task Info"]["Index"] == task["Task Info"]["Index"]
            and other["Task End Reason"]["Reason"] == "Success"
        ]
        assert [one["Attempt"] > task["Task Info"]["Attempt"] for one in again] == [True]
        assert again[0]["Executor ID"] != executor
    described = job.descriptions()
    assert {"batch 0: route", "batch 0: shop.orders: publish current"} <= described, described
    assert all(description.startswith("batch ") for description in described), described


@pytest.mark.slow
def test_an_environment_that_was_packed_makes_the_same_tables(shop, local, cluster, tmp_path):
    subprocess.run(["make", "-C", str(ROOT), "--no-print-directory", "package"], check=True)
    archive, home = ROOT / "dist" / "environment.tar.gz", tmp_path / "environment"
    home.mkdir()
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(home)], check=True)
    (application,) = home.glob("lib/python3.*/site-packages/pipeline/__main__.py")
    installed = Installed(
        str(home / "bin" / "python"), home / "bin" / "spark-submit", application,
        {"TICDC_WAREHOUSE_JARS": str(home / "jars"), "PATH": f"{home / 'bin'}:{os.environ['PATH']}"},
        f"{archive}#environment",
    )  # fmt: skip
    job = Submitted(shop, "packed", cluster, installed=installed)
    code, _ = job.ended()
    assert code == 0, job.errors.read_text()[-4000:]
    assert shop.rows("packed") == local


def test_a_driver_without_what_it_needs_is_told_so(shop, cluster):
    job = Submitted(shop, "bare", cluster, properties=False)
    code, said = job.ended()  # spark-submit prints on stdout what the driver says on stderr
    assert code == 1, said[-4000:]
    assert "SUBMIT_OPTIONS" in said
    assert "ticdc-warehouse config spark-submit" in said
    assert not (shop.folder / "bare" / "catalog.db").exists()
