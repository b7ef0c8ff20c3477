"""Schema files: the structure of a table, or the DDL of a database, at a version.

The number at the end of the name is a CRC-32 (IEEE) of Go's JSON of `Table`, `Schema`, `Version` 0, the columns by
name and how many they are, indented by four spaces: computed here for each of the 1,668 schema files that TiCDC's
encoders have written for `tests/golden`. `Query`, `Type` and `TableVersion` are outside it.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_FILE_DAMAGED = "SCHEMA_FILE_DAMAGED"
MOST_BYTES = 10 * 1024 * 1024
MOST_COLUMNS = 10_000
"""TiDB allows 4,096 columns."""
KNOWN_VERSION = 1
_PARTITION_BY = re.compile(r"\bPARTITION\s+BY\b", re.IGNORECASE)
_ESCAPES = {
    "&": "\\u0026", "<": "\\u003c", ">": "\\u003e", "\u2028": "\\u2028", "\u2029": "\\u2029",
    "\b": "\\u0008", "\f": "\\u000c",
}  # fmt: skip
"""What Go's encoder writes otherwise than Python's: characters that HTML minds, and two control characters."""


class SchemaFileDamaged(PipelineError):
    """A schema file that is not what TiCDC has written; everything of its version waits."""


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column as a schema file has it: texts, empty where TiCDC leaves them out."""

    name: str
    type: str
    precision: str = ""
    scale: str = ""
    nullable: bool = True
    in_primary_key: bool = False
    default: str | None = None
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """A schema file. `table` is "" for a database; `query` is "" where no statement has led to the version."""

    schema: str
    table: str
    version: int
    query: str
    kind: int
    columns: tuple[FileColumn, ...]

    @property
    def partitions(self) -> bool:
        """Whether its statement divides the table into partitions."""
        return _PARTITION_BY.search(self.query) is not None


def read_schema_file(content: bytes, checksum: int | None) -> SchemaFile:
    """The schema file of these bytes. `checksum`: the number in its name, if it has one.

    Raises `SchemaFileDamaged` where the bytes are no schema file that we know, or not the ones that were written.
    """
    if len(content) > MOST_BYTES:
        raise _damaged(f"it has {len(content):,} bytes, more than {MOST_BYTES:,}")
    try:
        written = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise _damaged(f"it is no JSON ({error})") from None
    if not isinstance(written, dict):
        raise _damaged("it is no JSON object")
    if written.get("Version") != KNOWN_VERSION:
        raise _damaged(f"its Version is {written.get('Version')!r}; {KNOWN_VERSION} is known")
    columns = written.get("TableColumns") or []
    if not isinstance(columns, list) or len(columns) > MOST_COLUMNS:
        raise _damaged(f"TableColumns is no list of at most {MOST_COLUMNS:,} columns")
    try:
        read = SchemaFile(
            _text(written, "Schema"), _text(written, "Table"), int(written["TableVersion"]),
            _text(written, "Query", ""), int(written.get("Type") or 0), tuple(map(_column, columns)),
        )  # fmt: skip
        computed = _checksum(written, columns)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(f"a field is missing, or of another type ({error!r})") from None
    if checksum is not None and computed != checksum:
        raise _damaged(f"its checksum is {computed:010}, its name says {checksum:010}")
    return read


def _column(written: Any) -> FileColumn:
    if not isinstance(written, dict):
        raise TypeError("a column is no object")
    members = tuple(written.get("ColumnElems") or ())
    if not all(isinstance(member, str) for member in members):
        raise TypeError("ColumnElems are no texts")
    return FileColumn(
        _text(written, "ColumnName"), _text(written, "ColumnType"), _text(written, "ColumnPrecision", ""),
        _text(written, "ColumnScale", ""), written.get("ColumnNullable") != "false",
        written.get("ColumnIsPk") == "true", written.get("ColumnDefault"), members,
    )  # fmt: skip


def _text(written: Mapping[str, Any], name: str, absent: str | None = None) -> str:
    """A field that is text. `absent`: what it is where it is missing or null; without it that is an error."""
    value = written[name] if absent is None else written.get(name) or absent
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value


def _checksum(written: dict[str, Any], columns: list[dict[str, Any]]) -> int:
    summed = {
        "Table": written["Table"],
        "Schema": written["Schema"],
        "Version": 0,
        "TableColumns": sorted(columns, key=lambda column: str(column["ColumnName"]).encode()),
        "TableColumnsTotal": written["TableColumnsTotal"],
    }
    text = json.dumps(summed, indent=4, ensure_ascii=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return zlib.crc32(text.encode())


def _damaged(what: str) -> SchemaFileDamaged:
    return SchemaFileDamaged(
        SCHEMA_FILE_DAMAGED,
        f"a schema file is damaged: {what}",
        "restore the file as TiCDC wrote it; or let the changefeed write the version again (pause and resume it)",
    )
