"""Clauses of ALTER TABLE about partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.ddl.actions import (
    AddPartitions,
    CoalescePartitions,
    DropPartitions,
    ExchangePartition,
    PartitionBy,
    RemovePartitioning,
    ReorganizePartitions,
    TruncatePartitions,
    UnclearPartitions,
)
from pipeline.ddl.lexemes import NotParsedError
from pipeline.ddl.partitions.reading import read_definitions, read_number, read_scheme
from pipeline.ddl.partitions.scheme import UNKNOWN_COLLATION
from pipeline.model.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.ddl.actions import Action
    from pipeline.ddl.lexemes import Cursor
    from pipeline.ddl.partitions.scheme import NamedPartition

_UNSAID = ""


@dataclass(frozen=True, slots=True)
class Altered:
    """The table of an ALTER TABLE as the message names it and as the text does, there maybe without a database."""

    table: TableName
    written: TableName


def read_partition_clause(cursor: Cursor, altered: Altered) -> Action | None:
    """Read the clause at the cursor if it is about the partitions of a table.

    A clause that leaves every row in the table, and whose definitions are not understood, is `UnclearPartitions`.
    """
    words = next((words for words in _CLAUSES if cursor.accept(*words.split())), None)
    return None if words is None else _CLAUSES[words](cursor, altered)


def _names(cursor: Cursor) -> tuple[str, ...]:
    names = [cursor.name()]
    while cursor.accept_symbol(","):
        names.append(cursor.name())
    return tuple(names)


def _definitions(cursor: Cursor) -> tuple[tuple[NamedPartition, ...], str]:
    """Read the definitions, or say why they are passed over."""
    start = cursor.at
    try:
        return read_definitions(cursor), ""
    except NotParsedError as error:
        cursor.back(start)
        cursor.skip_parentheses()
        return (), str(error)


def _add(cursor: Cursor, altered: Altered) -> Action:
    cursor.accept("IF", "NOT", "EXISTS")
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if cursor.accept("PARTITIONS"):
        return AddPartitions(altered.table, number=read_number(cursor))
    partitions, unclear = _definitions(cursor)
    if unclear:
        return UnclearPartitions(altered.table, unclear)
    return AddPartitions(altered.table, partitions, len(partitions))


def _drop(cursor: Cursor, altered: Altered) -> Action:
    cursor.accept("IF", "EXISTS")
    return DropPartitions(altered.table, _names(cursor))


def _truncate(cursor: Cursor, altered: Altered) -> Action:
    return TruncatePartitions(altered.table, None if cursor.accept("ALL") else _names(cursor))


def _exchange(cursor: Cursor, altered: Altered) -> Action:
    name = cursor.name()
    cursor.expect("WITH", "TABLE")
    other = cursor.table_name(_UNSAID)
    if not other.schema:
        if altered.written.schema:
            raise NotParsedError(f"the statement does not say in which database {other.table} is")
        other = TableName(altered.table.schema, other.table)
    validation = True
    if word := cursor.accept_any("WITH", "WITHOUT"):
        cursor.expect("VALIDATION")
        validation = word == "WITH"
    table = altered.written if altered.written.schema else altered.table
    return ExchangePartition(table, name, other, validation)


def _reorganize(cursor: Cursor, altered: Altered) -> Action:
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    names = _names(cursor)
    cursor.expect("INTO")
    partitions, unclear = _definitions(cursor)
    if unclear:
        return UnclearPartitions(altered.table, unclear)
    return ReorganizePartitions(altered.table, names, partitions)


def _coalesce(cursor: Cursor, altered: Altered) -> Action:
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    return CoalescePartitions(altered.table, read_number(cursor))


def _partition_by(cursor: Cursor, altered: Altered) -> Action:
    return PartitionBy(altered.table, read_scheme(cursor, lambda _: UNKNOWN_COLLATION))


def _remove(_: Cursor, altered: Altered) -> Action:
    return RemovePartitioning(altered.table)


_CLAUSES: dict[str, Callable[[Cursor, Altered], Action]] = {
    "ADD PARTITION": _add,
    "DROP PARTITION": _drop,
    "TRUNCATE PARTITION": _truncate,
    "EXCHANGE PARTITION": _exchange,
    "REORGANIZE PARTITION": _reorganize,
    "COALESCE PARTITION": _coalesce,
    "PARTITION BY": _partition_by,
    "REMOVE PARTITIONING": _remove,
}
