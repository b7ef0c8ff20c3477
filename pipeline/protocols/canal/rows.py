"""How a row of Canal-JSON is read, wherever it comes from: its columns are texts, of a version that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.places import RAW
from pipeline.model.projection import once
from pipeline.protocols.canal.reading import message
from pipeline.protocols.canal.values import CanalValues
from pipeline.protocols.described.encoding import Codes
from pipeline.protocols.described.head import MessageKind, field_of
from pipeline.protocols.files.head import COMMIT_TS_MISSING, COMPRESSED, FAULTS, FILE_NOT_JSON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import TableVersion

UNREADABLE, VALUE_UNREADABLE, COLUMNS_DIFFER = "CANAL_UNREADABLE", "CANAL_VALUE_UNREADABLE", "COLUMNS_DIFFER"
BINARY_UNREADABLE, OF_ALIBABA = "BINARY_UNREADABLE", "CANAL_NOT_OF_TICDC"
NO_COMMIT_TS = "the row has no commit ts: set enable-tidb-extension=true in the sink URI of the changefeed"
CODES = Codes(
    UNREADABLE,
    VALUE_UNREADABLE,
    {
        UNREADABLE: "the line is not a row of Canal-JSON: it is cut off, damaged, or of another protocol",
        VALUE_UNREADABLE: "a value of the row does not fit its column's type, or the row is missing",
        **FAULTS,
        FILE_NOT_JSON: COMPRESSED,
        COMMIT_TS_MISSING: NO_COMMIT_TS,
        BINARY_UNREADABLE: "a binary value of the row has characters above 255, so they are not bytes",
        OF_ALIBABA: "Alibaba's Canal or Flink has written the message, not TiCDC: its types are those of MySQL",
        COLUMNS_DIFFER: "the row does not have the columns of its version: check whether the changefeed has a column "
        "selector",
    },
    BINARY_UNREADABLE,
)
TIME = "commit_time"
SIDES = ("data", "old")


class CanalRows:
    """See `RowEncoding`: the head was read before, and did not look at the row."""

    columns: tuple[str, ...] = RAW
    values = CanalValues()
    codes = CODES
    always_sends_before = False
    in_head: tuple[str, ...] = ()
    """The fields of a head that have the rows, or their time."""

    @property
    def commit_time(self) -> Column | None:
        """See `RowEncoding.commit_time`: the head has it, or the commit ts says it."""
        return field_of(TIME) if TIME in self.in_head else None

    def checksum(self, version: TableVersion, after: Column, before: Column, timezone: str) -> Column | None:  # noqa: ARG002
        """There are none."""
        return None

    def decoded(self, versions: Sequence[TableVersion]) -> Sequence[Mapping[str, Column]]:
        """Each version's row, NULL for rows of the others."""
        return ({_alias(version): _read(version) for version in versions},)

    def after(self, version: TableVersion) -> Column:
        """`data`, which is the former row of a delete."""
        return F.col(_alias(version)).getField("after")

    def before(self, version: TableVersion) -> Column:
        """`old` of an update, `data` of a delete."""
        return F.col(_alias(version)).getField("before")

    def item(self, row: Column, version: TableVersion, place: int) -> Column:  # noqa: ARG002 - the row has its columns
        """By its place."""
        return F.get(row, F.lit(place))

    def fault(self, version: TableVersion) -> Column | None:
        """Where it is not one row, or has other columns than the version."""
        read = F.col(_alias(version))
        return F.when(_is_of(version) & ~read.getField("fits"), F.lit(COLUMNS_DIFFER)).when(
            _is_of(version) & ~is_one_row(read), F.lit(VALUE_UNREADABLE)
        )


class PlainRows(CanalRows):
    """Of messages without `enable-tidb-extension`: when a row was committed is known to the millisecond."""

    in_head = (TIME,)


class CanalRowsAtOnce(CanalRows):
    """The head has the rows, too. A row that has a fault has no such head."""

    in_head: tuple[str, ...] = SIDES

    def decoded(self, versions: Sequence[TableVersion]) -> Sequence[Mapping[str, Column]]:  # noqa: ARG002 - see the head
        """Nothing more."""
        return ()

    def after(self, version: TableVersion) -> Column:  # noqa: ARG002 - there is no other
        """`data`."""
        return field_of("data")

    def before(self, version: TableVersion) -> Column:  # noqa: ARG002 - there is no other
        """`old` of an update, `data` of a delete."""
        return field_of("old")

    def fault(self, version: TableVersion) -> Column | None:  # noqa: ARG002 - there is no other
        """Never."""
        return None


class PlainRowsAtOnce(CanalRowsAtOnce):
    """See `PlainRows`."""

    in_head = (TIME, *SIDES)


def sides(read: Column) -> Mapping[str, Column]:
    """The rows of a message, as the fields of a head that `CanalRowsAtOnce` asks for."""
    return {"data": read.getField("after"), "old": read.getField("before")}


def is_one_row(read: Column) -> Column:
    """Whether a message could be read, and is one row."""
    is_one = F.coalesce(read.getField("rows") == 1, F.lit(False))
    return is_one & read.getField("after").isNotNull() & read.getField("is_sound")


def _alias(version: TableVersion) -> str:
    return f"_row{version.version}"


def _is_of(version: TableVersion) -> Column:
    return (field_of("kind") == MessageKind.DML) & (field_of("version") == F.lit(version.version))


def _read(version: TableVersion) -> Column:
    return message(F.when(once() & _is_of(version), F.col("value")), version)
