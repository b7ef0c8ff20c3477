"""How a simulation shows itself: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

_SECONDS = 5.0


@contextmanager
def sending(console: Console, transactions: int | None) -> Iterator[Callable[[int, int], None]]:
    """Yield what to call with the transactions and row events sent so far; None: there is no end."""
    with (_bar if console.is_terminal else _lines)(console, transactions) as show:
        yield show


@contextmanager
def _bar(console: Console, transactions: int | None) -> Iterator[Callable[[int, int], None]]:
    columns = (
        TextColumn("transactions"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=transactions)
        yield lambda done, events: progress.update(task, completed=done, description=f"{events} row events")


@contextmanager
def _lines(console: Console, transactions: int | None) -> Iterator[Callable[[int, int], None]]:
    started = printed = time.monotonic()
    of = "" if transactions is None else f" of {transactions}"

    def show(done: int, events: int) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= _SECONDS:
            printed = now
            pace = events / (now - started)
            line = f"  {done}{of} transactions, {events} row events, {pace:.0f} a second"
            console.print(line, highlight=False)

    yield show
