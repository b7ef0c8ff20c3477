"""The cuts of a warehouse: which snapshots show all tables as of one moment, and whether they are still there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import Refused
from pipeline.lake.catalog import batches, records
from pipeline.model.columns import CommitTs, time_of
from pipeline.model.messages import EVER
from pipeline.model.names import PIPELINE_NAMESPACE, TableName, WarehouseName, folded
from pipeline.warehouse.pairs import State, name_at
from pipeline.warehouse.state import DROPPED
from pipeline.warehouse.state import GONE as REMOVED_PAIRS
from pipeline.warehouse.tags import CUT_EXPIRED, taken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pipeline.lake.catalog import Reader
    from pipeline.lake.table_metadata import Pair
    from pipeline.warehouse.pairs import StoredBinding

NO_CUT = "NO_CUT"
GONE = "the table is gone"
LEVELS = ("exact", "bounded", "partial")
"""Levels of a cut, best first."""
_FIELDS = (
    "cut_ts",
    "cut_time",
    "batch_id",
    "recorded_at",
    "table_uuid",
    "schema_name",
    "table_name",
    "snapshot_id",
    "level",
    "reason",
)
_ORDER = ("cut_ts", "batch_id", "recorded_at")
_AT_ONCE = 100_000
_LISTED = 5
_HINT = (
    "cuts come from TiCDC's watermarks: with protocol=avro the sink URI needs "
    "enable-tidb-extension=true&avro-enable-watermark=true; "
    "ticdc-warehouse tables history NAME lists snapshots by their own time"
)


@dataclass(frozen=True, slots=True)
class TablePoint:
    """One table's newest cut up to the moment. `pair`: None where it is gone since.

    `source` is its name at the moment that was found; with a changefeed without watermarks, at its last change.
    """

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
        """Give it as a row under `TOLD` of `asof`."""
        today = "" if self.pair is None else str(self.pair.source)
        table = "" if self.table is None else str(self.table)
        return (self.source, today, table, self.snapshot, self.level, self.ts, self.time, self.note, self.uuid)


@dataclass(frozen=True, slots=True)
class Whole:
    """The newest cut up to the moment, over all tables that there were: a row per table, by source name."""

    ts: CommitTs
    time: datetime
    cuts: tuple[TablePoint, ...]

    @property
    def level(self) -> str:
        """The least of its tables' levels; a table that is gone makes it `partial`."""
        levels = [cut.level if cut.pair else "partial" for cut in self.cuts]
        return max(levels, key=LEVELS.index, default="exact")

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


def whole(reader: Reader, pairs: Sequence[Pair], until: CommitTs | None) -> Whole:
    """Find the newest cut up to `at` (None: of all).

    A table that was dropped at or before that cut is not of it. Raises `Refused`: `NO_CUT`; `CUT_EXPIRED` where a
    snapshot of it is gone, with the oldest cut that can be read whole.
    """
    rows = newest(reader, "" if until is None else f"cut_ts <= {int(until):d}")
    if not rows:
        raise Refused(NO_CUT, "there is no cut" + (f" up to {spoken(until)}" if until else ""), _HINT)
    fates, ts = _Fates.of(reader, pairs, rows), max(row["cut_ts"] for row in rows)
    there = (row for row in rows if fates.dropped.get(row["table_uuid"], EVER) > ts)
    cuts = sorted((fates.cut(row, ts) for row in there), key=lambda cut: (cut.source, cut.uuid))
    lost = [cut.source for cut in cuts if not fates.is_usable(cut.uuid, cut.snapshot)]
    if lost:
        raise _expired(ts, lost, _oldest(reader, pairs))
    return Whole(CommitTs(ts), time_of(ts), tuple(cuts))


def newest(reader: Reader, where: str) -> list[dict[str, Any]]:
    """Each table's newest row of `cuts`; of those that are read never more at a time than the memory is good for."""
    read = batches(reader, "cuts", _FIELDS, where)
    kept: list[Any] = []
    count = 0
    for batch in read:
        kept, count = [*kept, batch], count + batch.num_rows
        if count > _AT_ONCE:
            kept, count = _last_of_each(pa.Table.from_batches(kept, read.schema)).to_batches(), 0
    rows: list[dict[str, Any]] = _last_of_each(pa.Table.from_batches(kept, read.schema)).to_pylist()
    return rows


def _last_of_each(rows: Any) -> Any:
    others = [name for name in rows.column_names if name != "table_uuid"]
    groups = rows.sort_by([(name, "ascending") for name in _ORDER]).group_by("table_uuid", use_threads=False)
    options = pc.ScalarAggregateOptions(skip_nulls=False)
    last = groups.aggregate([(name, "last", options) for name in others])
    named = last.rename_columns([name.removesuffix("_last") for name in last.column_names])
    return named.select(rows.column_names).cast(rows.schema)


