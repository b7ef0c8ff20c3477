"""Everything that the pipeline keeps in the properties and snapshots of its tables: each key with what it means.

A key reads its value from properties (`read`), and gives the entry that a commit is to carry (`entry`); no other
module knows the text (`stored` has the codecs). docs/reference/state.md is made of this module
(`python tools/state.py`). A key is never given another meaning: tables that an earlier version has written are read as
they are. A key with another form of value is a new key.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pipeline.warehouse import stored
from pipeline.warehouse.stored import COMMIT_TS, INTEGER, TEXT

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from pipeline.warehouse.stored import Codec

T = TypeVar("T")

FORM = 1
"""The form of the tables' state that this version writes; a higher one is refused."""


class Where(StrEnum):
    """What carries a key."""

    BOTH = "properties of both tables of a pair"
    CHANGES = "properties of the changes table"
    CHANGES_SNAPSHOT = "summary of a snapshot of the changes table"
    CURRENT_SNAPSHOT = "summary of a snapshot of the current table"
    SNAPSHOT = "summary of a snapshot of either table"
    OWN = "properties of a table of `_pipeline`"
    OWN_SNAPSHOT = "summary of a snapshot of a table of `_pipeline`"
    BATCHES_SNAPSHOT = "summary of a snapshot of `_pipeline.batches`: the ledger"
    HISTORY = "properties of `_pipeline.ddl_history`"
    HISTORY_SNAPSHOT = "summary of a snapshot of `_pipeline.ddl_history`"


@dataclass(frozen=True, slots=True)
class StateKey(Generic[T]):
    """One key. `codec`: its type and how it is written. `form`: the form of the state that brought it."""

    name: str
    where: Where
    codec: Codec[T]
    meaning: str
    form: int = 1

    def decode(self, text: str | None) -> T | None:
        """The value of what a table says; None where it says nothing. An empty text is nothing."""
        return self.codec.decode(text) if text else None

    def read(self, properties: Mapping[str, str]) -> T | None:
        """The value in properties or in a summary; None where there is none."""
        return self.decode(properties.get(self.name))

    def required(self, properties: Mapping[str, str]) -> T:
        """The value in properties that always have one. Raises `KeyError`."""
        return self.codec.decode(properties[self.name])

    def is_in(self, properties: Container[str]) -> bool:
        """Whether properties have the key, be it with an empty text."""
        return self.name in properties

    def entry(self, value: T | None) -> dict[str, str]:
        """What a commit carries, to be merged with other entries. None: an empty text, which ends an earlier value."""
        return {self.name: "" if value is None else self.codec.encode(value)}


KEYS: list[StateKey[Any]] = []
"""All of them, in the order of this module."""


def _key(name: str, where: Where, codec: Codec[T], meaning: str) -> StateKey[T]:
    key = StateKey(name, where, codec, meaning)
    KEYS.append(key)
    return key


_STREAM_ENDS = stored.ENDS.described("JSON: {topic id: {partition: offset}}")
_PARTITION_TS = stored.PARTITION_TS.described("JSON: [[topic, partition, number], …]")

# ---- what a table is
ROLE = _key(
    "ticdc.role",
    Where.BOTH,
    TEXT.described("`changes`, `current`, or the name of a table of `_pipeline`"),
    "what the table is",
)
NAME = _key(
    "ticdc.name",
    Where.BOTH,
    stored.WAREHOUSE_NAME.described("JSON: [namespace, name]"),
    "the table's name, for a catalog that has lost it",
)
NEXT_NAME = _key(
    "ticdc.next-name",
    Where.BOTH,
    stored.WAREHOUSE_NAME.described("JSON: [namespace, name], or empty"),
    "the name that a rename which is under way gives",
)
SOURCE_SCHEMA = _key("ticdc.source-schema", Where.BOTH, TEXT, "the source table's schema")
SOURCE_TABLE = _key("ticdc.source-table", Where.BOTH, TEXT, "the source table's name")
KEYSPACE = _key("ticdc.keyspace", Where.CHANGES, TEXT, "the keyspace of its rows, where the protocol tells one")
LAYOUT = _key(
    "ticdc.layout", Where.BOTH, stored.LAYOUT,
    "the columns over time: versions, keys, defaults, what DDL events have done to them",
)  # fmt: skip

