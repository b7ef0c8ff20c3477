"""What `tables as-of` takes and shows: a moment, a tag's name, and how a cut's tables are read."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from pipeline.lake.consistent_points import spoken
from pipeline.model.columns import LOGICAL_BITS, CommitTs
from pipeline.warehouse.iceberg import MAIN
from pipeline.warehouse.pairs import STAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata

    from pipeline.lake.consistent_points import TablePoint, Whole
    from pipeline.lake.table_metadata import Pair

COLUMNS = ("source", "today", "table", "snapshot", "level", "cut ts", "cut time", "note")
FIELDS = (*COLUMNS, "uuid")
"""What programs get."""
_MEANING = {
    "exact": "each table is as the source had it at that commit ts",
    "bounded": "every change up to it is in the tables, except rows that were set aside; later changes may be in them "
    "too",
    "partial": "changes up to it are missing, see the notes",
}
_SMALLEST_TSO = 10**15
_TAG = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


def timestamp(text: str) -> CommitTs:
    """Read a TSO, or an ISO 8601 time (UTC unless it says otherwise) as the last TSO of its millisecond."""
    if text.isdecimal():
        if int(text) < _SMALLEST_TSO:
            raise typer.BadParameter(f"{text} is not a TSO (18 digits); write a time as 2026-11-21T11:48:07Z")
        return CommitTs(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"expected a TSO or a time such as 2026-11-21T11:48:07Z ({error})") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    milliseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000
    return CommitTs(((int(milliseconds) + 1) << LOGICAL_BITS) - 1)


def tag_name(text: str | None) -> str | None:
    """Take a name for a tag. Spark SQL would read one of digits alone as a snapshot id."""
    if text is None:
        return None
    if not _TAG.fullmatch(text) or text.isdecimal():
        raise typer.BadParameter(
            "a tag consists of letters, digits, _, - and ., at most 100 characters, and not of digits alone"
        )
    if text.casefold() == MAIN or text.casefold().startswith(STAGE):
        raise typer.BadParameter(f"{MAIN} and {STAGE}… are names of the pipeline's own branches; choose another name")
    return text


def facts(point: Whole, tag: str | None, until: datetime | None) -> dict[str, Any]:
    """Give the cut as a whole, for programs: its ts, level and tag, and how each table is read, by its uuid."""
    there = [cut for cut in point.cuts if cut.pair]
    return {
        "cut_ts": point.ts,
        "cut_time": point.time,
        "level": point.level,
        "levels": sorted({cut.level for cut in point.cuts}),
        "tag": tag,
        "kept_until": until,
        "spark_sql": {cut.uuid: spark_sql(cut, tag) for cut in there},
        "pyiceberg": {cut.uuid: pyiceberg(cut) for cut in there},
    }


def sentence(point: Whole) -> str:
    """Say which cut was found, and what its level means."""
    count = "1 table" if len(point.cuts) == 1 else f"{len(point.cuts)} tables"
    return f"cut {spoken(point.ts)}, {count}, {point.level}: {_MEANING[point.level]}"


def reading(point: Whole, tag: str | None, until: datetime | None) -> Iterator[str]:
    """Name the tag, and show how each table is read, with its uuid."""
    if tag:
        yield f"\ntag {tag} is on each table" + (f", kept until {until:%Y-%m-%d %H:%M} UTC" if until else "")
    there = [cut for cut in point.cuts if cut.pair]
    if there:
        yield "\nSpark SQL"
        yield from (f"  {spark_sql(cut, tag)}  -- {cut.uuid}" for cut in there)
        yield "PyIceberg"
        yield from (f"  {pyiceberg(cut)}  # {cut.uuid}" for cut in there)


def kept(tag: str, pairs: Iterable[Pair]) -> datetime | None:
    """Until when an expiry leaves this tag on every table that has it; None: for ever."""
    return min((end for pair in pairs if pair.current and (end := _end(pair.current, tag))), default=None)


def _end(table: TableMetadata, tag: str) -> datetime | None:
    ref = table.refs.get(tag)
    snapshot = None if ref is None else table.snapshot_by_id(ref.snapshot_id)
    if ref is None or snapshot is None or ref.max_ref_age_ms is None:
        return None
    return datetime.fromtimestamp((snapshot.timestamp_ms + ref.max_ref_age_ms) / 1000, UTC)


def spark_sql(cut: TablePoint, tag: str | None) -> str:
    """Give the query that reads the snapshot in Spark SQL."""
    table = cut.table.sql if cut.table else ""
    version = cut.snapshot if tag is None else f"'{tag}'"
    return f"SELECT * FROM {table} VERSION AS OF {version}"  # noqa: S608 - for people to run


def pyiceberg(cut: TablePoint) -> str:
    """Give the expression that reads the snapshot with PyIceberg."""
    name = (cut.table.namespace, cut.table.name) if cut.table else ()
    return f"catalog.load_table({name!r}).scan(snapshot_id={cut.snapshot}).to_arrow()"
