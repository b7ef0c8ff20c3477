"""Where the rows of a batch belong by commit ts: which pair takes them, and which of them wait (decision 004).

A row belongs to what its name meant at its commit ts (`name_bindings`). It is pending after a statement of its table
that is not applied yet, and as long as nothing has described its version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.model.messages import EVER, Part, TableMessages
from pipeline.streaming.name_bindings import GONE
from pipeline.streaming.set_aside import pending
from pipeline.streaming.statements import concerned, dropped_databases
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pipeline.model.messages import SeenVersion, Unknown
    from pipeline.model.names import TableName
    from pipeline.streaming.ddl_applier import DdlApplier
    from pipeline.streaming.epochs import Name, Statement
    from pipeline.streaming.name_bindings import NameBinding


@dataclass(frozen=True, slots=True)
class Placed:
    """Messages of one pair. `table_ref`: its uuid, or what will make it."""

    table_ref: str
    messages: TableMessages


def pending_parts(applier: DdlApplier) -> dict[Part, str]:
    """Rows that cannot be placed yet, with the reason: per name from the first thing on that is not known.

    Rows of a version that nothing has described are in the way of what their name meant at that time, no further.
    """
    earliest: dict[tuple[Name, int], tuple[Part, str]] = {}
    for statement in applier.later:
        reason = f"{pending.DDL_PENDING}: {statement.ddl.sql}"
        for name in _after(applier, statement):
            _earliest(earliest, Part(name, statement.ddl.commit_ts), reason)
    for part, reason in applier.left_over.items():
        _earliest(earliest, part, reason)
    for part in _unconfirmed(applier):
        noun = applier.context.source.stream_noun
        reason = f"{pending.DDL_PENDING}: a RENAME to {part.table} may stand in a {noun} that has not been read as far"
        _earliest(earliest, part, reason)
    for unknown in applier.messages.unknown:
        reason = (
            f"{pending.SCHEMA_PENDING}: version {unknown.version} of {unknown.table} has not been described; "
            "if it does not come, send-bootstrap-interval-in-sec or send-bootstrap-in-msg-count may be off"
        )
        for binding in _bindings(applier, unknown.table.key, unknown):
            if not _is_over(applier, binding):
                _earliest(earliest, _within(unknown, binding), reason)
    return dict(earliest.values())


def _unconfirmed(applier: DdlApplier) -> Iterator[Part]:
    """The names that nothing has given, and whose first row is newer than what all streams have been read to.

    A RENAME stands in the stream of the old name alone. After it the rows are of the table that it is about.
    """
    unseen = EVER if applier.unseen is None else applier.unseen
    for table in applier.messages.tables:
        first = min((seen.since for seen in table.versions), default=0)
        if first > unseen and not applier.names.bindings.get(table.table.key):
            yield Part(table.table, 0, EVER)


def undescribed(applier: DdlApplier) -> list[tuple[Unknown, Part]]:
    """Rows of versions that nothing will describe: the table that they are of was dropped."""
    return [
        (unknown, _within(unknown, binding))
        for unknown in applier.messages.unknown
        for binding in _bindings(applier, unknown.table.key, unknown)
        if _is_over(applier, binding)
    ]


def _is_over(applier: DdlApplier, binding: NameBinding) -> bool:
    """Whether what a name meant was dropped; where no pair was ever made, by a statement of this batch."""
    pair = applier.pair_of(binding.table_ref)
    if binding.until == EVER or (pair is not None and pair.state is not State.DROPPED):
        return False
    is_known = pair is not None or binding.table_ref == GONE
    return is_known or any(binding.since < at <= binding.until for at in applier.drops(binding.name))


def _is_past(applier: DdlApplier, binding: NameBinding) -> bool:
    """Whether rows are of a table that was gone before anything was known of it."""
    return not applier.late and applier.pair_of(binding.table_ref) is None and applier.names.is_past(binding)


def _after(applier: DdlApplier, statement: Statement) -> Iterator[TableName]:
    """The names whose rows after a statement need it."""
    if statement.ddl.table.table:
        yield from concerned(statement)
    schemas = dropped_databases(statement)
    yield from (table.table for table in applier.messages.tables if table.table.key[0] in schemas)


def placed(applier: DdlApplier) -> list[Placed]:
    """The rows of the batch that do not wait, by the pair that they belong to, and statements about columns."""
    pending_here = tuple(pending_parts(applier))
    parts: dict[str, list[Part]] = {}
    seen: dict[str, dict[int, SeenVersion]] = {}
    for table in applier.messages.tables:
        for version in table.versions:
            for binding in _bindings(applier, table.table.key, version):
                placeable = _placeable_until(binding, pending_here)
                if placeable < max(version.since, binding.since + 1):
                    continue
                part = Part(table.table, binding.since, min(binding.until, placeable))
                mine = parts.setdefault(binding.table_ref, [])
                if part not in mine:
                    mine.append(part)
                versions, number = seen.setdefault(binding.table_ref, {}), version.version.version
                versions[number] = versions[number].joined(version) if number in versions else version
    for statement in applier.applied:
        if not statement.naming and statement.ddl.table.table:
            binding = applier.names.at(statement.ddl.table.key, statement.ddl.commit_ts)
            if applier.pair_of(binding.table_ref) is not None:
                parts.setdefault(binding.table_ref, [])
            elif binding.table_ref not in parts and applier.is_blocked_by_name(statement):
                until = _placeable_until(binding, pending_here)
                parts[binding.table_ref] = [Part(statement.ddl.table, binding.since, until)]
    return [_placed(applier, table_ref, parts[table_ref], seen.get(table_ref, {})) for table_ref in parts]


def _placed(applier: DdlApplier, table_ref: str, parts: list[Part], seen: Mapping[int, SeenVersion]) -> Placed:
    pair = applier.pair_of(table_ref)
    name = pair.source if pair is not None else parts[-1].table
    return Placed(table_ref, TableMessages(name, tuple(seen.values()), parts=tuple(sorted(parts, key=_by_time))))


def _bindings(applier: DdlApplier, key: Name, version: SeenVersion | Unknown) -> Iterator[NameBinding]:
    """What a name means between the first and the last row of a version."""
    ts = version.since
    while ts <= version.until:
        binding = applier.names.at(key, ts)
        inside = version.since < binding.since and binding.until < version.until and not binding.cause
        if not inside:  # a gap between a DROP and a CREATE, of which no row can be
            yield replace(binding, table_ref=GONE) if _is_past(applier, binding) else binding
        ts = binding.until + 1


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