# ---- how a pair stands
STATE = _key(
    "ticdc.state", Where.CHANGES, stored.STATE.described("`live`, `held`, `releasing`, `dropped`"), "the pair's state"
)
HELD_REASON = _key(
    "ticdc.held-reason", Where.CHANGES, TEXT, "why the pair is held; of one that is being released, the operation's id"
)
CREATED = _key("ticdc.created-at", Where.CHANGES, COMMIT_TS, "the CREATE TABLE that made the pair; 0: its rows did")
CREATED_AS = _key(
    "ticdc.created-as", Where.CHANGES, stored.NAME_KEY.described("JSON: [schema, table] in lower case"),
    "the name that this CREATE TABLE gave, where rows have made the pair",
)  # fmt: skip
RENAMED = _key("ticdc.renamed-at", Where.CHANGES, COMMIT_TS, "the newest RENAME")
WANTED_NAME = _key(
    "ticdc.rename-due",
    Where.CHANGES,
    stored.TABLE_NAME.described("JSON: [schema, table], or empty"),
    "the name that a held rename waits to give",
)
TRUNCATED = _key(
    "ticdc.truncated-at", Where.CHANGES, COMMIT_TS,
    "rows up to it do not show; in a summary of the current table: the one that has been done",
)  # fmt: skip
DROPPED = _key("ticdc.dropped-at", Where.CHANGES, COMMIT_TS, "the DROP of the source table")
NAME_BINDINGS = _key(
    "ticdc.spans", Where.CHANGES, stored.BINDINGS.described("JSON: [[schema, table, since, until, cause, pair], …]"),
    "the names that the table has had, each for changes with a commit ts in (since, until]",
)  # fmt: skip
STREAMS = _key(
    "ticdc.topics", Where.CHANGES, stored.TEXTS.described("JSON: [topic id, …]"),
    "the topics that bring the table under its newest name, or that a person has accepted",
)  # fmt: skip
DELIVERIES = _key(
    "ticdc.sends", Where.CHANGES, stored.PLACES.described("JSON: [[topic, partition, offset, number], …]"),
    "where TiCDC began to send changes of a table without a key again",
)  # fmt: skip
EXCHANGED = _key(
    "ticdc.exchanged", Where.CHANGES, COMMIT_TS, "the newest EXCHANGE PARTITION: the pair cannot be rebuilt alone"
)
COLUMNS = _key(
    "ticdc.columns", Where.CHANGES, stored.NOTED,
    "which columns others have altered, as long as that holds the pair",
)  # fmt: skip
NOT_OURS = _key(
    "ticdc.columns-not-ours",
    Where.CHANGES,
    stored.TEXTS.described("JSON: [column, …]"),
    "columns of users, of which a run has told already",
)
NOTES = _key(
    "ticdc.notes", Where.CHANGES, stored.LAYOUT_NOTES.described("JSON: {batch, notes, met}"),
    "what a batch has to say of the layout's change, for a second try of it",
)  # fmt: skip
BORN = _key(
    "ticdc.born",
    Where.CHANGES,
    stored.BOUND_AT.described("JSON: [batch, epoch, schema, table]"),
    "the batch, and the place in it, that made the pair",
)
NAMED = _key(
    "ticdc.named",
    Where.CHANGES,
    stored.BOUND_AT.described("JSON: [batch, epoch, schema, table]"),
    "the batch, and the place in it, that gave the name it waited for",
)

# ---- how far a pair has come
ENDS = _key(
    "ticdc.ends",
    Where.CHANGES_SNAPSHOT,
    _STREAM_ENDS,
    "up to where the table has taken each partition; also in the ledger",
)
OPERATION = _key(
    "ticdc.operation", Where.SNAPSHOT, TEXT.described("`batch<n>`, `release<n>`, …"),
    "which operation has committed the snapshot, so that a second try finds it",
)  # fmt: skip
IN_DRIVER = _key(
    "ticdc.in-driver", Where.CHANGES_SNAPSHOT, stored.FLAG, "whether the driver has made its rows, without a job"
)
BY_CLONE = _key(
    "ticdc.by-clone", Where.CURRENT_SNAPSHOT, stored.FLAG,
    "whether the current table shows files of the changes table (links, excerpts), or a MERGE has made its rows",
)  # fmt: skip
TIMES = _key(
    "ticdc.times",
    Where.CHANGES_SNAPSHOT,
    stored.BETWEEN.described("`<least>:<greatest>` commit ts"),
    "between which commit ts its rows lie",
)
LATE = _key(
    "ticdc.late", Where.CHANGES_SNAPSHOT, stored.FLAG, "its rows belong before what the current table shows already"
)
APPLIED = _key(
    "ticdc.applied-changes", Where.CURRENT_SNAPSHOT, INTEGER.described("snapshot id of the changes table"),
    "up to which append the current table shows",
)  # fmt: skip
BACKFILLED = _key(
    "ticdc.filled",
    Where.CURRENT_SNAPSHOT,
    stored.TEXTS.described("JSON: [column id, …]"),
    "columns whose older rows have their default values",
)
CUT = _key("ticdc.cut", Where.CURRENT_SNAPSHOT, COMMIT_TS, "up to which commit ts the current table shows")
LATE_SHOWN = _key(
    "ticdc.late-shown",
    Where.CURRENT_SNAPSHOT,
    stored.NUMBERS.described("JSON: [snapshot id, …]"),
    "the late appends that it shows",
)
REMOVED = _key("ticdc.removed-at", Where.CURRENT_SNAPSHOT, COMMIT_TS, "the newest partition DDL whose rows have left")
EXCHANGED_FROM = _key(
    "ticdc.exchanged-from", Where.CURRENT_SNAPSHOT, INTEGER.described("snapshot id"),
    "the partitioned table's snapshot before an exchange, from which the other table takes its rows",
)  # fmt: skip

