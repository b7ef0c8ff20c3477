"""A Spark standalone cluster on this machine: a master and two workers, each a process of its own."""

import json
import time
import urllib.request
from pathlib import Path

import pyspark

from pipeline.devstack.ports import free_port
from pipeline.runtime.java import find_java
from pipeline.runtime.process import tethered

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
APPLICATION = ROOT / "pipeline" / "__main__.py"
SUBMIT = SPARK / "bin" / "spark-submit"
PATIENCE = 240


def java_home():
    """Where the Java is that the product has found, for Spark's own scripts."""
    return str(find_java().executable.resolve().parents[1])


def children(pid):
    """The processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(one) for task in tasks for one in task.read_text().split()]


def answer(port, path):
    """What a page of Spark's tells as JSON; None while there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as page:
            return json.load(page)
    except (OSError, ValueError):
        return None


def until(wanted, what):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := wanted():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} never came")


class Cluster:
    """A standalone master and its workers, each a process of its own."""

    def __init__(self, folder):
        self.folder, self.port, self.page = folder, free_port(), free_port()
        self.processes = []
        self._start("master.Master", "--port", str(self.port), "--webui-port", str(self.page))
        until(lambda: answer(self.page, "/json/"), "the master")
        self.workers = [
            self._start(
                "worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", str(free_port()),
                "--work-dir", str(folder / f"work{number}"), self.url,
            )
            for number in range(2)
        ]  # fmt: skip
        until(lambda: len(self.alive()) == len(self.workers), "both workers")

    @property
    def url(self):
        return f"spark://127.0.0.1:{self.port}"

    def alive(self):
        told = answer(self.page, "/json/") or {"workers": []}
        return [worker["id"] for worker in told["workers"] if worker["state"] == "ALIVE"]

    def applications(self):
        """How many applications have come and gone."""
        return len((answer(self.page, "/json/") or {}).get("completedapps", ()))

    def _start(self, name, *words):
        java = find_java().executable
        settings = [f"SPARK_HOME={SPARK}", "SPARK_SCALA_VERSION=2.13"]
        line = [
            "env",
            *settings,
            str(java),
            "-cp",
            f"{SPARK / 'jars'}/*",
            "-Xmx512m",
            f"org.apache.spark.deploy.{name}",
        ]
        with (self.folder / "cluster.log").open("ab") as log:
            process = tethered([*line, "--host", "127.0.0.1", *words], log.fileno())
        self.processes.append(process)
        return process

    def worker_of(self, executor):
        """The pid of the worker whose child this executor is; None if it has gone."""
        for worker in self.workers:
            for parent in [worker.pid, *children(worker.pid)]:
                for child in children(parent):
                    words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                    if b"--executor-id" in words and words[words.index(b"--executor-id") + 1] == executor.encode():
                        return parent
        return None

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
