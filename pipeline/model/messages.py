"""What a protocol gives the micro-batch: which tables are in it, how to decode each, and what is no change.

The raw frame has the columns of `RAW`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import CommitTs, SchemaId, SourceColumn, TableVersion
    from pipeline.model.large_rows import LargeRows
    from pipeline.model.names import TableName
    from pipeline.model.places import Partition, Range
    from pipeline.model.types import WarehouseType

Kind = Hashable
"""What tells messages of one schema and sort from others, in the protocol's own terms."""


INDEX = "index"
"""Column that `SourceProtocol.prepare` adds to the raw frame: the number of the event in its record, from 0."""

EVER = 2**63 - 1
"""After every commit ts."""


DdlIdentity = tuple[int, tuple[str, str], str]
"""Commit ts, `TableName.key` and text of a DDL event. One commit ts may have many, and one text be sent of several."""


class Ordering(StrEnum):
    """How changes of a key are put in order (design.md, rule 1).

    It is a property of the protocol; of Canal-JSON it is one of the messages, which have a commit ts or not.
    """

    BY_OFFSET = "by_offset"
    BY_COMMIT_TS = "by_commit_ts"


@dataclass(frozen=True, slots=True)
class SeenVersion:
    """One layout version that this batch carries, and where it first and last stands in each partition.

    `key_only`: its messages carry the handle columns alone (an Avro delete). `since`, `until`: the least and the
    greatest commit ts of its rows, where the protocol tells. `unfit`: why its table cannot be right, and is held.
    `unlike`: why none of its rows seems to be of this version; its table is held, unless it has rows already.
    `sends_members`: values of ENUM and SET come as names, so that nobody needs to know the members.
    """

    version: TableVersion
    first: Mapping[Partition, int]
    last: Mapping[Partition, int]
    rows: int
    key_only: bool = False
    since: int = 0
    until: int = EVER
    unfit: str = ""
    unlike: str = ""
    sends_members: bool = False

    @property
    def unnamed(self) -> tuple[SourceColumn, ...]:
        """Columns of ENUM and SET whose values stay numbers, as nobody has named their members."""
        return () if self.sends_members else self.version.unnamed

    def joined(self, other: SeenVersion) -> SeenVersion:
        """The rows of both, which are of one version, as one."""
        first = {at: min(self.first.get(at, position), position) for at, position in other.first.items()}
        last = {at: max(self.last.get(at, position), position) for at, position in other.last.items()}
        return replace(
            self,
            version=replace(self.version, keys_vary=self.version.keys_vary or other.version.keys_vary),
            first={**self.first, **first},
            last={**self.last, **last},
            rows=self.rows + other.rows,
            since=min(self.since, other.since),
            until=max(self.until, other.until),
            unfit=self.unfit or other.unfit,
            unlike=self.unlike and other.unlike,
        )


class Part(NamedTuple):
    """The rows of one source table name with a commit ts in (`since`, `until`] (ordering by commit ts)."""

    table: TableName
    since: int = 0
    until: int = EVER


@dataclass(frozen=True, slots=True)
class Unknown:
    """Rows of a version that nothing has described yet, between two commit ts (both included); `where` finds them."""

    table: TableName
    version: SchemaId
    rows: int
    since: int
    until: int
    where: Column = field(compare=False)


class Origin(NamedTuple):
    """Where the rows of a table come from: TiCDC sends a table to one stream. `keyspace`: empty if it is not sent."""

    stream: str
    keyspace: str = ""


@dataclass(frozen=True, slots=True)
class TableMessages:
    """Row messages of one source table in this batch, by the version of the table with which they were written.

    `origin`: where they come from; a protocol that gives it has an entry for each origin of a name.
    """

    table: TableName
    versions: tuple[SeenVersion, ...]
    origin: Origin | None = None

    @property
    def rows(self) -> int:
        """How many messages these are."""
        return sum(seen.rows for seen in self.versions)

    @property
    def partitions(self) -> frozenset[Partition]:
        """Where they stand."""
        return frozenset(position for seen in self.versions for position in seen.first)


