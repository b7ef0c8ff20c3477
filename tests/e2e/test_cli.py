"""`run` and `tables` as a person calls them, on a real broker, a real registry and a real warehouse."""

# ruff: noqa: RUF001 - the minus sign of the batch lines is one on purpose

import contextlib
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from confluent_kafka import Producer
from e2e.processes import until
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import AlwaysTrue
from support.slow import few

from pipeline.cli import asof, main
from pipeline.cli import run as command
from pipeline.cli import tables as tables_command
from pipeline.cli.progress import Progress, TableLine, aligned, lines_of
from pipeline.demo import compare
from pipeline.devstack.ports import free_port
from pipeline.ingest.phases import CommittedBatch
from pipeline.ingest.table_work import TableResult
from pipeline.lake import table_metadata
from pipeline.model.messages import Messages, Undecodable
from pipeline.runtime.lock import WriterLock
from pipeline.settings import parse
from pipeline.settings.durations import written
from pipeline.simulate import Shop, SimulatedChangefeed
from pipeline.simulate.avro import ddl_message
from pipeline.sources.kafka.offsets import missing

ROOT = Path(__file__).parents[2]
EXCHANGE_PARTITION = 42


class Said:
    """What one call of the command line gave."""

    def __init__(self, *words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.code = main(words)
        self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def facts(self):
        assert self.code == 0, self.err
        return json.loads(self.out)


class Warehouse:
    """A shop, its changefeed, and the warehouse that it goes into."""

    def __init__(self, stack, folder):
        self.folder, self.stack = folder, stack
        self.prefix = f"cli{uuid.uuid4().hex[:6]}"
        self.shop = Shop(11)
        self.feed = SimulatedChangefeed(
            stack.bootstrap_servers, stack.registry_url, prefix=self.prefix, partitions=1, watermarks=True
        )
        self.file = folder / "ticdc-warehouse.yaml"
        self.write(f'topic_pattern: "{self.prefix}_.*"')

    def write(self, topics):
        self.file.write_text(
            f"name: cli\n"
            f"source: {{kind: kafka, protocol: avro, bootstrap_servers: {self.stack.bootstrap_servers}, {topics}}}\n"
            f"registry: {{url: '{self.stack.registry_url}'}}\n"
            "warehouse: {path: ./warehouse, table_threads: 2}\n"
            "checkpoint: ./checkpoint\n"
            "trigger: 1 second\n"
        )

    def send(self, transactions, *, column=False):
        last = self.shop.add_channel() if column else None
        if last is not None:
            self.feed.send(last)
        for last in self.shop.transactions(transactions, add_column=False):
            if last.ddl is None:
                self.feed.send(last)
        self.feed.checkpoint(last.commit_ts)
        self.feed.flush()
        return last.commit_ts

    def produce(self, table, value, key=None):
        producer = Producer({"bootstrap.servers": self.stack.bootstrap_servers})
        producer.produce(f"{self.prefix}_shop_{table}", value, key=key, partition=0)
        assert producer.flush(30) == 0

    def call(self, *words):
        return Said(*words, "-c", str(self.file))

    def run(self, *words):
        return self.call("run", "--available-now", *words)

    def catalog(self):
        return load_catalog("warehouse", type="sql", uri=f"sqlite:///{self.folder}/warehouse/catalog.db")

    def tags(self, name):
        """The snapshots that have a tag, by the table's name."""
        catalog = self.catalog()
        refs = {table: catalog.load_table(f"shop.{table}").refs() for table in TABLES}
        return {f"shop.{table}": found[name].snapshot_id for table, found in refs.items() if name in found}

    def differences(self):
        catalog = self.catalog()
        verdicts = [
            compare(table, self.shop.database.rows(table.schema, table.name), rows(catalog, table.full_name))
            for table in self.shop.database.tables()
        ]
        return [sentence for verdict in verdicts for sentence in verdict.differences]


def rows(catalog, name):
    return catalog.load_table(name).scan().to_arrow().to_pylist()


@pytest.fixture(scope="module")
def warehouse(stack, tmp_path_factory):
    """A warehouse after two runs; between them a column was added, and somebody wrote rubbish."""
    made = Warehouse(stack, tmp_path_factory.mktemp("cli"))
    made.send(80)
    made.produce("orders", b"no Avro at all")
    made.first = made.run()
    made.middle = made.send(40, column=True)
    made.second = made.run("--output", "json")
    yield made
    made.feed.close()


@pytest.mark.e2e
@pytest.mark.spark
class TestRun:
    def test_a_run_says_a_line_per_table_and_ends_with_what_is_committed(self, warehouse):
        assert warehouse.first.code == 0, warehouse.first.err
        lines = warehouse.first.out.splitlines()
        tables = [line.split()[2] for line in lines if line.startswith("batch 0  shop.")]
        assert tables == sorted(f"shop.{name}" for name in TABLES)
        assert any(line.startswith("1 batch, ") and "everything that was there is committed" in line for line in lines)

    def test_dead_letters_are_in_the_lines_and_once_more_at_the_end(self, warehouse):
        lines = warehouse.first.out.splitlines()
        assert any(line.startswith("batch 0  no table") and "NOT_CONFLUENT" in line for line in lines)
        assert lines[-1].startswith("! 1 dead letter (NOT_CONFLUENT)")
        assert "quarantine list --dead-letters" in lines[-1]

    def test_a_program_gets_one_document_with_the_counts_of_the_changefeed(self, warehouse):
        facts = warehouse.second.facts
        sent = Counter()
        for ops in warehouse.feed.counts.values():
            sent.update(ops)
        changes = rows(warehouse.catalog(), "_pipeline.batches")
        assert facts["batches"] == 1
        assert facts["stopped"] is False
        assert sum(batch["inserts"] for batch in changes) == sent["insert"]
        assert facts["inserts"] == max(changes, key=lambda batch: batch["batch_id"])["inserts"]
        assert set(facts["tables"]) <= {f"shop.{name}" for name in TABLES}

    def test_the_tables_equal_the_source(self, warehouse):
        assert warehouse.differences() == []

    def test_a_run_without_anything_new_says_so_and_changes_nothing(self, warehouse):
        before = warehouse.call("tables", "list", "--output", "json").out
        said = warehouse.run()
        assert (said.code, said.out.startswith("nothing new in ")) == (0, True)
        assert warehouse.call("tables", "list", "--output", "json").out == before

    def test_a_listed_topic_that_does_not_exist_is_skipped_with_a_warning(self, warehouse):
        listed = [f"{warehouse.prefix}_{name}" for name in ("cdc", *(f"shop_{t}" for t in TABLES), "nothing")]
        warehouse.write(f"topics: [{', '.join(listed)}]")
        try:
            said = warehouse.run()
        finally:
            warehouse.write(f'topic_pattern: "{warehouse.prefix}_.*"')
        warning = f"topic {warehouse.prefix}_nothing does not exist yet: skipped"
        assert said.code == 0, said.err
        assert said.out.splitlines().count(warning) == 1
        assert said.out.rstrip().endswith(f"! {warning}")

    @pytest.mark.slow
    def test_a_pattern_is_not_about_the_topics_of_kafkas_tools(self, warehouse):
        producer = Producer({"bootstrap.servers": warehouse.stack.bootstrap_servers})
        producer.produce(f"__heartbeat_{warehouse.prefix}_cdc", b"I live")
        assert producer.flush(30) == 0
        warehouse.write(f'topic_pattern: ".*{warehouse.prefix}_.*"')
        try:
            said = warehouse.run()
        finally:
            warehouse.write(f'topic_pattern: "{warehouse.prefix}_.*"')
        assert (said.code, "heartbeat" in said.out + said.err) == (0, False), said.err

    def test_only_a_known_refusal_can_be_accepted(self, warehouse):
        said = warehouse.run("--accept", "TOPIC_RECRAETED")
        assert said.code == 2
        assert "TOPIC_RECREATED" in said.err

    @pytest.mark.parametrize("number", few(signal.SIGTERM, signal.SIGINT))
    def test_a_signal_while_spark_starts_ends_a_run_before_its_first_batch(self, warehouse, number):
        holder = warehouse.folder / "warehouse" / ".writer.json"
        holder.unlink(missing_ok=True)
        with running(warehouse) as process:
            warehouse.send(1)
            until(holder.exists)
            process.send_signal(number)
            said, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert "stopping as soon as the warehouse is open" in said
        assert "nothing new in" in said
        assert "stopped; the next run goes on from here" in said

    def test_sigterm_ends_a_run_after_its_batch_and_the_next_one_goes_on(self, warehouse):
        """While it lives it tells Prometheus what it does, and a program what it did, line by line."""
        port = free_port()
        with running(warehouse, TICDC_WAREHOUSE__METRICS__PORT=str(port)) as process:
            warehouse.send(30)
            seen = until_line(process, lambda line: line.startswith("batch "))
            told = scraped(port, lambda text: "ticdc_warehouse_batches_total 0.0" not in text)
            process.send_signal(signal.SIGTERM)
            rest, errors = process.communicate(timeout=120)
        assert seen, errors
        assert 'ticdc_warehouse_changes_total{op="' in told
        assert 'ticdc_warehouse_step_seconds_count{step="changes-appended"}' in told
        assert f'ticdc_warehouse_consumer_lag_records{{topic="{warehouse.prefix}_shop_orders"}}' in told
        lags = [
            float(line.split()[-1]) for line in told.splitlines() if line.startswith("ticdc_warehouse_lag_seconds{")
        ]
        assert lags
        assert all(seconds > 0 for seconds in lags)
        log = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
        landed = [event for event in log if event["event"] == "landed"]
        assert landed
        assert {event["table"] for event in landed} <= {f"shop.{name}" for name in TABLES}
        assert {event["batch"] for event in landed} == {
            event["batch"] for event in log if event["event"] == "committed"
        }
        assert process.returncode == 0, errors
        assert command.STOPPING in rest
        assert "stopped; the next run goes on from here" in rest
        assert warehouse.run().code == 0
        assert warehouse.differences() == []


TABLES = ("customers", "order_items", "orders", "payments", "products")


def scraped(port, wanted, seconds=60):
    """What the metrics say when they say what is wanted."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        if wanted(text):
            return text
        time.sleep(0.2)
    return ""


@contextlib.contextmanager
def running(warehouse, **environment):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **environment}
    words = [sys.executable, "-m", "pipeline", "run", "-c", str(warehouse.file)]
    process = subprocess.Popen(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until_line(process, wanted, seconds=180):
    """Read lines until one is wanted; a run that hangs is killed."""
    watchdog = threading.Timer(seconds, process.kill)
    watchdog.start()
    try:
        return next((line for line in process.stdout if wanted(line)), None)
    finally:
        watchdog.cancel()


@pytest.mark.e2e
@pytest.mark.spark
class TestLooking:
    @pytest.fixture(autouse=True)
    def _neither_spark_nor_kafka_nor_the_lock(self, warehouse, monkeypatch):
        monkeypatch.setattr(tables_command, "_client", lambda: pytest.fail("looking started Spark"))
        monkeypatch.setenv("TICDC_WAREHOUSE__SOURCE__BOOTSTRAP_SERVERS", "127.0.0.1:1")
        with WriterLock(warehouse.folder / "warehouse", "somebody else"):
            yield

    def test_the_list_has_every_table_with_the_rows_that_the_source_has(self, warehouse):
        listed = {
            table["source"]: table for table in warehouse.call("tables", "list", "--output", "json").facts["tables"]
        }
        database = warehouse.shop.database
        assert {name: table["rows"] for name, table in listed.items()} == {
            table.full_name: len(database.rows(table.schema, table.name)) for table in database.tables()
        }
        assert {table["state"] for table in listed.values()} == {"live"}
        assert all(table["files"] > 0 and table["size"] > 0 and table["snapshot"] for table in listed.values())

    def test_the_list_is_quick_to_start(self, warehouse):
        words = [sys.executable, "-X", "importtime", "-m", "pipeline", "tables", "list", "-c", str(warehouse.file)]
        said = subprocess.run(
            words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
        )
        imported = {line.split("|")[-1].strip() for line in said.stderr.splitlines() if "|" in line}
        assert not imported & {"pipeline.service", "sqlalchemy", "pyiceberg.io.pyarrow"}
        assert "shop.orders" in said.stdout

    def test_a_table_is_described_with_its_columns_key_and_defaults(self, warehouse):
        facts = warehouse.call("tables", "describe", "SHOP.Orders", "--output", "json").facts
        columns = {column["column"]: column for column in facts["columns"]}
        assert facts["handle"] == ["order_id"]
        assert (columns["order_id"]["type"], columns["order_id"]["key"]) == ("decimal(20,0)", 1)
        assert columns["channel"]["older_rows_show"] == "'web'"
        assert columns["channel"]["since"] > columns["note"]["since"]
        assert len(facts["source_versions"]) >= 2

    def test_the_history_has_the_statement_the_versions_and_what_readers_saw(self, warehouse):
        facts = warehouse.call("tables", "history", "shop.orders", "--output", "json").facts
        assert any("ADD COLUMN" in (row["sql"] or "") for row in facts["ddl_history"])
        assert any("channel" in {column["name"] for column in row["columns"]} for row in facts["schemas"])
        newest = facts["states"][0]
        listed = warehouse.call("tables", "list", "--output", "json").facts["tables"]
        assert newest["snapshot"] == next(t["snapshot"] for t in listed if t["source"] == "shop.orders")

    def test_as_of_a_moment_gives_snapshots_that_show_that_moment(self, warehouse):
        newest = warehouse.call("tables", "as-of", str(warehouse.middle), "--look", "--output", "json").facts
        before = warehouse.call("tables", "as-of", str(warehouse.middle - 1), "--look", "--output", "json").facts
        assert newest["cut_ts"] == warehouse.middle
        assert before["cut_ts"] < warehouse.middle
        assert newest["levels"] == ["bounded"]
        now, then = ({table["source"]: table["snapshot"] for table in facts["tables"]} for facts in (newest, before))
        orders = warehouse.catalog().load_table("shop.orders")
        assert "channel" in orders.scan(snapshot_id=now["shop.orders"]).to_arrow().column_names
        assert "channel" not in orders.scan(snapshot_id=then["shop.orders"]).to_arrow().column_names

    def test_as_of_a_time_before_every_cut_is_refused_with_the_reason(self, warehouse):
        said = warehouse.call("tables", "as-of", "2001-01-01")
        assert said.code == 1
        assert "NO_CUT" in said.err
        assert "avro-enable-watermark=true" in said.err

    def test_a_table_that_is_not_there_is_refused_with_the_likely_name(self, warehouse):
        said = warehouse.call("tables", "describe", "shop.ordres")
        assert said.code == 1
        assert "TABLE_UNKNOWN" in said.err
        assert "did you mean `shop.orders`?" in said.err

    def test_a_dry_run_of_maintenance_only_counts(self, warehouse):
        before = {
            name: warehouse.catalog().load_table(name).metadata_location
            for name in ("shop.orders", "_pipeline.batches")
        }
        counted = warehouse.call("tables", "maintain", "--dry-run", "--output", "json").facts["tables"]
        assert {row["expirable"] for row in counted} == {0}  # all younger than `maintenance.keep_for`
        for name, metadata in before.items():
            assert warehouse.catalog().load_table(name).metadata_location == metadata
        names = {row["table"] for row in counted}
        assert {"shop.orders", "shop.orders__changes", "_pipeline.batches"} <= names
        assert next(row for row in counted if row["table"] == "shop.orders__changes")["data_files"] >= 2

    def test_a_command_that_writes_is_refused_while_another_process_does(self, warehouse, monkeypatch):
        monkeypatch.undo()
        said = warehouse.call("tables", "rebuild", "shop.orders")
        assert said.code == 1
        assert "WAREHOUSE_IN_USE" in said.err
        assert "somebody else" in said.err


@pytest.mark.e2e
def test_without_a_warehouse_the_list_says_how_to_get_one(tmp_path):
    file = tmp_path / "ticdc-warehouse.yaml"
    file.write_text(SETTINGS)
    said = Said("tables", "list", "-c", str(file))
    assert said.code == 1
    assert "NO_WAREHOUSE" in said.err


@pytest.mark.e2e
@pytest.mark.spark
class TestWriting:
    def test_maintenance_leaves_fewer_files_and_every_row(self, warehouse):
        facts = warehouse.call("tables", "maintain", "shop.orders", "--output", "json").facts
        before, after = (
            {row["table"]: row["data_files"] + row["delete_files"] for row in facts[when]}
            for when in ("before", "after")
        )
        assert after["shop.orders"] < before["shop.orders"]
        assert after["shop.orders__changes"] < before["shop.orders__changes"]
        assert warehouse.differences() == []

    @pytest.mark.slow
    def test_old_files_of_no_snapshot_are_named_then_removed_and_young_ones_stay(self, warehouse):
        location = Path(warehouse.catalog().load_table("shop.orders").location().removeprefix("file:"))
        old, young = location / "data" / "left-behind.parquet", location / "data" / "just-written.parquet"
        for file in (old, young):
            file.write_bytes(b"of a run that was killed")
        long_ago = time.time() - 4 * 86_400
        os.utime(old, (long_ago, long_ago))
        found = warehouse.call("tables", "maintain", "shop.orders", "--orphans", "--dry-run", "--output", "json").facts
        assert [Path(one["file"]).name for one in found["orphans"]] == [old.name]
        assert old.exists()
        done = warehouse.call("tables", "maintain", "shop.orders", "--orphans")
        assert done.code == 0, done.err
        assert "removed: 1 file that no snapshot names" in done.out
        assert (old.exists(), young.exists()) == (False, True)
        young.unlink()
        assert warehouse.differences() == []

    def test_a_damaged_current_table_is_built_anew_from_its_changes(self, warehouse):
        warehouse.catalog().load_table("shop.orders").delete(AlwaysTrue())
        assert warehouse.differences() != []
        said = warehouse.call("tables", "rebuild", "shop.orders")
        assert said.code == 0, said.err
        assert warehouse.differences() == []

    def test_a_run_that_lives_does_what_others_ask_for_between_its_batches(self, warehouse):
        with running(warehouse) as process:
            warehouse.send(3)
            assert until_line(process, lambda line: line.startswith("batch "))
            warehouse.catalog().load_table("shop.orders").delete(AlwaysTrue())
            assert warehouse.differences() != []
            rebuilt = warehouse.call("tables", "rebuild", "shop.orders")
            repaired = warehouse.differences()
            tagged = warehouse.call("tables", "as-of", "--tag", "audit", "--output", "json")
            refused = warehouse.call("tables", "release", "shop.orders")
            maintained = warehouse.call("tables", "maintain", "shop.orders")
            warehouse.send(3)
            assert until_line(process, lambda line: line.startswith("batch "))
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=120)
        assert (rebuilt.code, maintained.code) == (0, 0), rebuilt.err + maintained.err
        assert repaired == []
        assert {row["source"]: row["snapshot"] for row in tagged.facts["tables"]} == warehouse.tags("audit")
        assert refused.code == 1
        assert "NOT_HELD" in refused.err
        assert process.returncode == 0, errors
        assert warehouse.run().code == 0  # it may have been stopped between two batches
        assert warehouse.differences() == []

    def test_a_moment_is_tagged_on_every_table_and_asking_again_starts_nothing(self, warehouse, monkeypatch):
        first = warehouse.call("tables", "as-of", str(warehouse.middle), "--output", "json").facts
        snapshots = {row["source"]: row["snapshot"] for row in first["tables"]}
        assert snapshots == warehouse.tags(f"cut_{warehouse.middle}")
        monkeypatch.setattr(tables_command, "_client", lambda: pytest.fail("the second call started Spark"))
        assert warehouse.call("tables", "as-of", str(warehouse.middle), "--output", "json").facts == first

    def test_a_table_that_is_not_held_cannot_be_released(self, warehouse):
        said = warehouse.call("tables", "release", "shop.orders")
        assert said.code == 1
        assert "NOT_HELD" in said.err

    def test_a_statement_that_nobody_understands_holds_its_table_until_it_is_released(self, warehouse):
        sql = "ALTER TABLE `shop`.`orders` EXCHANGE PARTITION `p0` WITH TABLE `shop`.`old`"
        commit_ts = warehouse.send(1) + 1
        warehouse.produce("orders", ddl_message(sql, EXCHANGE_PARTITION, "shop", "orders", commit_ts))
        warehouse.send(30)
        said = warehouse.run()
        assert said.code == 0, said.err
        assert "! shop.orders is held (DDL_NOT_UNDERSTOOD" in said.out
        assert "tables release shop.orders" in said.out
        assert "shop.orders is held" in warehouse.call("tables", "list").out
        released = warehouse.call("tables", "release", "shop.orders")
        assert released.code == 0, released.err
        assert warehouse.differences() == []

    def test_a_lost_catalog_is_refused_until_its_tables_are_restored(self, warehouse):
        listed = warehouse.call("tables", "list", "--output", "json").facts["tables"]
        for file in (warehouse.folder / "warehouse").glob("catalog.db*"):
            file.unlink()
        for said in (warehouse.call("tables", "list"), warehouse.run()):
            assert said.code == 1
            assert "CATALOG_LOST" in said.err
            assert "tables restore" in said.err
        restored = warehouse.call("tables", "restore", "--output", "json").facts["restored"]
        assert {"shop.orders", "shop.orders__changes"} <= {row["table"] for row in restored}
        assert warehouse.call("tables", "list", "--output", "json").facts["tables"] == listed
        warehouse.send(20)
        said = warehouse.run()
        assert said.code == 0, said.err
        assert warehouse.differences() == []

    @pytest.mark.slow
    def test_the_ledger_is_restored_with_the_tables(self, warehouse):
        batches = rows(warehouse.catalog(), "_pipeline.batches")
        assert min(batch["batch_id"] for batch in batches) == 0
        assert len(batches) == len({batch["batch_id"] for batch in batches}) > 2


SETTINGS = """
name: cli
source: {kind: kafka, protocol: avro, bootstrap_servers: "b:1", topics: [here, there]}
registry: {url: "http://r"}
warehouse: {path: ./warehouse}
checkpoint: ./checkpoint
"""


class TestLines:
    """The batch lines and their neighbours, without Spark."""

    def test_a_line_leaves_out_what_is_zero(self):
        line = TableLine.of(TableResult("shop.orders", {"insert": 412, "update": 96, "delete": 3}, seconds=0.94), 0.0)
        assert [str(text) for text in aligned(128, [line])] == ["batch 128  shop.orders  +412 ~96 −3  0.9 s"]

    def test_a_line_shows_what_was_set_aside_and_how_old_the_newest_change_is(self):
        commit_ts = 1_700_000_000_000 << 18
        landed = TableResult("a.b", {"upsert": 1_200}, dead_letters=2, held=5, seconds=75, newest=commit_ts)
        line = TableLine.of(landed, 1_700_000_001.4)
        assert [str(text) for text in aligned(0, [line])] == [
            "batch 0  a.b  ~1,200  dead letters 2  held 5  lag 1.4 s  1.2 min"
        ]

    def test_the_lines_of_a_batch_stand_in_columns(self):
        outcome = CommittedBatch(
            0, Messages(), (TableResult("shop.orders", {"insert": 1}), TableResult("a.b", {"insert": 100, "delete": 1}))
        )
        shown = [str(text) for text in aligned(7, lines_of(outcome, 0.0))]
        assert shown == ["batch 7  a.b          +100 −1  0.0 s", "batch 7  shop.orders  +1       0.0 s"]

    def test_a_table_that_a_statement_cut_in_two_is_one_line(self):
        outcome = CommittedBatch(
            0, Messages(), (TableResult("a.b", {"insert": 1}, seconds=1), TableResult("a.b", {"delete": 2}, seconds=2))
        )
        assert [str(text) for text in aligned(0, lines_of(outcome, 0.0))] == ["batch 0  a.b  +1 −2  3.0 s"]

    def test_messages_of_no_table_are_a_line_with_their_codes(self):
        refused = (Undecodable("NOT_CONFLUENT", "…", None, 2), Undecodable("SCHEMA_NOT_FOUND", "…", None, 1))
        outcome = CommittedBatch(0, Messages(refused=refused), (TableResult("a.b", {"insert": 1}, dead_letters=1),), 4)
        assert str(aligned(0, lines_of(outcome, 0.0))[-1]) == (
            "batch 0  no table      dead letters 3  NOT_CONFLUENT, SCHEMA_NOT_FOUND"
        )

    def test_a_batch_of_watermarks_alone_prints_nothing(self):
        assert lines_of(CommittedBatch(0, Messages(events=4, control=4)), 0.0) == []

    def test_a_table_name_cannot_steer_the_terminal(self):
        line = TableLine.of(TableResult("a.\x1b[31mb", {"insert": 1}), 0.0)
        assert "\x1b" not in str(aligned(0, [line])[0])

    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [(0.04, "0.0 s"), (9.96, "10.0 s"), (59, "59 s"), (90, "1.5 min"), (7_200, "2.0 h"), (864_000, "10 d")],
    )
    def test_a_duration_has_two_digits_and_a_unit(self, seconds, shown):
        assert written(seconds) == shown

    def test_the_totals_add_up_over_batches(self):
        said = []
        progress = Progress(type("Out", (), {"line": lambda _, text: said.append(text)})())
        for number in range(2):
            landed = (TableResult("a.b", {"insert": 2, "delete": 1}), TableResult("a.c", {}, held=3))
            progress.batch(number, CommittedBatch(0, Messages(events=6), landed), 0.1)
        facts = progress.facts()
        assert (facts["batches"], facts["messages"], facts["inserts"], facts["held"]) == (2, 12, 4, 6)
        assert facts["tables"]["a.b"]["deletes"] == 2
        assert progress.changes == 6
        assert len(said) == 4


class TestWords:
    """What is read from people, and said to them."""

    def test_a_tso_is_taken_as_it_is(self):
        assert asof.timestamp("450000000000000000") == 450_000_000_000_000_000

    def test_a_time_means_the_end_of_its_millisecond_in_utc(self):
        commit_ts = asof.timestamp("2024-05-25T05:09:29.123")
        moment = datetime(2024, 5, 25, 5, 9, 29, 123_000, tzinfo=UTC)
        assert commit_ts >> 18 == round(moment.timestamp() * 1000)
        assert (commit_ts + 1) >> 18 == round(moment.timestamp() * 1000) + 1
        assert asof.timestamp("2024-05-25T07:09:29.123+02:00") == commit_ts

    @pytest.mark.parametrize("text", ["yesterday", "1716613769", "20240525"])
    def test_what_is_neither_is_refused_with_an_example(self, text):
        with pytest.raises(typer.BadParameter, match="2026-11-21T11:48:07Z"):
            asof.timestamp(text)

    def test_missing_topics_are_skipped_or_waited_for(self, tmp_path):
        settings = parse(SETTINGS, tmp_path)
        assert missing(settings.source, {"here"}, available_now=True) == ["topic there does not exist yet: skipped"]
        assert missing(settings.source, {"here"}, available_now=False) == [
            "topic there does not exist yet: waiting for it"
        ]
        assert missing(settings.source, {"here", "there"}, available_now=True) == []

    def test_a_pattern_that_matches_nothing_is_said(self, tmp_path):
        settings = parse(SETTINGS.replace("topics: [here, there]", 'topic_pattern: "t.*"'), tmp_path)
        assert missing(settings.source, set(), available_now=False) == ["no topic matches t.* yet: waiting for one"]
        assert missing(settings.source, {"there"}, available_now=False) == []

    @pytest.mark.parametrize(("size", "shown"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (2e15, "2000.0 TB")])
    def test_sizes_are_written_for_people(self, size, shown):
        assert table_metadata.human(size) == shown


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


class TestDocuments:
    """What the documents show can be typed."""

    @pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
    def test_every_command_that_a_document_names_is_there(self, document):
        text = document.read_text()
        for name, rest in re.findall(r"ticdc-warehouse ([a-z]+)((?: [a-z-]+)*)", text):
            group = importlib.import_module(f"pipeline.cli.{name}").app
            known = [command.name or command.callback.__name__ for command in group.registered_commands]
            asked = rest.split()[:1]
            assert not asked or known == [name] or asked[0] in known, f"ticdc-warehouse {name}{rest}"

    def test_the_configuration_of_the_readme_is_one_that_loads(self, tmp_path):
        blocks = re.findall(r"```yaml\n(name:.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
        assert blocks
        for block in blocks:
            assert parse(block, tmp_path).source.topic_pattern == "tidb_.*"

    def test_every_refusal_that_can_be_accepted_is_explained(self):
        explained = (ROOT / "docs/how-to/go-on-after-a-refusal.md").read_text()
        assert [code for code in command.ACCEPTABLE if f"`{code}`" not in explained] == []

    @pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
    def test_every_link_leads_somewhere(self, document):
        for target in re.findall(r"\]\((?!http)([^)#]*)(?:#[^)]*)?\)", document.read_text()):
            assert not target or (document.parent / target).exists(), target


class TestSignals:
    def test_the_first_signal_stops_and_a_second_ctrl_c_ends_at_once(self):
        code = (
            "import os, signal, sys, time\n"
            "from pipeline.cli.run import stopping\n"
            "def stop():\n"
            "    print('asked', flush=True)\n"
            "with stopping(stop):\n"
            "    os.kill(os.getpid(), signal.SIGTERM)\n"
            "    time.sleep(0.5)\n"
            "    os.kill(os.getpid(), signal.SIGTERM)\n"
            "    time.sleep(0.5)\n"
            "    print('still here', flush=True)\n"
            "    os.kill(os.getpid(), signal.SIGINT)\n"
            "    time.sleep(5)\n"
            "    print('too late', flush=True)\n"
        )
        said = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (said.returncode, said.stdout.split("\n")) == (130, ["asked", "still here", ""])

    def test_handlers_are_as_before_afterwards(self):
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        with command.stopping(time.sleep):
            assert signal.getsignal(signal.SIGINT) is not before[0]
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
