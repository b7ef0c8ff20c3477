"""ENUM and SET: names, and the numbers that TiDB keeps for them. Pure functions, Column in, Column out."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import text
from pipeline.model import types as t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column


def name_of(octets: bytes) -> str:
    r"""The name of a member; of bytes that are no UTF-8 it is `\xA5` and so on, as `_unrepresentable` has it.

    So is that of a text that looks like such a name.
    """
    try:
        name = octets.decode()
    except UnicodeDecodeError:
        return _in_bytes(octets)
    return name if octets_of(name) is None else _in_bytes(octets)


def _in_bytes(octets: bytes) -> str:
    return f"{text.AS_BYTES}{octets.hex().upper()}"


def octets_of(name: str) -> bytes | None:
    """The bytes whose name this is (`name_of`), if it is not simply their text; None if it is."""
    if not name.startswith(text.AS_BYTES):
        return None
    try:
        octets = bytes.fromhex(name.removeprefix(text.AS_BYTES))
    except ValueError:
        return None
    return octets if name_of(octets) == name else None


def member(number: Column, names: Sequence[str]) -> Column:
    """ENUM: the name of a number, from 1; 0 is the empty text of an invalid value."""
    listed = F.array(F.lit(""), *(F.lit(name) for name in names))
    return F.get(listed, number.try_cast("int"))


def members(mask: Column, names: Sequence[str]) -> Column:
    """SET: the names of the bits, the first is the lowest. NULL for a bit without a name."""
    number = text.number_of(mask, t.UNSIGNED_BIGINT)
    has_names = (number >= 0) & (number < F.lit(str(1 << len(names))).cast(t.UNSIGNED_BIGINT))
    bits = F.conv(F.when(has_names, number.cast("string")), 10, -10).cast("bigint")
    chosen = [F.when(F.getbit(bits, F.lit(place)) == 1, F.lit(name)) for place, name in enumerate(names)]
    return F.when(has_names, F.concat_ws(",", *chosen))


def number_of(name: Column, names: Sequence[str]) -> Column:
    """ENUM: the number of a name, 0 for the empty text; NULL for a name that is no member's."""
    place = F.array_position(F.array(*(F.lit(one) for one in names)), name)
    return F.when(place > 0, place).when(name == "", F.lit(0)).cast(t.UNSIGNED_BIGINT)


def mask_of(value: Column, names: Sequence[str]) -> Column:
    """SET: the bits of its names; NULL if one of them is no member's."""
    bits = [F.when(found, F.lit(str(1 << place))).otherwise("0") for place, found in enumerate(_found(value, names))]
    return F.when(_all_known(value, names), reduce(add, [bit.cast(t.UNSIGNED_BIGINT) for bit in bits])).cast(
        t.UNSIGNED_BIGINT
    )


def ordered(value: Column, names: Sequence[str]) -> Column:
    """SET: its names in the order of the definition, each once; text with others stays as it is."""
    chosen = [F.when(found, F.lit(name)) for name, found in zip(names, _found(value, names), strict=True)]
    return F.when(_all_known(value, names), F.concat_ws(",", *chosen)).otherwise(value)


def _found(value: Column, names: Sequence[str]) -> list[Column]:
    return [F.find_in_set(F.lit(name), value) > 0 for name in names]


def _all_known(value: Column, names: Sequence[str]) -> Column:
    others = F.array_except(F.split(value, ","), F.array(*(F.lit(name) for name in names)))
    return (value == "") | (F.size(others) == 0)