@dataclass(frozen=True, slots=True)
class MessageHeader:
    """What the head of a prepared message says of itself; each is NULL where it says nothing.

    `watermark`: whether it is one, of that commit ts (ordering by commit ts). `ddl`: whether it is a DDL event.
    """

    schema: Column
    table: Column
    commit_ts: Column
    watermark: Column
    ddl: Column


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Messages that no table can take; they become dead letters with this code and sentence.

    `header`, `tables`: what their heads say, and how many are of which table, where the heads can be trusted.
    """

    code: str
    message: str
    where: Column
    rows: int
    header: MessageHeader | None = None
    tables: Mapping[TableName, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Ddl:
    """One DDL statement as the changefeed sent it, with the position (`at`) of its first copy in each partition.

    `at` is empty if the statement stands in no partition. The source then gives it again with every batch until
    `_pipeline.ddl_history` has it, as nothing of it can be kept in `_pipeline.held`.

    `kind` is TiDB's ActionType number. `version` is the table after the statement, if the protocol describes it. `old`
    is the name that a table had before a RENAME, if the message has it besides the text.
    """

    commit_ts: CommitTs
    table: TableName
    kind: int
    sql: str
    at: Mapping[Partition, int]
    version: TableVersion | None = None
    old: TableName | None = None
    table_id: int = 0
    """TiDB's id of the table, which a RENAME leaves as it is; 0 if the protocol does not send it."""
    in_source: TableName | None = None
    """The table as the source names it, where its rows name it otherwise (`SourceProtocol.as_sent`)."""
    redelivered_at: Mapping[Partition, int] = field(default_factory=dict)
    """The position of the last copy, in partitions that have several: a changefeed has sent it again."""

    alone: str = ""
    """Why nothing tells which rows of other partitions come after it; "" where each partition has a copy of it, or its
    commit ts tells."""
    closes: bool = True
    """Whether all rows up to its commit ts stand before it in its partition; not if it has a file of its own."""

    @property
    def identity(self) -> DdlIdentity:
        """What all copies of it have in common."""
        return self.commit_ts, self.table.key, self.sql


@dataclass(frozen=True, slots=True)
class Messages:
    """What one small aggregate over the raw frame found."""

    tables: tuple[TableMessages, ...] = ()
    refused: tuple[Undecodable, ...] = ()
    ddl: tuple[Ddl, ...] = ()
    watermarks: Mapping[Partition, CommitTs] = field(default_factory=dict)
    starts: Mapping[Partition, int] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    events: int = 0
    """All of them: rows, DDL events, watermarks, and what cannot be decoded."""
    control: int = 0
    """DDL events and watermarks among them."""
    passed_over: int = 0
    """Rows among them of tables that `source.tables` leaves out."""
    kinds: frozenset[Kind] = frozenset()
    """Which kinds of messages there are but for statements, control messages and refused ones included."""
    warnings: tuple[str, ...] = ()
    """What a person should know of the changefeed; each is said once."""
    unknown: tuple[Unknown, ...] = ()
    """Rows whose schema has not come."""
    pending_events: int = 0
    """How many events there are besides, which have waited for what they need."""
    prepare_again: bool = False
    """Whether the records have to be prepared once more: for the first time some are compressed, or have several rows.

    What else stands here is not to be used then.
    """
    described: tuple[TableVersion, ...] = ()
    """Versions that messages of this batch describe by themselves: they are to be remembered."""

    @property
    def has_read(self) -> bool:
        """Whether any of the events could be read."""
        return self.events > sum(refused.rows for refused in self.refused)


@dataclass(frozen=True, slots=True)
class Target:
    """One column of a changes table."""

    name: str
    type: WarehouseType


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Where the fields of each version land: version → source field → column of the changes table.

    `before`: whether the change frame has `change.BEFORE`, a struct of all targets.
    """

    targets: tuple[Target, ...]
    fields: Mapping[SchemaId, Mapping[str, str]] = field(hash=False)
    before: bool = False


@dataclass(frozen=True, slots=True)
class Prediction:
    """The change frame of a batch that was not read, and what the batch has, if it has nothing but known kinds.

    `table`: the messages that are rows. `messages` says what the batch has, once the frame has been read; None if it
    had other kinds. `odd` says of a row of the frame that its message is of another kind. `rows`: how many rows there
    must be, if the frame has all messages. The prediction is wrong if one is odd or missing.
    """

    frame: DataFrame
    table: TableMessages
    messages: Callable[[], Messages | None]
    odd: Column | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the change frame of one table is made of its rows: `of`.

    `depends_on`: all that it depends on. Recipes of one protocol that have the same here give the same.
    """

    depends_on: Hashable
    of: Callable[[DataFrame], DataFrame] = field(compare=False)


