"""What protocols differ in that describe the versions of their tables: how a message, a row and a value are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import TableVersion
    from pipeline.model.projection import Projection
    from pipeline.model.text import Value
    from pipeline.model.types import WarehouseType
    from pipeline.protocols.large.form import KeyRows


class Values(Protocol):
    """One value of a row, as it is sent, as what Spark computes with; NULL where it is not what it should be."""

    def whole(self, sent: Column, kind: WarehouseType) -> Column:
        """A signed whole number."""
        ...

    def unsigned(self, sent: Column) -> Column:
        """A whole number of 64 bits, as DECIMAL(20,0)."""
        ...

    def real(self, sent: Column, kind: WarehouseType) -> Column:
        """FLOAT or DOUBLE."""
        ...

    def text(self, sent: Column) -> Column:
        """Text; the column itself where it can be nothing else."""
        ...

    def sound(self, sent: Column) -> Value:
        """Text as the value of a column: NULL and its bytes where it is no UTF-8."""
        ...

    def octets(self, sent: Column) -> Column:
        """Bytes."""
        ...

    def instant(self, sent: Column, timezone: str) -> Value:
        """TIMESTAMP; `timezone` is the changefeed's."""
        ...

    def member(self, sent: Column, members: tuple[str, ...]) -> Value:
        """ENUM: the name of a member, "" of a value that was none."""
        ...

    def members(self, sent: Column, members: tuple[str, ...]) -> Value:
        """SET: the names of members, with commas between them."""
        ...


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of an encoding's dead letters. `sentences`: what each means, these and others."""

    message: str
    """Of a message that is none of the protocol's."""
    value: str
    """Of a row with a value that is none of its column's."""
    sentences: Mapping[str, str]
    binary: str = ""
    """Of a row with a binary value that is no bytes; "" where there is no code for that."""


class RowEncoding(Protocol):
    """How rows are read, of versions that are known (`frame.recipe`). It has no state."""

    def __hash__(self) -> int: ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs of a prepared frame."""
        ...

    @property
    def codes(self) -> Codes:
        """The codes of its dead letters."""
        ...

    @property
    def always_sends_before(self) -> bool:
        """Whether an update without the row as it was is damaged."""
        ...

    @property
    def commit_time(self) -> Column | None:
        """When a row was committed, where its commit ts does not say it; None if it always does."""
        ...

    @property
    def values(self) -> Values:
        """How values are read."""
        ...

    def decoded(self, versions: Sequence[TableVersion]) -> Sequence[Mapping[str, Column]]:
        """Columns from which `after` and `before` are then taken, by name, in steps: a step has those before it."""
        ...

    def after(self, version: TableVersion) -> Column:
        """`data` of a row of this version, for deletes `old`; `item` gives its columns."""
        ...

    def before(self, version: TableVersion) -> Column:
        """`old` of a row of this version."""
        ...

    def item(self, row: Column, version: TableVersion, place: int) -> Column:
        """Of `after` or `before`, the column that has this place in the version."""
        ...

    def fault(self, version: TableVersion) -> Column | None:
        """The code of what is wrong with a row as a whole, NULL if nothing is; None where nothing can be."""
        ...

    def checksum(self, version: TableVersion, after: Column, before: Column, timezone: str) -> Column | None:
        """`change.CHECKSUM` of rows of this version, whose images are `after` and `before`; None without checksums."""
        ...


class Encoding(RowEncoding, Protocol):
    """One encoding of a protocol whose messages describe the versions of tables. It has no state."""

    @property
    def ddl_closes(self) -> bool:
        """See `Ddl.closes`."""
        ...

    @property
    def describes_before(self) -> bool:
        """Whether a statement's message describes the version before it, too."""
        ...

    @property
    def sends_members(self) -> bool:
        """Whether a value of ENUM or SET is the names of its members, not their numbers."""
        ...

    def key_rows(self, timezone: str) -> KeyRows | None:
        """What makes messages whole that have keys alone; None where none can be."""
        ...

    @property
    def needs_before(self) -> str:
        """What to say of a table without a key whose updates do not carry the row as it was; "" if all do."""
        ...

    def lacks_before(self) -> Column:
        """Of a prepared row, whether it is such an update."""
        ...

    def prepared(self) -> Sequence[Projection]:
        """From the raw frame to the one with `INDEX` and `HEAD`, in these steps."""
        ...

    def at_once(self, version: TableVersion) -> Encoding:
        """The encoding for a frame that has no rows but of this version: `prepared` reads them too.

        A message that is damaged anywhere may have no head then.
        """
        ...

    def body(self) -> Column:
        """Of a raw message, what `message` reads."""
        ...

    def message(self, body: Any) -> Mapping[str, Any] | None:
        """A DDL or BOOTSTRAP message as JSON has it; None where it is none."""
        ...

    def carried(self) -> Column:
        """Of a prepared row, the names of its columns in `data`, or else `old`; NULL where it does not say them."""
        ...

    def width(self) -> Column | None:
        """Of a prepared row, how many columns it has; None where names tell."""
        ...
