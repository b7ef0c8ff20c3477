"""Small matters of wording that several commands share."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LISTED = 5


def counted(count: int, noun: str, plural: str = "s") -> str:
    """`1 batch`, `2,000 batches`; `plural` is what many have at their end."""
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def some(names: Iterable[str], between: str = ", ") -> str:
    """The first few of them, and how many more there are."""
    listed = list(names)
    return between.join(listed[:_LISTED]) + (f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else "")


def version() -> str:
    """This package's version, or a remark where it is not installed."""
    try:
        return metadata.version("ticdc-warehouse")
    except metadata.PackageNotFoundError:
        return "(not installed: run from a checkout)"
