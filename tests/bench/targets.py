"""What the figures must reach, and whether they do. Pure: tests/unit/test_bench_figures.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and its limit; `least` says whether the figure must reach the limit or stay within it."""

    figure: str
    what: str
    limit: float
    aim: float
    least: bool

    def met(self, value: float, limit: float) -> bool:
        """Whether a value is on the right side of a limit; the limit itself is."""
        return value >= limit if self.least else value <= limit

    def judge(self, value: float, reduced: str = "") -> dict[str, Any]:
        """The target, the figure and the verdict, as they stand in the JSON.

        `reduced` says in which way the case was smaller than the target means it.
        """
        sign = ">=" if self.least else "<="
        return {
            "figure": self.figure,
            "what": self.what,
            "value": value,
            "target": f"{sign} {self.limit:g}",
            "aim": f"{sign} {self.aim:g}",
            "met": self.met(value, self.limit),
            "aim_met": self.met(value, self.aim),
            "reduced": reduced,
        }


def _at_least(figure: str, what: str, limit: float, aim: float | None = None) -> Target:
    return Target(figure, what, limit, limit if aim is None else aim, least=True)


def _at_most(figure: str, what: str, limit: float, aim: float | None = None) -> Target:
    return Target(figure, what, limit, limit if aim is None else aim, least=False)


TARGETS = (
    _at_least("throughput.c/a", "changes only, against plain Spark to Parquet", 0.7),
    _at_least("throughput.c/b", "changes only, against fastavro + pyarrow", 1, 1.2),
    _at_least("throughput.d/a", "changes and current, against plain Spark to Parquet", 0.72, 0.8),
    _at_least("throughput.d/b2", "changes and current, against fastavro + deltalake merges", 1, 1.2),
    _at_most("small.one_seconds", "10 rows in one table of 1,000,000 rows", 1),
    _at_most("small.all_seconds", "10 rows in each of 100 tables of 1,000,000 rows", 12, 8),
    _at_most("huge.few_seconds", "10 rows into a table of 100,000,000 rows", 1.5, 1),
    _at_most("huge.many_seconds", "10,000 random keys of a table of 100,000,000 rows", 10, 5),
    _at_most("many.seconds_per_table", "200 small tables in one batch, seconds per table", 0.08, 0.05),
    _at_most("many.far_seconds", "the same where each commit takes 200 ms, two a table, in seconds", 10),
    _at_most("thousand.seconds", "1,000 small tables in one batch, in seconds", 80, 50),
    _at_most("thousand.nothing_new", "`run --available-now` that finds nothing new, with 1,000 pairs, in seconds", 8),
    _at_most("thousand.list", "`tables list` of 1,000 pairs, in seconds", 4),
    _at_most("steady.late/early", "a batch of 10 rows after 1,000 batches, against batch 10", 1.5),
    _at_most("steady.files", "files at once in the last third of 1,000 batches, against the second third", 1.2),
    _at_most("steady.metadata", "bytes of metadata at once, likewise", 1.2),
    _at_least("quality.judged/plain", "built-in rules and 20 checks, against none: changes and current", 0.85),
    _at_most("quality.small", "the same for a batch of 10 rows in each of 100 tables, in time", 1.5),
    _at_least("protocols.simple/avro", "Simple in JSON, changes and current, against Avro", 0.5),
    _at_least("protocols.open/avro", "Open in records of 16 rows, changes and current, against Avro", 0.35),
    _at_least("protocols.canal-changes/avro-changes", "Canal-JSON, changes only, against Avro", 0.4, 0.5),
    _at_least("protocols.canal/avro", "Canal-JSON from Kafka, changes and current, against Avro", 0.4, 0.5),
    _at_least("large.lz4", "Canal-JSON compressed inside by LZ4, against the same that is not", 0.9),
    _at_least("large.snappy", "the same by Snappy", 0.9),
    _at_most("large.claimed", "one row in 100 of 1 MiB by claim-check, against inside its message, in time", 1.2),
    _at_least("storage.csv/avro", "CSV from files, changes and current, against Avro from Kafka", 0.8),
    _at_least("storage.csv-changes/avro-changes", "CSV from files, changes only, against Avro from Kafka", 0.8),
    _at_least("storage.canal/avro", "Canal-JSON from files, changes and current, against Avro from Kafka", 0.4),
    _at_least("storage.canal-changes/avro-changes", "Canal-JSON from files, changes only, against Avro", 0.4),
    _at_most("storage.ten_rows", "10 rows in one new file into 1,000,000 rows, against Kafka", 1.1),
    _at_most("storage.many_files", "5,000 small files over 200 tables, against Kafka", 2),
    _at_most("storage.nothing_new", "a run that finds nothing new, against Kafka", 0.5),
    _at_most("storage.late/early", "the last batches of 1,000 against the first ones, a file of ten rows each", 1.1),
    _at_most("storage.kept_planning", "planning 10 new files with 1,000,000 kept ones, against 1,000", 2),
    _at_most("storage.kept_requests", "requests for that, of 10 tables", 50),
    _at_most("storage.kept_mib", "memory of the driver for that", 200),
    _at_most("storage.peak_mib", "memory of a task for a file of 512 MiB, beyond that for a small one", 256),
    _at_most("backlog.peak_gib", "10,000,000 records, 500,000 a batch: peak memory of driver and workers", 4),
)


def judged(figures: Mapping[str, float], reduced: str = "") -> list[dict[str, Any]]:
    """Every target whose figure is among those of a case."""
    return [target.judge(figures[target.figure], reduced) for target in TARGETS if target.figure in figures]


def verdict(judged_targets: Sequence[Mapping[str, Any]], mistakes: Sequence[str]) -> str:
    """`wrong` (results differ), `met` or `missed` (targets at full size), `indicative` (there are none)."""
    if mistakes:
        return "wrong"
    full = [target for target in judged_targets if not target["reduced"]]
    if not full:
        return "indicative"
    return "met" if all(target["met"] for target in full) else "missed"


def line(target: Mapping[str, Any]) -> str:
    """One judged target for people."""
    mark = "met   " if target["met"] else "MISSED"
    text = f"{mark} {target['what']}: {target['value']:g} (target {target['target']}, aim {target['aim']})"
    return f"{text}; reduced: {target['reduced']}" if target["reduced"] else text
