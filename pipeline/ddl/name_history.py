"""Which table a name means at which commit ts.

A DDL at D comes after the rows of commit ts D: a name that it takes means the old table up to D and the new one from
there on, wherever the rows lie in the stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipeline import ddl as text
from pipeline.ddl.table_ref import CreatedTable, TableRef, UnseenTable
from pipeline.model.messages import EVER
from pipeline.model.names import folded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.model.names import Name


@dataclass(frozen=True, slots=True)
class NameBinding:
    """A name means a table for changes with a commit ts in (`since`, `until`].

    `cause` is the statement that gave the name.
    """

    name: Name
    table_ref: TableRef
    since: int = 0
    until: int = EVER
    cause: str = ""

    def has(self, commit_ts: int) -> bool:
        """Whether a change of this commit ts belongs here."""
        return self.since < commit_ts <= self.until


@dataclass(slots=True)
class NameHistory:
    """What every name meant and means, in the order of time."""

    bindings: dict[Name, list[NameBinding]] = field(default_factory=dict)
    causes: set[str] = field(default_factory=set)
    """The statements that were applied, as far as they have left a trace."""

    @staticmethod
    def of(bindings: Iterable[NameBinding], causes: Iterable[str] = ()) -> NameHistory:
        """The names that pairs have had, and further statements that were applied."""
        names = NameHistory()
        names.causes.update(causes)
        for binding in sorted(bindings, key=lambda one: one.since):
            names.bindings.setdefault(binding.name, []).append(binding)
            names.causes.add(binding.cause)
        return names

    def copy(self) -> NameHistory:
        """The same, to be led on another way."""
        return NameHistory({name: list(bindings) for name, bindings in self.bindings.items()}, set(self.causes))

    def now(self, name: Name, commit_ts: int) -> NameBinding:
        """As `at`, for a statement of this commit ts: after what was applied of it already."""
        current = self.open(name)
        return current if current is not None and current.since <= commit_ts else self.at(name, commit_ts)

    def at(self, name: Name, commit_ts: int) -> NameBinding:
        """What a name means for a change of this commit ts. Where no statement gave it, its rows will make a table."""
        mine = self.bindings.get(name, [])
        binding = next((binding for binding in mine if binding.has(commit_ts)), None)
        if binding is not None:
            return binding
        since = max((binding.until for binding in mine if binding.until < commit_ts), default=0)
        until = min((binding.since for binding in mine if binding.since >= commit_ts), default=EVER)
        return NameBinding(name, UnseenTable(since, name), since, until)

    def live(self, commit_ts: int) -> set[Name]:
        """The names that tables have for a change of this commit ts, so before the statements of that commit ts."""
        return {name for name, bindings in self.bindings.items() if any(binding.has(commit_ts) for binding in bindings)}

    def bind(self, name: Name, commit_ts: int) -> NameBinding:
        """As `at`, and it stays so: from here on the name is bound so."""
        binding = self.at(name, commit_ts)
        mine = self.bindings.setdefault(name, [])
        if binding not in mine:
            mine.append(binding)
            mine.sort(key=lambda binding: binding.since)
        return binding

    def is_past(self, binding: NameBinding) -> bool:
        """Whether a statement gave the name to another table at the end of this binding, which is all that is known.

        Rows of it are of a table that was gone before.
        """
        mine = self.bindings.get(binding.name, ())
        return binding not in mine and any(one.cause and one.since == binding.until for one in mine)

    def open(self, name: Name) -> NameBinding | None:
        """What a name means now; None where it means nothing."""
        return next((binding for binding in self.bindings.get(name, ()) if binding.until == EVER), None)

    def act(self, action: text.Action, commit_ts: int, cause: str) -> None:
        """What names mean after one clause of the statement `cause`."""
        match action:
            case text.CreateTable(table) if self.open(table.key) is None:
                self._begin(table.key, CreatedTable(commit_ts, table.key), commit_ts, cause)
            case text.DropTable(table):
                self._end(table.key, commit_ts)
            case text.RenameTable(old, new):
                taken = self._end(old.key, commit_ts)
                if taken is not None:
                    self._end(new.key, commit_ts)
                    self._begin(new.key, taken.table_ref, commit_ts, cause)
            case text.DropDatabase(schema):
                for name in [name for name in self.bindings if name[0] == folded(schema)]:
                    self._end(name, commit_ts)

    def _begin(self, name: Name, table_ref: TableRef, commit_ts: int, cause: str) -> None:
        self.bindings.setdefault(name, []).append(NameBinding(name, table_ref, commit_ts, EVER, cause))

    def _end(self, name: Name, commit_ts: int) -> NameBinding | None:
        """End what a name means; the rows of one that nobody knows may be yet to come."""
        current = self.open(name)
        if current is None or current.since > commit_ts:
            if self.bindings.get(name):
                return None
            current = self.bind(name, commit_ts)
        mine = self.bindings[name]
        mine[mine.index(current)] = replace(current, until=commit_ts)
        return current
