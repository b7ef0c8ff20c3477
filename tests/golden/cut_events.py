"""The row events of a changefeed of the ordering by commit ts, read a second time: plain Python instead of Spark.

They tell what the changes tables must hold. Replayed by commit ts they give the tables at any cut, and prove that the
expectations are right: those tables must equal TiDB's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from golden import decode_canal, decode_open, decode_simple
from golden.expected import stored_name
from golden.values import freeze

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from golden.corpus import GoldenCase, Record
    from golden.decode_simple import Sent
    from golden.values import Row

Key = tuple[Any, ...]
READERS = {"simple": decode_simple, "open-protocol": decode_open, "canal-json": decode_canal}


@dataclass(frozen=True, slots=True)
class CutEvent:
    """One row event: `after` is None for a delete, `before` for an insert.

    `schema_id` is None where the protocol numbers no versions. `told` are the columns of `before` that were sent.
    """

    record: Record
    offset: int
    index: int
    table: str
    op: str
    commit_ts: int
    schema_id: int | None
    handle: tuple[str, ...]
    after: Row | None
    before: Row | None
    told: frozenset[str]

    @property
    def place(self) -> tuple[str, int, int, int]:
        """Where it stands; the topic is that of the golden file."""
        return self.record.topic, self.record.partition, self.offset, self.index


def events(case: GoldenCase, records: Iterable[Record] | None = None) -> list[CutEvent]:
    """Every row event of the records (all of them, unless given), with its offset: topics begin at 0."""
    ends: Counter[tuple[str, int]] = Counter()
    found: list[CutEvent] = []
    decoded = READERS[case.protocol].rows
    for record in case.records if records is None else records:
        offset = ends[record.topic, record.partition]
        ends[record.topic, record.partition] += 1
        if record.kind == "row":
            found += (_placed(case, record, offset, index, sent) for index, sent in enumerate(decoded(case, record)))
    return found


def _placed(case: GoldenCase, record: Record, offset: int, index: int, sent: Sent) -> CutEvent:
    source, *rest = sent
    return CutEvent(record, offset, index, ".".join(stored_name(case, part) for part in source), *rest)


def replayed(found: Iterable[CutEvent]) -> dict[str, list[CutEvent]]:
    """The tables after these events: table → the events that left the rows there.

    By commit ts, deletes before upserts, then as they were sent; the parts of a re-send are the same as the first's.
    DDL is not applied.
    """
    tables: dict[str, dict[Key, list[CutEvent]]] = {}
    for *_, action in sorted(_actions(found), key=lambda one: one[:3]):
        rows = tables.setdefault(action.event.table, {})
        if not action.event.handle:
            _of_a_multiset(rows, action)
        elif action.upsert:
            rows[action.key] = [action.event]
        else:
            rows.pop(action.key, None)
    return {table: [event for left in rows.values() for event in left] for table, rows in tables.items()}


class _Action(NamedTuple):
    """A half of an event: a key goes, or a row comes."""

    event: CutEvent
    key: Key
    upsert: bool


def _of_a_multiset(rows: dict[Key, list[CutEvent]], action: _Action) -> None:
    if action.upsert:
        rows.setdefault(action.key, []).append(action.event)
    else:
        rows[action.key].pop()


def _actions(found: Iterable[CutEvent]) -> Iterator[tuple[int, bool, int, _Action]]:
    for number, event in enumerate(_once(found)):
        old, new = _key(event.before, event.handle), _key(event.after, event.handle)
        if old is not None and old != new:
            yield event.commit_ts, False, number, _Action(event, old, upsert=False)
        if new is not None:
            yield event.commit_ts, True, number, _Action(event, new, upsert=True)


def _once(found: Iterable[CutEvent]) -> list[CutEvent]:
    return list({(event.record.seq, event.record.partition, event.index): event for event in found}.values())


def _key(row: Row | None, handle: tuple[str, ...]) -> Key | None:
    if row is None:
        return None
    return tuple((freeze(row.values[name]), row.lost.get(name)) for name in handle or sorted(row.values))