class KnownVersions(Protocol):
    """What earlier messages have said of versions (`_pipeline.schemas`)."""

    def versions(
        self, wanted: Collection[tuple[TableName, SchemaId]]
    ) -> Mapping[tuple[tuple[str, str], SchemaId], TableVersion]:
        """Those of the wanted versions that are known, by the name's key and the version."""
        ...

    def of_tables(self, tables: Collection[TableName]) -> Collection[TableVersion]:
        """All versions that are known under the tables' names."""
        ...


class SourceProtocol(Protocol):
    """One protocol, bound to its settings."""

    @property
    def ordering(self) -> Ordering:
        """In which order its changes apply."""
        ...

    @property
    def told_ordering(self) -> Ordering | None:
        """The same; None where messages tell it, and none has yet."""
        ...

    def begin(self, earlier: Ordering | None, first: DataFrame | None = None) -> None:
        """Learn what has to be known before messages are read.

        `earlier`: in which order the changes of earlier batches were applied, None if these have not told it. `first`:
        the raw frame of a batch.
        """
        ...

    @property
    def sends_before(self) -> bool:
        """Whether its updates carry the row as it was."""
        ...

    @property
    def decimals_as_text(self) -> bool:
        """Whether DECIMAL comes as text, as far as the settings say: of a table whose columns are not known yet."""
        ...

    def as_sent(self, name: str) -> str:
        """The name of a schema, table or column of the source as rows have it."""
        ...

    def header(self) -> MessageHeader:
        """What the head of a row says, as columns of the prepared frame."""
        ...

    def large_rows(self) -> LargeRows | None:
        """How rows are told that were too large for a message; None where there are none."""
        ...

    def first_partition_statements(self, raw: DataFrame) -> DataFrame | None:
        """Of raw records those that may be statements, if partition 0 alone has them; None if each partition has each.

        Only a protocol whose changes are ordered by commit ts is asked.
        """
        ...

    def foresee(self, statements: Sequence[Ddl]) -> None:
        """Learn of statements that are behind the batch to be read, and define columns of its rows."""
        ...

    def prepare(self, raw: DataFrame) -> DataFrame:
        """One row per event, with `INDEX`; key and value of a row are those of its event alone.

        The protocol may add columns of its own. All that follows takes a prepared frame.
        """
        ...

    def read(self, raw: DataFrame) -> Messages:
        """Find what is in the batch, in one small aggregate (plus a look at DDL messages, where there are any)."""
        ...

    def where(self, messages: TableMessages) -> Column:
        """Which raw messages are rows of these versions, under the table's name or the name of the version."""
        ...

    def where_named(self, parts: Sequence[Part]) -> Column:
        """Which raw messages are rows of these names at these times, of any version, described or not.

        Only a protocol whose changes are ordered by commit ts is asked.
        """
        ...

    def recipe(self, messages: TableMessages, mapping: ColumnMapping) -> Recipe:
        """How its rows (`where`, `where_named`) become one table's change frame; other versions are left out.

        The frame has the envelope of `model.change` without `_batch_id` and `_ingested_at`, the targets, and `_error`
        (a code where the message cannot be decoded, else NULL), `_key_bytes`, `_value_bytes`, `_arrived_at`,
        `_unread` and `_checksum` (`change.UNREAD`, `change.CHECKSUM`; they are computed only where they are selected).
        """
        ...

    def predict(
        self, raw: DataFrame, kinds: frozenset[Kind], ranges: Mapping[Partition, Range], mapping: ColumnMapping
    ) -> Prediction | None:
        """What a batch of these ranges is, if all its messages are of these kinds; None where that cannot be known.

        `raw` is not prepared. What it says of single versions (where each stands, how many rows it has, between
        which commit ts) may be too much.
        """
        ...

    def kinds_of_rows(self, versions: Collection[tuple[TableName, SchemaId]]) -> frozenset[Kind]:
        """`Messages.kinds` of a batch that has rows of these versions alone, as far as the protocol knows."""
        ...

    def is_newest(self, seen: SeenVersion) -> bool:
        """Whether the version is the newest that the source has, though its id is lower than one met before."""
        ...

    def sentences(self) -> Mapping[str, str]:
        """What each `_error` code means, as the sentence of a dead letter."""
        ...
