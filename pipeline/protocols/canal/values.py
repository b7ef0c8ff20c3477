"""Values of Canal-JSON: every one is a text, and the type is the column's, never the one of the message.

`sqlType` says another type of an unsigned number where its value is large, and `mysqlType` has no lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import text
from pipeline.protocols.described.text_values import NumberedMembers

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.text import Value

_NO_BYTE = "[^\\x{0}-\\x{FF}]"


class CanalValues(NumberedMembers):
    """See `Values`."""

    def octets(self, sent: Column) -> Column:
        """Each byte is the character of its number (ISO 8859-1); NULL where a character is no byte."""
        return F.when(~F.regexp_like(sent, F.lit(_NO_BYTE)), F.encode(sent, "ISO-8859-1"))

    def instant(self, sent: Column, timezone: str) -> Value:
        """The clock of the changefeed's time zone."""
        return text.timestamp(sent, timezone)
