"""The columns of a row event: their types by MySQL's codes and flags.

Source: TiCDC Open Protocol, "Column type codes", "Column flags". Members, precision and defaults are not told.

TiCDC looks flags up by column id. Where its table is older than the column, as in a partition of which it has not yet
taken in the ALTER, it finds none and sends 0. That is what a NOT NULL text has too, so that 0 alone says nothing: what
the type code leaves open, bytes or text, signed or not, is then what the DDL has said.
"""

from __future__ import annotations

import json

from pipeline.model import tidb_types
from pipeline.protocols.layouts.columns import RowLayout, SentColumn, bits_of

_BINARY, _NULLABLE, UNSIGNED = 1, 64, 128
_FLAGS = {row: UNSIGNED for row in tidb_types.TYPES.values() if row.unsigned} | {tidb_types.BLOB: _BINARY}
"""What tells a type from another one of the same code: UNSIGNED, and bytes from text."""

BASE64 = (249, 252)
"""First and last type of those that are sent in base64."""


def read_layout(text: str) -> RowLayout:
    """The layout that a number of events stands for (`events.shown`)."""
    columns = (sent_column(c["n"], c["t"], c.get("f") or 0, handle=bool(c.get("h"))) for c in json.loads(text))
    return RowLayout(tuple(columns), bits_of(text))


def sent_column(name: str, code: int, flags: int, *, handle: bool) -> SentColumn:
    """A column of this type code and these flags; an unknown code is taken as text."""
    family = _family(code, flags)
    if flags:
        return SentColumn(name, family, handle, (family,), bool(flags & _NULLABLE), bool(flags & UNSIGNED), vague=False)
    families = (family, _family(code, UNSIGNED), _family(code, _BINARY))
    return SentColumn(name, family, handle, families, nullable=False, vague=True)


def _family(code: int, flags: int) -> str:
    """TiCDC's word for the type, without parameters."""
    rows = tidb_types.BY_CODE.get(code, (tidb_types.TEXT,))
    return next((row for row in rows if flags & _FLAGS.get(row, 0)), rows[0]).name
