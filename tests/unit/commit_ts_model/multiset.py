"""Tables without a key in memory: where rows begin to be sent again, and what a publish makes of them.

In place of the windows and joins of `pipeline.ingest.by_commit_ts.redeliveries` and `pipeline.warehouse.multiset`.
Columns are added and renamed here, and never dropped: there is one era.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unit.batch_model.batch import CurrentRow, image

from pipeline.ingest.by_commit_ts.frontier import commit_ts_of
from pipeline.ingest.by_commit_ts.redeliveries import Watermarks
from pipeline.ingest.set_aside.pending import WAS_PENDING, rows_of
from pipeline.model import change
from pipeline.model.messages import EVER
from pipeline.warehouse.pairs import Place
from pipeline.warehouse.state import OPERATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unit.batch_model.frames import Frame
    from unit.batch_model.iceberg import ChangeRow
    from unit.batch_model.upstream import Record

    from pipeline.model.places import Partition


@dataclass(frozen=True, slots=True)
class SentRow:
    """A change with the number of its send in its partition."""

    row: ChangeRow
    send: int


def watermarks(raw: Frame, _protocol: Any, newest: Mapping[Partition, Any]) -> Watermarks:
    """For `redeliveries.watermarks`."""
    last: dict[Partition, Any] = dict(newest)
    restarts: list[Place] = []
    for record in _read(raw):
        message = record.message
        if message.kind == "watermark":
            if last.get(record.at, 0) > message.commit_ts:
                restarts.append(Place(*record.at, record.offset, 0))
            last[record.at] = message.commit_ts
    return Watermarks(restarts, last)


def _read(raw: Frame) -> list[Record]:
    """What is new, in its order in each partition."""
    return sorted((row["value"] for row in raw.rows if not row[WAS_PENDING]), key=lambda record: record.offset)


def redelivery_starts(
    raw: Frame, protocol: Any, tables: Sequence[Any], frontiers: Mapping[Partition, Any]
) -> dict[int, list[Place]]:
    """For `redeliveries.redelivery_starts`."""
    here = [rows_of(protocol, parts).of for parts in tables]
    closed: defaultdict[Partition, list[int]] = defaultdict(list)
    for at, frontier in frontiers.items():
        closed[at].append(commit_ts_of(frontier))
    previous: dict[tuple[Partition, int], tuple[int, int]] = {}
    starts: dict[int, list[Place]] = defaultdict(list)
    for record in _read(raw):
        at, message = record.at, record.message
        if message.kind in ("watermark", "ddl"):
            closed[at].append(message.commit_ts)
            continue
        mine = [number for number, which in enumerate(here) if which({"value": record})]
        if not mine:
            continue
        ts, so_far = message.commit_ts, len(closed[at])
        last_ts, closed_then = previous.get((at, mine[-1]), (EVER, 0))
        if ts <= max(closed[at], default=-1) and (last_ts > ts or ts <= max(closed[at][closed_then:], default=-1)):
            starts[mine[-1]].append(Place(*at, record.offset, 0))
        previous[at, mine[-1]] = ts, so_far
    return dict(starts)


def sent(self: Any, news: Any, *, afresh: bool) -> list[SentRow]:
    """For `advance._sent`: what a publish takes, with the number of its send."""
    table = self.table
    if afresh:
        return by_delivery(table, table.changes.content())
    late = {row.record.place for one in news.late for row in table.changes.added(one.snapshot)}
    rows = [row for append in news.appends for row in table.changes.added(append.snapshot)]
    return [
        one for one in by_delivery(table, rows)
        if one.row.record.message.commit_ts > table.by_commit_ts.cut or one.row.record.place in late
    ]  # fmt: skip


def by_delivery(table: Any, rows: Iterable[ChangeRow]) -> list[SentRow]:
    """For `multiset.by_delivery`: a send ends where the commit ts goes back, and where it is noted."""
    noted: dict[tuple[str, int], list[int]] = defaultdict(list)
    for stream, number, offset, _ in table.by_commit_ts.deliveries:
        noted[stream, number].append(offset)
    numbered: list[SentRow] = []
    last: dict[Partition, int] = {}
    send, passed = Counter[Any](), Counter[Any]()
    for row in sorted(rows, key=lambda one: one.record.offset):
        at, ts = row.record.at, row.record.message.commit_ts
        marks = sum(offset <= row.record.offset for offset in noted[at.stream, at.number])
        if marks > passed[at] or last.get(at, 0) > ts:
            send[at] += 1
        passed[at], last[at] = marks, ts
        numbered.append(SentRow(row, send[at]))
    return numbered


def show(self: Any, segment: Any, rows: Sequence[SentRow]) -> int:
    """For `multiset.show`: rows come and go as often as the send that has most of them has them."""
    table, target = self.table, self.current
    names = {number: name for name, number in target.fields().items()}
    net, newest = _net(table, segment, rows)
    kept = []
    for row in target.content(self.branch):
        values = tuple(sorted((names[number], value) for number, value in row.values.items() if number in names))
        if net[values] < 0:
            net[values] += 1
        else:
            kept.append(row)
    target.write("delete", (), tuple(kept), {}, self.branch)
    self.step("keys-deleted")
    to = target.fields()
    shown = [
        CurrentRow(-1, newest[values], {to[name]: value for name, value in values})
        for values, count in net.items() for _ in range(max(0, count))
    ]  # fmt: skip
    target.append(shown, OPERATION.entry(self.operation), self.branch)
    return len(net)


def _net(table: Any, segment: Any, rows: Sequence[SentRow]) -> tuple[Counter[Any], dict[Any, int]]:
    """How many of each row come, less those that go; and the newest commit ts of each."""
    fields = table.changes.fields()
    counts = Counter[Any]()
    for one in rows:
        ts = one.row.record.message.commit_ts
        if ts <= segment.high and (segment.low < 0 or ts > segment.low) and ts > table.by_offset.truncated_at:
            for sign, values in _images(table, one.row, fields):
                counts[tuple(sorted(values.items())), sign, ts, one.row.record.at, one.send] += 1
    most: dict[Any, int] = {}
    for (*same, _), count in counts.items():
        most[tuple(same)] = max(count, most.get(tuple(same), 0))
    net, newest = Counter[Any](), dict[Any, int]()
    for (values, sign, ts, _), count in most.items():
        net[values] += sign * count
        newest[values] = max(ts, newest.get(values, 0))
    return net, newest


def _images(table: Any, row: ChangeRow, fields: Mapping[str, int]) -> Iterable[tuple[int, dict[str, Any]]]:
    """The row that a change brings or takes, and the one that an update takes."""
    yield -1 if row.deletes else 1, image(table.layout, row, fields)
    before = row.values.get(fields[change.BEFORE])
    if before is not None:
        yield -1, image(table.layout, replace(row, values=before), fields)
