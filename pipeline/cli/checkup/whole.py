"""What Spark is needed for, or what runs elsewhere: warehouse, suites, Kafka, registry, messages."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from rich.console import Console

from pipeline.cli.checkup import kafka, messages, registry, warehouse
from pipeline.cli.checkup.findings import Mark, fine, guarded, wrong
from pipeline.cli.described import Described
from pipeline.cli.words import counted
from pipeline.errors import reason
from pipeline.quality.rulebook import Rulebook
from pipeline.quality.suites import load
from pipeline.sources.kafka import Cluster
from pipeline.streaming.pipeline import kafka_state, protocol_of, registry_of
from pipeline.streaming.session import looking
from pipeline.warehouse.trial import try_writing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from pipeline.cli.checkup.findings import Finding
    from pipeline.settings import Settings


def examined(settings: Settings, *, able: bool) -> Iterator[Finding]:
    """One thing after the other; what does not answer is not asked again. `able`: whether Spark can be started."""
    yield from guarded("warehouse", warehouse.examined(settings))
    if able:
        yield from guarded("spark", _with_spark(settings))


def _with_spark(settings: Settings) -> Iterator[Finding]:
    with Console(stderr=True).status("starting Spark"):
        spark = looking(settings)
    if settings.warehouse.local_data is None:  # a folder of this machine has been tried without Spark
        yield from guarded("warehouse", _store(settings, spark))
    yield from guarded("suites", _suites(settings, spark))
    with ExitStack() as resources:
        yield from guarded("kafka", _sources(settings, spark, resources))


def _store(settings: Settings, spark: SparkSession) -> Iterator[Finding]:
    data = settings.warehouse.data
    try:
        try_writing(spark, settings.warehouse, f"{data}/doctor-{uuid.uuid4()}")
    except Py4JJavaError as error:
        yield wrong(
            "warehouse", f"{data} cannot be written as a run would: {reason(error)[:300]}",
            "let this user write, read and delete there; the catalog's properties say how the store is reached "
            "(warehouse.catalog, docs/configuration.md)",
        )  # fmt: skip
    else:
        yield fine("warehouse", f"{data}: a file was written there and removed, as a run would")


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
    committed = warehouse.committed(settings)
    cluster.recall(committed.names)
    state = kafka_state(cluster)
    barred = kafka.barred(cluster, state)
    yield from guarded("offsets", kafka.examined(settings, cluster, state, committed, barred))
    state = kafka.readable(state, barred)
    client = registry_of(settings) if settings.source.protocol == "avro" else None
    answers = True
    if client is not None:
        resources.callback(client.close)
        for finding in guarded("registry", registry.examined(client, state.topics, cluster.names())):
            answers = answers and finding.mark is not Mark.WRONG
            yield finding
    if answers and state.topics:
        protocol = protocol_of(settings, client, Described(settings))
        yield from guarded("messages", messages.examined(spark, settings, protocol, state))
