"""What Spark is needed for, or what runs elsewhere: warehouse, suites, Kafka, registry, messages."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from rich.console import Console

from pipeline.cli.checkup import kafka, messages, registry, warehouse
from pipeline.cli.checkup.findings import Mark, fine, guarded
from pipeline.cli.described import Described
from pipeline.cli.words import counted
from pipeline.quality.rulebook import Rulebook
from pipeline.quality.suites import load
from pipeline.sources.kafka import Cluster
from pipeline.streaming.pipeline import kafka_state, protocol_of, registry_of
from pipeline.streaming.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from pipeline.cli.checkup.findings import Finding
    from pipeline.settings import Settings


def examined(settings: Settings) -> Iterator[Finding]:
    """One thing after the other; what does not answer is not asked again."""
    yield from guarded("warehouse", warehouse.examined(settings))
    yield from guarded("spark", _with_spark(settings))


def _with_spark(settings: Settings) -> Iterator[Finding]:
    with Console(stderr=True).status("starting Spark"):
        spark = session(settings)
    yield from guarded("suites", _suites(settings, spark))
    with ExitStack() as resources:
        yield from guarded("kafka", _sources(settings, spark, resources))


def _suites(settings: Settings, spark: SparkSession) -> Iterator[Finding]:
    folder = settings.quality.suites
    if folder is None:
        yield fine("suites", "none: quality.suites is not set, the built-in rules apply")
        return
    suites = load(folder)
    Rulebook(spark, suites, settings.quality.built_in).refuse_nonsense(
        allow_slow_regex=settings.quality.allow_slow_regex
    )
    yield fine("suites", f"{len(suites)} in {folder}, {counted(sum(len(suite.checks) for suite in suites), 'check')}")


def _sources(settings: Settings, spark: SparkSession, resources: ExitStack) -> Iterator[Finding]:
    cluster = Cluster(spark, settings)
    resources.callback(cluster.close)
    state = kafka_state(cluster)
    yield from guarded("offsets", kafka.examined(settings, cluster, state, warehouse.committed(settings)))
    client = registry_of(settings) if settings.source.protocol == "avro" else None
    answers = True
    if client is not None:
        resources.callback(client.close)
        for finding in guarded("registry", registry.examined(client, state.topics)):
            answers = answers and finding.mark is not Mark.WRONG
            yield finding
    if answers and state.topics:
        protocol = protocol_of(settings, client, Described(settings))
        yield from guarded("messages", messages.examined(spark, settings, protocol, state))
