"""What a command's end says: the document that it printed, or why there is none. Needs nothing, not even Airflow."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

REFUSED = 1
"""Exit code of a quality stop or a refusal: another try would meet the same."""

PASSING = frozenset(
    {
        "ARTEFACTS_UNAVAILABLE",
        "CATALOG_UNREADABLE",
        "CATALOG_BUSY",
        "CATALOG_UNREACHABLE",
        "DISK_FULL",
        "KAFKA_UNREACHABLE",
        "REGISTRY_UNREACHABLE",
        "SPARK_ENDED",
        "STORE_REFUSES",
        "STORE_UNREACHABLE",
        "WAREHOUSE_IN_USE",
    }
)
"""Refusals that may be over by the next try."""

OPS = ("inserts", "updates", "deletes")
_LAST_LINES = 5
_JVM = re.compile(
    r"\s*$|\{\"|WARNING: |\S+ \S+ (WARN|INFO|DEBUG) |Picked up |SLF4J|OpenJDK |Setting default log level|"
    r"Using Spark's default log4j|To adjust logging level"
)
"""Lines that give no reason: what a JVM says at its start, and our own log, which is in the task's already."""


def failure(code: int, errors: Sequence[str], printed: str) -> tuple[str, bool]:
    """Why a command failed, in a sentence, and whether another try would meet the same."""
    report = document("".join(errors)) or document(printed)
    if report is None or "code" not in report:
        return f"{_end(code)}: {_last(errors) or _last(printed.splitlines()) or 'no reason was given'}", code == REFUSED
    sentence = f"{report['code']}: {report['message']}" + (f"\n{report['hint']}" if report.get("hint") else "")
    return sentence, code == REFUSED and report["code"] not in PASSING


def document(text: str) -> dict[str, Any] | None:
    """The last document, an object over several lines, among other lines: spark-submit prints everything on stdout."""
    text = f"\n{text}"
    try:
        parsed, _end = json.JSONDecoder().raw_decode(text, text.rfind("\n{\n") + 1)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def remarks(lines: Iterable[str]) -> Iterator[str]:
    """The lines that belong to no document, each as it comes; those of an object without an end come last."""
    withheld: list[str] = []
    for line in map(str.rstrip, lines):
        if line == "{":
            yield from withheld
            withheld = [line]
        elif withheld:
            withheld.append(line)
            if line == "}":
                withheld.clear()
        elif line != "{}":
            yield line
    yield from withheld


def changed(
    counted: Mapping[str, Mapping[str, int]], now: Mapping[str, int], reported: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """The tables that have changed since they were last reported, each with its numbers by op as far as they are known.

    `counted`: what this run did. `now`: how many changes each table has. `reported`: how many it had when it was last
    reported.
    """
    news = {}
    for table in sorted({*counted, *now}):
        done = {op: number for op, number in counted.get(table, {}).items() if op in OPS and number}
        if done or now.get(table, 0) != reported.get(table, 0):
            news[table] = done
    return news


def newly_held(held: Mapping[str, str | None], reported: Mapping[str, str | None]) -> list[str]:
    """The held tables that were not reported before with the same reason."""
    return [table for table, reason in held.items() if table not in reported or reported[table] != reason]


def _end(code: int) -> str:
    """`exit code 3`, or the signal that ended the process."""
    try:
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"exit code {code}"


def _last(lines: Sequence[str]) -> str:
    """The last few lines that may be a reason."""
    reasons = [line.rstrip() for line in lines if not _JVM.match(line)]
    return "\n".join(reasons[-_LAST_LINES:])
