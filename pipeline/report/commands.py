"""The commands that a report names. Names are hostile: quoted, so that a copied line does nothing else."""

from __future__ import annotations

import shlex

_PROGRAM = "ticdc-warehouse"


def run() -> str:
    """Take what is there."""
    return f"{_PROGRAM} run --available-now"


def show(table: str, rule: str = "") -> str:
    """Look at quarantined changes."""
    return _line("quarantine", "show", table=table, rule=rule)


def redrive(table: str, rule: str = "") -> str:
    """Send quarantined changes on their way again."""
    return _line("quarantine", "redrive", table=table, rule=rule)


def redrive_dead_letters(table: str) -> str:
    """Send dead letters on their way again."""
    return _line("quarantine", "redrive", "--dead-letters", table=table)


def release(table: str) -> str:
    """Let a held table go on."""
    return _line("tables", "release", table)


def history(table: str) -> str:
    """Show what happened to a table."""
    return _line("tables", "history", table)


def as_of(ts: int) -> str:
    """Show how to read all tables as of a cut."""
    return _line("tables", "as-of", str(ts))


def _line(*words: str, table: str = "", rule: str = "") -> str:
    options = [part for name, value in (("--table", table), ("--rule", rule)) if value for part in (name, value)]
    return shlex.join([_PROGRAM, *words, *options])
