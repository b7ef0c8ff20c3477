"""Built-in rules: they follow from the source's own schema.

They warn, and never take a row that TiDB itself returns. Only a key column that is NULL and a checksum that does not
fit its row set the row aside. One rule is about all columns of its sort; the sample shows which of them it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model import types as t
from pipeline.model.change import Op
from pipeline.model.columns import AMBIGUOUS
from pipeline.model.conditions import any_of
from pipeline.model.names import quoted
from pipeline.quality.rules import Rule
from pipeline.quality.suites import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import SourceColumn, TableVersion
    from pipeline.model.messages import ColumnMapping

PREFIX = "builtin:"

_Landed = tuple["TableVersion", "SourceColumn", str]
"""A version, one of its columns, and the warehouse column where that lands."""


def builtin(versions: Sequence[TableVersion], mapping: ColumnMapping) -> tuple[Rule, ...]:
    """The rules for messages of these versions, where they land so."""
    types = {target.name: target.type for target in mapping.targets}
    columns = [
        (version, column, mapping.fields[version.version][column.name])
        for version in versions
        for column in version.columns
        if column.name in mapping.fields[version.version]
    ]
    numbers = [one for one in columns if one[1].unsigned and types[one[2]] != t.STRING]
    texts = [one for one in columns if types[one[2]] == t.STRING]
    made = (
        _key_not_null(versions, mapping),
        _about("enum_members", (one for one in texts if _members(one[1], "ENUM")), _is_member, versions),
        _about("set_members", (one for one in texts if _members(one[1], "SET")), _are_members, versions),
        _about("length", (one for one in columns if _has_length(one[1], types[one[2]])), _fits, versions),
        _about("unsigned", numbers, _positive, versions),
        _about("zero_dates", (one for one in columns if types[one[2]] in t.CALENDAR), _is_date, versions),
        _envelope("op", [v for v in versions if v.tells_op], versions, F.col(change.OP) != Op.UPSERT.value),
        _envelope(
            "commit_ts", [v for v in versions if v.tells_commit_ts], versions,
            F.coalesce(F.col(change.COMMIT_TS), F.lit(0)) > 0,
        ),
        _checksum(versions),
    )  # fmt: skip
    return tuple(rule for rule in made if rule is not None)


def _key_not_null(versions: Sequence[TableVersion], mapping: ColumnMapping) -> Rule:
    """By the key of the row's own version, and by what of it may be NULL there: keys change, and so do their columns.

    A zero date is NULL with its text: that is a value.
    """
    sent: dict[tuple[str, ...], list[TableVersion]] = {}
    for version in versions:
        fields, handle = mapping.fields[version.version], () if version.keys_vary else version.handle or ()
        key = [c.name for c in version.columns if c.nullable and c.name in handle and c.name in fields]
        if key:
            sent.setdefault(tuple(fields[name] for name in key), []).append(version)
    breaks = [_in(some, versions, any_of(map(_is_missing, key))) for key, some in sent.items()]
    unexpected = _known(any_of(breaks))
    shown = tuple(dict.fromkeys(name for key in sent for name in key))
    name = f"{PREFIX}key_not_null"
    return Rule(name, Severity.QUARANTINE, F.lit(True), unexpected, shown, possible=bool(sent))


def _is_missing(name: str) -> Column:
    return F.col(quoted(name)).isNull() & F.col(change.UNREPRESENTABLE)[F.lit(name)].isNull()


def _checksum(versions: Sequence[TableVersion]) -> Rule:
    """Also where none is sent: so many rows were not checked."""
    sent, right = F.col(change.CHECKSUM).isNotNull(), F.col(change.CHECKSUM)
    possible = any(version.has_checksum for version in versions)
    return Rule(f"{PREFIX}checksum", Severity.QUARANTINE, sent, _known(sent & ~right), possible=possible)


def _members(column: SourceColumn, kind: str) -> bool:
    return column.tidb_type == kind and bool(column.members) and not AMBIGUOUS & set("".join(column.members))


def _is_member(column: SourceColumn, name: str) -> Column:
    """True for a good ENUM: a member, or the empty text of a value that was none."""
    return F.col(quoted(name)).isin("", *column.members)


def _are_members(column: SourceColumn, name: str) -> Column:
    allowed = F.array(*(F.lit(member) for member in ("", *column.members)))
    return F.size(F.array_except(F.split(F.col(quoted(name)), ","), allowed)) == 0


def _has_length(column: SourceColumn, kind: str) -> bool:
    return column.length > 0 and kind in (t.STRING, t.BINARY)


def _fits(column: SourceColumn, name: str) -> Column:
    """Characters of a text, bytes of a binary."""
    return F.char_length(F.col(quoted(name))) <= column.length


def _positive(_: SourceColumn, name: str) -> Column:
    return F.col(quoted(name)) >= 0


def _is_date(_: SourceColumn, name: str) -> Column:
    """True for a good date or time: the warehouse type holds it, so `_unrepresentable` has no text of it."""
    return F.col(change.UNREPRESENTABLE)[F.lit(name)].isNull()


def _about(
    name: str,
    columns: Iterable[_Landed],
    meets: Callable[[SourceColumn, str], Column],
    versions: Sequence[TableVersion],
) -> Rule | None:
    """A rule that warns, about all of these columns; None where there are none.

    `meets` is true for good rows: a row breaks the rule if `meets` is false for one of the columns. Where `meets` is
    NULL, as for a value that is NULL, the row does not break it.
    """
    by_column: dict[str, dict[SourceColumn, list[TableVersion]]] = {}
    for version, column, target in columns:
        by_column.setdefault(target, {}).setdefault(column, []).append(version)
    breaks = [_breaks(target, sorts, meets, versions) for target, sorts in by_column.items()]
    if not breaks:
        return None
    return Rule(f"{PREFIX}{name}", Severity.WARN, F.lit(True), _known(any_of(breaks)), tuple(by_column))


def _breaks(
    target: str,
    sorts: Mapping[SourceColumn, Sequence[TableVersion]],
    meets: Callable[[SourceColumn, str], Column],
    versions: Sequence[TableVersion],
) -> Column:
    """Where a column breaks the rule; versions may differ in what they allow."""
    breaches = [_in(sent, versions, _known(~meets(column, target))) for column, sent in sorts.items()]
    return any_of(breaches)


def _envelope(
    name: str, telling: Sequence[TableVersion], versions: Sequence[TableVersion], meets: Column
) -> Rule | None:
    if not telling:
        return None
    judged = _in(telling, versions, F.lit(True))
    return Rule(f"{PREFIX}{name}", Severity.WARN, judged, judged & ~meets, (f"_{name}",))


def _in(some: Sequence[TableVersion], versions: Sequence[TableVersion], condition: Column) -> Column:
    """The condition, for rows of some of a batch's versions."""
    if len(some) == len(versions):
        return condition
    return F.col(change.SCHEMA_ID).isin(*(version.version for version in some)) & condition


def _known(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))
