"""How rows of Canal-JSON are read, in messages and in files: each version's row as a struct of texts.

Of a file's line the head is read first, which skips the row. A line that is one JSON object and nothing else is told by
a sentinel (`end_marker`).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, LongType, MapType, StringType, StructField, StructType

from pipeline.model.change import Op
from pipeline.model.conditions import any_of
from pipeline.model.places import RAW
from pipeline.model.projection import Projection, once
from pipeline.protocols import end_marker
from pipeline.protocols.canal.values import CanalValues
from pipeline.protocols.described.encoding import Codes
from pipeline.protocols.described.head import SENT, MessageKind, field_of, one_of
from pipeline.protocols.files.encoding import FileEncoding
from pipeline.protocols.files.head import (
    COLUMNS,
    COMMIT_TS_MISSING,
    COMPRESSED,
    FILE_NOT_JSON,
    FILE_TRUNCATED,
    ROWS,
    TRUNCATED,
    headed,
    of_file,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import TableVersion

UNREADABLE, VALUE_UNREADABLE, COLUMNS_DIFFER = "CANAL_UNREADABLE", "CANAL_VALUE_UNREADABLE", "COLUMNS_DIFFER"
NO_COMMIT_TS = "the row has no commit ts: set enable-tidb-extension=true in the sink URI of the changefeed"
CODES = Codes(
    UNREADABLE,
    VALUE_UNREADABLE,
    {
        UNREADABLE: "the line is no row of Canal-JSON: cut off, damaged, or of another protocol",
        VALUE_UNREADABLE: "a value of the row is not what its column's type says, or the row is not there",
        FILE_TRUNCATED: TRUNCATED,
        FILE_NOT_JSON: COMPRESSED,
        COMMIT_TS_MISSING: NO_COMMIT_TS,
        COLUMNS_DIFFER: "the row has not the columns of its version: does the changefeed have a column selector?",
    },
)
_TEXT, _LONG, _BOOLEAN = StringType(), LongType(), BooleanType()
_MESSAGE = StructType(
    [
        StructField("type", _TEXT),
        StructField("isDdl", _BOOLEAN),
        StructField("_tidb", StructType([StructField("commitTs", _LONG)])),
        StructField(end_marker.FIELD, _LONG),
    ]
)
_CORRUPT = "_corrupt"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "maxStringLen": str(2**28)}
_ROW_TYPES = ("INSERT", "UPDATE", "DELETE")
_COMMIT_TS = re.compile(rb'"_tidb":\{"commitTs":([0-9]+)')
_SEPARATOR = "\0"


class CanalRows:
    """What a change frame is made with (`described.frame.recipe`), wherever the rows come from."""

    columns: tuple[str, ...] = RAW
    values = CanalValues()
    codes = CODES
    always_sends_before = False

    def checksum(self, version: TableVersion, after: Column, before: Column, timezone: str) -> Column | None:  # noqa: ARG002
        """There are none."""
        return None

    def decoded(self, versions: Sequence[TableVersion]) -> list[Column]:
        """Each version's row; NULL for rows of the others."""
        return [_row(version) for version in versions]

    def after(self, version: TableVersion) -> Column:
        """`data`, which is the former row of a delete."""
        return F.get(_field(version, "data"), F.lit(0))

    def before(self, version: TableVersion) -> Column:
        """`old` of an update, `data` of a delete."""
        after = self.after(version)
        old = F.get(_field(version, "old"), F.lit(0))
        return F.when(field_of("op") == Op.DELETE, after).otherwise(_completed(version, old, after))

    def fault(self, version: TableVersion) -> Column | None:
        """Where it is not one row, or has other columns than the version."""
        read, rows = F.col(_alias(version)), F.size(_field(version, "data"))
        broken = read.getField(_CORRUPT).isNotNull() | (rows != 1)
        wrong = read.isNotNull() & ~_has_the_columns(version, F.map_keys(_field(version, "sqlType")))
        return F.when(broken, F.lit(VALUE_UNREADABLE)).when(wrong, F.lit(COLUMNS_DIFFER))


