"""How a fetch shows itself: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rich.console import Console

_EVERY = 10


@contextmanager
def fetching(console: Console, total: int, home: Path) -> Iterator[Callable[[str], None]]:
    """Yield what to call with the name of each artefact as it arrives; at a good end say how long it took."""
    started = time.monotonic()
    show = _bar if console.is_terminal else _lines
    with show(console, total, home) as arrived:
        yield arrived
    took = time.monotonic() - started
    console.print(f"{total} artefacts verified in {home}, {took:.0f} s", highlight=False, soft_wrap=True)


@contextmanager
def _bar(console: Console, total: int, _home: Path) -> Iterator[Callable[[str], None]]:
    columns = (
        TextColumn("fetching jars"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda name: progress.update(task, advance=1, description=name)


@contextmanager
def _lines(console: Console, total: int, home: Path) -> Iterator[Callable[[str], None]]:
    console.print(f"fetching {total} artefacts (250 MB) into {home}", highlight=False, soft_wrap=True)
    done = 0

    def arrived(_name: str) -> None:
        nonlocal done
        done += 1
        if done % _EVERY == 0:
            console.print(f"  {done} of {total}", highlight=False)

    yield arrived
