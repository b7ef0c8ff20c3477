"""Two sides of a table, value by value, and every difference in a line that a person can act on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from golden.values import Row

_MOST_LINES = 40
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Lost:
    """A value that is NULL in its column and text in `_unrepresentable`."""

    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it must be."""

    table: str
    key: str
    column: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        at = " ".join(part for part in (self.table, self.key, self.column) if part)
        return f"{at}: expected {_shown(self.expected)}, got {_shown(self.got)}"


def _shown(value: Any) -> str:
    return "nothing" if value is _NOTHING else repr(value)


def rows_differ(
    table: str, columns: Sequence[str], key: Sequence[str], expected: Iterable[Row], got: Iterable[Row]
) -> list[Difference]:
    """Compare two multisets of full rows. Rows that only one side has are paired by key, if there is one."""
    names = list(columns)
    wanted = Counter(row.of_columns(names) for row in expected)
    found = Counter(row.of_columns(names) for row in got)
    missing, surplus = list((wanted - found).elements()), list((found - wanted).elements())
    at = [names.index(name) for name in key] or list(range(len(names)))
    differences = []
    for row in missing:
        twin = next((other for other in surplus if _key(other, at) == _key(row, at)), None)
        if twin is None:
            differences.append(Difference(table, _named(names, row, at), "", _whole(names, row), _NOTHING))
        else:
            surplus.remove(twin)
            differences += _cells_differ(table, names, at, row, twin)
    too_many = (Difference(table, _named(names, row, at), "", _NOTHING, _whole(names, row)) for row in surplus)
    return [*differences, *too_many]


def _cells_differ(
    table: str, names: list[str], at: list[int], row: tuple[Any, ...], twin: tuple[Any, ...]
) -> list[Difference]:
    return [
        Difference(table, _named(names, row, at), name, _cell(wanted), _cell(found))
        for name, wanted, found in zip(names, row, twin, strict=True)
        if wanted != found
    ]


def _whole(names: list[str], row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(names, map(_cell, row), strict=True))


def _cell(frozen: tuple[Any, str | None]) -> Any:
    value, lost = frozen
    return value if lost is None else Lost(lost)


def _key(row: tuple[Any, ...], at: list[int]) -> list[Any]:
    return [row[position] for position in at]


def _named(names: list[str], row: tuple[Any, ...], at: list[int]) -> str:
    cells = (f"{names[position]}={_cell(row[position])!r}" for position in at)
    return f"[{', '.join(cells)}]"


def mappings_differ(table: str, what: str, expected: dict[str, Any], got: dict[str, Any]) -> list[Difference]:
    """Compare two mappings by column: types, or what a change carries."""
    return [
        Difference(table, what, name, expected.get(name, _NOTHING), got.get(name, _NOTHING))
        for name in (*expected, *(name for name in got if name not in expected))
        if expected.get(name, _NOTHING) != got.get(name, _NOTHING)
    ]


def report(differences: Sequence[Difference]) -> str:
    """All differences as text; beyond forty only their number."""
    lines = [str(difference) for difference in differences[:_MOST_LINES]]
    more = len(differences) - len(lines)
    return "\n".join([f"{len(differences)} differences", *lines, *([f"… and {more} more"] if more else [])])


def assert_none(differences: Sequence[Difference]) -> None:
    """Fail with the report if there is any difference."""
    if differences:
        raise AssertionError(report(differences))