@dataclass(frozen=True, slots=True)
class _Fates:
    """What has become of tables that cuts name."""

    pairs: Mapping[str, Pair]
    snapshots: Mapping[str, frozenset[int]]
    """Those that are still there, by uuid."""
    gone: Mapping[str, Sequence[StoredBinding]]
    """The names of tables that were removed with their source, by uuid."""
    dropped: Mapping[str, int]
    """Commit ts of the drop, by uuid."""

    @staticmethod
    def of(reader: Reader, pairs: Sequence[Pair], rows: Iterable[dict[str, Any]]) -> _Fates:
        """The fates of these pairs, and of the tables in these rows of `cuts` that no longer exist."""
        by_uuid = {str(pair.changes.table_uuid): pair for pair in pairs}
        dropped_pairs = {uuid: pair for uuid, pair in by_uuid.items() if pair.state is State.DROPPED}
        dropped = {uuid: DROPPED.required(pair.changes.properties) for uuid, pair in dropped_pairs.items()}
        lost = {row["table_uuid"]: row for row in rows if row["table_uuid"] not in by_uuid}
        gone = _gone(reader) if lost else {}
        dropped |= {uuid: end for uuid in lost.keys() & gone if (end := max(s.until for s in gone[uuid])) != EVER}
        unsaid = [row for uuid, row in lost.items() if uuid not in dropped]
        dropped |= _removed(reader, unsaid) if unsaid else {}
        return _Fates(by_uuid, {uuid: _snapshots(pair) for uuid, pair in by_uuid.items()}, gone, dropped)

    def cut(self, row: dict[str, Any], ts: int) -> TablePoint:
        pair = self.pairs.get(row["table_uuid"])
        name = name_at(self.gone.get(row["table_uuid"], ()) if pair is None else pair.bindings, ts)
        return TablePoint(
            row["table_uuid"],
            str(name or TableName(row["schema_name"], row["table_name"])),
            pair,
            row["snapshot_id"],
            row["level"],
            CommitTs(row["cut_ts"]),
            row["cut_time"],
            row["reason"] or "",
        )

    def is_usable(self, uuid: str, snapshot: int) -> bool:
        """Whether a cut with this snapshot can be offered. A table that went at an unknown time stops none."""
        return snapshot in self.snapshots[uuid] if uuid in self.snapshots else uuid not in self.dropped


def _oldest(reader: Reader, pairs: Sequence[Pair]) -> int | None:
    """The oldest cut that can be read whole."""
    uuids = ", ".join(f"'{pair.changes.table_uuid}'" for pair in pairs)
    fates = _Fates.of(reader, pairs, newest(reader, f"table_uuid not in ({uuids})" if uuids else ""))
    lost: set[str] = set()
    for ts, steps in groupby(_steps(reader), key=lambda step: step[0]):
        for _, uuid, snapshot in steps:
            (lost.discard if fates.is_usable(uuid, snapshot) else lost.add)(uuid)
        if all(fates.dropped.get(missing, EVER) <= ts for missing in lost):
            return int(ts)
    return None


def _steps(reader: Reader) -> Iterator[tuple[int, str, int]]:
    """All cuts there have been, oldest first: ts, table and snapshot."""
    columns = ("cut_ts", "table_uuid", "snapshot_id")
    rows = records(reader, "cuts", (*columns, *_ORDER[1:])).sort_by([(name, "ascending") for name in _ORDER])
    for batch in rows.select(columns).to_batches(max_chunksize=_AT_ONCE):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _expired(ts: int, lost: Sequence[str], oldest: int | None) -> Refused:
    names = ", ".join(lost[:_LISTED]) + (f" and {len(lost) - _LISTED} more" if len(lost) > _LISTED else "")
    hint = "no cut can be read as a whole any more; the next change of each of these tables makes a new one"
    if oldest is not None:
        hint = f"the oldest usable cut is {spoken(oldest)}: ticdc-warehouse tables as-of {oldest}"
    return Refused(CUT_EXPIRED, f"cut {spoken(ts)} needs snapshots of {names} that are gone", hint)


def _gone(reader: Reader) -> dict[str, list[StoredBinding]]:
    """The names of tables that were removed by commit ts."""
    history = reader.metadata(WarehouseName(PIPELINE_NAMESPACE, "ddl_history"))
    by_pair: dict[str, list[StoredBinding]] = {}
    for binding in REMOVED_PAIRS.read(history.properties) or ():
        by_pair.setdefault(binding.pair, []).append(binding)
    return by_pair


def _removed(reader: Reader, newest: Iterable[dict[str, Any]]) -> dict[str, int]:
    """When the source dropped tables that no longer exist, by their newest cuts and the statements after them."""
    fields = ("commit_ts", "schema_name", "table_name", "ddl_type")
    drops = records(reader, "ddl_history", fields, "ddl_type in ('DropTable', 'DropDatabase')").to_pylist()
    dropped = {}
    for row in newest:
        times = [drop["commit_ts"] for drop in drops if drop["commit_ts"] >= row["cut_ts"] and _is_of(drop, row)]
        if times:
            dropped[row["table_uuid"]] = min(times)
    return dropped


def _is_of(drop: dict[str, Any], row: dict[str, Any]) -> bool:
    names = ("schema_name",) if drop["ddl_type"] == "DropDatabase" else ("schema_name", "table_name")
    return all(folded(drop[name] or "") == folded(row[name]) for name in names)


def _snapshots(pair: Pair) -> frozenset[int]:
    return frozenset() if pair.current is None else frozenset(s.snapshot_id for s in pair.current.snapshots)


def spoken(ts: int) -> str:
    """Write a commit ts for people."""
    return f"{ts} ({time_of(ts):%Y-%m-%d %H:%M:%S.%f} UTC)"
