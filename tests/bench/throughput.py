"""The same topic through every side, interleaved: one warm-up round, then a, b, b2, c, d, a, b, b2, c, d …"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import sums
import workload
from figures import Measured, differences, ratio
from machine import cores, watched
from progress import say
from remote import HERE, WorkerFailed, environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ground import Ground, Sizes
    from order_line import Truth
    from remote import Remote

CHANGES, CURRENT = "bench.order_line__changes", "bench.order_line"
RATIOS = (("c", "a"), ("c", "b"), ("d", "a"), ("d", "b2"))
WHAT = {
    "a": "ceiling: plain Spark, Kafka to from_avro to typed Parquet",
    "b": "confluent-kafka + fastavro + pyarrow to Parquet, a process per core",
    "b2": "confluent-kafka + fastavro + deltalake merges, a process per core to decode",
    "c": "ours, changes only",
    "d": "ours, changes and current",
}


@dataclass(frozen=True)
class Ceiling:
    """Side a."""

    worker: Remote
    ground: Ground
    topic: str

    def prepare(self) -> None:
        stack = self.ground.stack
        self.worker.ask("open", bootstrap=stack.bootstrap_servers, registry=stack.registry_url, topic=self.topic)

    def run(self, name: str, truth: Truth) -> dict[str, Any]:
        folder = self.ground.folder / name
        facts = self.worker.ask("run", folder=str(folder))
        found = sums.of_events(sums.parquet(folder, sums.EVENTS))
        return facts | _compared(sums.expected_events(truth), found)


@dataclass(frozen=True)
class Peer:
    """Sides b and b2: a script that prints its facts."""

    script: str
    ground: Ground
    topic: str
    current: bool

    def prepare(self) -> None:
        """Nothing: Python is warm at once."""

    def run(self, name: str, truth: Truth) -> dict[str, Any]:
        stack, folder = self.ground.stack, self.ground.folder / name
        command = [sys.executable, str(HERE / "peers" / self.script), stack.bootstrap_servers, stack.registry_url]
        command += [self.topic, str(folder), "--processes", str(cores())]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
        if done.returncode:
            raise WorkerFailed(f"{self.script}: {done.stderr[-3000:]}")
        facts = json.loads(done.stdout.splitlines()[-1])
        expected = sums.expected_rows(truth) if self.current else sums.expected_events(truth)
        return facts | _compared(expected, facts.pop("checksum"))


@dataclass(frozen=True)
class Ours:
    """Sides c and d: a warehouse of its own for each run."""

    worker: Remote
    ground: Ground
    topic: str
    batch: int
    current: bool
    quality: dict[str, Any] | None = None
    protocol: str = "avro"

    def prepare(self) -> None:
        """Nothing: the warm-up round starts Spark."""

    def config(self, name: str) -> str:
        """Write the configuration of a run."""
        return self.ground.config(
            name,
            {"topics": [self.topic]},
            batch=self.batch,
            current=self.current,
            quality=self.quality,
            protocol=self.protocol,
        )

    def run(self, name: str, truth: Truth) -> dict[str, Any]:
        self.worker.ask("open", config=self.config(name))
        facts = self.worker.ask("run")
        self.worker.ask("close")
        warehouse = self.ground.warehouse(name)
        found = sums.of_events(sums.scanned(warehouse, CHANGES, sums.EVENTS))
        compared = _compared(sums.expected_events(truth), found)
        if self.current:
            rows = sums.of_rows(sums.scanned(warehouse, CURRENT, sums.CURRENT))
            both = {"checksum": {"changes": found, "current": rows}}
            wrong = differences("current", sums.expected_rows(truth), rows)
            compared = both | {"wrong": [*compared["wrong"], *wrong]}
        return facts | compared


def _compared(expected: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    return {"checksum": found, "wrong": differences("result", expected, found)}


@dataclass
class Contest:
    """The sides, and what each run of each has measured."""

    sides: dict[str, Ceiling | Peer | Ours]
    folder: Path
    truth: Truth
    rows: int
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)
    case: str = "throughput"

    def rounds(self, runs: int, warm_ups: int = 1) -> None:
        """Let every side run so often, in turn. Of the warm-ups the results count, and the seconds do not."""
        for number in range(1 - warm_ups, runs + 1):
            self._round(number)

    def _round(self, number: int) -> None:
        for name, side in self.sides.items():
            folder = f"{name}-{number}"
            with watched() as around:
                facts = side.run(folder, self.truth)
            shutil.rmtree(self.folder / folder, ignore_errors=True)
            self.mistakes += [f"{name}, run {number}: {wrong}" for wrong in facts.pop("wrong")]
            rate = round(self.rows / facts["seconds"])
            kind = f"run {number}" if number > 0 else "warm-up"
            say(f"{self.case}: {name:2} {kind}: {facts['seconds']:6.2f} s, {rate:,} records/s{_noise(around)}")
            if number > 0:
                facts = {**facts, "seconds": round(facts["seconds"], 3), "records_per_second": rate, **around}
                self.runs.setdefault(name, []).append(facts)


def _noise(around: dict[str, Any]) -> str:
    return f"   NOISY: others use {around['others_meanwhile']:.0%} of the machine" if around["noisy"] else ""


def run(ground: Ground, sizes: Sizes) -> Measured:
    """All sides on one topic of four partitions."""
    say(f"throughput: producing {sizes.rows:,} records")
    stack = ground.stack
    topic, truth = workload.produce(stack.bootstrap_servers, stack.registry_url, sizes.rows, processes=cores())
    with ExitStack() as workers:
        spark = {
            name: workers.enter_context(ground.worker("ceiling" if name == "a" else "ours", f"throughput-{name}"))
            for name in ("a", "c", "d")
        }
        sides: dict[str, Ceiling | Peer | Ours] = {
            "a": Ceiling(spark["a"], ground, topic),
            "b": Peer("fastavro_parquet.py", ground, topic, current=False),
            "b2": Peer("deltalake_merge.py", ground, topic, current=True),
            "c": Ours(spark["c"], ground, topic, sizes.batch, current=False),
            "d": Ours(spark["d"], ground, topic, sizes.batch, current=True),
        }
        for side in sides.values():
            side.prepare()
        contest = Contest(sides, ground.folder, truth, sizes.rows)
        contest.rounds(sizes.runs)
    return _measured(contest, sizes)


def _measured(contest: Contest, sizes: Sizes) -> Measured:
    ratios = ratios_of(contest, RATIOS)
    figures = {f"throughput.{name}": found["ratio"] for name, found in ratios.items()}
    details = {"records": contest.rows, "batch": sizes.batch, "sides": details_of(contest, WHAT), "ratios": ratios}
    return Measured(figures, details, contest.mistakes, sizes.reduced("rows", "runs"))


def ratios_of(contest: Contest, pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, float]]:
    """How many times as fast the one side is as the other, by `one/other`."""
    seconds = _seconds(contest)
    ratios = {f"{side}/{other}": ratio(seconds, side, other) for side, other in pairs}
    for name, found in ratios.items():
        say(f"{contest.case}: {name} = {found['ratio']} (by rounds {found['least']} to {found['most']})")
    return ratios


def details_of(contest: Contest, what: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What each side is, its median, and its runs."""
    seconds = _seconds(contest)
    return {
        name: {
            "what": what[name],
            "seconds": median(seconds[name]),
            "records_per_second": round(contest.rows / median(seconds[name])),
            "runs": runs,
        }
        for name, runs in contest.runs.items()
    }


def _seconds(contest: Contest) -> dict[str, list[float]]:
    return {name: [facts["seconds"] for facts in runs] for name, runs in contest.runs.items()}
