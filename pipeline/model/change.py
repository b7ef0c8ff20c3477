"""The change frame: the one shape in which every protocol hands changes on.

One row is one row event of one source table. The frame has the columns below, then one column per warehouse
column of the table's changes table. A delete carries the handle columns at least.
No room after the protocols may ask which protocol a change came from.
"""

from __future__ import annotations

from enum import StrEnum


class Op(StrEnum):
    """What a change does; `upsert` where the protocol does not tell insert from update."""

    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"
    DELETE = "delete"


OP = "_op"
COMMIT_TS = "_commit_ts"
COMMIT_TIME = "_commit_time"
TOPIC = "_topic"
PARTITION = "_kafka_partition"
OFFSET = "_offset"
INDEX = "_index"
SCHEMA_ID = "_schema_id"
BATCH_ID = "_batch_id"
INGESTED_AT = "_ingested_at"
UNREPRESENTABLE = "_unrepresentable"
BEFORE = "_before"
"""The row as it was, a struct of the source's columns and its own `_unrepresentable`, where the protocol sends it; NULL
for inserts."""

ERROR = "_ticdc#error"
KEY_BYTES = "_ticdc#key_bytes"
VALUE_BYTES = "_ticdc#value_bytes"
ARRIVED_AT = "_ticdc#arrived_at"
"""Columns of the frame that no table keeps: why a message could not be decoded, its bytes, its timestamp. Their names
are none that a source column has."""
UNREAD = "_ticdc#unread"
"""Another one: the column whose value could not be read, the first one, where that is why there is an `ERROR`."""
CHECKSUM = "_ticdc#checksum"
"""Another one: TRUE where the checksum that came with the row is the row's, FALSE where it is not or TiCDC itself says
that the row is corrupted. NULL where that is not known: none was sent, its version is unknown, the row is a delete, or
TiDB may have hashed a value otherwise than it was sent."""
FENCED = "_ticdc#fenced"
"""Whether a change is fenced: it waits for an earlier, quarantined change of its key. Only if the policy says so."""

ENVELOPE = {
    OP: "string",
    COMMIT_TS: "bigint",
    COMMIT_TIME: "timestamp",
    TOPIC: "string",
    PARTITION: "int",
    OFFSET: "bigint",
    INDEX: "int",
    SCHEMA_ID: "bigint",
    BATCH_ID: "bigint",
    INGESTED_AT: "timestamp",
    UNREPRESENTABLE: "map<string,string>",
}
"""Columns of a changes table before the source's own, with their types (design.md, 4.3)."""

POSITION = (TOPIC, PARTITION, OFFSET, INDEX)
"""What identifies a change for ever: where it stands in the stream."""
