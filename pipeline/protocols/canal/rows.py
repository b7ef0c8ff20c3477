"""How a row of Canal-JSON is read, wherever it comes from: its columns are texts, of a version that is known."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from pipeline.model.change import Op
from pipeline.model.conditions import any_of
from pipeline.model.places import RAW
from pipeline.model.projection import once
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
CORRUPT = "_corrupt"
"""The field of `row_fields` that has the text where Spark could not read it."""
HEAD_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_none", "maxStringLen": str(2**28)}
ROW_OPTIONS = {**HEAD_OPTIONS, "columnNameOfCorruptRecord": CORRUPT}
"""How Spark reads a message where rows are skipped, and where these are read."""
TIME = "commit_time"
SIDES = ("data", "old")
_SEPARATOR = "\0"


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
        """Each version's row, NULL for rows of the others; then which columns `old` has."""
        return {_alias(version): _row(version) for version in versions}, self._updated(versions)

    def after(self, version: TableVersion) -> Column:
        """`data`, which is the former row of a delete."""
        return first_of(F.col(_alias(version)), "data")

    def before(self, version: TableVersion) -> Column:
        """`old` of an update, `data` of a delete."""
        after = self.after(version)
        return F.when(field_of("op") == Op.DELETE, after).otherwise(_completed(version, self._old(version), after))

    def item(self, row: Column, version: TableVersion, place: int) -> Column:
        """By its name."""
        return row.getItem(version.columns[place].name)

    def fault(self, version: TableVersion) -> Column | None:
        """Where it is not one row, or has other columns than the version."""
        read = F.col(_alias(version))
        wrong = read.isNotNull() & ~has_the_columns(version, read)
        return F.when(~is_one_row(read), F.lit(VALUE_UNREADABLE)).when(wrong, F.lit(COLUMNS_DIFFER))

    def _old(self, version: TableVersion) -> Column:
        return first_of(F.col(_alias(version)), "old")

    def _updated(self, versions: Sequence[TableVersion]) -> Mapping[str, Column]:
        """The names of the columns in `old`, where one is NULL there: NULL, or not sent."""
        sent = F.json_object_keys(F.get_json_object(F.col("value").cast("string"), "$.old[0]"))
        return {
            _updated_alias(version): F.when(once() & _lacks_any(version, self._old(version)), sent)
            for version in versions
        }


class PlainRows(CanalRows):
    """Of messages without `enable-tidb-extension`: when a row was committed is known to the millisecond."""

    in_head = (TIME,)


class CanalRowsAtOnce(CanalRows):
    """The head has the rows, too. A row that has a fault has no such head."""

    in_head: tuple[str, ...] = SIDES

    def decoded(self, versions: Sequence[TableVersion]) -> Sequence[Mapping[str, Column]]:
        """Which columns `old` has."""
        return (self._updated(versions),)

    def after(self, version: TableVersion) -> Column:  # noqa: ARG002 - there is no other
        """`data`."""
        return field_of("data")

    def fault(self, version: TableVersion) -> Column | None:  # noqa: ARG002 - there is no other
        """Never."""
        return None

    def _old(self, version: TableVersion) -> Column:  # noqa: ARG002 - there is no other
        return field_of("old")


class PlainRowsAtOnce(CanalRowsAtOnce):
    """See `PlainRows`."""

    in_head = (TIME, *SIDES)


@lru_cache(maxsize=256)
def row_fields(version: TableVersion) -> list[StructField]:
    """`data` and `old`, each a list of rows; `sqlType` as its JSON; `CORRUPT`."""
    text = StringType()
    rows = ArrayType(StructType([StructField(column.name, text) for column in version.columns]))
    return [
        StructField("sqlType", text),
        StructField("old", rows),
        StructField("data", rows),
        StructField(CORRUPT, text),
    ]


def sides(message: Column) -> Mapping[str, Column]:
    """The rows of a message, as the fields of a head that `CanalRowsAtOnce` asks for."""
    return {side: first_of(message, side) for side in SIDES}


def first_of(message: Column, side: str) -> Column:
    """The row of a message on this side."""
    return F.get(message.getField(side), F.lit(0))


def is_one_row(message: Column) -> Column:
    """Whether it could be read, and is one row; NULL where there is no message."""
    return message.getField(CORRUPT).isNull() & (F.size(message.getField("data")) == 1)


def has_the_columns(version: TableVersion, message: Column) -> Column:
    """Whether a message has the version's columns. They come in its order, so that mostly one comparison tells."""
    names, wanted = F.json_object_keys(message.getField("sqlType")), [column.name for column in version.columns]
    same = F.array_join(names, _SEPARATOR) == F.lit(_SEPARATOR.join(wanted))
    listed = F.array(*map(F.lit, wanted)) if wanted else F.array().cast("array<string>")
    alike = (F.size(names) == F.lit(len(wanted))) & (F.size(F.array_except(names, listed)) == 0)
    return F.coalesce(same | alike, F.lit(False))


def _alias(version: TableVersion) -> str:
    return f"_row{version.version}"


def _updated_alias(version: TableVersion) -> str:
    return f"_updated{version.version}"


def _row(version: TableVersion) -> Column:
    """`row_fields` of rows of this version."""
    mine = (field_of("kind") == MessageKind.DML) & (field_of("version") == F.lit(version.version))
    text = F.when(once() & mine, F.col("value").cast("string"))
    return F.from_json(text, StructType(row_fields(version)), ROW_OPTIONS)


def _lacks_any(version: TableVersion, old: Column) -> Column:
    return old.isNotNull() & any_of(old.getField(column.name).isNull() for column in version.columns)


def _completed(version: TableVersion, old: Column, after: Column) -> Column:
    """The row as it was. With `only-output-updated-columns` it has what was changed, and the rest is as it is now."""
    names = F.col(_updated_alias(version))
    columns = [
        F.coalesce(old.getField(name), F.when(~F.array_contains(names, name), after.getField(name))).alias(name)
        for name in (column.name for column in version.columns)
    ]
    return F.when(old.isNotNull(), F.struct(*columns)) if columns else old
