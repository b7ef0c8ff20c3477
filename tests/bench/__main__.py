"""Measure, against the peers on the same data; what each case does and why it is fair: docs/contributing/benchmarks.md.

    .venv/bin/python tests/bench [case …] [--full | --quick] [--rows N] [--runs N] [--folder DIR] [--keep]

Progress goes to stderr, one JSON document to stdout. Exit code 1: a result was wrong or a case failed. A missed
target does not change the exit code: how fast a machine is, is no defect.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
import traceback
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(1, str(ROOT))  # the checkout, installed or not

import backlog  # noqa: E402
import evolution  # noqa: E402
import facts  # noqa: E402
import growth  # noqa: E402
import huge  # noqa: E402
import large  # noqa: E402
import many  # noqa: E402
import protocols  # noqa: E402
import quality  # noqa: E402
import small  # noqa: E402
import steady  # noqa: E402
import storage  # noqa: E402
import targets  # noqa: E402
import thousand  # noqa: E402
import throughput  # noqa: E402
from figures import Measured  # noqa: E402
from ground import QUICK, SHORT, Ground, Sizes  # noqa: E402
from progress import say  # noqa: E402

from pipeline.devstack import Devstack  # noqa: E402

CASES = {
    "throughput": throughput.run,
    "small": small.run,
    "huge": huge.run,
    "many": many.run,
    "thousand": thousand.run,
    "steady": steady.run,
    "growth": growth.run,
    "day": growth.day,
    "evolution": evolution.run,
    "quality": quality.run,
    "protocols": protocols.run,
    "storage": storage.run,
    "large": large.run,
    "backlog": backlog.run,
}
LONG = frozenset({"backlog", "day", "huge", "large", "storage", "thousand"})


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        prog="tests/bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="case", help=f"{', '.join(CASES)}; without any: all but the long")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="1,000 small batches, 10 times the rows, the backlog")
    size.add_argument("--quick", action="store_true", help="small and once: whether the bench itself works")
    parser.add_argument("--rows", type=int, help="records of the topic and rows of each large table")
    parser.add_argument("--huge", type=int, help="rows of the table of huge")
    parser.add_argument("--runs", type=int, help="timed runs of each side")
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench", help="removed first and, without --keep, last")
    parser.add_argument("--keep", action="store_true", help="leave the folder, with logs and tables")
    given = parser.parse_args()
    unknown = [case for case in given.cases if case not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    given.cases = given.cases or [case for case in CASES if given.full or case not in LONG]
    return given


def sizes_of(given: argparse.Namespace) -> Sizes:
    """Full, short or quick, with what was given by hand."""
    sizes = Sizes() if given.full else QUICK if given.quick else SHORT
    by_hand = {name: value for name in ("rows", "runs", "huge") if (value := getattr(given, name)) is not None}
    return replace(sizes, **by_hand)


def measure(name: str, ground: Ground, sizes: Sizes) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """One case: its details, its judged targets, what is wrong. A case that fails does not end the others."""
    started = time.monotonic()
    try:
        measured = CASES[name](ground, sizes)
    except Exception as error:  # noqa: BLE001 - at the top, once
        say(f"{name}: FAILED\n{traceback.format_exc()}")
        measured = Measured({}, {}, [f"the case failed: {type(error).__name__}: {error}"])
    judged = targets.judged(measured.figures, measured.reduced)
    details = {
        **measured.details,
        "reduced": measured.reduced,
        "wrong": list(measured.mistakes),
        "took_seconds": round(time.monotonic() - started, 1),
    }
    return details, judged, [f"{name}: {mistake}" for mistake in measured.mistakes]


def bench(given: argparse.Namespace) -> dict[str, Any]:
    """Everything that was asked for, as one document."""
    sizes = sizes_of(given)
    document: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", *sys.argv]),
        "commit": facts.commit(ROOT),
        "machine": facts.machine(),
        "sizes": asdict(sizes),
        "cases": {},
    }
    judged, mistakes = [], []
    shutil.rmtree(given.folder, ignore_errors=True)
    with Devstack.start(given.folder / "stack") as stack:
        for name in given.cases:
            ground = Ground(stack, given.folder / name)
            document["cases"][name], of_case, wrong = measure(name, ground, sizes)
            judged += of_case
            mistakes += wrong
            if not given.keep:
                shutil.rmtree(ground.folder, ignore_errors=True)
    return {**document, "targets": judged, "wrong": mistakes, "verdict": targets.verdict(judged, mistakes)}


def main() -> int:
    """Run, report, and say by the exit code whether the results are right."""
    given = arguments()
    document = bench(given)
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")
    for target in document["targets"]:
        say(targets.line(target))
    for mistake in document["wrong"]:
        say(f"WRONG  {mistake}")
    say(f"verdict: {document['verdict']}")
    if not (given.keep or document["wrong"]):
        shutil.rmtree(given.folder, ignore_errors=True)
    return 1 if document["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
