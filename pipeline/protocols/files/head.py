"""What a record of a file is: its file says of which table and version it is, or that it describes one.

A schema file is one record. It describes a version, as a BOOTSTRAP of Simple does, and with a Query it is a DDL event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.messages import INDEX
from pipeline.model.places import FILE, RAW
from pipeline.model.projection import Projection
from pipeline.model.set_aside import FILE_TRUNCATED
from pipeline.protocols.described.head import HEAD, MessageKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column

COLUMNS = (*RAW, FILE)
ROWS = "ROWS"
"""The kind of a file of rows; a schema file has a `MessageKind`."""
DAMAGED = "DAMAGED"
"""The kind of a schema file that is not what TiCDC wrote: it is a DDL event of which nobody knows what it did."""
RECORD_TOO_LARGE = "RECORD_TOO_LARGE"
"""The kind of each piece of a record that is longer than records may be."""
FILE_NOT_CSV, FILE_NOT_JSON = "FILE_NOT_CSV", "FILE_NOT_JSON"
"""The kinds of what a file has that is compressed."""
COMPRESSED = "the file is compressed, which TiCDC does not do: unpack it under the name that TiCDC gave it"
COMMIT_TS_MISSING = "COMMIT_TS_MISSING"
"""The kind of a row that does not say when it was committed."""
FAULTS = {
    FILE_TRUNCATED: "the file ends within this record: TiCDC had a crash, and writes its rows again into a later file",
    RECORD_TOO_LARGE: "this is a piece of a record of more than 64 MiB, whose row is in no table",
}
"""The sentences of what a file has that is no record."""


def of_file(name: str) -> Column:
    """What the record's file says."""
    return F.col(FILE).getField(name)


def _kind() -> Column:
    """The kind of what is no row."""
    kind = of_file("kind")
    return F.when(kind == DAMAGED, F.lit(MessageKind.DDL.value)).otherwise(kind)


def statement() -> Column:
    """Of the raw record of a schema file, what `schema_messages.message_of` reads."""
    return F.struct(F.col(FILE), F.col("value").cast("string").alias("content"))


def headed(
    op: Column, commit_ts: Column, columns: Iterable[str] = COLUMNS, carried: Mapping[str, Column] | None = None
) -> Projection:
    """The head of records, from their raw frame, which has these columns.

    `op` and `commit_ts` are those of a row, and NULL where it is none that can be read. `carried`: further fields.
    """
    is_row = of_file("kind") == ROWS
    row_kind = F.when(op.isNotNull() & (commit_ts > 0), F.lit(MessageKind.DML.value)).when(
        op.isNotNull(), F.lit(COMMIT_TS_MISSING)
    )
    head = F.struct(
        F.when(is_row, row_kind).otherwise(_kind()).alias("kind"),
        of_file("schema_name").alias("database"),
        of_file("table_name").alias("table"),
        of_file("version").alias("version"),
        F.when(is_row, commit_ts).otherwise(of_file("version")).alias("commit_ts"),
        F.when(is_row, op).alias("op"),
        F.lit(None).cast("string").alias("checksum"),
        *(column.alias(name) for name, column in (carried or {}).items()),
    )
    return Projection([*(F.col(name) for name in columns), F.lit(0).alias(INDEX), head.alias(HEAD)])
