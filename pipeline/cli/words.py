"""Small matters of wording that several commands share."""

from __future__ import annotations

from importlib import metadata


def counted(count: int, noun: str, plural: str = "s") -> str:
    """`1 batch`, `2,000 batches`; `plural` is what many have at their end."""
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def version() -> str:
    """This package's version, or a remark where it is not installed."""
    try:
        return metadata.version("ticdc-warehouse")
    except metadata.PackageNotFoundError:
        return "(not installed: run from a checkout)"
