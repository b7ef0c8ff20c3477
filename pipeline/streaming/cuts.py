"""Cuts: up to which commit ts the tables are complete (design.md, rule 4).

By offset a cut is `bounded`: every change up to its ts is in the tables, later ones may be too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model.columns import time_of
from pipeline.streaming.set_aside.held import counted, held_tables
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pipeline.model.columns import CommitTs
    from pipeline.model.messages import Part
    from pipeline.model.places import Partition
    from pipeline.streaming.batch import Outcome
    from pipeline.streaming.context import PipelineContext
    from pipeline.warehouse.pairs import TablePair

EXACT, BOUNDED, PARTIAL, NONE = "exact", "bounded", "partial", "none"


def resolved(watermarks: Mapping[Partition, int], unread: Collection[Partition]) -> int | None:
    """The least watermark of the partitions that are live (`frontier.resolved`); None while there is none."""
    if not watermarks:
        return None
    return min([max(watermarks.values()), *(watermarks.get(at, 0) for at in unread)]) or None


def _head(table: TablePair) -> int | None:
    return None if table.current is None else table.current.head()


def by_name(tables: Iterable[TablePair], snapshots: Mapping[str, int | None]) -> list[tuple[TablePair, int | None]]:
    """The pair that each source name means (the living one, else that which was dropped last) with its snapshot."""
    return [(table, snapshots.get(name)) for name, table in _meant(tables).items()]


def _meant(tables: Iterable[TablePair]) -> dict[str, TablePair]:
    return {str(t.source): t for t in sorted(tables, key=lambda t: (t.state != State.DROPPED, t.dropped_at))}


def exact(  # noqa: PLR0913, PLR0917 - the batch, its commit ts, its tables, and all that may be missing from them
    context: PipelineContext,
    batch_id: int,
    cut_ts: int,
    shown: Sequence[tuple[TablePair, int | None]],
    unplaced: Mapping[Part, str],
    late: Collection[str],
    also: Sequence[str] = (),
) -> str:
    """Write the cut of a batch by commit ts, a row per table whose snapshot changed; gives its level.

    A cut is exact if nothing up to its commit ts is missing from the tables. Tables that were dropped by then are not
    in it. `unplaced`: the rows that cannot be placed yet. `late`: tables (uuid) whose streams have not been read that
    far. `also`: further reasons why the cut is not exact.
    """
    if not cut_ts:
        return NONE
    reasons = [*also, *_missing(context, cut_ts, unplaced)]
    up_to_date = (PARTIAL, "; ".join(reasons)) if reasons else (EXACT, "")
    lagging = (
        PARTIAL,
        "; ".join(
            [
                *reasons,
                f"{_tables(len(late))} of {context.source.stream_noun}s that came later and are not read that far",
            ]
        ),
    )
    if context.late != late:
        shown = [(table, _head(table)) for table in context.tables]
    else:
        to_record = _to_record(context, whole=not reasons, late=late)
        heads = ((table, _head(table)) for table in to_record)
        shown = list({table.uuid: (table, snapshot) for table, snapshot in (*shown, *heads)}.values())
    context.late = frozenset(late)
    shown = [(table, snapshot) for table, snapshot in shown if not _is_dropped(table, cut_ts)]
    if not shown and any(table.dropped_at > context.cut_ts for table in context.tables if _is_dropped(table, cut_ts)):
        shown = _any_other(context)  # a dropped table has no row, and the cut must be known all the same
    _write(context, batch_id, cut_ts, shown, lambda table: lagging if table.uuid in late else up_to_date)
    return PARTIAL if late else up_to_date[0]


def _to_record(context: PipelineContext, *, whole: bool, late: Collection[str] = ()) -> list[TablePair]:
    """Tables that get a row in the cut although this batch has not changed them.

    `whole`: nothing is missing up to the cut, except from the tables in `late`. So tables that cuts have called partial
    are so no longer.
    """
    to_record = set(context.unrecorded)
    if context.recovering:  # another process, or a try that died, may have shown more than the cuts say
        newest_cuts = context.records.newest_cuts()
        context.partial |= {uuid for uuid, (_, level) in newest_cuts.items() if level == PARTIAL}
        to_record |= {
            table.uuid for table in context.tables if newest_cuts.get(table.uuid, (None, ""))[0] != _head(table)
        }
    if whole:
        to_record |= context.partial - set(late)
    return [table for table in context.tables if table.uuid in to_record]


def _is_dropped(table: TablePair, cut_ts: int) -> bool:
    """Whether the source had no such table any more."""
    return table.state is State.DROPPED and table.dropped_at <= cut_ts


def _any_other(context: PipelineContext) -> list[tuple[TablePair, int | None]]:
    """A table that lives and has a snapshot, with that; none where there is none."""
    heads = ((table, _head(table)) for table in context.tables if table.state is not State.DROPPED)
    return next(([(table, snapshot)] for table, snapshot in heads if snapshot is not None), [])


def _held(context: PipelineContext) -> str:
    """Which tables are held, as a reason; nothing where none is."""
    held = held_tables(context)
    return f"held: {counted(held)}" if held else ""


def _missing(context: PipelineContext, cut_ts: int, unplaced: Mapping[Part, str]) -> Iterator[str]:
    """Why tables may lack changes up to a commit ts."""
    held = _held(context)
    if held:
        yield held
    early = sorted({str(part.table) for part in unplaced if part.since < cut_ts})
    if early:
        yield f"waiting: {_tables(len(early))} ({', '.join(early)})"
    open_counts = {
        "in quarantine": context.records.open_up_to("quarantine", cut_ts),
        "dead letters": context.records.open_up_to("dead_letters", cut_ts),
    }
    for where, count in open_counts.items():
        if count:
            yield f"{count} {where}"


def _tables(count: int) -> str:
    return f"{count} table{'' if count == 1 else 's'}"


def record(
    context: PipelineContext,
    batch_id: int,
    outcome: Outcome,
    watermarks: Mapping[Partition, CommitTs],
    stream_ids: Mapping[str, str],
) -> str:
    """Write the cut of this batch, a row per table whose snapshot changed; gives the batch's level."""
    if not watermarks:
        return NONE
    names = {stream_id: name for name, stream_id in stream_ids.items()}
    reached = context.ledger.committed.of_names(names) | dict(outcome.messages.ends)
    cut_ts = resolved(watermarks, context.source.unread(reached))
    if cut_ts is None:
        return NONE
    held = _held(context)
    level, reason = (PARTIAL, held) if held else (BOUNDED, "offset regime")
    snapshots = {result.table: result.snapshot for result in outcome.tables if result.snapshot is not None}
    to_record = {table.uuid for table in _to_record(context, whole=not held)}
    heads = {name: _head(table) for name, table in _meant(context.tables).items() if table.uuid in to_record}
    _write(context, batch_id, cut_ts, by_name(context.tables, heads | snapshots), lambda _: (level, reason))
    return level


def _write(
    context: PipelineContext,
    batch_id: int,
    cut_ts: int,
    shown: Sequence[tuple[TablePair, int | None]],
    level_of: Callable[[TablePair], tuple[str, str]],
) -> None:
    context.cut_ts = cut_ts
    rows = []
    for table, snapshot in shown:
        if snapshot is None:
            continue
        level, reason = level_of(table)
        rows.append({
            "cut_ts": cut_ts, "cut_time": time_of(cut_ts), "table_uuid": table.uuid,
            "schema_name": table.source.schema, "table_name": table.source.table, "snapshot_id": snapshot,
            "level": level, "reason": reason,
        })  # fmt: skip
        (context.partial.add if level == PARTIAL else context.partial.discard)(table.uuid)
    context.records.write("cuts", batch_id, rows)
    context.unrecorded.clear()
