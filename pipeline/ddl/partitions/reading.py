"""PARTITION BY, and the definitions of partitions, read from DDL text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ddl.lexemes import LexemeKind, NotParsedError
from pipeline.ddl.literals import EXPRESSION, Literal, LiteralKind, read_default
from pipeline.ddl.partitions.scheme import (
    MAXVALUE,
    MOST,
    Extreme,
    NamedPartition,
    PartitionColumn,
    PartitionKind,
    PartitionScheme,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.ddl.lexemes import Cursor
    from pipeline.ddl.partitions.scheme import Bound

_SHOWN = 60


def read_scheme(cursor: Cursor, collation: Callable[[str], str]) -> PartitionScheme:
    """Read what follows PARTITION BY; `collation` of a column by its name, empty where none is said.

    What this grammar does not know is passed over to the end and makes the scheme unsupported.
    """
    try:
        return _scheme(cursor, collation)
    except NotParsedError as error:
        while not cursor.at_end():
            cursor.take()
        return PartitionScheme(PartitionKind.OTHER, unsupported=str(error))


def read_definitions(cursor: Cursor) -> tuple[NamedPartition, ...]:
    """Read the definitions in their parenthesis."""
    cursor.expect_symbol("(")
    partitions = [_definition(cursor)]
    while cursor.accept_symbol(","):
        partitions.append(_definition(cursor))
    cursor.expect_symbol(")")
    return tuple(partitions)


def read_number(cursor: Cursor) -> int:
    """Read how many partitions."""
    digits = cursor.expect_kind(LexemeKind.NUMBER, "a number of partitions").text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(MOST)) and 0 < int(digits) <= MOST):
        raise NotParsedError(f"“{digits[:_SHOWN]}” is not a number of partitions")
    return int(digits)


def numbered(first: int, number: int) -> tuple[NamedPartition, ...]:
    """As many partitions of HASH with the names that TiDB gives them."""
    return tuple(NamedPartition(f"p{place}") for place in range(first, first + number))


def _scheme(cursor: Cursor, collation: Callable[[str], str]) -> PartitionScheme:
    linear = cursor.accept("LINEAR")
    kind = _kind(cursor)
    names, expression = _by(cursor, kind)
    columns = tuple(PartitionColumn(name, collation(name)) for name in names)
    if cursor.accept("INTERVAL"):
        raise NotParsedError("partitions by INTERVAL are not understood")
    number = read_number(cursor) if cursor.accept("PARTITIONS") else 0
    if cursor.accept("SUBPARTITION"):
        raise NotParsedError("partitions of partitions are not understood")
    partitions = read_definitions(cursor) if cursor.at_symbol("(") else ()
    if cursor.accept("UPDATE", "INDEXES"):
        cursor.skip_parentheses()
    if not partitions and kind in (PartitionKind.HASH, PartitionKind.KEY):
        partitions = numbered(0, number or 1)
    scheme = PartitionScheme(kind, columns, partitions)
    if linear or kind is PartitionKind.KEY:
        why = f"this version does not know which rows {'LINEAR ' * linear}{kind} puts into which partition"
        return scheme.refused(why)
    if expression:
        return scheme.refused(f"the table is partitioned by the expression {expression}")
    if number and number != len(partitions):
        return scheme.refused(f"the statement says {number} partitions and defines {len(partitions)}")
    return scheme.having(partitions)


def _kind(cursor: Cursor) -> PartitionKind:
    word = cursor.accept_any("RANGE", "LIST", "HASH", "KEY")
    if not word:
        raise cursor.fault("RANGE, LIST, HASH or KEY")
    columns = word in ("RANGE", "LIST") and cursor.accept("COLUMNS")
    return PartitionKind(f"{word} COLUMNS" if columns else word)


def _by(cursor: Cursor, kind: PartitionKind) -> tuple[tuple[str, ...], str]:
    """Read the columns in their parenthesis, or else the expression there."""
    if kind is PartitionKind.KEY and cursor.accept("ALGORITHM"):
        cursor.expect_symbol("=")
        cursor.expect_kind(LexemeKind.NUMBER, "a number")
    if kind not in (PartitionKind.RANGE, PartitionKind.LIST, PartitionKind.HASH):
        return _columns(cursor), ""
    start, depth = cursor.at, 0
    try:
        while cursor.accept_symbol("("):
            depth += 1
        name = cursor.column_name()
        for _ in range(depth):
            cursor.expect_symbol(")")
    except NotParsedError:
        cursor.back(start)
        cursor.skip_parentheses()
        return (), cursor.since(start)[:_SHOWN]
    return (name,), ""


def _columns(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect_symbol("(")
    if cursor.accept_symbol(")"):
        return ()
    names = [cursor.column_name()]
    while cursor.accept_symbol(","):
        names.append(cursor.column_name())
    cursor.expect_symbol(")")
    return tuple(names)


def _definition(cursor: Cursor) -> NamedPartition:
    cursor.expect("PARTITION")
    name = cursor.name()
    partition = NamedPartition(name)
    if cursor.accept("VALUES", "LESS", "THAN"):
        partition = NamedPartition(name, below=_below(cursor))
    elif cursor.accept("VALUES", "IN"):
        among, default = _among(cursor)
        partition = NamedPartition(name, among=among, default=default)
    elif cursor.accept("DEFAULT"):
        partition = NamedPartition(name, default=True)
    if cursor.accept("SUBPARTITION") or cursor.at_symbol("("):
        raise NotParsedError("partitions of partitions are not understood")
    cursor.skip_clause()
    return partition


def _below(cursor: Cursor) -> Bound:
    if cursor.accept("MAXVALUE"):
        return (MAXVALUE,)
    cursor.expect_symbol("(")
    bounds = [_bound(cursor)]
    while cursor.accept_symbol(","):
        bounds.append(_bound(cursor))
    cursor.expect_symbol(")")
    return tuple(bounds)


def _bound(cursor: Cursor) -> Literal | Extreme:
    return MAXVALUE if cursor.accept("MAXVALUE") else _value(cursor)


def _among(cursor: Cursor) -> tuple[tuple[tuple[Literal, ...], ...], bool]:
    """Read the members, and whether DEFAULT is one of them."""
    members: list[tuple[Literal, ...]] = []
    default = False
    cursor.expect_symbol("(")
    while True:
        if cursor.accept("DEFAULT"):
            default = True
        else:
            members.append(_member(cursor))
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return tuple(members), default


def _member(cursor: Cursor) -> tuple[Literal, ...]:
    if not cursor.accept_symbol("("):
        return (_value(cursor),)
    values = [_value(cursor)]
    while cursor.accept_symbol(","):
        values.append(_value(cursor))
    cursor.expect_symbol(")")
    if not cursor.at_clause_end():
        cursor.skip_clause()
        return (EXPRESSION,)
    return tuple(values)


def _value(cursor: Cursor) -> Literal:
    """Read one value, which ends where the clause does: anything longer is an expression."""
    typed = cursor.peek(1).kind is LexemeKind.STRING and cursor.accept_any("DATE", "TIMESTAMP")
    value = Literal(LiteralKind.TEXT, cursor.take().text) if typed else read_default(cursor)
    if cursor.at_clause_end():
        return value
    cursor.skip_clause()
    return EXPRESSION
