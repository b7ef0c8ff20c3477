"""How far a changefeed has come with a batch (ordering by commit ts, docs/explanation/ordering.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline.model.frontier import NEVER, Frontier, after_ddl, closed_by_watermark, commit_ts_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pipeline.model.messages import Ddl, Messages
    from pipeline.model.places import Partition, Position


def progress(
    before: Mapping[Partition, Frontier],
    announced: Mapping[Partition, Frontier],
    ddl: Iterable[Ddl],
    reached: Mapping[Partition, Position],
) -> dict[Partition, Frontier]:
    """How far each partition has come, after the messages of a batch. It never goes back.

    `announced`: see `Source.progress`. `reached`: the positions up to which partitions have been read. A try that died
    may have left a pending DDL event from beyond: it closes nothing yet.
    """
    frontiers = dict(before)
    for partition, read_to in announced.items():
        frontiers[partition] = max(read_to, frontiers.get(partition, NEVER))
    for statement in (statement for statement in ddl if statement.closes):
        for partition in (at for at, position in statement.at.items() if position < reached.get(at, 0)):
            frontiers[partition] = max(after_ddl(statement.commit_ts), frontiers.get(partition, NEVER))
    return frontiers


def oldest_of(messages: Messages, announced: Mapping[Partition, Frontier]) -> dict[str, Frontier]:
    """By stream, the least frontier that includes anything of it: rows, DDL events, what comes after a watermark.

    `announced`: see `Source.progress`.

    Pending rows have no position and are left out. Rows of a version that is not described yet are taken for rows of
    every stream that this batch has read.
    """
    oldest: dict[str, Frontier] = {}
    rows = [(closed_by_watermark(seen.since), seen.first) for table in messages.tables for seen in table.versions]
    ddl = [(after_ddl(event.commit_ts), event.at) for event in messages.ddl]
    watermarked = [(closed_by_watermark(commit_ts_of(to) + 1), (partition,)) for partition, to in announced.items()]
    for frontier, places in (*rows, *ddl, *watermarked):
        for partition in places:
            oldest[partition.stream] = min(frontier, oldest.get(partition.stream, frontier))
    if messages.unknown:
        least = closed_by_watermark(min(rows.since for rows in messages.unknown))
        oldest |= {at.stream: min(least, oldest.get(at.stream, least)) for at in messages.ends}
    return oldest


def resolved(frontiers: Mapping[Partition, Frontier], unread: Collection[Partition]) -> Frontier:
    """The least frontier of the partitions that are live: of those that have more to read, begun or not.

    `unread`: as `Source.unread` said after the frontiers were read, which is why the others may be left out.
    """
    if not frontiers:
        return NEVER
    return min([max(frontiers.values()), *(frontiers.get(at, NEVER) for at in unread)])


class Recorded(NamedTuple):
    """How far the ledger says that the changefeed has come. `begun`: partitions of which a batch has had records."""

    frontiers: Mapping[Partition, Frontier]
    resolved: Frontier
    begun: Collection[Partition]


class EarlierTry(NamedTuple):
    """What a try of this batch that died had read: `complete` partitions have everything up to `resolved`.

    `shown`: the frontier up to which tables show changes already; the try may have left no other trace. `in_time`:
    partitions that were not late then, also where this try has read less of them.
    """

    resolved: Frontier = NEVER
    complete: frozenset[Partition] = frozenset()
    shown: Frontier = NEVER
    in_time: frozenset[Partition] = frozenset()


class Reached(NamedTuple):
    """How far a changefeed has come with a batch.

    `frontiers`: of each partition, to be recorded. `resolved`: how far all streams have been read, but for `late` ones;
    never less than before. `late`: streams that came later, with a history that has not been read to there.
    `late_frontier`: how far those have been read. `joined`: new streams that are in time.
    """

    frontiers: dict[Partition, Frontier]
    resolved: Frontier
    late: frozenset[str]
    late_frontier: Frontier
    joined: frozenset[str]


def reached(
    recorded: Recorded,
    read: Mapping[Partition, Frontier],
    oldest: Mapping[str, Frontier],
    streams: Mapping[str, Sequence[Partition]],
    unread: Collection[Partition],
    tried: EarlierTry,
) -> Reached:
    """How far the changefeed has come with a batch.

    `read`: what `progress` makes of the recorded frontiers. `oldest`: see `oldest_of`. `streams`: the partitions of
    every stream that is there; those of others keep what is recorded. `unread`: see `resolved`.

    A late stream is late until it is read to its end, or as far as the others, and as the tables show. What comes later
    to a partition that was read to its end is newer.
    """
    goal = max(recorded.resolved, tried.resolved)
    shown = max(goal, tried.shown)
    kinds = _kinds_of(recorded, oldest, streams, tried)
    frontiers = dict(read)
    for stream, read_to in kinds.in_time.items():
        frontiers |= {at: max(frontiers.get(at, NEVER), read_to) for at in streams[stream]}
    for stream in kinds.with_history:
        frontiers |= {at: frontiers.get(at, NEVER) for at in streams[stream]}
    left = {stream: [frontiers[at] for at in streams[stream] if at in unread] for stream in kinds.with_history}
    least_of = {stream: min(frontiers_left, default=shown) for stream, frontiers_left in left.items()}
    late = frozenset(stream for stream, least in least_of.items() if least < shown)
    live = {at: frontier for at, frontier in frontiers.items() if at.stream in streams and at.stream not in late}
    live |= {at: goal for at in unread if at.stream in kinds.undecided}
    newest = max(goal, resolved(live, [at for at in unread if at in live]))
    ended = {at: max(frontier, newest) for at, frontier in live.items() if at not in unread and at in frontiers}
    late_frontier = min((least_of[stream] for stream in late), default=NEVER)
    return Reached(frontiers | ended, newest, late, late_frontier, kinds.joined)


class _Kinds(NamedTuple):
    """The kind of each stream that is there.

    `in_time`, with up to where all its partitions have been read, those without records too. `joined`: those of them
    that are new. `with_history`: they came later, with a history. `undecided`: new ones of which nothing shows it yet.
    """

    in_time: dict[str, Frontier]
    joined: frozenset[str]
    with_history: frozenset[str]
    undecided: frozenset[str]


def _kinds_of(
    recorded: Recorded, oldest: Mapping[str, Frontier], streams: Mapping[str, Sequence[Partition]], tried: EarlierTry
) -> _Kinds:
    """Tell streams apart.

    A new stream has a history, or begins with something newer than what has been read: TiCDC sends the oldest first. In
    the second case it is new because a table was made, or renamed into it. As long as none of its records has been
    read, nothing is resolved beyond what was: a RENAME in it may be older than what comes elsewhere.
    """
    in_time: dict[str, Frontier] = {}
    joined, with_history, undecided = set[str](), set[str](), set[str]()
    for stream, partitions in streams.items():
        before = [at for at in partitions if at in recorded.frontiers or at in recorded.begun]
        was_read = not tried.complete.isdisjoint(partitions)
        read_to = max(recorded.resolved, tried.resolved if was_read else NEVER)
        if before:
            is_in_time = min(recorded.frontiers.get(at, NEVER) for at in before) >= recorded.resolved
        elif stream in oldest:
            passed = recorded.resolved if was_read else max(recorded.resolved, tried.resolved, tried.shown)
            begins_later = oldest[stream] > passed
            is_in_time = begins_later or not tried.in_time.isdisjoint(partitions)
            read_to = max(read_to, passed) if begins_later else read_to
            joined |= {stream} if is_in_time else set()
        else:
            undecided.add(stream)
            continue
        if is_in_time:
            in_time[stream] = read_to
        else:
            with_history.add(stream)
    return _Kinds(in_time, frozenset(joined), frozenset(with_history), frozenset(undecided))
