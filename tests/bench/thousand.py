"""A thousand small tables: one batch into all of them, and the commands of somebody who has so many."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import feed
import many
import sums
import workload
from figures import Measured, differences
from machine import watched
from progress import say
from remote import environment

if TYPE_CHECKING:
    from ground import Ground, Sizes

PREFIX = "thousand"
ROWS = 10
COMMANDS = {"nothing_new": ("run", "--available-now"), "list": ("tables", "list")}
RUNS = 3


def run(ground: Ground, sizes: Sizes) -> Measured:
    """One batch that makes the tables, one into all of them, which is judged; then commands, each a process."""
    stack, tables = ground.stack, feed.names(sizes.thousand)
    truths = workload.many_tables(stack.bootstrap_servers, stack.registry_url, sizes.thousand, ROWS, prefix=PREFIX)
    sent = dict(zip(tables, truths.values(), strict=True))
    config = ground.config(PREFIX, {"topic_pattern": f"{PREFIX}_.*"}, batch=500_000)
    with ground.worker("ours", PREFIX) as worker:
        worker.ask("open", config=config)
        new = many.batch(worker, sizes.thousand)
        for table, truth in zip(tables, feed.more(stack, PREFIX, tables, ROWS, many.KEY_RANGE, 1000), strict=True):
            sent[table] += truth
        known = many.batch(worker, sizes.thousand)
        worker.ask("close")
    mistakes = []
    for table in tables[:: max(1, len(tables) // 20)]:
        events = sums.of_events(sums.scanned(ground.warehouse(PREFIX), f"bench.{table}__changes", sums.EVENTS))
        mistakes += differences(f"{table}__changes", sums.expected_events(sent[table]), events)
    commands = {name: _commands(config, name, *words) for name, words in COMMANDS.items()}
    figures = {"thousand.seconds": known["seconds"]}
    figures |= {f"thousand.{name}": min(runs) for name, runs in commands.items()}
    details: dict[str, Any] = {"tables": sizes.thousand, "new": new, "known": known, "commands": commands}
    return Measured(figures, details, mistakes, sizes.reduced("thousand"))


def _commands(config: str, name: str, *words: str) -> list[float]:
    """What the command takes by the clock, several times."""
    seconds = []
    for _ in range(RUNS):
        begin = time.monotonic()
        with watched():
            command = [sys.executable, "-m", "pipeline", *words, "--config", config]
            subprocess.run(command, check=True, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds.append(round(time.monotonic() - begin, 2))
        say(f"thousand: {name}: {seconds[-1]} s")
    return seconds
