"""The numbers for Prometheus: what a batch did, as its text format says it, over HTTP."""

import threading
import urllib.request
from types import MappingProxyType, SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.memory_source import MemorySource

from pipeline.errors import EnvironmentFault
from pipeline.ingest.by_commit_ts.frontier import closed_by_watermark
from pipeline.ingest.run_state import ChangefeedProgress, Ledger, RunState
from pipeline.model.messages import Ordering
from pipeline.model.names import TableName
from pipeline.observe.metrics import PREFIX, BatchDone, Metrics, TableDone
from pipeline.service.telemetry import Telemetry, _cut_time
from pipeline.sources.storage.source import StorageBacklog
from pipeline.sources.storage.store import StoredFile
from pipeline.warehouse.consistent_points import ConsistentPoints
from pipeline.warehouse.pairs import State

ORDERS = TableDone("shop.orders", {"insert": 4, "delete": 1}, quarantined=2, dead_letters=1, held=0, lag=1.5)


@pytest.fixture
def metrics():
    return Metrics("shop", "1.2.3")


def scraped(metrics):
    """Name and labels → value, as a server is told."""
    server = metrics.serve("127.0.0.1", 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(s.name.removeprefix(f"{PREFIX}_"), *sorted(s.labels.values())): s.value for s in samples}


def batch(number=7, **facts):
    return BatchDone(number, 8, 2.5, 1_000.0, **facts)


def test_a_batch_counts_what_it_did_by_table(metrics):
    metrics.batch(batch(tables=(ORDERS,), unattributed=3))
    metrics.batch(batch(8, tables=(ORDERS,)))
    told = scraped(metrics)
    assert told["batches_total",] == 2
    assert told["rows_in_total",] == 16
    assert told["changes_total", "insert", "shop.orders"] == 8
    assert told["changes_total", "delete", "shop.orders"] == 2
    assert told["quarantined_total", "shop.orders"] == 4
    assert told["dead_letters_total", "shop.orders"] == 2
    assert told["dead_letters_total", ""] == 3
    assert told["lag_seconds", "shop.orders"] == 1.5
    assert told["batch_seconds_sum",] == 5.0
    assert (told["last_batch_id",], told["last_batch_timestamp_seconds",]) == (8, 1000.0)
    assert told["pipeline_info", "1.2.3", "shop"] == 1


def test_what_may_be_set_aside_is_counted_from_nothing(metrics):
    metrics.begin(["shop.orders"])
    told = scraped(metrics)
    assert told["dead_letters_total", ""] == 0
    for name in ("quarantined_total", "dead_letters_total", "held_records_total"):
        assert told[name, "shop.orders"] == 0


def test_what_holds_no_longer_is_gone(metrics):
    metrics.batch(batch(held_tables=("shop.orders",), pending=True, cut_time=5.0))
    metrics.lag({"a": 3, "b": 0})
    told = scraped(metrics)
    assert (told["table_held", "shop.orders"], told["pending_records",], told["last_cut_timestamp_seconds",]) == (
        1,
        1,
        5.0,
    )
    assert (told["consumer_lag_records", "a"], told["consumer_lag_records", "b"]) == (3, 0)
    metrics.batch(batch())
    metrics.lag({"b": 1})
    told = scraped(metrics)
    assert ("table_held", "shop.orders") not in told
    assert (told["pending_records",], told["last_cut_timestamp_seconds",]) == (0, 5.0)
    assert ("consumer_lag_records", "a") not in told


def test_seconds_stand_by_step(metrics):
    metrics.step("read", 0.2)
    metrics.step("read", 0.4)
    told = scraped(metrics)
    assert (told["step_seconds_count", "read"], round(told["step_seconds_sum", "read"], 3)) == (2, 0.6)


def test_a_pipeline_that_is_open_is_told_from_one_that_is_refused_before_its_first_record(metrics):
    assert "dead_letters_total" not in {name for name, *_ in scraped(metrics)}
    metrics.begin(())
    assert scraped(metrics)["dead_letters_total", ""] == 0


def test_no_series_says_when_another_was_made(metrics):
    metrics.batch(batch(tables=(ORDERS,)))
    metrics.step("read", 0.2)
    assert [name for name, *_ in scraped(metrics) if name.endswith("_created")] == []


def test_what_stays_is_there_at_every_moment(metrics):
    """A scrape may come while a batch tells which tables wait, and while Kafka is asked how much it has."""
    metrics.held(["shop.orders"])
    metrics.lag({"a": 1})
    told, done = [], threading.Event()

    def scrape():
        while not done.is_set():
            families = {family.name.removeprefix(f"{PREFIX}_"): family for family in metrics.registry.collect()}
            held, behind = families["table_held"].samples, families["consumer_lag_records"].samples
            told.append(({s.labels["table"] for s in held}, {s.labels["topic"] for s in behind}))

    scraping = threading.Thread(target=scrape)
    scraping.start()
    for number in range(2_000):
        metrics.held(["shop.orders", f"shop.t{number}"])
        metrics.lag({"a": number, f"t{number}": 1})
    done.set()
    scraping.join()
    assert told
    assert all("shop.orders" in held and "a" in behind for held, behind in told)
    assert set(scraped(metrics)) >= {("table_held", "shop.orders"), ("table_held", "shop.t1999")}
    assert ("table_held", "shop.t1998") not in scraped(metrics)


