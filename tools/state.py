"""Writes docs/reference/state.md from `pipeline.warehouse.state`: `python tools/state.py`."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "state.md"

_HEAD = """# What the pipeline keeps in its tables

The pipeline has no store of its own: what it must know after a crash is in the properties and snapshots of its Iceberg
tables. You need this page to read such a property by hand, or to write code that uses one. `tools/state.py` makes it
from `pipeline/warehouse/state.py`. Do not change these properties: a run believes them.

This version writes form {form}. A warehouse with a higher form is refused.
"""

_TABLE = "| key | value | meaning | since form |\n|---|---|---|---|\n"


def page() -> str:
    """The page, as text."""
    sys.path.insert(0, str(ROOT))
    from pipeline.warehouse.state import FORM, KEYS, Where  # noqa: PLC0415 - of this checkout

    parts = [_HEAD.format(form=FORM)]
    order = list(Where)
    for where, keys in groupby(sorted(KEYS, key=lambda key: order.index(key.where)), key=lambda key: key.where):
        parts.append(f"\n## {where[0].upper()}{where[1:]}\n\n{_TABLE}")
        parts += [f"| `{key.name}` | {key.codec.form} | {key.meaning} | {key.form} |\n" for key in keys]
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
