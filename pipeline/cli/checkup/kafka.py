"""Kafka: does it answer, has it what the settings and the tables need, how far behind are they."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.cli.checkup.findings import fine, note, wrong
from pipeline.cli.words import counted
from pipeline.errors import Refused
from pipeline.streaming import position
from pipeline.streaming.pipeline import planned_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.cli.checkup.findings import Finding
    from pipeline.settings import Settings
    from pipeline.sources.kafka import Cluster
    from pipeline.streaming.position import Committed, KafkaState


def examined(settings: Settings, cluster: Cluster, state: KafkaState, committed: Committed) -> Iterator[Finding]:
    """Topics, their settings, and offsets against what the tables have."""
    source = settings.source
    if not state.topics:
        wanted = f"topics that match {source.topic_pattern}" if source.topic_pattern else ", ".join(source.topics)
        yield note("kafka", f"{source.bootstrap_servers} answers, but has none of: {wanted}", "a run waits for them")
        return
    has = f"{counted(len(state.topics), 'topic')}, {counted(len(state.partitions()), 'partition')}"
    yield fine("kafka", f"{source.bootstrap_servers} answers; {has}")
    for sentence in position.gone(source, committed, state.topics):
        yield note("kafka", sentence, "if it is made again, a run says what to do (TOPIC_RECREATED)")
    missing = [topic for topic in source.topics if topic not in state.topics]
    if missing:
        yield note(
            "kafka", f"not there: {', '.join(missing)}", "a continuous run waits for them, --available-now skips them"
        )
    compacted = sorted(
        name for name, policy in cluster.cleanup_policies(list(state.topics)).items() if "compact" in policy
    )
    if compacted:
        yield wrong(
            "kafka", f"{', '.join(compacted)}: cleanup.policy is compact, which removes changes before they are read",
            "set cleanup.policy=delete for the changefeed's topics",
        )  # fmt: skip
    yield from _offsets(settings, committed, state)


def _offsets(settings: Settings, committed: Committed, state: KafkaState) -> Iterator[Finding]:
    try:
        position.check(committed, state, frozenset())
    except Refused as refusal:
        yield wrong("offsets", f"{refusal.code}: {refusal.message}", refusal.hint)
        return
    starts = position.starting_offsets(committed, state, settings.source.starting_offsets)
    begins = {at: state.earliest[at] if start == position.EARLIEST else start for at, start in starts.items()}
    behind = sum(max(0, state.latest[at] - begin) for at, begin in begins.items())
    yield fine(
        "offsets", f"{counted(behind, 'record')} to be read" + (", from the beginning" if not committed.ends else "")
    )
    planned = planned_batch(settings.checkpoint / "spark")
    if planned is None:
        yield fine("checkpoint", "none that can be read: a run begins where the tables end")
    elif position.checkpoint_agrees(planned, committed.of(state)) and position.checkpoint_fits(
        planned, committed, state
    ):
        yield fine("checkpoint", "agrees with the tables")
    else:
        yield note("checkpoint", "is of another moment than the tables: the next run begins where the tables end")
