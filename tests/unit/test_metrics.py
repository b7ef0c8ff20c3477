"""The numbers for Prometheus: what a batch did, as its text format says it, over HTTP."""

import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.observe.metrics import PREFIX, BatchDone, Metrics, TableDone

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
    metrics.batch(batch(tables=(ORDERS,), homeless=3))
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
    metrics.batch(batch(held_tables=("shop.orders",), waits=True, cut_time=5.0))
    metrics.behind({"a": 3, "b": 0})
    told = scraped(metrics)
    assert (told["table_held", "shop.orders"], told["records_wait",], told["last_cut_timestamp_seconds",]) == (
        1,
        1,
        5.0,
    )
    assert (told["records_behind", "a"], told["records_behind", "b"]) == (3, 0)
    metrics.batch(batch())
    metrics.behind({"b": 1})
    told = scraped(metrics)
    assert ("table_held", "shop.orders") not in told
    assert (told["records_wait",], told["last_cut_timestamp_seconds",]) == (0, 5.0)
    assert ("records_behind", "a") not in told


def test_seconds_stand_by_step(metrics):
    metrics.step("read", 0.2)
    metrics.step("read", 0.4)
    told = scraped(metrics)
    assert (told["step_seconds_count", "read"], round(told["step_seconds_sum", "read"], 3)) == (2, 0.6)
