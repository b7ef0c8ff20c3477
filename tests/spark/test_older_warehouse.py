"""Warehouses that commit 0c4b4c4 has written, one for each protocol: what it began goes on, and nothing is lost.

`tests/spark/older` has them, with the records of their source, and the program that wrote them.
"""

from __future__ import annotations

import base64
import fcntl
import json
import shutil
import tarfile
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import yaml
from golden.warehouse import Warehouse
from spark.simple_source import reading
from support.memory_source import MemorySource
from support.slow import EVERY

from pipeline.model.places import Partition
from pipeline.operations.redrive import QUARANTINE
from pipeline.service import Pipeline
from pipeline.service.dispatch import MAINTAIN, REBUILD, REDRIVE, RELEASE
from pipeline.settings import parse
from pipeline.sources.source import Stream

pytestmark = pytest.mark.spark

STORED = Path(__file__).parent / "older"
ROOT = Path("/tmp/ticdc-warehouse-of-0c4b4c4")  # noqa: S108 - Iceberg's files name each other by absolute paths
RAW = "topic string, partition int, offset long, timestamp timestamp, key binary, value binary"
ACCOUNT, NOTE = ("bank", "account"), ("bank", "note")


def _key(row):
    """The key of an account, or of a note."""
    return int(row["id"]) if "id" in row else row["code"]


class Recorded(MemorySource):
    """What the source had, and more that came afterwards, under the identities that the warehouse knows."""

    __slots__ = ("spark", "stored")

    def __init__(self, stored):
        super().__init__(lambda records: self.spark.createDataFrame(list(records), RAW))
        self.spark, self.stored = None, stored
        self.known = {name: Stream(name, *identity) for name, identity in stored["streams"].items()}

    def have(self, *, everything):
        read = {(name, number): end for name, number, end in self.stored["read"]}
        self.logs = {Partition(*place): [] for place in read}
        for name, number, offset, sent, *raw in self.stored["records"]:
            if everything or offset < read[name, number]:
                key, value = (None if one is None else base64.b64decode(one) for one in raw)
                log = self.logs[Partition(name, number)]
                assert len(log) == offset
                log.append((name, number, offset, datetime.fromtimestamp(sent / 1000, UTC), key, value))


class Older:
    """An older warehouse in its place, and the processes of today that write it."""

    def __init__(self, folder, stored, registry_url):
        self.folder, self.stored = folder, stored
        tree = stored["settings"] | ({"registry": {"url": registry_url}} if stored["registry"] else {})
        self.settings = parse(yaml.safe_dump(tree), folder)
        self.source = Recorded(stored)

    @contextmanager
    def opened(self):
        with reading(self.source), Pipeline.open(self.settings) as pipeline:
            yield pipeline

    def run(self, *, everything=True):
        self.source.have(everything=everything)
        with self.opened() as pipeline:
            pipeline.run(available_now=True)

    def do(self, what, *names):
        with self.opened() as pipeline:
            return pipeline.operation(what, names)

    def expect_nothing(self):
        (self.folder / "checks" / "account.yaml").unlink()

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")

    def rows(self, table):
        found = self.warehouse.current(f"bank.{table}").rows
        return sorted([{k: None if v is None else str(v) for k, v in row.values.items()} for row in found], key=_key)

    def expected(self, table, without=""):
        """The source's rows, but for that with this id."""
        return sorted([row for row in self.stored["rows"][table] if not without or row["id"] != without], key=_key)

    def assert_once(self):
        places = [
            tuple(row[column] for column in ("_topic", "_kafka_partition", "_offset", "_index"))
            for rows in self.warehouse.changes().values() for row in rows
        ]  # fmt: skip
        assert len(places) == len(set(places))


class Answers(BaseHTTPRequestHandler):
    """The registry of that day, as it answered."""

    recorded: ClassVar = {}

    def do_GET(self):
        answer = self.recorded.get(self.path.partition("?")[0])
        body = json.dumps({"error_code": 40403, "message": "not found"} if answer is None else answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def answering(recorded):
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Recorded", (Answers,), {"recorded": recorded}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(params=["simple", "avro", "open-protocol"] if EVERY else ["simple"])
def older(request):
    """In the place where it was written: one test at a time."""
    protocol = request.param
    stored = json.loads((STORED / protocol / "source.json").read_text())
    ROOT.mkdir(exist_ok=True)
    folder = ROOT / protocol
    with (ROOT / f"{protocol}.lock").open("w") as lock, answering(stored["registry"]) as url:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(STORED / protocol / "folder.tar.xz") as packed:
            packed.extractall(folder, filter="data")
        yield Older(folder, stored, url)
        shutil.rmtree(folder)


def test_a_warehouse_of_an_older_version_goes_on(older):
    before = older.warehouse.changes()
    older.run(everything=False)  # nothing is new
    assert older.warehouse.changes() == before
    assert len(older.warehouse.own("quarantine")) == 1

    older.run()
    assert older.rows("account") == older.expected("account", without="8")
    assert [row["code"] for row in older.rows("note")] == ["n1", "n2"], "it is held"
    older.assert_once()

    older.do(RELEASE, *NOTE)
    assert older.rows("note") == older.expected("note")

    for table in (ACCOUNT, NOTE):
        older.do(REBUILD, *table)
    assert older.rows("account") == older.expected("account", without="8")
    assert older.rows("note") == older.expected("note")

    older.expect_nothing()
    older.do(REDRIVE, QUARANTINE)
    assert older.rows("account") == older.expected("account")

    older.do(MAINTAIN, *older.warehouse.names(), "_pipeline.held", "_pipeline.quarantine")
    older.run()
    assert (older.rows("account"), older.rows("note")) == (older.expected("account"), older.expected("note"))
    older.assert_once()
    assert {row["status"] for row in older.warehouse.own("held")} == {"released"}
    assert {row["status"] for row in older.warehouse.own("quarantine")} == {"redriven"}
