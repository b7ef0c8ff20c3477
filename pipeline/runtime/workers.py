"""Work on several tables at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(work: Callable[[T], R], items: Sequence[T], threads: int, size: Callable[[T], int]) -> list[R]:
    """Do the work for every item, several at once, the largest first. The first error is raised when all have ended."""
    if len(items) <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), threads), thread_name_prefix="table") as pool:
        futures = [pool.submit(work, item) for item in sorted(items, key=lambda item: -size(item))]
    return [future.result() for future in futures]
