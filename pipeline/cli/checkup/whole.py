"""What Spark is needed for, or what runs elsewhere: warehouse, suites, the source, registry, messages."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from rich.console import Console

from pipeline import causes
from pipeline.cli.checkup import kafka, messages, registry, storage, warehouse
from pipeline.cli.checkup.findings import Mark, explained, fine, guarded, note, wrong
from pipeline.cli.output import Explained
from pipeline.cli.wording import counted
from pipeline.errors import SettingsError, reason
from pipeline.lake.ledger import ordering
from pipeline.lake.schemas import DescribedVersions
from pipeline.model.messages import Ordering
from pipeline.model.protocols import PROTOCOLS
from pipeline.protocols.build import protocol_of, registry_of
from pipeline.quality.rulebook import Rulebook
from pipeline.runtime.session import looking
from pipeline.sources.kafka.cluster import Cluster
from pipeline.sources.kafka.source import state_of
from pipeline.warehouse.write_probe import try_writing

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyspark.sql import SparkSession

    from pipeline.cli.checkup.findings import Finding
    from pipeline.settings import Settings
    from pipeline.sources.source import Committed

_FIRST = "fix what the line about the warehouse says, then run ticdc-warehouse doctor again"


def examined(settings: Settings, *, able: bool) -> Iterator[Finding]:
    """One thing after the other; what does not answer is not asked again. `able`: whether Spark can be started."""
    yield from guarded("warehouse", warehouse.examined(settings))
    if able:
        yield from guarded("spark", _with_spark(settings))
    elif settings.source.topic_pattern is not None:
        yield note(
            "settings", f"doctor did not check source.topic_pattern {settings.source.topic_pattern}: that takes Java",
            "fix what the lines about java and jars say, then run ticdc-warehouse doctor again",
        )  # fmt: skip


def _with_spark(settings: Settings) -> Iterator[Finding]:
    with Console(stderr=True).status("starting Spark"):
        spark = looking(settings)
    if settings.warehouse.local_data is None:  # a folder of this machine has been tried without Spark
        yield from guarded("warehouse", _store(settings, spark))
    yield from guarded("suites", _suites(settings, spark))
    if settings.source.kind == "storage":
        yield from guarded("storage", storage.examined(settings, spark))
        return
    with ExitStack() as resources:
        yield from guarded("kafka", _sources(settings, spark, resources))


def _store(settings: Settings, spark: SparkSession) -> Iterator[Finding]:
    data = settings.warehouse.data
    try:
        try_writing(spark, settings.warehouse, f"{data}/doctor-{uuid.uuid4()}")
    except Py4JJavaError as error:
        cause = causes.explained(error)
        why = f"{cause.code}: {cause.message}" if cause is not None else reason(error)[:300]
        todo = cause.hint if cause is not None else (
            "let this user write, read and delete there; the catalog's properties say how the store is reached "
            "(warehouse.catalog, docs/reference/configuration.md)"
        )  # fmt: skip
        yield wrong("warehouse", f"doctor could not write {data} as a run would: {why}", todo)
    else:
        yield fine("warehouse", f"{data}: a file was written there and removed, as a run would")


def _suites(settings: Settings, spark: SparkSession) -> Iterator[Finding]:
    folder = settings.quality.suites
    if folder is None:
        yield fine("suites", "none: quality.suites is not set, the built-in rules apply")
        return
    suites = Rulebook(spark, (), settings.quality.built_in).renewed(settings.quality).suites
    yield fine("suites", f"{len(suites)} in {folder}, {counted(sum(len(suite.checks) for suite in suites), 'check')}")


def _committed(settings: Settings) -> Generator[Finding, None, Committed | None]:
    """How far the tables are; None if that cannot be read, with a finding that says what is not compared then."""
    try:
        return warehouse.committed(settings)
    except Exception as error:  # noqa: BLE001 - the warehouse's own line has said what is wrong there
        cause = error if isinstance(error, Explained) else causes.explained(error)
        code = cause.code if cause is not None else type(error).__name__
        yield note(
            "offsets", f"doctor does not know how far the tables are ({code}), so it compares nothing with them", _FIRST
        )
        return None


def _sources(settings: Settings, spark: SparkSession, resources: ExitStack) -> Iterator[Finding]:
    try:
        cluster = Cluster(spark, settings)
    except SettingsError as error:  # Java, which alone can judge a topic_pattern, refuses it
        yield explained("settings", error)
        return
    resources.callback(cluster.close)
    committed = yield from _committed(settings)
    cluster.recall(committed.names if committed else {})
    state = state_of(cluster)
    barred = kafka.barred(cluster, state)
    yield from guarded("kafka", kafka.examined(settings, cluster, state, committed, barred))
    state = kafka.readable(state, barred)
    client = registry_of(settings, resources)
    answers = True
    if client is not None:
        for finding in guarded("registry", registry.examined(client, state.topics, cluster.names())):
            answers = answers and finding.mark is not Mark.WRONG
            yield finding
    if committed is None and PROTOCOLS[settings.source.protocol].ordering is Ordering.BY_COMMIT_TS:
        yield note(
            "messages",
            "doctor did not look at them: what earlier messages said of columns is in the "
            "warehouse, which could not be read",
            _FIRST,
        )
    elif answers and state.topics:
        protocol = protocol_of(settings, client, DescribedVersions(settings))
        earlier = ordering(settings) if committed is not None else None
        yield from guarded("messages", messages.examined(spark, settings, protocol, state, earlier))
