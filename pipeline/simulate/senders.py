"""What a changefeed does with rows, statements and watermarks, protocol by protocol."""

from __future__ import annotations

import time
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from pipeline.simulate import avro, canal, files, open_protocol, simple
from pipeline.simulate.avro import TableCodec
from pipeline.simulate.open_protocol import OpenCodec
from pipeline.simulate.schemas import AvroOptions, subject_of, topic_of
from pipeline.simulate.simple import Identity, SimpleCodec

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.simulate.database import Op, RowEvent
    from pipeline.simulate.ddl import SimulatedDdl
    from pipeline.simulate.open_protocol import Record
    from pipeline.simulate.tables import Row, SimulatedTable
    from pipeline.simulate.topics import Topics
    from registry.client import RegistryClient

_OPS = {"insert": "c", "update": "u"}
_FIRST_TABLE_ID, _TABLE_IDS = 100, 2
_VERSION_BEFORE_COMMIT = 20 << 18
"""A version's ts is some ms less than the commit ts of its statement."""
_BOOTSTRAP_ROWS, _BOOTSTRAP_SECONDS = 10_000, 120.0
"""`send-bootstrap-in-msg-count` and `send-bootstrap-interval-in-sec`."""
_BATCH = 16
"""`max-batch-size`."""
_FILE_BYTES = 64 << 20
"""`file-size`."""


class RowLines(Protocol):
    """Encodes the rows of a table version."""

    def lines(self, op: Op, before: Row | None, after: Row | None, commit_ts: int) -> str:
        """Return the lines of a row change."""
        ...


class FileCodec(Protocol):
    """Makes the encoder of a table version."""

    def __call__(self, table: SimulatedTable, timezone: str, /) -> RowLines:
        """Return it."""
        ...


class Sender(Protocol):
    """One protocol. What it keeps back is sent with `flush`, and before any statement or watermark."""

    def ddl(self, ddl: SimulatedDdl, commit_ts: int) -> None:
        """Send a statement."""
        ...

    def row(self, event: RowEvent, commit_ts: int) -> None:
        """Send a row change."""
        ...

    def checkpoint(self, commit_ts: int) -> None:
        """Send a watermark, when everything before it is acknowledged."""
        ...

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        ...

    def close(self) -> None:
        """Let connections go."""
        ...


@dataclass(frozen=True, slots=True)
class _Route:
    """Where a table version's rows go, and as what."""

    topic: str
    partitions: int
    codec: TableCodec
    key_id: int
    value_id: int


class AvroSender:
    """A topic per table, `<prefix>_<schema>_<table>`; DDL and watermarks in watermark mode only."""

    def __init__(
        self, topics: Topics, registry: RegistryClient, prefix: str, options: AvroOptions, *, watermarks: bool
    ) -> None:
        self._topics, self._registry = topics, registry
        self._prefix, self._options, self._watermarks = prefix, options, watermarks
        self._routes: dict[tuple[str, int], _Route] = {}

    def ddl(self, ddl: SimulatedDdl, commit_ts: int) -> None:
        """Send a statement; a database's goes to the default topic."""
        if not self._watermarks:
            return
        topic = topic_of(self._prefix, ddl.schema, ddl.table) if ddl.table else self._default_topic
        self._topics.broadcast(topic, avro.ddl_message(ddl.query, ddl.action, ddl.schema, ddl.table, commit_ts))

    def row(self, event: RowEvent, commit_ts: int) -> None:
        """Send a row change to the partition of its key."""
        route = self._route(event.table)
        codec = route.codec
        key = codec.key(event.image, route.key_id)
        if event.after is None:
            value = codec.delete(commit_ts)
        else:
            value = codec.value(event.after, route.value_id, _OPS[event.op], commit_ts)
        self._topics.send(route.topic, zlib.crc32(key[5:]) % route.partitions, key, value)

    def checkpoint(self, commit_ts: int) -> None:
        """Send a watermark to every topic used so far, and to the default topic."""
        self._topics.flush()
        for topic in dict.fromkeys((*self._topics.known(), self._default_topic)):
            self._topics.broadcast(topic, avro.checkpoint_message(commit_ts))

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        self._topics.flush()

    def close(self) -> None:
        """Let the registry go."""
        self._registry.close()

    @property
    def _default_topic(self) -> str:
        return f"{self._prefix}_cdc"

    def _route(self, table: SimulatedTable) -> _Route:
        """Return the route of a table version; its schemas are registered at its first row."""
        route = self._routes.get((table.full_name, table.version))
        if route is None:
            route = self._routes[table.full_name, table.version] = self._open(table)
        return route

    def _open(self, table: SimulatedTable) -> _Route:
        codec = TableCodec(table, self._options)
        topic = topic_of(self._prefix, table.schema, table.name)
        key_id = self._registry.register(subject_of(topic, "key"), codec.key_schema)
        value_id = self._registry.register(subject_of(topic, "value"), codec.value_schema)
        return _Route(topic, self._topics.partitions(topic), codec, key_id, value_id)


