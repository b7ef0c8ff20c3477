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
        UNREADABLE: "the message is not one of TiCDC's Simple protocol: it is truncated, damaged, or of another "
        "protocol",
        **compressed.SENTENCES,
        **large.SENTENCES,
        VALUE_UNREADABLE: "a value of the row does not fit its column's type, or the row is missing",
    },
)
