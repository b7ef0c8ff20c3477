"""Source tables as a changefeed describes them, one version of the layout at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

from pipeline.model.source_types import named
from pipeline.model.tidb_types import Domain, names

if TYPE_CHECKING:
    from pipeline.model.names import TableName
    from pipeline.model.types import WarehouseType

SchemaId = NewType("SchemaId", int)
"""The version of a table's layout: a registry id for Avro, a schema version elsewhere."""

CommitTs = NewType("CommitTs", int)
"""A TSO: 46 bits of milliseconds since the epoch, 18 bits of logical clock."""

LOGICAL_BITS = 18
FAR_FUTURE = CommitTs(int(datetime(2200, 1, 1, tzinfo=UTC).timestamp() * 1000) << LOGICAL_BITS)
"""No commit ts of TiDB's is beyond it: a message that says so is damaged, and all after it would come too late."""

MEMBERS = names(Domain.MEMBERS)
"""Types whose values are members."""
AMBIGUOUS = frozenset("\\'")
"""TiCDC's Avro list of members does not say where one with such a character ends."""


def time_of(commit_ts: int) -> datetime:
    """The time of a commit ts, in UTC."""
    return datetime.fromtimestamp((commit_ts >> LOGICAL_BITS) / 1000, UTC)


def age_of(commit_ts: int, now: float) -> float:
    """Seconds from a commit ts to `now` (seconds since the epoch); 0 if this machine's clock is earlier than TiDB's."""
    return max(0.0, now - time_of(commit_ts).timestamp())


IN_UTC = "Z"
"""After a TIMESTAMP's default that is UTC's clock: TiDB keeps it so, and TiCDC's schemas have what TiDB keeps."""


class DefaultKind(StrEnum):
    """What the rows that were there before an ADD COLUMN show."""

    NULL = "null"
    LITERAL = "literal"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Default:
    """The origin default of a column, as text that casts to the column's warehouse type.

    Binary text is hexadecimal, BIT text is an unsigned number; of a TIMESTAMP it ends with `Z` where it is UTC's clock
    and not the changefeed's. `UNKNOWN`: the protocol cannot give it exactly
    (an expression, DECIMAL in precise Avro), so old rows keep NULL and `ddl_history` says `default_unknown`.
    """

    kind: DefaultKind = DefaultKind.NULL
    text: str = ""


NULL_DEFAULT = Default()
UNKNOWN_DEFAULT = Default(DefaultKind.UNKNOWN)


def literal(text: str) -> Default:
    """The default that is this text."""
    return Default(DefaultKind.LITERAL, text)


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column of one version of a source table."""

    name: str
    type: WarehouseType
    tidb_type: str
    nullable: bool = True
    default: Default = NULL_DEFAULT
    unsigned: bool = False
    members: tuple[str, ...] = ()
    """Of an ENUM or SET: what it may hold."""
    length: int = 0
    """Of CHAR and VARCHAR: how many characters it may have; of BINARY and VARBINARY: bytes. 0: not known."""
    written: str = ""
    """`CHAR`, `BINARY(8)`, `DOUBLE(10,2)`: the type as a definition has it, where that says more than `tidb_type`."""

    @property
    def source_type(self) -> str:
        """The type in full (`source_types`), as far as it is known."""
        return self.written or (named(self.tidb_type, self.members) if self.members else self.tidb_type)


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of a source table's layout.

    `handle` names the columns that identify a row (the primary key, else the unique key that TiCDC chose); it is
    empty where the table has none, and None where this message does not say.
    `tells_op` and `tells_commit_ts`: whether every message of it says what it does, and when that was committed;
    `has_checksum`: whether it has room for a checksum of the row; `keys_vary`: whether its messages have several keys
    (a key changes without the row's layout), of which `handle` is the newest.
    `virtual`: names that the protocol lists and no row carries; `columns` is without them.
    `tells_before`: whether an update carries the row as it was; `stands_in`: whether `handle` is no key of the
    source's, but all columns that are never NULL: rows come without a key, and a unique key is among those columns.
    """

    table: TableName
    version: SchemaId
    columns: tuple[SourceColumn, ...]
    handle: tuple[str, ...] | None = None
    tells_op: bool = False
    tells_commit_ts: bool = False
    has_checksum: bool = False
    keys_vary: bool = False
    virtual: tuple[str, ...] = ()
    tells_before: bool = False
    stands_in: bool = False

    @property
    def unnamed(self) -> tuple[SourceColumn, ...]:
        """Columns of ENUM and SET whose members are not known: a protocol that sends numbers does not name them."""
        return tuple(column for column in self.columns if column.tidb_type in MEMBERS and not column.members)
