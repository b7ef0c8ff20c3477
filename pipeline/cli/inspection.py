"""One record taken apart: with the product's own decoder and rules, and by its bytes where they refuse it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.errors import Refused
from pipeline.lake.consistent_points import spoken
from pipeline.lake.ledger import ordering
from pipeline.lake.schemas import DescribedVersions
from pipeline.model import change
from pipeline.model.names import quoted
from pipeline.model.places import POSITION, RECORD_BITS, Partition
from pipeline.model.protocols import PROTOCOLS
from pipeline.model.set_aside import IN_COLUMN
from pipeline.protocols.build import protocol_of, registry_of
from pipeline.protocols.reading import prepared_and_read
from pipeline.protocols.recognise import recognise
from pipeline.quality.rulebook import JudgedShape, Rulebook
from pipeline.quality.suites import load
from pipeline.runtime.session import looking
from pipeline.settings.faults import did_you_mean
from pipeline.sources.kafka.cluster import Cluster
from pipeline.sources.kafka.reader import records
from pipeline.sources.large_rows import completion_of
from pipeline.sources.storage.look import place_of, record_at
from pipeline.warehouse.evolution import Policy, meet, meet_key
from pipeline.warehouse.layout import Layout
from registry import RegistryError, split, subjects_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from pipeline.model.messages import Messages, SourceProtocol, TableMessages
    from pipeline.quality.rules import RuleSet
    from pipeline.settings import Settings
    from registry import RegistryClient

TOPIC_UNKNOWN = "TOPIC_UNKNOWN"
OFFSET_UNKNOWN = "OFFSET_UNKNOWN"
MOST_CHANGES = 50
"""Changes of one record that are shown: Open sends many in one."""
_DUMPED, _PER_LINE = 256, 16
_FEW = 3
_INDENT = 12
"""Where the facts begin, after their names."""
_TEXT = 2000
"""Characters of a value that are shown."""


@dataclass(frozen=True, slots=True)
class ShownChange:
    """One row event: what it did, its columns as `header` names them, and a sentence for each verdict."""

    sentence: str
    header: tuple[str, ...]
    columns: list[tuple[Any, ...]]
    verdicts: list[str]


@dataclass(slots=True)
class Inspected:
    """What there is to say of a record; `refusals`: (code, why) of what would become a dead letter."""

    facts: dict[str, Any] = field(default_factory=dict)
    changes: list[ShownChange] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)
    dump: list[str] = field(default_factory=list)

    def tell(self, name: str, *lines: str) -> None:
        """Add lines to a fact."""
        fact = [*filter(None, [self.facts.get(name)]), *lines]
        if fact:
            self.facts[name] = f"\n{'':<{_INDENT}}".join(fact)


def inspected(settings: Settings, stream: str, partition: int, offset: int | None) -> Inspected:
    """Read the record; no offset: the newest. `stream`: a topic, or a file, perhaps with `:` and a record's number.

    Raises `Refused`: `TOPIC_UNKNOWN`, `OFFSET_UNKNOWN`, `FILE_UNKNOWN`, `RECORD_UNKNOWN`.
    """
    spark = looking(settings)
    with ExitStack() as resources:
        find = _in_kafka if settings.source.kind == "kafka" else _in_files
        raw, record, place = find(spark, settings, resources, (stream, partition, offset))
        client = registry_of(settings, resources)
        inspection = Inspected(_facts(record, place, client))
        protocol = protocol_of(settings, client, DescribedVersions(settings))
        is_optional = PROTOCOLS[settings.source.protocol].commit_ts_optional
        protocol.begin(ordering(settings) if is_optional else None, raw)
        prepared, messages = prepared_and_read(protocol, raw, completion_of(settings), resources)
        _tell(inspection, messages)
        suites = load(settings.quality.suites) if settings.quality.suites else ()
        rulebook = Rulebook(spark, suites, settings.quality.built_in)
        for table in messages.tables:
            _decode(inspection, prepared, table, protocol, rulebook)
        if inspection.refusals:
            inspection.dump = [*_dump("key", record["key"]), *_dump("value", record["value"])]
        return inspection


_Wanted = tuple[str, int, int | None]
"""Stream, partition and offset, as the user has named them."""


def _in_kafka(
    spark: SparkSession, settings: Settings, resources: ExitStack, wanted: _Wanted
) -> tuple[DataFrame, Row, str]:
    """The raw frame, the record, and where it stands."""
    topic, partition, offset = wanted
    cluster = Cluster(spark, settings)
    resources.callback(cluster.close)
    topic_partition = _placed(cluster, topic, partition)
    position = _offset(cluster, topic_partition, offset)
    raw = records(spark, settings, {topic_partition: (position, position + 1)}).cache()
    resources.callback(raw.unpersist)
    record = raw.first()
    if record is None:
        raise _no_offset(
            topic_partition,
            f"there is no record at offset {position}: a transaction marker is there, or compaction removed the record",
        )
    return raw, record, f"{topic}, partition {partition}, offset {position}"


def _in_files(
    spark: SparkSession, settings: Settings, resources: ExitStack, wanted: _Wanted
) -> tuple[DataFrame, Row, str]:
    """The same of a file, whose frame has the file that describes its version, too."""
    path, number = place_of(wanted[0])
    raw, position = record_at(spark, settings, path, wanted[2] if number is None else number)
    raw = raw.cache()
    resources.callback(raw.unpersist)
    record = raw.where(F.col(POSITION) == position).collect()[0]
    return raw, record, f"{path}, record {position & (1 << RECORD_BITS) - 1}"


def _placed(cluster: Cluster, topic: str, partition: int) -> Partition:
    topics = cluster.topics()
    if topic not in topics:
        raise Refused(
            TOPIC_UNKNOWN,
            f"the settings do not name topic {topic}, or Kafka does not have it{did_you_mean(topic, topics)}",
            f"topics of this configuration: {', '.join(sorted(topics)) or 'none'}",
        )
    topic_partition = Partition(topic, partition)
    if partition not in topics[topic].partitions:
        raise _no_offset(topic_partition, f"the topic has partitions 0 to {max(topics[topic].partitions)}")
    return topic_partition


def _offset(cluster: Cluster, topic_partition: Partition, wanted: int | None) -> int:
    first = cluster.earliest([topic_partition])[topic_partition]
    end = cluster.latest([topic_partition])[topic_partition]
    if first == end:
        raise _no_offset(topic_partition, "it has no records" + (f": those before {end} are gone" if end else ""))
    if wanted is None:
        return end - 1
    if not first <= wanted < end:
        raise _no_offset(topic_partition, f"it has offsets {first} to {end - 1}")
    return wanted


def _no_offset(topic_partition: Partition, why: str) -> Refused:
    return Refused(OFFSET_UNKNOWN, f"topic {topic_partition.stream}, partition {topic_partition.number}: {why}")


def _facts(record: Row, place: str, client: RegistryClient | None) -> dict[str, Any]:
    key, value = (None if record[part] is None else bytes(record[part]) for part in ("key", "value"))
    facts: dict[str, Any] = {
        "record": f"{place}, {record['timestamp']:%Y-%m-%d %H:%M:%S.%f} (of the record)",
        "bytes": f"key {'none' if key is None else len(key)}, value {'none' if value is None else len(value)}",
        "looks like": recognise(key, value).sentence,
    }
    if client is not None:
        own = subjects_of(record["topic"])
        parts = {"key": (own.key, key), "value": (own.value, value)}
        facts |= {part: _schema(client, subject, sent) for part, (subject, sent) in parts.items() if sent}
    return facts


def _schema(client: RegistryClient, subject: str, sent: bytes) -> str:
    """The schema that a part's id names: subject, table, columns. `subject`: the one that it should have."""
    try:
        number = split(sent).schema_id
        schema = client.ticdc_schema(number)
    except RegistryError as error:
        return f"{error.code}: {error.message}"
    subjects = client.subjects_of(number)
    owner = (
        subject if subject in subjects else f"of {', '.join(subjects[:_FEW]) or 'no known subject'}, not of {subject}"
    )
    columns = ", ".join(f"{column.name} {column.tidb_type}" for column in schema.columns)
    return f"schema {number} ({owner}) of {schema.schema_name}.{schema.table_name}: {columns}"


