"""Small matters of wording that several commands share."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "s") -> str:
    """`1 batch`, `2,000 batches`; `plural` is what many have at their end."""
    return f"{count:,} {noun}{'' if count == 1 else plural}"
