"""A column's type in TiDB with all that decides what MODIFY COLUMN makes of its values, as one text.

It is TiCDC's `tidb_type` where that says it all (`INT`, `DATETIME(3)`, `TEXT`), and else as SQL writes it: `CHAR`,
`BINARY(8)`, `DOUBLE(10,2)`, `ENUM('a','b')`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.model.tidb_types import Domain, names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAMED = names(Domain.MEMBERS)
"""Types whose values are names, each with a number."""
WHOLE = names(Domain.WHOLE)
FLOATING = names(Domain.FLOATING)
_NUMBERS = names(Domain.WHOLE, Domain.FLOATING, Domain.DECIMAL)
MOST_FRACTION_DIGITS = 6
_FAMILIES = {"CHAR": "TEXT", "BINARY": "BLOB"}
_WRITTEN = re.compile(r"([A-Z ]*)(?:\((.*)\))?", re.DOTALL)
_MEMBER = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True, slots=True)
class SourceType:
    """Such a type, read: its name, and what stands in parentheses after it."""

    name: str
    numbers: tuple[int, ...] = ()
    members: tuple[str, ...] = ()

    @staticmethod
    def of(text: str) -> SourceType:
        """The type that a text says; an unknown one has no parameters."""
        written = _WRITTEN.fullmatch(text)
        if written is None:
            return SourceType(text)
        name, inside = written[1], written[2] or ""
        if name in NAMED:
            return SourceType(name, members=members_in(inside))
        return SourceType(name, tuple(int(number) for number in inside.split(",") if number.isdecimal()))

    @property
    def family(self) -> str:
        """TiCDC's word for it, without parameters."""
        return _FAMILIES.get(self.name, self.name)

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return self.name in _NUMBERS

    @property
    def digits(self) -> int | None:
        """How many digits its values have after the point, or their seconds; None where that is not said."""
        if self.name in WHOLE:
            return 0
        return self.numbers[-1] if self.numbers and self.family not in ("TEXT", "BLOB") else None


def members_in(text: str) -> tuple[str, ...]:
    """The members of ENUM or SET that a type in full has; quotes in them are doubled."""
    return tuple(member.replace("''", "'") for member in _MEMBER.findall(text))


def named(name: str, members: Sequence[str]) -> str:
    """ENUM or SET with its members, in full."""
    quoted = ",".join("'" + member.replace("'", "''") + "'" for member in members)
    return f"{name}({quoted})"


def more_telling(stored: str, sent: str) -> str:
    """The stored type, or the sent one if it is another. A protocol may send only the family, which says less."""
    return stored if SourceType.of(stored).family == sent else sent


def rewrites(old: str, new: str) -> bool:
    """Whether MODIFY from one type to another gives values another look where the warehouse's type stays."""
    was, becomes = SourceType.of(old), SourceType.of(new)
    if becomes.name in WHOLE:
        return (was.name == "DECIMAL" and was.digits != 0) or (becomes.name == "YEAR" != was.name)
    rule = _REWRITES.get(becomes.name)
    return rule is not None and rule(was, becomes)


def _to_moment(was: SourceType, becomes: SourceType) -> bool:
    before = was.digits if was.name in ("DATETIME", "TIMESTAMP") else None
    return _fewer(becomes.digits, MOST_FRACTION_DIGITS if before is None else before)


def _to_floating(was: SourceType, becomes: SourceType) -> bool:
    return _fewer(becomes.digits, was.digits)


def _fewer(digits: int | None, before: int | None) -> bool:
    return digits is not None and (before is None or digits < before)


_REWRITES: dict[str, Callable[[SourceType, SourceType], bool]] = {
    "CHAR": lambda was, _: was.name == "TEXT",
    "BINARY": lambda was, becomes: was != becomes,
    "TIME": lambda was, becomes: was != becomes,
    "DATETIME": _to_moment,
    "TIMESTAMP": _to_moment,
    "DECIMAL": lambda was, becomes: was.digits != becomes.digits and was.name not in WHOLE,
    "FLOAT": _to_floating,
    "DOUBLE": _to_floating,
    "SET": lambda was, becomes: was.name == "TEXT" or was.members != becomes.members[: len(was.members)],
}
"""By the name of the type that values get."""