class SimpleSender:
    """One topic. A table's schema comes with its DDL, before its first row, and again after a while."""

    def __init__(self, topics: Topics, topic: str, timezone: str) -> None:
        self._topics, self._topic, self._timezone = topics, topic, timezone
        self._ids: dict[str, int] = {}
        self._codecs: dict[tuple[str, int], SimpleCodec] = {}
        self._told: dict[str, tuple[int, float]] = {}

    def ddl(self, ddl: SimulatedDdl, commit_ts: int) -> None:
        """Send a statement to every partition, with the table after it."""
        before = None if ddl.before is None else self._codec(ddl.before, commit_ts - 1)
        after = None if ddl.version is None else self._codec(ddl.version, commit_ts)
        self._topics.broadcast(self._topic, simple.ddl_message(ddl, after, before, commit_ts))

    def row(self, event: RowEvent, commit_ts: int) -> None:
        """Send a row change, after its table's schema if that is due."""
        codec = self._codec(event.table, commit_ts)
        self._bootstrap(event.table.full_name, codec)
        value = codec.value(event.op, event.before, event.after, commit_ts)
        self._topics.send(self._topic, _partition(event, self._topics.partitions(self._topic)), None, value)

    def checkpoint(self, commit_ts: int) -> None:
        """Send a watermark to every partition."""
        self._topics.flush()
        self._topics.broadcast(self._topic, simple.watermark(commit_ts))

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        self._topics.flush()

    def close(self) -> None:
        """Nothing to let go."""

    def _bootstrap(self, name: str, codec: SimpleCodec) -> None:
        rows, since = self._told.get(name, (_BOOTSTRAP_ROWS, 0.0))
        now = time.monotonic()
        if rows >= _BOOTSTRAP_ROWS or now - since >= _BOOTSTRAP_SECONDS:
            self._topics.broadcast(self._topic, codec.bootstrap())
            rows, since = 0, now
        self._told[name] = rows + 1, since

    def _codec(self, table: SimulatedTable, commit_ts: int) -> SimpleCodec:
        """Return a version's codec. If its statement was never sent, the version has the ts of the first row."""
        key = table.full_name, table.version
        if key not in self._codecs:
            number = self._ids.setdefault(table.full_name, _FIRST_TABLE_ID + _TABLE_IDS * len(self._ids))
            identity = Identity(number, commit_ts - _VERSION_BEFORE_COMMIT)
            self._codecs[key] = SimpleCodec(table, identity, self._timezone)
        return self._codecs[key]


class OpenSender:
    """One topic. A partition's rows wait until a record is full, or until a statement or watermark comes."""

    def __init__(self, topics: Topics, topic: str, timezone: str) -> None:
        self._topics, self._topic, self._timezone = topics, topic, timezone
        self._codecs: dict[tuple[str, int], OpenCodec] = {}
        self._waiting: defaultdict[int, list[Record]] = defaultdict(list)

    def ddl(self, ddl: SimulatedDdl, commit_ts: int) -> None:
        """Send a statement to every partition."""
        self._drain()
        self._broadcast(open_protocol.ddl_message(ddl.query, ddl.action, ddl.schema, ddl.table, commit_ts))

    def row(self, event: RowEvent, commit_ts: int) -> None:
        """Put a row change into its partition's next record."""
        version = event.table.full_name, event.table.version
        codec = self._codecs.get(version) or self._codecs.setdefault(version, OpenCodec(event.table, self._timezone))
        partition = _partition(event, self._topics.partitions(self._topic))
        key = codec.key(event.image, commit_ts, event.row_id)
        self._waiting[partition].append((key, codec.value(event.before, event.after)))
        if len(self._waiting[partition]) == _BATCH:
            self._send(partition)

    def checkpoint(self, commit_ts: int) -> None:
        """Send a resolved event to every partition."""
        self.flush()
        self._broadcast(open_protocol.resolved(commit_ts))

    def flush(self) -> None:
        """Send what waits; wait until everything is acknowledged."""
        self._drain()
        self._topics.flush()

    def close(self) -> None:
        """Nothing to let go."""

    def _drain(self) -> None:
        for partition in sorted(self._waiting):
            self._send(partition)

    def _send(self, partition: int) -> None:
        self._topics.send(self._topic, partition, *open_protocol.record(self._waiting.pop(partition)))

    def _broadcast(self, record: Record) -> None:
        for partition in range(self._topics.partitions(self._topic)):
            self._topics.send(self._topic, partition, *record)


