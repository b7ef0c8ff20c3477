"""The proof: every row of a warehouse table against the same row in the simulated database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pipeline.simulate import Table
    from pipeline.simulate.tables import Value

_MOST_DIFFERENCES = 5


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """How one table compares: its rows in the source, and the first few differences as sentences."""

    table: str
    rows: int
    differences: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether every row is there, once, with every value."""
        return not self.differences


def compare(table: Table, expected: Iterable[Mapping[str, Value]], found: Iterable[Mapping[str, Any]]) -> TableVerdict:
    """Compare a source table's rows with those of its current table, key by key and value by value."""
    wanted = {table.key_of(row): row for row in expected}
    seen: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    differences: list[str] = []
    for row in found:
        key = tuple(row.get(name) for name in table.handle)
        if key in seen:
            differences.append(f"key {_shown(key)} stands there twice")
        seen[key] = row
    differences += [f"key {_shown(key)} is missing" for key in wanted.keys() - seen.keys()]
    differences += [f"key {_shown(key)} should not be there" for key in seen.keys() - wanted.keys()]
    for key in wanted.keys() & seen.keys():
        differences += _row_differences(table, key, wanted[key], seen[key])
    return TableVerdict(table.full_name, len(wanted), tuple(sorted(differences)[:_MOST_DIFFERENCES]))


def _row_differences(
    table: Table, key: Sequence[Value], wanted: Mapping[str, Value], seen: Mapping[str, Any]
) -> list[str]:
    return [
        f"key {_shown(key)}: {name} is {seen.get(name)!r}, the source has {wanted[name]!r}"
        for name in (column.name for column in table.sent_columns)
        if name not in seen or seen[name] != wanted[name]
    ]


def _shown(key: Sequence[Any]) -> str:
    return ", ".join(str(part) for part in key)
