"""Values of TiDB's text protocol, as messages of TiCDC's say them.

What protocols write alike is a `SentValue`: a number, a moment or a text as text, ENUM, SET and BIT as a decimal
number, bytes as bytes. Each protocol writes that in its own way (`KeyRows`).

Source: wire-formats.md, "Canal-JSON"; compared with what TiCDC sent of every type in
tests/unit/test_upstream_rows.py.
"""

from __future__ import annotations

import codecs
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pipeline.model.source_types import members_in

if TYPE_CHECKING:
    from collections.abc import Mapping

SentValue: TypeAlias = str | bytes | None
SqlValue: TypeAlias = str | bytes | Decimal | int | float

WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
FLOATING = frozenset({"float", "double"})
BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
TEXTS = frozenset({"tinytext", "text", "mediumtext", "longtext"})
ENUM, SET, BIT, FLOAT = "enum", "set", "bit", "float"

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_NUMBERS = WHOLE | FLOATING | {"decimal", BIT}
_AS_GO = "ticdc-as-go"


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Go's JSON has U+FFFD for each byte that is no UTF-8; Python's own handler has one for several."""
    start, end = error.args[2:4]
    return "\ufffd" * (end - start), end


codecs.register_error(_AS_GO, _replaced)


@dataclass(frozen=True, slots=True)
class UpstreamColumn:
    """A column as `information_schema.columns` has it. `data_type`: the type's name, in lower case."""

    name: str
    data_type: str
    column_type: str
    """The type in full: `int(10) unsigned`, `enum('a','b')`."""
    nullable: bool = True
    has_charset: bool = False
    generated: bool = False
    """Whether it is a generated column that is stored; others are not sent."""

    @property
    def flags(self) -> str:
        """What stands behind the type's parentheses: ` unsigned`, ` unsigned zerofill`, or nothing."""
        return self.column_type[len(self.data_type) :].rpartition(")")[2]

    @property
    def members(self) -> tuple[str, ...]:
        """Of ENUM and SET."""
        return members_in(self.column_type)

    @property
    def asked(self) -> str:
        """What a SELECT asks for. A FLOAT is shown with six digits, and as a DOUBLE with all that it has."""
        return f"{quoted(self.name)}+0e0" if self.data_type == FLOAT else quoted(self.name)

    def sent(self, cell: bytes | None) -> SentValue:
        """A value of the text protocol as TiCDC sends it."""
        if cell is None or self.data_type in BYTES:
            return cell
        if self.data_type == BIT:
            return str(int.from_bytes(cell))
        text = cell.decode("utf-8", _AS_GO)
        if self.data_type in WHOLE:
            return str(int(text))
        if self.data_type in FLOATING:
            return plain_number(str(np.float32(text)) if self.data_type == FLOAT else text)
        if self.data_type == ENUM:
            return str(self.members.index(text) + 1) if text in self.members else "0"
        return self._mask(text) if self.data_type == SET else text

    def literal(self, sent: SentValue) -> SqlValue:
        """A value that was sent, for a comparison in SQL. Raises `ValueError` where it is none of this type."""
        if sent is None:
            raise ValueError("a handle is never NULL")
        if isinstance(sent, bytes):
            return sent
        if self.data_type == ENUM:
            return _among(self.members, int(sent) - 1) if int(sent) else 0
        if self.data_type == SET:
            mask = int(sent)
            return ",".join(member for bit, member in enumerate(self.members) if mask >> bit & 1)
        if self.data_type not in _NUMBERS:
            return sent
        if not _NUMBER.fullmatch(sent):
            raise ValueError(f"a value of {self.name} is no number")
        if self.data_type == FLOAT:  # its 32 bits, as the double that TiDB compares them as
            return float(struct.unpack("<f", struct.pack("<f", float(sent)))[0])
        return float(sent) if self.data_type == "double" else Decimal(sent)

    def _mask(self, names: str) -> str:
        chosen = set(names.split(",")) if names else set()
        return str(sum(1 << bit for bit, member in enumerate(self.members) if member in chosen))


SentRow: TypeAlias = "Mapping[str, SentValue]"
"""Values by the names of their columns."""
Columns: TypeAlias = "Mapping[str, UpstreamColumn]"
"""The columns that TiCDC sends, by name, in the table's order."""


def quoted(name: str) -> str:
    """A name in a statement with values to be put in, in which `%` stands for itself only if it is written twice."""
    return "`{}`".format(name.replace("`", "``").replace("%", "%%"))


def plain_number(text: str) -> str:
    """The digits of a number without an exponent, and without zeros behind the last one."""
    return f"{Decimal(text).normalize():f}"


def _among(members: tuple[str, ...], place: int) -> str:
    if 0 <= place < len(members):
        return members[place]
    raise ValueError(f"there is no member {place + 1}")
