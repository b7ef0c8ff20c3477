"""What the tests of the Open protocol share: records as a raw frame, change frames as rows, tables replayed."""

import datetime as dt
import struct
from collections import Counter

from golden.values import Row

from pipeline.model import change
from pipeline.model.messages import ColumnMapping, Target
from pipeline.model.places import RAW
from pipeline.protocols.open import OpenProtocol

TYPES = ("string", "int", "bigint", "timestamp", "binary", "binary")
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in zip(RAW, TYPES, strict=True))
ARRIVED = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - Spark takes it as the session's


class Memory:
    """What earlier batches have described, as `_pipeline.schemas` keeps it."""

    def __init__(self):
        self.kept = {}

    def versions(self, wanted):
        keys = [(table.key, version) for table, version in wanted]
        return {key: self.kept[key] for key in keys if key in self.kept}

    def of_tables(self, tables):
        names = {table.key for table in tables}
        return [version for (name, _), version in self.kept.items() if name in names]

    def keep(self, messages):
        self.kept |= {(version.table.key, version.version): version for version in messages.described}


def framed(parts):
    return b"".join(struct.pack(">q", len(part)) + part for part in parts)


def record(*events, index=0):
    """A record of events (key JSON, value JSON)."""
    keys, values = zip(*((key.encode(), value.encode()) for key, value in events), strict=True)
    return struct.pack(">II", index, 1) + framed(keys), framed(values)


def raw_frame(spark, messages, partition=0):
    """Messages (key, value) of one partition, as the source gives them."""
    return spark.createDataFrame(
        [("t", partition, offset, ARRIVED, key, value) for offset, (key, value) in enumerate(messages)], SCHEMA
    ).coalesce(1)


def golden_frame(spark, records):
    ends, rows = Counter(), []
    for one in records:
        rows.append((one.topic, one.partition, ends[one.partition], ARRIVED, one.key, one.value))
        ends[one.partition] += 1
    return spark.createDataFrame(rows, SCHEMA).coalesce(1)


def protocol(known=None, **options):
    return OpenProtocol(**{"timezone": "UTC", "overrides": {}, "remembered": known or Memory()} | options)


def mapping_of(messages, *, before=True):
    """A changes table with all columns of all versions; of two types of one name, the newest has the name."""
    names, fields = {}, {}
    for seen in reversed(messages.versions):
        for column in seen.version.columns:
            taken = sum(name == column.name for name, _ in names)
            names.setdefault((column.name, column.type), f"{column.name}__v{taken}" if taken else column.name)
        fields[seen.version.version] = {c.name: names[c.name, c.type] for c in seen.version.columns}
    return ColumnMapping(tuple(Target(target, kind) for (_, kind), target in names.items()), fields, before)


def rows_of(frame):
    return frame.toArrow().to_pylist()


def events_of(prepared):
    """The events of a prepared frame, as dictionaries in their order."""
    found = [row.asDict(recursive=True) for row in prepared.collect()]
    for event in found:
        event |= {name: None if event[name] is None else bytes(event[name]) for name in ("key", "value")}
    return sorted(found, key=lambda event: (event["partition"], event["offset"], event["index"]))


def changed(open_protocol, prepared, messages, **options):
    """The change frame of one table as dictionaries, in the order in which they apply."""
    mine = prepared.where(open_protocol.where(messages))
    frame = open_protocol.recipe(messages, mapping_of(messages, **options)).of(mine)
    position = (change.COMMIT_TS, change.PARTITION, change.OFFSET, change.INDEX)
    return sorted(rows_of(frame), key=lambda row: [row[name] for name in position])


def replayed(messages, rows):
    """The table after all changes: at a commit ts deletes come first (decision 004, 6)."""
    newest = messages.versions[-1].version
    names = [column.name for column in newest.columns]
    handle = list(newest.handle) or names

    def row(values, lost):
        return Row({name: values[name] for name in names}, lost)

    steps = []
    for one in rows:
        lost = dict(one[change.UNREPRESENTABLE] or ())
        after, before = row(one, lost), one[change.BEFORE]
        gone = row(before, lost) if before is not None else None
        if one[change.OP] in ("delete", "update"):
            steps.append((one[change.COMMIT_TS], 0, gone or after))
        if one[change.OP] != "delete":
            steps.append((one[change.COMMIT_TS], 1, after))
    key = handle
    table = {}
    for _, step, value in sorted(steps, key=lambda step: step[:2]):
        at = value.of_columns(key)
        found = table.setdefault(at, [])
        if step:
            table[at] = [value] if newest.handle else [*found, value]
        elif found:
            found.pop()
    return [value for values in table.values() for value in values]
