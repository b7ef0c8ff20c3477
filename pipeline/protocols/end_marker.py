"""A secret number after a body in Avro. If it does not come back, the body was not what its schema says.

It is appended to the bytes and to the schema. That catches truncated bodies, trailing bytes and bodies of another
schema at the price of one comparison, where re-encoding would cost a second pass over every field.
"""

from __future__ import annotations

import secrets

FIELD = "_end"
NUMBER = secrets.randbits(61) | 1 << 61
_CONTINUED = 0x80


def zigzag(number: int) -> bytes:
    """A non-negative long as Avro writes it."""
    rest, out = number << 1, bytearray()
    while rest >= _CONTINUED:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
