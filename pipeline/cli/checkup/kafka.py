"""Kafka: does it answer, has it what the settings and the tables need, how far behind are they."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.cli.checkup.findings import explained, fine, note, wrong
from pipeline.cli.checkup.warehouse import topics_read
from pipeline.cli.wording import counted, some
from pipeline.errors import Refused
from pipeline.sources.kafka import checkpoint, offsets
from pipeline.sources.kafka.offsets import KafkaState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pipeline.cli.checkup.findings import Finding
    from pipeline.settings import Settings
    from pipeline.sources.kafka.cluster import Cluster
    from pipeline.sources.source import Committed


READ = "READ"
_GRANT = "kafka-acls --bootstrap-server … --add --allow-principal User:<user> --operation {} --topic <topic>"


def barred(cluster: Cluster, state: KafkaState) -> frozenset[str]:
    """The topics that this user sees, and may not read."""
    return frozenset(name for name, may in cluster.operations(state.topics).items() if READ not in may)


def readable(state: KafkaState, barred: Collection[str]) -> KafkaState:
    """What is left without these topics."""
    return KafkaState(
        {name: topic for name, topic in state.topics.items() if name not in barred},
        {at: offset for at, offset in state.earliest.items() if at.stream not in barred},
        {at: offset for at, offset in state.latest.items() if at.stream not in barred},
    )


def examined(
    settings: Settings, cluster: Cluster, state: KafkaState, committed: Committed | None, barred: Collection[str] = ()
) -> Iterator[Finding]:
    """Topics, their settings, what this user may do with them, and offsets against what the tables have.

    `committed`: None where the tables do not tell.
    """
    source = settings.source
    missing = [topic for topic in source.topics if topic not in state.topics]
    hidden = cluster.hidden(missing) if missing else []
    if hidden:
        yield wrong(
            "permissions", f"this user may not see {some(hidden)}: the ACL for DESCRIBE on them is missing",
            _GRANT.format("Read") + " lets this user see and read them",
        )  # fmt: skip
    if not state.topics:
        wanted = f"topics that match {source.topic_pattern}" if source.topic_pattern else ", ".join(source.topics)
        yield note(
            "kafka", f"{source.bootstrap_servers} answers, but has none of: {wanted}",
            "a run waits for them; if they exist, this user lacks the right to see them (ACL: DESCRIBE on the topics)",
        )  # fmt: skip
        return
    has = f"{counted(len(state.topics), 'topic')}, {counted(len(state.partitions()), 'partition')}"
    yield fine("kafka", f"{source.bootstrap_servers} answers; {has}")
    nameless = cluster.without_ids()
    if nameless:
        yield note(
            "kafka", offsets.without_ids(nameless),
            "when you create such a topic again, begin with a new warehouse; a newer broker gives topic ids, and a "
            "run keeps its progress",
        )  # fmt: skip
    for sentence in offsets.gone(cluster.wanted, committed, state.topics) if committed else ():
        yield note("kafka", sentence, "if you create it again, a run says what to do (TOPIC_RECREATED)")
    absent = [topic for topic in missing if topic not in hidden]
    if absent:
        yield note(
            "kafka",
            f"these topics do not exist: {', '.join(absent)}",
            "a continuous run waits for them, --available-now skips them",
        )
    yield from _permissions(state, barred)
    yield from _compaction(cluster, state)
    if committed is not None:
        yield from _offsets(settings, committed, state)


def _permissions(state: KafkaState, barred: Collection[str]) -> Iterator[Finding]:
    if barred:
        yield wrong(
            "permissions", f"this user may not read {some(sorted(barred))}: the ACL for READ on them is missing",
            _GRANT.format("Read"),
        )  # fmt: skip
    else:
        yield fine("permissions", f"{counted(len(state.topics), 'topic')} may be described and read")


def _compaction(cluster: Cluster, state: KafkaState) -> Iterator[Finding]:
    policies = cluster.cleanup_policies(list(state.topics))
    if not policies:
        yield note(
            "kafka", "doctor cannot see whether topics are compacted: the ACL for DESCRIBE_CONFIGS on them is missing",
            "a run does not need it; to let doctor look: " + _GRANT.format("DescribeConfigs"),
        )  # fmt: skip
    compacted = sorted(name for name, policy in policies.items() if "compact" in policy)
    if compacted:
        yield wrong(
            "kafka", f"{', '.join(compacted)}: cleanup.policy is compact, which removes changes before they are read",
            "set cleanup.policy=delete for the changefeed's topics",
        )  # fmt: skip


def _offsets(settings: Settings, committed: Committed, state: KafkaState) -> Iterator[Finding]:
    try:
        committed = committed.under(offsets.succeeded(committed.names, state, lambda: topics_read(settings)))
        offsets.check(committed, state, frozenset())
    except Refused as refusal:
        yield explained("offsets", refusal)
        return
    starts = offsets.starting_offsets(committed, state, settings.source.starting_offsets)
    begins = {at: state.earliest[at] if start == offsets.EARLIEST else start for at, start in starts.items()}
    lag = sum(max(0, state.latest[at] - begin) for at, begin in begins.items())
    yield fine(
        "offsets", f"{counted(lag, 'record')} to be read" + (", from the beginning" if not committed.ends else "")
    )
    planned = checkpoint.planned_batch(checkpoint.folder_of(settings.checkpoint))
    if planned is None:
        yield fine("checkpoint", "there is no checkpoint that can be read: a run begins where the tables end")
    elif checkpoint.can_continue(planned, committed, state):
        yield fine("checkpoint", "agrees with the tables")
    else:
        yield note(
            "checkpoint", "does not match the tables: the next run begins where the tables end",
            "nothing to do: that run makes a new checkpoint. But find out who put an older checkpoint or older tables "
            "there",
        )  # fmt: skip
