"""What is being worked on stands in each event, also in those of threads and of what comes behind the batch."""

import json
import logging
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.ingest import batch
from pipeline.ingest.batch import Writers
from pipeline.ingest.by_commit_ts import publishing
from pipeline.ingest.by_commit_ts.publishing import Publishing
from pipeline.ingest.phases import CommittedBatch
from pipeline.ingest.run_state import Ledger, RunState
from pipeline.ingest.table_work import TableResult
from pipeline.model.messages import TableMessages
from pipeline.model.names import TableName
from pipeline.observe import logs
from pipeline.service import pipeline
from pipeline.service.telemetry import Telemetry
from pipeline.sources.source import Taken
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.pairs import State

BATCH = 7
ORDERS, ITEMS = TableName("shop", "orders"), TableName("shop", "items")
ROUTED = SimpleNamespace(batch_id=BATCH, messages=None, stream_ids={}, small=None)
log = logs.get_logger("pipeline.working")


class Step:
    """Told of every durable step, and says so to the log; so does a library."""

    def __call__(self, name):
        log.info(name)
        logging.getLogger("py4j").warning("%s, said by a library", name)


def nothing(*_args, **_more):
    return None


class Iceberg:
    """A table of the warehouse that is due for all there is to do."""

    def __init__(self, name):
        self.name = self.uuid = name
        self.properties = {}

    def totals(self):
        return {"data-files": 10**6, "delete-files": 0, "position-deletes": 0, "records": 0}

    def head_sequence(self):
        return 10**6

    def snapshot_count(self):
        return 10**6

    rewrite = refresh = rewrite_deletes = expire = nothing


def pair(source):
    names = {"current": Iceberg(str(source)), "changes": Iceberg(f"{source}__changes")}
    return SimpleNamespace(uuid=str(source), source=source, state=State.LIVE, layout=Layout(), unshown=False, **names)


@pytest.fixture
def context():
    thresholds = SimpleNamespace(
        compact_files=1, compact_deletes=1, expire_after_commits=1, keep_snapshots=1, keep_for_seconds=1
    )
    settings = SimpleNamespace(
        name="model", checkpoint=Path("/model/checkpoint"),
        warehouse=SimpleNamespace(threads=lambda **_: 2, path=Path("/model"), maintenance=thresholds),
    )  # fmt: skip
    spark = SimpleNamespace(sparkContext=SimpleNamespace(setJobDescription=nothing))
    return SimpleNamespace(
        spark=spark, settings=settings, step=Step(), timezone="UTC", tables=[pair(ORDERS), pair(ITEMS)],
        run=RunState(Ledger(BATCH - 1)),
        records=SimpleNamespace(tables={"cuts": Iceberg("_pipeline.cuts")}),
    )  # fmt: skip


@pytest.fixture
def said(capsys):
    """The events since, by what they say: their batches and tables."""
    handlers, level = logging.getLogger().handlers[:], logging.getLogger("pipeline").level
    logs.configure(logs.LogFormat.JSON)

    def read():
        found = {}
        for line in capsys.readouterr().err.splitlines():
            event = json.loads(line)
            found.setdefault(event["event"], set()).add((event.get("batch"), event.get("table")))
        return found

    yield read
    logging.getLogger().handlers = handlers
    logging.getLogger("pipeline").setLevel(level)


def of_both(said, name):
    """Whether an event of ours, and one of a library, was told of this batch and of each of the tables."""
    both = {(BATCH, str(ORDERS)), (BATCH, str(ITEMS))}
    return said.get(name) == both and said.get(f"{name}, said by a library") == both


def test_changes_are_appended_under_their_batch_and_table(context, said, monkeypatch):
    monkeypatch.setattr(batch.TableWriter, "of", lambda context, _work: SimpleNamespace(context=context))
    monkeypatch.setattr(batch, "land_table", lambda writer, _messages: writer.context.step("appended"))
    parts = [SimpleNamespace(messages=TableMessages(table, ())) for table in (ORDERS, ITEMS)]
    Writers(context, ROUTED).land(parts)
    assert of_both(said(), "appended")


def test_a_table_is_published_under_its_batch_and_name(context, said, monkeypatch):
    """By commit ts in threads of their own, which inherit nothing."""

    def advance(_spark, _table, _timezone, _operation, step, _until, *, afresh):
        assert not afresh
        step("published")
        return SimpleNamespace(snapshot=1)

    monkeypatch.setattr(publishing, "advance", SimpleNamespace(advance=advance, is_due=lambda *_: True))
    monkeypatch.setattr(publishing, "exchanges", lambda _: [])
    monkeypatch.setattr(publishing, "may_be_written", lambda *_: True)
    progress = SimpleNamespace(until=lambda *_: 1, cut_ts=0)
    shown = Publishing(context, ROUTED, None, progress, (), ()).publish()
    assert [table.source for table, _ in shown] == [ORDERS, ITEMS]
    assert of_both(said(), "published")


@pytest.fixture
def open_pipeline(context, monkeypatch):
    """A pipeline whose batches are what the test says."""
    monkeypatch.setattr(pipeline, "spread", nothing)
    monkeypatch.setattr(Telemetry, "batch", nothing)
    return pipeline.Pipeline(context, ExitStack(), nothing, Telemetry())


def taken(opened):
    opened._take(Taken(SimpleNamespace(sparkSession=None), 0, None))


def test_what_a_batch_does_is_said_under_it_to_its_end(open_pipeline, said, monkeypatch):
    monkeypatch.setattr(pipeline, "take_batch", lambda context, _raw: context.step("read"))
    taken(open_pipeline)
    found = said()
    assert (found["read"], found["before-spark-commit"]) == ({(BATCH, None)}, {(BATCH, None)})


def test_tables_are_compacted_and_expire_under_the_batch_that_has_written_them(open_pipeline, said, monkeypatch):
    committed = CommittedBatch(BATCH, None, (TableResult(str(ORDERS)),))
    monkeypatch.setattr(pipeline, "take_batch", lambda *_: committed)
    taken(open_pipeline)
    done = {(BATCH, name) for name in ("shop.orders", "shop.orders__changes", "_pipeline.cuts")}
    found = said()
    assert (found["compacted"], found["expired"], found["compacted, said by a library"]) == (done, done, done)


def test_after_a_batch_nothing_is_said_under_it(open_pipeline, said, monkeypatch):
    monkeypatch.setattr(pipeline, "take_batch", nothing)
    taken(open_pipeline)
    said()
    log.info("waiting")
    assert said()["waiting"] == {(None, None)}
