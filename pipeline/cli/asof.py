"""All tables as of one moment of the source: which snapshots those are, and how to read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from pipeline.cli.reading import records
from pipeline.errors import Refused
from pipeline.model.columns import LOGICAL_BITS, CommitTs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.cli.reading import Reader
    from pipeline.cli.shelf import Pair
    from pipeline.model.names import WarehouseName

NO_CUT = "NO_CUT"
COLUMNS = ("source", "table", "snapshot", "level", "cut ts", "cut time", "note")
GONE, EXPIRED = "the table is gone", "the snapshot is expired"
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
_SMALLEST_TSO = 10**15
_HINT = (
    "cuts come from TiCDC's watermarks: with protocol=avro the sink URI needs "
    "enable-tidb-extension=true&avro-enable-watermark=true; "
    "`tables history NAME` lists snapshots by their own time"
)


@dataclass(frozen=True, slots=True)
class Cut:
    """One table's newest cut up to the moment; `table` is where it lies today, None if it is gone."""

    source: str
    table: WarehouseName | None
    snapshot: int
    level: str
    ts: CommitTs
    time: datetime
    reason: str
    readable: bool

    @property
    def note(self) -> str:
        """Say why it cannot be read, or why its level is what it is."""
        if self.table is None:
            return GONE
        return self.reason if self.readable else EXPIRED

    @property
    def row(self) -> tuple[Any, ...]:
        """Give it as a row under `COLUMNS`."""
        table = "" if self.table is None else str(self.table)
        return (self.source, table, self.snapshot, self.level, self.ts, self.time, self.note)


def timestamp(text: str) -> CommitTs:
    """Read a TSO, or an ISO 8601 time (UTC unless it says otherwise) as the last TSO of its millisecond."""
    if text.isdecimal():
        if int(text) < _SMALLEST_TSO:
            raise typer.BadParameter(f"{text} is no TSO (18 digits); a time is written 2026-11-21T11:48:07Z")
        return CommitTs(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"expected a TSO or a time such as 2026-11-21T11:48:07Z ({error})") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    milliseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000
    return CommitTs(((int(milliseconds) + 1) << LOGICAL_BITS) - 1)


def cuts(reader: Reader, pairs: Iterable[Pair], at: CommitTs | None) -> list[Cut]:
    """Find each table's newest cut up to `at` (None: of all), by source name; raises `Refused` (`NO_CUT`)."""
    found = records(reader, "cuts", _FIELDS, "" if at is None else f"cut_ts <= {at}")
    found = found.sort_by([("cut_ts", "ascending"), ("batch_id", "ascending")])
    newest = {uuid: place for place, uuid in enumerate(found["table_uuid"].to_pylist())}
    if not newest:
        raise Refused(NO_CUT, "there is no cut" + (f" up to {_moment(at)}" if at else ""), _HINT)
    known = {str(pair.changes.table_uuid): pair for pair in pairs}
    rows = found.take(list(newest.values())).to_pylist()
    made = (_cut(row, known.get(row["table_uuid"])) for row in rows)
    return sorted(made, key=lambda cut: cut.source)


def _cut(row: dict[str, Any], pair: Pair | None) -> Cut:
    table = None if pair is None or pair.current is None else pair.current
    return Cut(
        f"{row['schema_name']}.{row['table_name']}",
        None if pair is None else pair.name,
        row["snapshot_id"],
        row["level"],
        CommitTs(row["cut_ts"]),
        row["cut_time"],
        row["reason"] or "",
        table is not None and table.snapshot_by_id(row["snapshot_id"]) is not None,
    )


def facts(found: Sequence[Cut]) -> dict[str, Any]:
    """Give the cut as a whole, for programs: its ts, and how each table is read."""
    newest = max(found, key=lambda cut: cut.ts)
    readable = [cut for cut in found if cut.readable and cut.table]
    return {
        "cut_ts": newest.ts,
        "cut_time": newest.time,
        "levels": sorted({cut.level for cut in found}),
        "spark_sql": {cut.source: spark_sql(cut) for cut in readable},
        "pyiceberg": {cut.source: pyiceberg(cut) for cut in readable},
    }


def sentence(found: Sequence[Cut]) -> str:
    """Say which cut was found."""
    newest = max(found, key=lambda cut: cut.ts)
    return f"cut {newest.ts} ({newest.time:%Y-%m-%d %H:%M:%S.%f} UTC), {len(found)} tables"


def reading(found: Sequence[Cut]) -> str:
    """Show how to read such a snapshot, with the first table that can be read."""
    example = next((cut for cut in found if cut.readable and cut.table), None)
    if example is None:
        return "no snapshot of this cut can be read any more"
    return f"\nSpark SQL  {spark_sql(example)}\nPyIceberg  {pyiceberg(example)}"


def spark_sql(cut: Cut) -> str:
    """Give the query that reads the snapshot in Spark SQL."""
    table = cut.table.sql if cut.table else ""
    return f"SELECT * FROM {table} VERSION AS OF {cut.snapshot}"  # noqa: S608 - for people to run


def pyiceberg(cut: Cut) -> str:
    """Give the expression that reads the snapshot with PyIceberg."""
    name = (cut.table.namespace, cut.table.name) if cut.table else ()
    return f"catalog.load_table({name!r}).scan(snapshot_id={cut.snapshot}).to_arrow()"


def _moment(at: CommitTs) -> str:
    time = datetime.fromtimestamp((at >> LOGICAL_BITS) / 1000, UTC)
    return f"{at} ({time:%Y-%m-%d %H:%M:%S} UTC)"
