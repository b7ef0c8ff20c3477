r"""The layout of a row of Canal-JSON: names and types of its columns, and which are the primary key.

`mysqlType` has the types. By default these are bare (`int unsigned`, `enum`); with `content-compatible` they have
parameters (`decimal(38,10)`, `enum('a','b')`). `sqlType` says another type of an unsigned number where its value is
large, so that it tells no layout; but it has the columns in their order, which `mysqlType` has not.

Source: wire-formats.md, "Canal-JSON".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pipeline.model import tidb_types
from pipeline.model.tidb_types import Parameters
from pipeline.protocols.layouts.columns import RowLayout, SentColumn, bits_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_TYPE = re.compile(r"(\w+)(?:\((.*)\))?((?: unsigned| zerofill)*)", re.DOTALL)
_BETWEEN = "','"
_MOST_COLUMNS = 4_096
"""TiDB's own limit, with `table-column-count-limit` as large as it may be."""


def read_layout(names: Sequence[str], types: str, primary_key: Collection[str]) -> RowLayout | None:
    """The layout of a row with these columns. `types`: `mysqlType`. None where that is of no table of TiDB's."""
    try:
        by_name = json.loads(types)
        columns = tuple(_column(name, by_name[name], handle=name in primary_key) for name in names)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not 0 < len(columns) <= _MOST_COLUMNS or len({name.casefold() for name in names}) < len(names) or "" in names:
        return None
    written = [[column.name, by_name[column.name], column.handle] for column in columns]
    return RowLayout(columns, bits_of(json.dumps(written)))


def _column(name: str, written: str, *, handle: bool) -> SentColumn:
    """A column of this type; an unknown one is taken as text. Nothing says whether it may be NULL."""
    match = _TYPE.fullmatch(written)
    word, parameters, suffix = match.groups() if match else ("", None, "")
    unsigned = "unsigned" in suffix
    row = tidb_types.of_sql(word.upper(), unsigned=unsigned) or tidb_types.TEXT
    has_members = row.parameters is Parameters.MEMBERS
    in_type = parameters if row.parameters and not has_members else None
    return SentColumn(
        name,
        f"{row.name}({in_type})" if in_type else row.name,
        handle,
        (row.name,),
        unsigned=unsigned,
        vague=True,
        members=_members(parameters) if has_members and parameters else (),
    )


def _members(parameters: str) -> tuple[str, ...]:
    """The members of ENUM or SET. Quotes are doubled, but in some versions not those of a SET."""
    members = parameters.removeprefix("'").removesuffix("'").split(_BETWEEN)
    return tuple(member.replace("''", "'") for member in members)