# ---- the ledger
BATCH = _key("ticdc.batch", Where.BATCHES_SNAPSHOT, INTEGER, "the newest committed batch")
UNFINISHED = _key(
    "ticdc.unfinished", Where.BATCHES_SNAPSHOT, INTEGER,
    "the first batch of which a try that was never committed may be in the tables",
)  # fmt: skip
STREAM_NAMES = _key(
    "ticdc.topic-names",
    Where.BATCHES_SNAPSHOT,
    stored.TEXT_BY_TEXT.described("JSON: {topic id: name}"),
    "the names that topics had",
)
WATERMARKS = _key("ticdc.watermarks", Where.BATCHES_SNAPSHOT, _PARTITION_TS, "the greatest watermark of each partition")
FRONTIERS = _key(
    "ticdc.moments",
    Where.BATCHES_SNAPSHOT,
    _PARTITION_TS,
    "the frontier of each partition (`model.frontier.Frontier`)",
)
RESOLVED = _key(
    "ticdc.resolved",
    Where.BATCHES_SNAPSHOT,
    INTEGER.described("frontier, in decimal"),
    "up to which all partitions were read",
)
LAST_WATERMARKS = _key(
    "ticdc.marks",
    Where.BATCHES_SNAPSHOT,
    _PARTITION_TS,
    "the last watermark of each partition, be it the greatest or not",
)

ORDERING = _key(
    "ticdc.ordering", Where.BATCHES_SNAPSHOT, TEXT.described("`by_offset` or `by_commit_ts`"),
    "in which order the batch has applied changes",
)  # fmt: skip

TRIED = _key(
    "ticdc.tried-resolved", Where.OWN,
    stored.TRIED.described("JSON: [batch, frontier, {topic id: {partition: offset}}]"),
    "how far the newest try of a batch with DDL events was resolved, and what it had read of topics that were not late",
)  # fmt: skip

# ---- the pipeline's own tables
APPEND = _key("ticdc.append", Where.OWN_SNAPSHOT, TEXT, "which append this is, so that a second try finds it")
STATE_FORM = _key("ticdc.form", Where.OWN, INTEGER, "the form of the state (`FORM`)")
OWNER = _key("ticdc.pipeline", Where.OWN, TEXT, "the pipeline that writes the warehouse")
CATALOG_FOLDER = _key(
    "ticdc.catalog-folder", Where.OWN, TEXT, "where the embedded catalog lay that has the tables, to know a copy by"
)
BINDINGS = _key(
    "ticdc.bindings-before", Where.HISTORY_SNAPSHOT, stored.STORED_NAMES.described("JSON: {batch, names}"),
    "which pair each name meant before the batch (by offset), for a second try of it",
)  # fmt: skip
CALLED = _key(
    "ticdc.called", Where.HISTORY_SNAPSHOT, stored.SOURCE_NAMES.described("JSON: {batch, before, after}"),
    "what the source calls tables whose names its protocol changes",
)  # fmt: skip
GONE = _key(
    "ticdc.gone",
    Where.HISTORY,
    stored.BINDINGS.described("JSON, as `ticdc.spans`"),
    "the names of pairs that have been removed (by commit ts)",
)
HOLDS = _key(
    "ticdc.holds",
    Where.HISTORY,
    stored.HELD_NAMES.described("JSON: [[schema, table, reason, commit ts], …]"),
    "names that are held before they have a pair",
)
UNDER_WAY = _key(
    "ticdc.redrive",
    Where.OWN,
    stored.UNDER_WAY.described("JSON: {operation, selection}, or empty"),
    "the redrive that is under way",
)
PENDING_DELIVERIES = _key(
    "ticdc.resent", Where.OWN,
    stored.PLACES_BY_NAME.described("JSON: [[schema, table, topic, partition, offset, number], …]"),
    "as `ticdc.sends`, of rows that are pending",
)  # fmt: skip