class CanalSender:
    """One topic, a message a row. Statements go to its first partition alone, as TiCDC sends them.

    `extension`: enable-tidb-extension. Without it there are no watermarks.
    """

    def __init__(self, topics: Topics, topic: str, timezone: str, *, extension: bool = True) -> None:
        self._topics, self._topic, self._timezone, self._extension = topics, topic, timezone, extension
        self._codecs: dict[tuple[str, int], files.CanalCodec] = {}

    def ddl(self, ddl: SimulatedDdl, commit_ts: int) -> None:
        """Send a statement when everything before it is acknowledged."""
        self._topics.flush()
        first = range(self._topics.partitions(self._topic))[0]  # to ask for them makes the topic
        self._topics.send(self._topic, first, None, canal.ddl_message(ddl, commit_ts, extension=self._extension))

    def row(self, event: RowEvent, commit_ts: int) -> None:
        """Send a row change."""
        version = event.table.full_name, event.table.version
        codec = self._codecs.get(version) or self._codecs.setdefault(
            version, files.CanalCodec(event.table, self._timezone, extension=self._extension)
        )
        line = codec.lines(event.op, event.before, event.after, commit_ts).removesuffix(files.LINE_END)
        partition = _partition(event, self._topics.partitions(self._topic))
        self._topics.send(self._topic, partition, None, line.encode())

    def checkpoint(self, commit_ts: int) -> None:
        """Send a watermark to every partition."""
        self._topics.flush()
        if self._extension:
            self._topics.broadcast(self._topic, canal.watermark(commit_ts))

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        self._topics.flush()

    def close(self) -> None:
        """Nothing to let go."""


class StorageSender:
    """Files in folders: a table has a folder for each version, and in it one for each day.

    `write` writes a file below the root. A file is closed when it has `_FILE_BYTES`, and with each watermark.
    """

    def __init__(self, write: Callable[[str, bytes], None], codec: FileCodec, extension: str, timezone: str) -> None:
        self._write, self._codec, self._extension, self._timezone = write, codec, extension, timezone
        self._codecs: dict[tuple[str, int], RowLines] = {}
        self._folders: dict[str, tuple[int, str]] = {}
        self._lines: dict[str, list[str]] = {}
        self._bytes: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()

    def ddl(self, ddl: SimulatedDdl, commit_ts: int) -> None:
        """Write the schema file of a statement, when everything before it is written."""
        self.flush()
        table = ddl.version or ddl.before
        self._write(*files.schema_file(ddl.schema, table, commit_ts, ddl))
        if table is not None:
            self._folders[table.full_name] = table.version, f"{table.schema}/{table.name}/{commit_ts}"

    def row(self, event: RowEvent, commit_ts: int) -> None:
        """Put a row change into the newest file of its table; a table of no statement is described first."""
        table = event.table
        key = table.full_name, table.version
        codec = self._codecs.get(key) or self._codecs.setdefault(key, self._codec(table, self._timezone))
        version, folder = self._folders.get(table.full_name, (0, ""))
        if version != table.version:
            folder = f"{table.schema}/{table.name}/{commit_ts - 1}"
            self._write(*files.schema_file(table.schema, table, commit_ts - 1, None))
            self._folders[table.full_name] = table.version, folder
        day = datetime.fromtimestamp((commit_ts >> 18) / 1000, UTC).date()
        lines = codec.lines(event.op, event.before, event.after, commit_ts)
        name = f"{folder}/{day}"
        self._lines.setdefault(name, []).append(lines)
        self._bytes[name] += len(lines)
        if self._bytes[name] >= _FILE_BYTES:
            self._close(name)

    def checkpoint(self, commit_ts: int) -> None:
        """Write everything, then `metadata`."""
        self.flush()
        self._write("metadata", f'{{"checkpoint-ts":{commit_ts}}}'.encode())

    def flush(self) -> None:
        """Close all files."""
        for folder in tuple(self._lines):
            self._close(folder)

    def close(self) -> None:
        """Nothing to let go."""

    def _close(self, folder: str) -> None:
        self._numbers[folder] += 1
        name = f"CDC{self._numbers[folder]:020}.{self._extension}"
        self._write(f"{folder}/{name}", "".join(self._lines.pop(folder)).encode())
        self._write(f"{folder}/meta/CDC.index", f"{name}\n".encode())
        del self._bytes[folder]


def _partition(event: RowEvent, partitions: int) -> int:
    """A stable hash of the handle, as the index-value dispatcher has one; of the name where there is none."""
    table = event.table
    values = table.key_of(event.image) if table.has_handle else ()
    return zlib.crc32("\0".join((table.full_name, *map(str, values))).encode()) % partitions
