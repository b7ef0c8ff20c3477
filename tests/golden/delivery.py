"""Ways in which the same records can reach a reader: other partitions, other boundaries, from another start."""

from __future__ import annotations

import random
import zlib
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from golden import decode_simple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from golden.corpus import GoldenCase, Record


def dice_of(*what: object) -> random.Random:
    """Random choices that are the same in every run, and others for other words."""
    return random.Random(" ".join(map(str, what)))  # noqa: S311 - no secret


def _by_table(record: Record) -> int:
    return zlib.crc32(record.table.encode())


def spread(
    records: Sequence[Record],
    partitions: int,
    by: Callable[[Record], int] = _by_table,
    *,
    first_only: Sequence[str] = (),
) -> list[Record]:
    """The records of one partition over several, as TiCDC does: rows by their table, everything else to each.

    Kinds that are `first_only` go to partition 0 alone, as the DDL of Canal-JSON does.
    """

    def partitions_of(record: Record) -> Sequence[int]:
        if record.kind == "row":
            return [by(record) % partitions]
        return [0] if record.kind in first_only else range(partitions)

    return [replace(record, partition=partition) for record in records for partition in partitions_of(record)]


def in_partitions(case: GoldenCase, count: int) -> list[Record]:
    """The records of a case in so many partitions; the DDL of Canal-JSON goes to the first one alone."""
    first_only = ["ddl"] if case.protocol == "canal-json" else []
    return list(case.records) if case.partitions > 1 else spread(case.records, count, first_only=first_only)


def boundaries(records: Sequence[Record], count: int, dice: random.Random) -> list[int]:
    """Positions among the records, none between the copies of a message for several partitions."""
    allowed = [at for at in range(1, len(records)) if not _copies(records[at - 1], records[at])]
    return sorted(dice.sample(allowed, count))


def _copies(one: Record, other: Record) -> bool:
    return one.partition != other.partition and one.kind == other.kind != "row" and one.value == other.value


def uneven(records: Sequence[Record], cuts: Sequence[int], dice: random.Random) -> Iterator[list[Record]]:
    """The records in pieces in which partitions run ahead of each other, as far as TiCDC lets them.

    Ahead: rows up to the next DDL, of any partition, or watermark. Behind: watermarks and BOOTSTRAP that another
    partition has already.
    """
    waiting: dict[int, list[int]] = {}
    for number, record in enumerate(records):
        waiting.setdefault(record.partition, []).append(number)
    for cut in (*cuts, len(records)):
        piece = []
        for mine in waiting.values():
            end = len(mine) if cut == len(records) else _end(records, mine, cut, dice)
            piece += mine[:end]
            del mine[:end]
        if piece:
            yield [records[number] for number in sorted(piece)]


def _end(records: Sequence[Record], mine: list[int], cut: int, dice: random.Random) -> int:
    end = sum(number < cut for number in mine)
    if dice.random() < 0.5:  # behind
        while end and records[mine[end - 1]].kind in ("resolved", "bootstrap"):
            end -= 1
        return end
    furthest = end
    ddl = next((number for number in range(cut, len(records)) if records[number].kind == "ddl"), len(records))
    while furthest < len(mine) and mine[furthest] < ddl and records[mine[furthest]].kind in ("row", "bootstrap"):
        furthest += 1
    return dice.randint(end, furthest)


def around_repetition(case: GoldenCase, rows: int) -> tuple[list[Record], list[Record], list[Record]]:
    """The last so many rows before TiCDC repeats its BOOTSTRAPs (as a start in the middle), these, and the rest."""
    records = list(case.records)
    first, end = next(
        run for run in _bootstraps(records) if len(decode_simple.described(case, records[slice(*run)])) > 1
    )
    start = [at for at in range(first) if records[at].kind == "row"][-rows]
    return records[start:first], records[first:end], records[end:]


def _bootstraps(records: Sequence[Record]) -> Iterator[tuple[int, int]]:
    """Where BOOTSTRAPs stand without another message between them: [from, to)."""
    for bootstrap, run in groupby(range(len(records)), lambda at: records[at].kind == "bootstrap"):
        if bootstrap:
            numbers = list(run)
            yield numbers[0], numbers[-1] + 1


def undescribed(case: GoldenCase, records: Sequence[Record]) -> list[Record]:
    """Rows whose schema none of these records brings."""
    known = decode_simple.described(case, records)
    return [one for one in records if one.kind == "row" and decode_simple.schema_key(case, one) not in known]


def beside_ddl(records: Sequence[Record], side: str) -> list[Record]:
    """The records with a watermark of each DDL's ts `before` it, `behind` it, or (`none`) with no such watermark."""
    stamps = {record.commit_ts for record in records if record.kind == "ddl"}
    kept = [one for one in records if not (one.kind == "resolved" and one.commit_ts in stamps)]
    if side == "none":
        return kept
    marks = {(one.commit_ts, one.partition): one for one in records if one.kind == "resolved"}
    runs = [list(run) for _, run in groupby(kept, lambda one: one.commit_ts if one.kind == "ddl" else None)]
    return [record for run in runs for record in _marked(run, marks, side)]


def _marked(run: list[Record], marks: Mapping[tuple[int, int], Record], side: str) -> list[Record]:
    if run[0].kind != "ddl":
        return run
    mine = [marks[at] for at in dict.fromkeys((one.commit_ts, one.partition) for one in run) if at in marks]
    return [*mine, *run] if side == "before" else [*run, *mine]