def _tell(inspection: Inspected, messages: Messages) -> None:
    """Add what is not a row event, and what cannot be read."""
    for statement in messages.ddl:
        inspection.tell("statement", statement.sql, f"about {statement.table}, {_moment(statement.commit_ts)}")
    for watermark in messages.watermarks.values():
        inspection.tell("watermark", f"everything up to {_moment(watermark)} has been sent")
    for version in messages.described:
        inspection.tell("describes", f"{version.table}, version {version.version}, {len(version.columns)} columns")
    for unknown in messages.unknown:
        waits = "is not known to the warehouse; its rows stay pending until a BOOTSTRAP or DDL brings it"
        inspection.tell("schema", f"version {unknown.version} of {unknown.table} {waits}")
    inspection.refusals += [(refused.code, refused.message) for refused in messages.refused]
    inspection.tell("note", *messages.warnings)


def _decode(
    inspection: Inspected, prepared: DataFrame, table: TableMessages, protocol: SourceProtocol, rulebook: Rulebook
) -> None:
    layout = Layout(before=protocol.sends_before or any(seen.version.tells_before for seen in table.versions))
    for seen in table.versions:
        if seen.key_only:
            layout = meet_key(layout, seen.version)
        else:
            layout, _ = meet(layout, seen.version, Policy())
    mapping = layout.mapping
    versions = tuple(seen.version for seen in table.versions if not seen.key_only)
    rules = rulebook.of(JudgedShape(table.table, versions, mapping, tuple(column.name for column in layout.columns)))
    names = [target.name for target in mapping.targets]
    before = [_shown(F.col(change.BEFORE)[name]) for name in names] if mapping.before else ()
    old = F.when(F.col(change.BEFORE).isNotNull(), F.array(*before)) if before else F.lit(None)
    rows = rules.judged(protocol.recipe(table, mapping).of(prepared.where(protocol.where(table)))).select(
        change.OP, change.COMMIT_TS, change.INDEX, F.col(change.ERROR).alias("error"), change.CHECKSUM,
        F.col(change.UNREAD).alias("unread"),
        F.array(*(_shown(F.col(quoted(name))) for name in names)).alias("after"),
        old.alias("old"),
        F.col(change.UNREPRESENTABLE).alias("lost"),
        rules.broken().alias("broken"),
        rules.sentence().alias("sentence"),
    )  # fmt: skip
    types = {column.name: column.tidb_type for column in layout.columns}
    for row in rows.orderBy(change.INDEX).limit(MOST_CHANGES).collect():
        if row["error"] is not None:
            column = f"{IN_COLUMN}{row['unread']}" if row["unread"] else ""
            inspection.refusals.append((row["error"], protocol.sentences().get(row["error"], "") + column))
        else:
            header, columns = _columns(row, names, types)
            inspection.changes.append(ShownChange(_did(row, table), header, columns, _judged(row, rules)))