def opened_bench(*names, waiting=MappingProxyType({}), ordering=Ordering.BY_COMMIT_TS):
    """A workbench as far as telemetry looks at it."""
    ours = SimpleNamespace(said_at=lambda _key: None, properties={})
    return SimpleNamespace(
        tables=[SimpleNamespace(source=name, state=State.LIVE) for name in names],
        records=SimpleNamespace(
            tables={"batches": ours, "ddl_history": ours}, held_counts=lambda: waiting, counted=waiting
        ),
        protocol=SimpleNamespace(ordering=ordering),
        settings=SimpleNamespace(source=SimpleNamespace(kind="kafka")),
        source=SimpleNamespace(backlog=MemorySource(list).backlog),
        run=SimpleNamespace(
            ledger=Ledger(), has_pending=ordering == "by_commit_ts", is_due=lambda _what, _seconds: True
        ),
    )


def away(*_more):
    raise EnvironmentFault("KAFKA_UNREACHABLE", "Kafka did not answer", "")


def test_what_kafka_has_is_not_told_while_it_does_not_answer(metrics):
    telemetry, context = Telemetry(metrics), opened_bench()
    assert "kafka_reachable" not in {name for name, *_ in scraped(metrics)}  # nobody has asked
    telemetry.opened(context)
    metrics.lag({"orders": 0})
    begun = scraped(metrics)["last_kafka_answer_timestamp_seconds",]
    context.source.backlog = away
    telemetry.look(context)
    told = scraped(metrics)
    assert ("consumer_lag_records", "orders") not in told
    assert told["kafka_reachable",] == 0
    assert told["last_kafka_answer_timestamp_seconds",] == begun
    context.source.backlog = MemorySource(list).backlog
    telemetry.look(context)
    told = scraped(metrics)
    assert told["kafka_reachable",] == 1
    assert told["last_kafka_answer_timestamp_seconds",] > begun


@pytest.mark.parametrize(
    ("ordering", "code", "told"),
    [
        (Ordering.BY_COMMIT_TS, "SCHEMA_PENDING", 1),
        (Ordering.BY_COMMIT_TS, "", 0),
        (Ordering.BY_OFFSET, "SCHEMA_PENDING", 0),
    ],
)
def test_records_that_wait_since_another_process_are_told_before_the_first_batch(metrics, ordering, code, told):
    waiting = {(TableName("shop", "orders"), code): 1}
    Telemetry(metrics).opened(opened_bench(waiting=waiting, ordering=ordering))
    assert scraped(metrics)["pending_records",] == told


def test_a_table_that_a_batch_has_just_made_counts_from_nothing_before_the_batch_ends(metrics):
    telemetry = Telemetry(metrics)
    telemetry.opened(opened_bench("shop.orders"))
    telemetry.look(opened_bench("shop.orders", "shop.items"))
    told = scraped(metrics)
    assert (told["dead_letters_total", "shop.orders"], told["dead_letters_total", "shop.items"]) == (0, 0)


def test_how_far_a_changefeed_of_files_is_and_how_many_files_wait(metrics):
    commit_ts, entry = 1_800_000_000_000 << 18, StoredFile("s/t/1/CDC000001.csv", 7, "e", 5.0)
    context = opened_bench()
    context.source.backlog = lambda _committed: StorageBacklog([entry], commit_ts)
    Telemetry(metrics).look(context)
    told = scraped(metrics)
    assert told["changefeed_checkpoint_timestamp_seconds",] == 1_800_000_000
    assert (told["consumer_lag_records", "files"], told["consumer_lag_bytes", "files"]) == (1, 7)
    assert told["oldest_lag_timestamp_seconds", "files"] == 5.0


def test_a_metric_that_has_a_new_name_is_shown_under_its_former_one_too(metrics):
    metrics.lag({"orders": 3})
    metrics.oldest({"orders": 5.0})
    metrics.operation("rebuild", 7.0)
    metrics.pending(some=True)
    told = scraped(metrics)
    for name, former in (
        ("consumer_lag_records", "records_behind"),
        ("oldest_lag_timestamp_seconds", "oldest_behind_timestamp_seconds"),
    ):
        assert told[name, "orders"] == told[former, "orders"] > 0
    assert told["operation_started_timestamp_seconds", "rebuild"] == told["errand_begun_timestamp_seconds", "rebuild"]
    assert told["pending_records",] == told["records_wait",] == 1
    metrics.operation_done(9.0)
    told = scraped(metrics)
    assert told["last_operation_timestamp_seconds",] == told["last_errand_timestamp_seconds",]
    assert ("errand_begun_timestamp_seconds", "rebuild") not in told


def test_the_time_of_the_newest_cut_is_told_where_a_barrier_keeps_it_before_what_was_read():
    read, cut = (seconds * 1000 << 18 for seconds in (20, 10))
    ledger = Ledger(progress=ChangefeedProgress(resolved=closed_by_watermark(read)))
    run = RunState(ledger)
    assert _cut_time(SimpleNamespace(run=run, cuts=ConsistentPoints(None, None, newest=cut))) == 10
    assert _cut_time(SimpleNamespace(run=run, cuts=ConsistentPoints(None, None))) == 20  # no batch of this process yet
