"""Where the rows of a batch belong by commit ts: which pair takes them, and which of them wait (decision 004).

A row belongs to what its name meant at its commit ts (`spans`). It waits after a statement of its table that is not
applied yet, and as long as nothing has described its version.
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
    """Messages of one pair. `meaning`: its uuid, or what will make it."""

    table_ref: str
    messages: TableMessages


def waits(told: DdlApplier) -> dict[Part, str]:
    """Rows that cannot be placed yet, with the reason: per name from the first thing on that is not known.

    Rows of a version that nothing has described are in the way of what their name meant at that time, no further.
    """
    found: dict[tuple[Name, int], tuple[Part, str]] = {}
    for statement in told.pending:
        reason = f"{pending.DDL_PENDING}: {statement.ddl.sql}"
        for name in _after(told, statement):
            _earliest(found, Part(name, statement.ddl.commit_ts), reason)
    for part, reason in told.left_over.items():
        _earliest(found, part, reason)
    for part in _unconfirmed(told):
        noun = told.context.source.stream_noun
        reason = f"{pending.DDL_PENDING}: a RENAME to {part.table} may stand in a {noun} that has not been read as far"
        _earliest(found, part, reason)
    for unknown in told.messages.unknown:
        reason = (
            f"{pending.SCHEMA_PENDING}: version {unknown.version} of {unknown.table} has not been described; "
            "if it does not come, send-bootstrap-interval-in-sec or send-bootstrap-in-msg-count may be off"
        )
        for span in _meanings(told, unknown.table.key, unknown):
            if not _is_over(told, span):
                _earliest(found, _within(unknown, span), reason)
    return dict(found.values())


def _unconfirmed(told: DdlApplier) -> Iterator[Part]:
    """The names that nothing has given, and whose first row is newer than what all streams have been read to.

    A RENAME stands in the stream of the old name alone. After it the rows are of the table that it is about.
    """
    unseen = EVER if told.unseen is None else told.unseen
    for table in told.messages.tables:
        first = min((seen.since for seen in table.versions), default=0)
        if first > unseen and not told.names.spans.get(table.table.key):
            yield Part(table.table, 0, EVER)


def undescribed(told: DdlApplier) -> list[tuple[Unknown, Part]]:
    """Rows of versions that nothing will describe: the table that they are of was dropped."""
    return [
        (unknown, _within(unknown, span))
        for unknown in told.messages.unknown
        for span in _meanings(told, unknown.table.key, unknown)
        if _is_over(told, span)
    ]


def _is_over(told: DdlApplier, span: NameBinding) -> bool:
    """Whether what a name meant was dropped; where no pair was ever made, by a statement of this batch."""
    pair = told.pair_of(span.table_ref)
    if span.until == EVER or (pair is not None and pair.state is not State.DROPPED):
        return False
    known = pair is not None or span.table_ref == GONE
    return known or any(span.since < at <= span.until for at in told.drops(span.name))


def _is_past(told: DdlApplier, span: NameBinding) -> bool:
    """Whether rows are of a table that was gone before anything was known of it."""
    return not told.late and told.pair_of(span.table_ref) is None and told.names.is_past(span)


def _after(told: DdlApplier, statement: Statement) -> Iterator[TableName]:
    """The names whose rows after a statement need it."""
    if statement.ddl.table.table:
        yield from concerned(statement)
    schemas = dropped_databases(statement)
    yield from (table.table for table in told.messages.tables if table.table.key[0] in schemas)


def placed(told: DdlApplier) -> list[Placed]:
    """The rows of the batch that do not wait, by the pair that they belong to, and statements about columns."""
    walls = tuple(waits(told))
    parts: dict[str, list[Part]] = {}
    seen: dict[str, dict[int, SeenVersion]] = {}
    for table in told.messages.tables:
        for version in table.versions:
            for span in _meanings(told, table.table.key, version):
                barrier = _wall_in(span, walls)
                if barrier < max(version.since, span.since + 1):
                    continue
                part = Part(table.table, span.since, min(span.until, barrier))
                mine = parts.setdefault(span.table_ref, [])
                if part not in mine:
                    mine.append(part)
                versions, number = seen.setdefault(span.table_ref, {}), version.version.version
                versions[number] = versions[number].joined(version) if number in versions else version
    for statement in told.applied:
        if not statement.naming and statement.ddl.table.table:
            span = told.names.at(statement.ddl.table.key, statement.ddl.commit_ts)
            if told.pair_of(span.table_ref) is not None:
                parts.setdefault(span.table_ref, [])
            elif span.table_ref not in parts and told.waits_for_its_name(statement):
                parts[span.table_ref] = [Part(statement.ddl.table, span.since, _wall_in(span, walls))]
    return [_placed(told, table_ref, parts[table_ref], seen.get(table_ref, {})) for table_ref in parts]


def _placed(told: DdlApplier, table_ref: str, parts: list[Part], seen: Mapping[int, SeenVersion]) -> Placed:
    pair = told.pair_of(table_ref)
    name = pair.source if pair is not None else parts[-1].table
    return Placed(table_ref, TableMessages(name, tuple(seen.values()), parts=tuple(sorted(parts, key=_by_time))))


def _meanings(told: DdlApplier, key: Name, version: SeenVersion | Unknown) -> Iterator[NameBinding]:
    """What a name means between the first and the last row of a version."""
    ts = version.since
    while ts <= version.until:
        span = told.names.at(key, ts)
        inside = version.since < span.since and span.until < version.until and not span.cause
        if not inside:  # a gap between a DROP and a CREATE, of which no row can be
            yield replace(span, table_ref=GONE) if _is_past(told, span) else span
        ts = span.until + 1


def _earliest(found: dict[tuple[Name, int], tuple[Part, str]], part: Part, reason: str) -> None:
    """Of the parts of a name that end together, the longest."""
    known = found.get((part.table.key, part.until))
    if known is None or part.since < known[0].since:
        found[part.table.key, part.until] = (part, reason)


def _within(unknown: Unknown, span: NameBinding) -> Part:
    """What an unknown version is in the way of within a span: all from its first row on."""
    return Part(unknown.table, max(unknown.since - 1, span.since), span.until)


def _wall_in(span: NameBinding, waits: Iterable[Part]) -> int:
    """Up to which commit ts rows of a span can be placed."""
    mine = (part.since for part in waits if part.table.key == span.name and part.until >= span.until)
    return min(mine, default=EVER)


def _by_time(part: Part) -> tuple[int, str, str]:
    return part.since, part.table.schema, part.table.table