class CanalEncoding(CanalRows, FileEncoding):
    """See `Encoding`: rows in files."""

    columns = COLUMNS
    sends_members = False
    needs_before = ""

    def lacks_before(self) -> Column:
        """None does."""
        return F.lit(False)

    def prepared(self) -> Sequence[Projection]:
        """The head of each line."""
        return _prepared()

    def at_once(self, version: TableVersion) -> CanalEncoding:  # noqa: ARG002 - the head is read before
        """As it is."""
        return self

    def carried(self) -> Column:
        """The keys of `sqlType`."""
        return F.json_object_keys(F.get_json_object(F.col("value").cast("string"), "$.sqlType"))


def first_commit_ts(content: bytes) -> int | None:
    """The commit ts of the first row of a file that begins so: 0 if it has no row yet, None of one without it."""
    line, end, _ = content.partition(b"\n")
    match = _COMMIT_TS.search(line)
    if match:
        return int(match[1])
    return None if end and b'"isDdl":false' in line else 0


@cache
def _prepared() -> tuple[Projection, ...]:
    text = F.try_validate_utf8(F.when(once() & (of_file("kind") == ROWS), F.col("value").cast("string")))
    wrapped = F.concat(F.lit("["), text, F.lit(f',{{"{end_marker.FIELD}":{end_marker.NUMBER}}}]'))
    read = F.from_json(wrapped, ArrayType(_MESSAGE), {**_OPTIONS, "columnNameOfCorruptRecord": "_none"})
    message, end = F.get(F.col(SENT), F.lit(0)), F.get(F.col(SENT), F.lit(1)).getField(end_marker.FIELD)
    whole = (F.size(F.col(SENT)) == F.lit(2)) & (end == end_marker.NUMBER)
    kind, commit_ts = message.getField("type"), message.getField("_tidb").getField("commitTs")
    is_row = whole & (message.getField("isDdl") == F.lit(False)) & one_of(kind, _ROW_TYPES)
    raw = [F.col(name) for name in COLUMNS]
    return (Projection([*raw, read.alias(SENT)]), headed(F.when(is_row, F.lower(kind)), commit_ts))


def _alias(version: TableVersion) -> str:
    return f"_row{version.version}"


def _field(version: TableVersion, name: str) -> Column:
    return F.col(_alias(version)).getField(name)


def _row(version: TableVersion) -> Column:
    """`data`, `old` and the names of what the row has."""
    mine = (field_of("kind") == MessageKind.DML) & (field_of("version") == F.lit(version.version))
    text = F.when(once() & mine, F.col("value").cast("string"))
    return F.from_json(text, _schema(version), _OPTIONS).alias(_alias(version))


@lru_cache(maxsize=256)
def _schema(version: TableVersion) -> StructType:
    row = ArrayType(StructType([StructField(column.name, _TEXT) for column in version.columns]))
    return StructType(
        [
            StructField("sqlType", MapType(_TEXT, _LONG)),
            StructField("old", row),
            StructField("data", row),
            StructField(_CORRUPT, _TEXT),
        ]
    )


def _has_the_columns(version: TableVersion, names: Column) -> Column:
    """Whether these are the version's columns. They come in its order, so that mostly one comparison tells."""
    wanted = [column.name for column in version.columns]
    same = F.array_join(names, _SEPARATOR) == F.lit(_SEPARATOR.join(wanted))
    listed = F.array(*map(F.lit, wanted)) if wanted else F.array().cast("array<string>")
    alike = (F.size(names) == F.lit(len(wanted))) & (F.size(F.array_except(names, listed)) == 0)
    return F.coalesce(same | alike, F.lit(False))


def _completed(version: TableVersion, old: Column, after: Column) -> Column:
    """The row as it was. With `only-output-updated-columns` it has what was changed, and the rest is as it is now."""
    columns = [(column.name, old.getField(column.name)) for column in version.columns]
    if not columns:
        return old

    def full(names: Column) -> Column:
        sent = [F.when(F.array_contains(names, name), value).otherwise(after.getField(name)) for name, value in columns]
        return F.struct(*(value.alias(name) for value, (name, _) in zip(sent, columns, strict=True)))

    names = F.json_object_keys(F.get_json_object(F.col("value").cast("string"), "$.old[0]"))
    once_named = F.get(F.transform(F.array(names), full), F.lit(0))  # so that the names are read once a row
    return F.when(any_of(value.isNull() for _, value in columns), once_named).otherwise(old)
