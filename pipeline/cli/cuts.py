"""The cuts of a warehouse: which snapshots show all tables as of one moment, and whether they are still there."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.cli.reading import records
from pipeline.errors import Refused
from pipeline.model.columns import CommitTs, time_of
from pipeline.warehouse.tables import DROPPED, State
from pipeline.warehouse.tags import CUT_EXPIRED, taken

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from pipeline.cli.reading import Reader
    from pipeline.cli.shelf import Pair
    from pipeline.model.names import WarehouseName

NO_CUT = "NO_CUT"
GONE = "the table is gone"
LEVELS = ("exact", "bounded", "partial")
"""Levels of a cut, best first."""
_FIELDS = (
    "cut_ts",
    "cut_time",
    "batch_id",
    "table_uuid",
    "schema_name",
    "table_name",
    "snapshot_id",
    "level",
    "reason",
)
_NEVER = 2**64
_LISTED = 5
_HINT = (
    "cuts come from TiCDC's watermarks: with protocol=avro the sink URI needs "
    "enable-tidb-extension=true&avro-enable-watermark=true; "
    "`tables history NAME` lists snapshots by their own time"
)


@dataclass(frozen=True, slots=True)
class Cut:
    """One table's newest cut up to the moment. `source` is its name then; `pair` None where it is gone since."""

    uuid: str
    source: str
    pair: Pair | None
    snapshot: int
    level: str
    ts: CommitTs
    time: datetime
    reason: str

    @property
    def table(self) -> WarehouseName | None:
        """Where it lies today."""
        return None if self.pair is None else self.pair.name

    @property
    def readable(self) -> bool:
        """Whether the snapshot is still there."""
        return self.pair is not None and self.snapshot in _snapshots(self.pair)

    @property
    def note(self) -> str:
        """Say why its level is what it is, and what has become of the table."""
        if self.pair is None:
            return GONE
        dropped = "dropped since" if self.pair.state is State.DROPPED else ""
        return "; ".join(filter(None, (self.reason, dropped)))

    @property
    def row(self) -> tuple[Any, ...]:
        """Give it as a row under `COLUMNS` of `asof`."""
        today = "" if self.pair is None else str(self.pair.source)
        table = "" if self.table is None else str(self.table)
        return (self.source, today, table, self.snapshot, self.level, self.ts, self.time, self.note)


@dataclass(frozen=True, slots=True)
class Whole:
    """The newest cut up to the moment, over all tables that there were: a row per table, by source name."""

    ts: CommitTs
    time: datetime
    cuts: tuple[Cut, ...]

    @property
    def level(self) -> str:
        """The least of its tables' levels; a table that is gone makes it `partial`."""
        found = [cut.level if cut.pair else "partial" for cut in self.cuts]
        return max(found, key=LEVELS.index, default="exact")

    @property
    def tag(self) -> str:
        """How its tag is called where no other name is asked for."""
        return f"cut_{self.ts}"

    @property
    def snapshots(self) -> dict[str, int]:
        """What is to be tagged: snapshot by the table's uuid."""
        return {cut.uuid: cut.snapshot for cut in self.cuts if cut.pair}

    def is_tagged(self, tag: str, pairs: Iterable[Pair]) -> bool:
        """Whether every table has this tag already; raises `Refused` (`TAG_TAKEN`) where it means something else."""
        wanted, missing = self.snapshots, set(self.snapshots)
        for pair in pairs:
            ref = None if pair.current is None else pair.current.refs.get(tag)
            if ref is None:
                continue
            uuid = str(pair.changes.table_uuid)
            if ref.snapshot_ref_type != "tag" or ref.snapshot_id != wanted.get(uuid):
                raise taken(tag, str(pair.name), ref.snapshot_id)
            missing.discard(uuid)
        return not missing


def whole(reader: Reader, pairs: Sequence[Pair], at: CommitTs | None) -> Whole:
    """Find the newest cut up to `at` (None: of all).

    A table that was dropped at or before that cut is not of it. Raises `Refused`: `NO_CUT`; `CUT_EXPIRED` where a
    snapshot of it is gone, with the oldest cut that can be read whole.
    """
    history = _History.read(reader, pairs)
    end = len(history.steps) if at is None else bisect_right(history.steps, int(at), key=lambda step: step.ts)
    if not end:
        raise Refused(NO_CUT, "there is no cut" + (f" up to {spoken(at)}" if at else ""), _HINT)
    newest = {step.uuid: place for place, step in enumerate(history.steps[:end])}
    ts = history.steps[end - 1].ts
    places = [place for uuid, place in newest.items() if history.dropped.get(uuid, _NEVER) > ts]
    cuts = sorted((history.cut(row) for row in history.rows.take(places).to_pylist()), key=lambda cut: cut.source)
    lost = [cut.source for cut in cuts if not history.is_usable(cut.uuid, cut.snapshot)]
    if lost:
        raise history.expired(ts, lost)
    return Whole(CommitTs(ts), time_of(ts), tuple(cuts))


