"""A secret number after a body. If it does not come back, the body was not what its schema says.

It is appended to the bytes and to the schema, or is made the last member of an object, or follows one in a list. That
catches truncated bodies, trailing bytes and bodies of another schema at the price of one comparison, where re-encoding
would cost a second pass over every field.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

FIELD = "_end"
NUMBER = secrets.randbits(61) | 1 << 61
_CONTINUED = 0x80
_LAST = f',"{FIELD}":{NUMBER}}}'.encode()


def zigzag(number: int) -> bytes:
    """A non-negative long as Avro writes it."""
    rest, out = number << 1, bytearray()
    while rest >= _CONTINUED:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def followed(text: Column) -> Column:
    """The JSON text of a list: what this text has, then an object with the number."""
    return F.concat(F.lit("["), text, F.lit(f',{{"{FIELD}":{NUMBER}}}]'))


def is_followed(read: Column) -> Column:
    """Whether such a list is one object and the number; NULL or false where the text was anything else."""
    return (F.size(read) == F.lit(2)) & (F.get(read, F.lit(1)).getField(FIELD) == NUMBER)


def in_object(octets: Column, before: int = 0) -> Column:
    """The JSON text after so many bytes, its object with the number for last member; NULL where no object ends it.

    It goes by bytes, since finding the last character of a text takes a look at all of them.
    """
    opened = F.substring(octets, F.lit(before + 1), F.octet_length(octets) - (before + 1))
    return F.when(F.endswith(octets, F.lit(b"}")), F.concat(opened, F.lit(_LAST)).cast("string"))
