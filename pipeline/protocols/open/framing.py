"""A record of the Open protocol as its events (TiCDC Open Protocol, "Message format").

Key: eight bytes of version, then for each event a length of eight bytes and JSON. Value: for each event a length and
JSON, or a length of 0. All numbers are big-endian.

An event that is stored alone keeps the number it had: `prepare` writes it into the upper half of the version, where
TiCDC has 0, and counts the events of any record from there.

The positions are found by a fold over the record, which a lambda can do and a loop is not needed for. It goes in
blocks, since an array grows by being copied; and every lambda takes the bytes from a variable, since each look into
a row would copy them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.messages import INDEX
from pipeline.model.projection import let

if TYPE_CHECKING:
    from pyspark.sql import Column

FRAMED = "framed"
"""Whether the record could be taken apart."""

LENGTH_BYTES = 8
_HALF = LENGTH_BYTES // 2
_VERSION = b"\x00\x00\x00\x01"
_LEAST_EVENT = LENGTH_BYTES + len('{"ts":1,"t":3}')
_BLOCK = 128
_LAST_INDEX = 2**31 - 1


def events(key: Column, value: Column) -> Column:
    """The events of a record: an array of (index, key, value, framed), each readable as a record of its own.

    A record that is framed otherwise is one event with its bytes unchanged and number 0, which is not `framed`.
    """
    whole = F.struct(key.alias("key"), value.alias("value"))
    return let(whole, lambda record: _events(record["key"], record["value"]))


def key_json(key: Column) -> Column:
    """The JSON of an event's key, as text."""
    return _after(key, 2 * LENGTH_BYTES)


def value_json(value: Column) -> Column:
    """The JSON of an event's value, as text; nothing for a resolved event."""
    return _after(value, LENGTH_BYTES)


def value_bytes(value: Column) -> Column:
    """What an event's value is, before it is taken for text."""
    return F.substring(value, LENGTH_BYTES + 1, _LAST_INDEX)


def _after(part: Column, size: int) -> Column:
    return F.substring(part, size + 1, _LAST_INDEX).cast("string")


def _events(key: Column, value: Column) -> Column:
    whole = F.struct(F.lit(0).alias(INDEX), key.alias("key"), value.alias("value"), F.lit(False).alias(FRAMED))

    def apart(keys: Column) -> Column:
        count = F.size(keys) - 1
        return let(_ends(value, F.lit(0), count), lambda values: _apart(key, value, keys, values))

    braces = F.octet_length(key) - F.octet_length(F.replace(key.cast("string"), F.lit("{")))
    most = F.least(braces, F.floor(F.octet_length(key) / _LEAST_EVENT).cast("int"))  # every key is one JSON object
    events = let(_ends(key, F.lit(LENGTH_BYTES), most), apart)
    return F.coalesce(F.when(_is_version(key), events), F.array(whole))


def _is_version(key: Column) -> Column:
    return (F.substring(key, _HALF + 1, _HALF) == F.lit(_VERSION)) & (F.substring(key, 1, 1) < F.lit(b"\x80"))


def _ends(part: Column, start: Column, most: Column) -> Column:
    """Where each event ends, after `start`: at most `most`. The last is the part's length, if the framing is right.

    A length that is cut off gives NULL, one that is too large an end beyond the part; both end the search.
    """
    size = F.octet_length(part).cast("bigint")

    def event(ends: Column, _: Column) -> Column:
        end = F.element_at(ends, -1)
        return F.when(end < size, F.array_append(ends, end + LENGTH_BYTES + _number(part, end))).otherwise(ends)

    def block(blocks: Column, _: Column) -> Column:
        end = F.element_at(F.element_at(blocks, -1), -1)
        more = F.aggregate(_times(F.least(most, F.lit(_BLOCK))), F.array(end), event)
        return F.when(end < size, F.array_append(blocks, F.slice(more, 2, _BLOCK))).otherwise(blocks)

    blocks = F.floor((most + _BLOCK - 1) / _BLOCK).cast("int")
    return F.flatten(F.aggregate(_times(blocks), F.array(F.array(start.cast("bigint"))), block))


def _times(count: Column) -> Column:
    return F.sequence(F.lit(1), F.greatest(count, F.lit(1)))


def _number(part: Column, position: Column) -> Column:
    """The number in the eight bytes at a position; NULL where they are not there, or where it needs more than four."""
    low = F.substr(part, (position + _HALF + 1).cast("int"), F.lit(_HALF))
    number = F.when(F.length(low) == _HALF, F.conv(F.hex(low), 16, 10).cast("bigint"))
    return F.when(F.substr(part, (position + 1).cast("int"), F.lit(_HALF)) == F.lit(bytes(_HALF)), number)


def _apart(key: Column, value: Column, keys: Column, values: Column) -> Column:
    count = F.size(keys) - 1
    first = F.conv(F.hex(F.substring(key, 1, _HALF)), 16, 10).cast("bigint")

    def event(start: Column, place: Column) -> Column:
        index = first + place
        return F.struct(
            index.cast("int").alias(INDEX),
            F.concat(_four(index), F.lit(_VERSION), _between(key, start, keys[place + 1])).alias("key"),
            _between(value, values[place], values[place + 1]).alias("value"),
            F.lit(True).alias(FRAMED),
        )

    sound = (
        (F.element_at(keys, -1) == F.octet_length(key))
        & (F.element_at(values, -1) == F.octet_length(value))
        & (F.size(values) - 1 == count)
        & (count > 0)
        & (first + count - 1 <= _LAST_INDEX)
    )
    return F.when(sound, F.transform(F.slice(keys, F.lit(1), count), event))


def _four(number: Column) -> Column:
    return F.unhex(F.lpad(F.hex(number), 2 * _HALF, "0"))


def _between(part: Column, start: Column, end: Column) -> Column:
    return F.substr(part, (start + 1).cast("int"), (end - start).cast("int"))
