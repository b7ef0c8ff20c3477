"""Where the rows of a batch belong by commit ts: which pair takes them, and which of them wait.

A row belongs to what its name meant at its commit ts (`name_bindings`). It is pending after a statement of its table
that is not applied yet, and as long as nothing has described its version.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipeline.ddl.statement import concerned, dropped_databases
from pipeline.ddl.table_ref import RemovedTable
from pipeline.ingest.set_aside.pending import DDL_PENDING, SCHEMA_PENDING
from pipeline.model.messages import EVER, Part, TableMessages
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pipeline.ddl.name_history import NameBinding
    from pipeline.ddl.statement import Statement
    from pipeline.ddl.table_ref import TableRef
    from pipeline.ingest.by_commit_ts.names import NamesByCommitTs
    from pipeline.model.messages import SeenVersion, Unknown
    from pipeline.model.names import Name, TableName


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Messages of one table: of a pair, or of what will make it. `parts`: their names, and when they had them."""

    table_ref: TableRef
    messages: TableMessages
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Router:
    """The rows of a batch, and what names mean after its statements.

    `unseen`: after this commit ts another stream may yet tell of a RENAME; None where there is no other stream.
    `late`: whether streams are read that have a history of their own: what they tell of the past is new. `left_over`:
    rows that a try which died has held back, with the reason: they come in with the next batch.
    """

    names: NamesByCommitTs
    unseen: int | None = None
    late: bool = False
    left_over: Mapping[Part, str] = field(default_factory=dict)

    def pending_parts(self) -> dict[Part, str]:
        """Rows that cannot be placed yet, with the reason: per name from the first thing on that is not known.

        Rows of a version that nothing has described are in the way of what their name meant at that time, no further.
        """
        earliest: dict[tuple[Name, int], tuple[Part, str]] = {}
        for statement in self.names.timeline.later:
            reason = f"{DDL_PENDING}: {statement.ddl.sql}"
            for name in self._after(statement):
                _earliest(earliest, Part(name, statement.commit_ts), reason)
        for part, reason in self.left_over.items():
            _earliest(earliest, part, reason)
        noun = self.names.context.source.stream_noun
        for part in self._unconfirmed():
            reason = f"{DDL_PENDING}: a RENAME to {part.table} may be in a {noun} that is not read up to these rows"
            _earliest(earliest, part, reason)
        for unknown in self.names.messages.unknown:
            reason = (
                f"{SCHEMA_PENDING}: no message has described version {unknown.version} of {unknown.table} yet; "
                "if none does, send-bootstrap-interval-in-sec or send-bootstrap-in-msg-count may be off"
            )
            for binding in self._bindings(unknown.table.key, unknown):
                if not self._is_over(binding):
                    _earliest(earliest, _within(unknown, binding), reason)
        return dict(earliest.values())

    def _unconfirmed(self) -> Iterator[Part]:
        """The names that nothing has given, and whose first row is newer than what all streams have been read to.

        A RENAME stands in the stream of the old name alone. After it the rows are of the table that it is about.
        """
        unseen = EVER if self.unseen is None else self.unseen
        for table in self.names.messages.tables:
            first = min((seen.since for seen in table.versions), default=0)
            if first > unseen and not self.names.history.bindings.get(table.table.key):
                yield Part(table.table, 0, EVER)

    def undescribed(self) -> list[tuple[Unknown, Part]]:
        """Rows of versions that nothing will describe: the table that they are of was dropped."""
        return [
            (unknown, _within(unknown, binding))
            for unknown in self.names.messages.unknown
            for binding in self._bindings(unknown.table.key, unknown)
            if self._is_over(binding)
        ]

    def _is_over(self, binding: NameBinding) -> bool:
        """Whether what a name meant was dropped; where no pair was ever made, by a statement of this batch."""
        pair = self.names.pairs.of(binding.table_ref)
        if binding.until == EVER or (pair is not None and pair.state is not State.DROPPED):
            return False
        is_known = pair is not None or isinstance(binding.table_ref, RemovedTable)
        return is_known or any(binding.since < at <= binding.until for at in self.names.timeline.drops(binding.name))

    def _after(self, statement: Statement) -> Iterator[TableName]:
        """The names whose rows after a statement need it."""
        if statement.ddl.table.table:
            yield from concerned(statement)
        schemas = dropped_databases(statement)
        yield from (table.table for table in self.names.messages.tables if table.table.key[0] in schemas)

    def placed(self, pending: Iterable[Part]) -> list[PlacedRows]:
        """The rows of the batch that do not wait, by the table that they belong to, and statements about columns."""
        pending_here, names = tuple(pending), self.names
        parts: dict[TableRef, list[Part]] = {}
        seen: dict[TableRef, dict[int, SeenVersion]] = {}
        for table in names.messages.tables:
            for version in table.versions:
                for binding in self._bindings(table.table.key, version):
                    placeable = _placeable_until(binding, pending_here)
                    if placeable < max(version.since, binding.since + 1):
                        continue
                    part = Part(table.table, binding.since, min(binding.until, placeable))
                    mine = parts.setdefault(binding.table_ref, [])
                    if part not in mine:
                        mine.append(part)
                    versions, number = seen.setdefault(binding.table_ref, {}), version.version.version
                    versions[number] = versions[number].joined(version) if number in versions else version
        for statement in names.timeline.now:
            if not statement.naming and statement.ddl.table.table:
                binding = names.history.at(statement.ddl.table.key, statement.commit_ts)
                if names.pairs.of(binding.table_ref) is not None:
                    parts.setdefault(binding.table_ref, [])
                elif binding.table_ref not in parts and names.is_blocked_by_name(statement):
                    until = _placeable_until(binding, pending_here)
                    parts[binding.table_ref] = [Part(statement.ddl.table, binding.since, until)]
        return [self._placed(table_ref, parts[table_ref], seen.get(table_ref, {})) for table_ref in parts]

    def _placed(self, table_ref: TableRef, parts: list[Part], seen: Mapping[int, SeenVersion]) -> PlacedRows:
        pair = self.names.pairs.of(table_ref)
        name = pair.source if pair is not None else parts[-1].table
        return PlacedRows(table_ref, TableMessages(name, tuple(seen.values())), tuple(sorted(parts, key=_by_time)))

    def _bindings(self, key: Name, version: SeenVersion | Unknown) -> Iterator[NameBinding]:
        """What a name means between the first and the last row of a version."""
        ts = version.since
        while ts <= version.until:
            binding = self.names.history.at(key, ts)
            inside = version.since < binding.since and binding.until < version.until and not binding.cause
            if not inside:  # a gap between a DROP and a CREATE, of which no row can be
                yield replace(binding, table_ref=RemovedTable()) if self._is_past(binding) else binding
            ts = binding.until + 1

    def _is_past(self, binding: NameBinding) -> bool:
        """Whether rows are of a table that was gone before anything was known of it."""
        return not self.late and self.names.pairs.of(binding.table_ref) is None and self.names.history.is_past(binding)


def _earliest(earliest: dict[tuple[Name, int], tuple[Part, str]], part: Part, reason: str) -> None:
    """Of the parts of a name that end together, the longest."""
    earlier = earliest.get((part.table.key, part.until))
    if earlier is None or part.since < earlier[0].since:
        earliest[part.table.key, part.until] = (part, reason)


def _within(unknown: Unknown, binding: NameBinding) -> Part:
    """What an unknown version is in the way of within a binding: all from its first row on."""
    return Part(unknown.table, max(unknown.since - 1, binding.since), binding.until)


def _placeable_until(binding: NameBinding, parts: Iterable[Part]) -> int:
    """Up to which commit ts rows of a binding can be placed."""
    mine = (part.since for part in parts if part.table.key == binding.name and part.until >= binding.until)
    return min(mine, default=EVER)


def _by_time(part: Part) -> tuple[int, str, str]:
    return part.since, part.table.schema, part.table.table
