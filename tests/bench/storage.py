"""A changefeed's files against the same rows from Kafka: large batches, one small file, many small files, nothing new.

And against themselves: the thousandth batch against the first ones, a million kept files against a thousand.

Files lie in a folder of this machine: what a bucket's answers take is not in these figures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any

import feed
import files
import kept
import steady
import sums
import workload
from figures import Measured, differences, steadiness
from machine import cores
from order_line import order_line
from progress import say
from remote import environment
from small import prepare as prepared_tables
from throughput import Contest, Ours, details_of, ratios_of

from pipeline.simulate.files import CsvCodec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ground import Ground, Sizes

    from pipeline.simulate.tables import SimulatedTable

AVRO, CHANGES = "avro", "-changes"
PROTOCOLS = {"csv": "csv", "canal": "canal-json"}
WHAT = {
    "avro": "Avro from Kafka, changes and current",
    "csv": "CSV from files, changes and current",
    "canal": "Canal-JSON from files, changes and current",
    "avro-changes": "Avro from Kafka, changes only",
    "csv-changes": "CSV from files, changes only",
    "canal-changes": "Canal-JSON from files, changes only",
}
TABLES, FILES, ROWS_A_FILE = 200, 5_000, 20
WARM_UPS, SMALL_RUNS = 4, 5
LARGE_WARM_UPS = 2
"""Java compiles what reads text until the third run of a process."""
LARGE_FILE = 512 << 20


@dataclass(frozen=True)
class FromFiles(Ours):
    """The product, from a folder; `batch` is in bytes, `topic` the folder."""

    def config(self, name: str) -> str:
        return self.ground.storage_config(name, self.protocol, self.topic, most_bytes=self.batch, current=self.current)


def run(ground: Ground, sizes: Sizes) -> Measured:
    """Each comparison in turn, all in one run."""
    figures: dict[str, float] = {}
    details: dict[str, Any] = {"rows": sizes.rows}
    mistakes: list[str] = []
    for part in (_large, _small, _many, _steady, _kept):
        measured = part(ground, sizes)
        figures |= measured.figures
        details |= measured.details
        mistakes += measured.mistakes
    figures["storage.peak_mib"] = details["peak_mib"] = _peak(ground)
    return Measured(figures, details, mistakes, sizes.reduced("rows", "runs"))


# ---- large batches, and nothing new


def _large(ground: Ground, sizes: Sizes) -> Measured:
    """Two batches each, a warehouse of its own for each run; then a run that finds nothing new."""
    say(f"storage: producing {sizes.rows:,} rows for Kafka and as files")
    stack = ground.stack
    topic, truth = workload.produce(
        stack.bootstrap_servers, stack.registry_url, sizes.rows, prefix="storage", processes=cores()
    )
    mistakes: list[str] = []
    with ExitStack() as workers:
        sides: dict[str, Ours] = {}
        for current, suffix in ((True, ""), (False, CHANGES)):
            worker = workers.enter_context(ground.worker("ours", f"storage-avro{suffix}"))
            sides[f"{AVRO}{suffix}"] = Ours(worker, ground, topic, sizes.batch, current=current)
        for name, protocol in PROTOCOLS.items():
            folder = ground.folder / "files" / name
            size, told = files.produce(folder, protocol, sizes.rows)
            mistakes += differences(f"rows of {name}", asdict(truth), asdict(told))
            half = size // 2 + max(file.stat().st_size for file in folder.rglob("CDC*"))  # batches are of whole files
            for current, suffix in ((True, ""), (False, CHANGES)):
                worker = workers.enter_context(ground.worker("ours", f"storage-{name}{suffix}"))
                sides[f"{name}{suffix}"] = FromFiles(
                    worker, ground, str(folder), half, current=current, protocol=protocol
                )
        contest = Contest(dict(sides), ground.folder, truth, sizes.rows, case="storage")
        contest.rounds(sizes.runs, LARGE_WARM_UPS)
        nothing = {name: _nothing_new(sides[name], name) for name in (AVRO, "csv")}
    pairs = [(f"{name}{suffix}", f"{AVRO}{suffix}") for name in PROTOCOLS for suffix in ("", CHANGES)]
    ratios = ratios_of(contest, pairs)
    figures = {f"storage.{pair}": found["ratio"] for pair, found in ratios.items()}
    figures["storage.nothing_new"] = round(nothing["csv"] / nothing[AVRO], 3)
    details = {"sides": details_of(contest, WHAT), "ratios": ratios, "nothing_new_seconds": nothing}
    return Measured(figures, details, [*mistakes, *contest.mistakes])


def _nothing_new(side: Ours, name: str) -> float:
    """The median time of runs that find nothing, each with the warehouse opened anew."""
    config = side.config(f"nothing-{name}")
    seconds = []
    for number in range(4):
        side.worker.ask("open", config=config)
        facts = side.worker.ask("run")
        side.worker.ask("close")
        seconds += [facts["seconds"]] * (number > 0)
    return round(median(seconds), 3)


# ---- ten rows in one new file


def _small(ground: Ground, sizes: Sizes) -> Measured:
    """Ten records into one table of so many rows, from Kafka and from a file."""
    name = "storage_one"
    seconds: dict[str, list[float]] = {AVRO: [], "csv": []}
    folder = ground.folder / "files" / "one"
    place = folder / "bench" / "t000" / str(files.MADE)
    table = order_line("bench", "t000")
    with ground.worker("ours", f"{name}-avro") as kafka, ground.worker("ours", f"{name}-csv") as csv:
        workload.many_tables(
            ground.stack.bootstrap_servers, ground.stack.registry_url, 1, 10, key_range=sizes.rows, prefix=name
        )
        prepared_tables(ground, kafka, name, ["t000"], sizes.rows)
        keys = Random(7)  # noqa: S311 - data, not secrets
        _write(place, table, 1, _keys(keys, sizes), files.MADE + 1)
        files.describe(folder, files.MADE + (20_000 << 18) - 1, "t000")
        config = ground.storage_config(f"{name}-csv", "csv", str(folder))
        csv.ask("open", config=config)
        csv.ask("run")
        csv.ask("grow", tables=["warehouse.bench.t000"], rows=sizes.rows)
        csv.ask("close")
        csv.ask("open", config=config)
        for number in range(WARM_UPS + SMALL_RUNS):
            feed.more(ground.stack, name, ["t000"], 10, sizes.rows, 2000 + number)
            _write(place, table, number + 2, _keys(keys, sizes), files.MADE + ((number + 2) * 10_000 << 18))
            files.describe(folder, files.MADE + ((number + 3) * 10_000 << 18) - 1, "t000")  # more is later
            for side, worker in ((AVRO, kafka), ("csv", csv)):
                facts = worker.ask("run")
                taken = sum(batch["seconds"] for batch in facts["batches"])
                say(f"storage: 10 rows, {side}: the batch {taken:.2f} s, the run {facts['seconds']:.2f} s")
                if number >= WARM_UPS:
                    seconds[side].append(taken)
        for worker in (kafka, csv):
            worker.ask("close")
    figure = round(median(seconds["csv"]) / median(seconds[AVRO]), 3)
    return Measured({"storage.ten_rows": figure}, {"ten_rows_seconds": seconds})


def _keys(dice: Random, sizes: Sizes) -> list[int]:
    return sorted(dice.sample(range(1, sizes.rows), 10))


# ---- many small files


def _many(ground: Ground, sizes: Sizes) -> Measured:
    """`FILES` files of a few KiB over `TABLES` new tables, against the same number of records from Kafka."""
    tables, count = min(TABLES, sizes.many), FILES * min(TABLES, sizes.many) // TABLES
    rows = count * ROWS_A_FILE // tables
    name = "storage_many"
    workload.many_tables(
        ground.stack.bootstrap_servers, ground.stack.registry_url, tables, rows, key_range=10_000, prefix=name
    )
    folder = ground.folder / "files" / "many"
    for number in range(tables):
        table = order_line("bench", f"t{number:03d}")
        place = folder / "bench" / table.name / str(files.MADE)
        for file in range(count // tables):
            keys = range(file * ROWS_A_FILE, (file + 1) * ROWS_A_FILE)
            _write(place, table, file + 1, keys, files.MADE + ((file + 1) * 1_000 << 18))
        files.describe(folder, files.MADE + ((count + 2) * 1_000 << 18), table.name)
    seconds = {}
    configs = {
        AVRO: ground.config(f"{name}-avro", {"topic_pattern": f"{name}_.*"}, batch=10**6),
        "csv": ground.storage_config(f"{name}-csv", "csv", str(folder)),
    }
    mistakes = []
    for side, config in configs.items():
        with ground.worker("ours", f"{name}-{side}") as worker:
            worker.ask("open", config=config)
            facts = worker.ask("run")
            worker.ask("close")
        seconds[side] = round(facts["seconds"], 2)
        taken = sum(batch["rows"] for batch in facts["batches"])
        say(f"storage: {tables} tables, {side}: {taken:,} events in {seconds[side]} s")
        events = sums.of_events(sums.scanned(ground.warehouse(f"{name}-{side}"), "bench.t000__changes", sums.EVENTS))
        if sum(events["events"].values()) != rows:
            mistakes.append(f"{side}: {events['events']} of {rows} rows")
    details = {"many": {"tables": tables, "files": count, "rows": rows * tables, "seconds": seconds}}
    return Measured({"storage.many_files": round(seconds["csv"] / seconds[AVRO], 3)}, details, mistakes)


# ---- one batch after the other, and what is kept


def _steady(ground: Ground, sizes: Sizes) -> Measured:
    """So many batches of ten rows, each in a file of its own, as `steady` does it from Kafka."""
    folder = ground.folder / "files" / "steady"
    table = order_line("bench", "t000")
    for number in range(sizes.steady):
        keys = range(number * 10, number * 10 + 10)
        _write(folder / "bench" / "t000" / str(files.MADE), table, number + 1, keys, files.MADE + (number + 1 << 28))
    files.describe(folder, files.MADE + (sizes.steady + 1 << 28), "t000")
    keep_for = {"keep_for": steady.KEEP_FOR}
    config = ground.storage_config("storage_steady", "csv", str(folder), most_bytes=1, maintenance=keep_for)
    with ground.worker("ours", "storage-steady") as worker:
        worker.ask("open", config=config)
        facts = worker.ask("run")
        worker.ask("close")
    found = steadiness([batch["committed_at"] for batch in facts["batches"]])
    say(f"storage: {found['early_seconds']} s a batch at first, {found['late_seconds']} s at the end")
    taken = len(facts["batches"])
    mistakes = [] if taken == sizes.steady else [f"{taken} batches were run, not {sizes.steady}"]
    return Measured({"storage.late/early": found["late/early"]}, {"steady": found}, mistakes)


def _kept(ground: Ground, sizes: Sizes) -> Measured:
    """What planning ten new files takes where a thousand other files are kept, and where a million are."""
    few, many = (_planned(ground, count) for count in (1_000, sizes.rows))
    say(f"storage: {many['requests']} requests and {many['mib']:.0f} MiB with {sizes.rows:,} files kept")
    figures = {
        "storage.kept_planning": round(many["planning"] / few["planning"], 3),
        "storage.kept_requests": many["requests"],
        "storage.kept_mib": round(many["mib"], 1),
    }
    return Measured(figures, {"kept": {"few": few, "many": many}})


def _planned(ground: Ground, count: int) -> dict[str, float]:
    script = [sys.executable, str(kept.__file__), str(count), str(ground.folder)]
    done = subprocess.run(script, capture_output=True, text=True, env=environment(), check=True)
    facts: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return facts


# ---- memory


def _peak(ground: Ground) -> float:
    """How much memory a task needs for a file of `LARGE_FILE` bytes, beyond what it needs for a small one; MiB."""
    path = ground.folder / "files" / "large.csv"
    line = b'"I","t","s",%d,false,1,"' % files.MADE + b"x" * 200 + b'"\r\n'
    for size, name in ((1 << 20, "warm.csv"), (LARGE_FILE, path.name)):
        with path.with_name(name).open("wb") as out:
            for _ in range(size // (len(line) * 1_000) + 1):
                out.write(line * 1_000)
    peaks = []
    for name in ("warm.csv", path.name):
        script = [sys.executable, str(files.__file__), str(path.with_name(name))]
        done = subprocess.run(script, capture_output=True, text=True, env=environment(), check=True)
        peaks.append(int(done.stdout))
    path.unlink()
    grown = round((peaks[1] - peaks[0]) / 1024, 1)
    say(f"storage: a file of {LARGE_FILE >> 20} MiB takes {grown} MiB more than one of 1 MiB")
    return grown


# ---- files


def _write(place: Path, table: SimulatedTable, file: int, keys: Iterable[int], commit_ts: int) -> None:
    """A file of inserts."""
    codec, sample = CsvCodec(table), files.sample_row()
    rows = ({**sample, "ol_id": key} for key in keys)
    lines = [codec.lines("insert", None, row, commit_ts + number) for number, row in enumerate(rows)]
    place.mkdir(parents=True, exist_ok=True)
    (place / f"CDC{file:020}.csv").write_bytes("".join(lines).encode())
