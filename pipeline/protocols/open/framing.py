"""A record of the Open protocol as its events (TiCDC Open Protocol, "Message format").

Key: eight bytes of version, then for each event a length of eight bytes and JSON. Value: for each event a length and
JSON, or a length of 0. All numbers are big-endian.

An event that is stored alone keeps the number it had: `prepare` writes it into the upper half of the version, where
TiCDC has 0, and counts the events of any record from there. A function of Java takes records apart
(`OpenFraming.java`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.messages import INDEX
from pipeline.runtime.shipped import called

if TYPE_CHECKING:
    from pyspark.sql import Column

FRAMED = "framed"
"""Whether the record could be taken apart."""

_LENGTH_BYTES = 8
_LAST_INDEX = 2**31 - 1
_SOURCE = Path(__file__).with_name("OpenFraming.java")
_EVENTS = f"array<struct<{INDEX}: int, key: binary, value: binary, {FRAMED}: boolean>>"


def events(key: Column, value: Column) -> Column:
    """The events of a record: an array of (index, key, value, framed), each readable as a record of its own.

    A record that is framed otherwise is one event with its bytes unchanged and number 0, which is not `framed`.
    """
    return called(_SOURCE, _EVENTS, key, value)


def value_json(value: Column) -> Column:
    """The JSON of an event's value, as text; nothing for a resolved event."""
    return value_bytes(value).cast("string")


def value_bytes(value: Column) -> Column:
    """What an event's value is, before it is taken for text."""
    return F.substring(value, _LENGTH_BYTES + 1, _LAST_INDEX)
