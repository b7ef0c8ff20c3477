"""The newest messages of each partition, read as a run would read them: whether they are what the settings say."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.cli.checkup import changefeed
from pipeline.cli.checkup.changefeed import MessageSample
from pipeline.cli.checkup.findings import fine, note, wrong
from pipeline.cli.wording import counted, some
from pipeline.model.conditions import any_of
from pipeline.model.messages import Ordering
from pipeline.model.protocols import PROTOCOLS
from pipeline.protocols.build import READERS
from pipeline.protocols.reading import prepared_and_read
from pipeline.protocols.recognise import recognise
from pipeline.sources.kafka.reader import records
from pipeline.sources.large_rows import completion_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.cli.checkup.findings import Finding
    from pipeline.model.messages import Messages, SourceProtocol, TableMessages, Undecodable
    from pipeline.settings import Settings
    from pipeline.sources.kafka.offsets import KafkaState

NEWEST = 200
"""Records of each partition that are looked at."""
_STEPS = (
    (
        "but the messages say",
        "set in the settings what the sink URI says, or check that this is the changefeed you mean",
    ),
    ("MEMBERS_UNKNOWN", "name its members in warehouse.columns: {schema.table.column: \"enum('a','b')\"}"),
    ("output-old-value", "set it in the changefeed's configuration (cdc cli changefeed update)"),
    (
        "before their schema",
        "nothing to do if the schema comes; otherwise set send-bootstrap-interval-in-sec in the changefeed's [sink]",
    ),
)
"""The next step, by what stands in a warning of a protocol."""
_ELSE = "see the protocol's page in docs/reference/protocols/"


def examined(
    spark: SparkSession, settings: Settings, protocol: SourceProtocol, state: KafkaState, earlier: Ordering | None
) -> Iterator[Finding]:
    """Whether the newest messages can be read, and what they say of the changefeed.

    `earlier`: in which order the warehouse applies changes, None where no message has told it yet.
    """
    ranges = {
        partition: (max(state.earliest[partition], end - NEWEST), end)
        for partition, end in state.latest.items()
        if end > state.earliest[partition]
    }
    if not ranges:
        yield note(
            "messages", "the topics are empty",
            "check that the changefeed runs (cdc cli changefeed query shows state: normal), and that it writes to "
            "these topics",
        )  # fmt: skip
        return
    raw = records(spark, settings, ranges).cache()
    with ExitStack() as resources:
        resources.callback(raw.unpersist)
        protocol.begin(earlier, raw)
        prepared, messages = prepared_and_read(protocol, raw, completion_of(settings), resources)
        yield from _read(settings, messages, prepared)
        yield from _remarks(protocol, messages)
        facts, reader = PROTOCOLS[settings.source.protocol], READERS[settings.source.protocol]
        newest = reader.newest_ordering(raw)
        if newest is not None:
            yield from changefeed.extension(earlier, protocol.ordering, newest)
        if messages.has_read:
            yield fine("ticdc", reader.sent_by(messages))
            if facts.watermarks_optional:
                yield from changefeed.watermarks(settings.changefeed.avro_enable_watermark, _sample(raw, messages))
            yield from _old_values(settings, messages, prepared)


def _sample(raw: DataFrame, messages: Messages) -> MessageSample:
    second = F.col("timestamp").cast("double")
    spans = raw.groupBy("topic", "partition").agg(
        (F.max(second) - F.min(second)).alias("seconds"), F.count(F.lit(1)).alias("messages")
    )
    rows = spans.collect()
    return MessageSample(
        sum(row["messages"] for row in rows),
        max((row["seconds"] for row in rows), default=0.0),
        whole=all(row["messages"] < NEWEST for row in rows),
        watermarks=bool(messages.watermarks or messages.ddl),
    )


def _old_values(settings: Settings, messages: Messages, prepared: DataFrame) -> Iterator[Finding]:
    protocol = settings.source.protocol
    images = READERS[protocol].old_images(prepared, messages.tables, settings.source.encoding)
    if images is None:
        return
    if PROTOCOLS[protocol].old_values_optional:
        yield from changefeed.old_values(settings.changefeed.enable_old_value, images)
    else:
        yield from changefeed.updates_without_old_values(images)


def _read(settings: Settings, messages: Messages, prepared: DataFrame) -> Iterator[Finding]:
    refused = sum(one.rows for one in messages.refused)
    if not refused:
        tables, control = counted(len(messages.tables), "table"), counted(messages.control, "control message")
        yield fine("messages", f"the newest {messages.events:,} can be read: rows of {tables}, {control}")
        return
    for code in dict.fromkeys(one.code for one in messages.refused):  # each may come from several partitions
        alike = [one for one in messages.refused if one.code == code]
        where, rows = any_of(one.where for one in alike), sum(one.rows for one in alike)
        whole = replace(alike[0], where=where, rows=rows)
        yield _refusal(settings, whole, prepared, alone=refused == messages.events)


def _refusal(settings: Settings, refused: Undecodable, prepared: DataFrame, *, alone: bool) -> Finding:
    """A finding for messages that would become dead letters; if none can be read, the settings are probably wrong."""
    example = prepared.where(refused.where).select("topic", "partition", "offset", "key", "value").first()
    if example is None:
        sentence = f"{refused.code}: {refused.rows:,} of the newest messages; {refused.message}"
        return wrong(
            "messages",
            sentence,
            "run ticdc-warehouse doctor again: when doctor looked a second time, it could not read any of them",
        )
    like = recognise(*(None if part is None else bytes(part) for part in (example["key"], example["value"])))
    place = f"{example['topic']} --partition {example['partition']} --offset {example['offset']}"
    sentence = (
        f"{refused.code}: {refused.rows:,} of the newest messages; {refused.message}; one looks like {like.sentence}"
    )
    other = like.protocol and (like.protocol, like.encoding or None) != (
        settings.source.protocol,
        settings.source.encoding,
    )
    if alone and other:
        encoding = f" and source.encoding: {like.encoding}" if like.encoding else ""
        return wrong("messages", sentence, f"set source.protocol: {like.protocol}{encoding}")
    return note("messages", sentence, f"ticdc-warehouse inspect {place}")


def _remarks(protocol: SourceProtocol, messages: Messages) -> Iterator[Finding]:
    yield from _warned(messages.warnings)
    for version in messages.unknown:
        yield note(
            "changefeed", f"{version.table}: no message among the newest describes the schema of its rows",
            "the rows stay pending until a BOOTSTRAP or DDL brings the schema (send-bootstrap-interval-in-sec)",
        )  # fmt: skip
    if messages.has_read and protocol.ordering is Ordering.BY_COMMIT_TS and not messages.watermarks:
        yield note(
            "changefeed", "no watermark among the newest messages",
            "tables show a change after a watermark has covered it: check that the changefeed runs (state: normal)",
        )  # fmt: skip
    hints = [hint for table in messages.tables for hint in _hints(table)]
    yield from (note("changefeed", *hint) for hint in dict.fromkeys(hints))


def _warned(warnings: Iterable[str]) -> Iterator[Finding]:
    """One finding for each warning, with all tables that it is about."""
    tables: dict[str, list[str]] = defaultdict(list)
    for warning in warnings:
        table, _, sentence = warning.partition(": ")
        tables[sentence].append(table)
    for sentence, named in tables.items():
        todo = next((step for part, step in _STEPS if part in sentence), _ELSE)
        yield note("changefeed", f"{sentence} ({some(named)})", todo)


def _hints(messages: TableMessages) -> Iterator[tuple[str, str]]:
    """What a person should know of how the changefeed sends, and what to do about it."""
    for seen in messages.versions:
        if not seen.key_only and seen.version.handle == ():
            yield (
                (
                    f"{messages.table} has no handle key: a run cannot tell equal rows apart, and redelivered inserts "
                    "may be there twice"
                ),
                "give it a primary key, or a unique key over NOT NULL columns, in TiDB",
            )
        if seen.version.keys_vary:
            yield (
                f"{messages.table}: TiCDC has sent keys in several forms (the key or the dispatcher was changed)",
                (
                    "if the key was not changed: dispatch by index-value, always over the same columns "
                    "(docs/reference/protocols/avro.md)"
                ),
            )
