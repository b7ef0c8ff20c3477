"""The proof: every row of a warehouse table against the same row in the simulated database.

A row whose key is in quarantine is counted instead: that it is not (or not any more) the source's is what quarantine
is for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from pipeline.simulate import SimulatedTable
    from pipeline.simulate.tables import Value

_MOST_DIFFERENCES = 5


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """How one table compares: its rows in the source, and the first few differences as sentences."""

    table: str
    rows: int
    differences: tuple[str, ...] = ()
    set_aside: int = 0
    """Rows of the source that were not compared, because something of their key is in quarantine."""

    @property
    def equal(self) -> bool:
        """Whether every row that was compared is there, once, with every value, and no row that the source lacks."""
        return not self.differences


def compare(
    table: SimulatedTable,
    expected: Iterable[Mapping[str, Value]],
    shown: Iterable[Mapping[str, Any]],
    aside: Container[tuple[str, ...]] = (),
) -> TableVerdict:
    """Compare a source table's rows with those that its current table shows, key by key and value by value.

    `aside`: keys, each value as text, that have something in quarantine. The source's rows with these keys are counted
    and not compared. No key at all may stand twice, or be one that the source lacks.
    """
    wanted = {table.key_of(row): row for row in expected}
    excused = {key for key in wanted if tuple(map(str, key)) in aside}
    seen: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    differences: list[str] = []
    for row in shown:
        key = tuple(row.get(name) for name in table.handle)
        if key in seen:
            differences.append(f"key {_shown(key)} stands there twice")
        seen[key] = row
    differences += [f"key {_shown(key)} is missing" for key in wanted.keys() - seen.keys() - excused]
    differences += [f"key {_shown(key)} should not be there" for key in seen.keys() - wanted.keys()]
    for key in (wanted.keys() & seen.keys()) - excused:
        differences += _row_differences(table, key, wanted[key], seen[key])
    return TableVerdict(table.full_name, len(wanted), tuple(sorted(differences)[:_MOST_DIFFERENCES]), len(excused))


def quarantined_keys(table: SimulatedTable, quarantine: Iterable[Mapping[str, Any]]) -> set[tuple[str, ...]]:
    """Give the keys of a table's rows in `_pipeline.quarantine`, each value as text."""
    own = [row for row in quarantine if (row["schema_name"], row["table_name"]) == (table.schema, table.name)]
    texts = [json.loads(row["key_values"]) for row in own if row["key_values"]]
    return {tuple(key[name] for name in table.handle) for key in texts}


def _row_differences(
    table: SimulatedTable, key: Sequence[Value], wanted: Mapping[str, Value], seen: Mapping[str, Any]
) -> list[str]:
    return [
        f"key {_shown(key)}: {name} is {seen.get(name)!r}, the source has {wanted[name]!r}"
        for name in (column.name for column in table.sent_columns)
        if name not in seen or seen[name] != wanted[name]
    ]


def _shown(key: Sequence[Any]) -> str:
    return ", ".join(str(part) for part in key)