class _Step(NamedTuple):
    """One row of `cuts`."""

    ts: int
    uuid: str
    snapshot: int


@dataclass(frozen=True, slots=True)
class _History:
    """All cuts there have been, oldest first, and what has become of their tables."""

    rows: Any
    steps: list[_Step]
    pairs: Mapping[str, Pair]
    dropped: Mapping[str, int]
    """Commit ts of the drop, by uuid."""

    @staticmethod
    def read(reader: Reader, pairs: Sequence[Pair]) -> _History:
        rows = records(reader, "cuts", _FIELDS).sort_by([("cut_ts", "ascending"), ("batch_id", "ascending")])
        columns = (rows[name].to_pylist() for name in ("cut_ts", "table_uuid", "snapshot_id"))
        steps = [_Step(*values) for values in zip(*columns, strict=True)]
        known = {str(pair.changes.table_uuid): pair for pair in pairs}
        dropped = {uuid: int(p.changes.properties[DROPPED]) for uuid, p in known.items() if p.state is State.DROPPED}
        places = {step.uuid: place for place, step in enumerate(steps) if step.uuid not in known}
        if places:
            dropped |= _removed(reader, rows.take(list(places.values())).to_pylist())
        return _History(rows, steps, known, dropped)

    def cut(self, row: dict[str, Any]) -> Cut:
        return Cut(
            row["table_uuid"],
            f"{row['schema_name']}.{row['table_name']}",
            self.pairs.get(row["table_uuid"]),
            row["snapshot_id"],
            row["level"],
            CommitTs(row["cut_ts"]),
            row["cut_time"],
            row["reason"] or "",
        )

    def is_usable(self, uuid: str, snapshot: int) -> bool:
        """Whether a cut with this snapshot can be offered. A table that went nobody knows when stops none."""
        pair = self.pairs.get(uuid)
        return uuid not in self.dropped if pair is None else snapshot in _snapshots(pair)

    def oldest(self) -> int | None:
        """The oldest cut that can be read whole."""
        there = {uuid: _snapshots(pair) for uuid, pair in self.pairs.items()}
        lost: set[str] = set()
        for place, (ts, uuid, snapshot) in enumerate(self.steps):
            usable = snapshot in there[uuid] if uuid in there else uuid not in self.dropped
            (lost.discard if usable else lost.add)(uuid)
            is_last = place + 1 == len(self.steps) or self.steps[place + 1].ts > ts
            if is_last and all(self.dropped.get(one, _NEVER) <= ts for one in lost):
                return ts
        return None

    def expired(self, ts: int, lost: Sequence[str]) -> Refused:
        names = ", ".join(lost[:_LISTED]) + (f" and {len(lost) - _LISTED} more" if len(lost) > _LISTED else "")
        oldest = self.oldest()
        hint = "no cut can be read whole; the next change of each of these tables makes one"
        if oldest is not None:
            hint = f"the oldest usable cut is {spoken(oldest)}: ticdc-warehouse tables as-of {oldest}"
        return Refused(CUT_EXPIRED, f"cut {spoken(ts)} needs snapshots that are gone, of {names}", hint)


def _removed(reader: Reader, newest: Iterable[dict[str, Any]]) -> dict[str, int]:
    """When the source dropped tables that are no more, by their newest cuts and the statements after them."""
    fields = ("commit_ts", "schema_name", "table_name", "ddl_type")
    drops = records(reader, "ddl_history", fields, "ddl_type in ('DropTable', 'DropDatabase')").to_pylist()
    found = {}
    for row in newest:
        times = [drop["commit_ts"] for drop in drops if drop["commit_ts"] >= row["cut_ts"] and _is_of(drop, row)]
        if times:
            found[row["table_uuid"]] = min(times)
    return found


def _is_of(drop: dict[str, Any], row: dict[str, Any]) -> bool:
    names = ("schema_name",) if drop["ddl_type"] == "DropDatabase" else ("schema_name", "table_name")
    return all((drop[name] or "").casefold() == row[name].casefold() for name in names)


def _snapshots(pair: Pair) -> frozenset[int]:
    return frozenset() if pair.current is None else frozenset(s.snapshot_id for s in pair.current.snapshots)


def spoken(ts: int) -> str:
    """Write a commit ts for people."""
    return f"{ts} ({time_of(ts):%Y-%m-%d %H:%M:%S.%f} UTC)"
