"""The codes of Simple's dead letters."""

from __future__ import annotations

from pipeline.protocols import compressed
from pipeline.protocols.described.encoding import Codes
from pipeline.protocols.large import codes as large

UNREADABLE, VALUE_UNREADABLE = "SIMPLE_UNREADABLE", "SIMPLE_VALUE_UNREADABLE"
CODES = Codes(
    UNREADABLE,
    VALUE_UNREADABLE,
    {
        UNREADABLE: "the message is none that TiCDC's Simple protocol has: truncated, damaged, or of another protocol",
        **compressed.SENTENCES,
        **large.SENTENCES,
        VALUE_UNREADABLE: "a value of the row is not what its column's type says, or the row is not there",
    },
)