def _shown(value: Any) -> Any:
    return F.substring(value.cast("string"), 1, _TEXT)


def _columns(row: Row, names: Sequence[str], types: Mapping[str, str]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    lost = row["lost"] or {}
    shown = zip(names, row["after"], strict=True)
    values = [lost.get(name, "NULL" if value is None else value) for name, value in shown]
    rows: list[tuple[Any, ...]] = [(name, types[name], value) for name, value in zip(names, values, strict=True)]
    header: tuple[str, ...] = ("column", "type", "value")
    for title, cells in (
        ("before", row["old"]),
        ("in the table", lost and ["NULL" if n in lost else "" for n in names]),
    ):
        if cells:
            header = (*header, title)
            rows = [(*shown_row, cell) for shown_row, cell in zip(rows, cells, strict=True)]
    return header, rows


def _did(row: Row, table: TableMessages) -> str:
    moment = "without a commit ts" if row[change.COMMIT_TS] is None else _moment(row[change.COMMIT_TS])
    return f"{row[change.OP]} of {table.table}, {moment}"


def _judged(row: Row, rules: RuleSet) -> list[str]:
    """A sentence for each rule that the change breaks, and how many it does not."""
    broken = {rule.name: rule.severity for rule in rules.rules if rule.name in row["broken"]}
    lines = [f"✗ {name} ({severity.value})" for name, severity in broken.items()]
    if row["sentence"]:
        lines.append(f"  {row['sentence']}")
    if any(severity.policy.sets_row_aside for severity in broken.values()):
        lines.append("  it would be set aside")
    kept = len(rules.rules) - len(broken)
    checksum = {True: "; its checksum is right", False: "; its checksum is WRONG"}.get(row[change.CHECKSUM], "")
    return [*lines, f"✓ {kept} of {len(rules.rules)} rules are kept{checksum}"]


def _moment(commit_ts: int) -> str:
    return f"commit ts {spoken(commit_ts)}"


def _dump(part: str, sent: bytes | bytearray | None) -> Iterator[str]:
    """The first bytes, as hex and as text."""
    if not sent:
        return
    yield f"{part}, {len(sent)} bytes" + (f", the first {_DUMPED}" if len(sent) > _DUMPED else "")
    for start in range(0, min(len(sent), _DUMPED), _PER_LINE):
        piece = bytes(sent[start : min(start + _PER_LINE, _DUMPED)])
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)  # noqa: PLR2004 - printable ASCII
        yield f"{start:06x}  {piece.hex(' '):<{3 * _PER_LINE - 1}}  {text}"
