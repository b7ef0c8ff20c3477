"""DDL statements as TiCDC sends them: upper-case keywords, back quotes, strings as `_UTF8MB4'…'`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.simulate.tables import SimulatedColumn, SimulatedTable


@dataclass(frozen=True, slots=True)
class SimulatedDdl:
    """A statement, its TiDB ActionType, and the schema and table it is about (table `` for a database).

    `version` is the table as it is afterwards, `before` as it was.
    """

    query: str
    action: int
    schema: str
    table: str = ""
    version: SimulatedTable | None = None
    before: SimulatedTable | None = None


def create_database(schema: str) -> SimulatedDdl:
    """CREATE DATABASE, ActionType 1."""
    return SimulatedDdl(f"CREATE DATABASE {_quoted(schema)}", 1, schema)


def create_table(table: SimulatedTable) -> SimulatedDdl:
    """CREATE TABLE, ActionType 3; keys stand after the columns."""
    parts = [_definition(column) for column in table.columns]
    if table.primary_key:
        clustering = "" if table.clustered else " /*T![clustered_index] NONCLUSTERED */"
        parts.append(f"PRIMARY KEY({_names(table.primary_key)}){clustering}")
    parts += [f"UNIQUE {_quoted('uk_' + '_'.join(names))}({_names(names)})" for names in table.unique]
    query = f"CREATE TABLE {_quoted(table.schema)}.{_quoted(table.name)} ({','.join(parts)})"
    return SimulatedDdl(query, 3, table.schema, table.name, table)


def add_column(before: SimulatedTable, table: SimulatedTable, column: SimulatedColumn) -> SimulatedDdl:
    """ALTER TABLE … ADD COLUMN, ActionType 5; `table` already has the column."""
    name = f"{_quoted(table.schema)}.{_quoted(table.name)}"
    return SimulatedDdl(
        f"ALTER TABLE {name} ADD COLUMN {_definition(column)}", 5, table.schema, table.name, table, before
    )


def _definition(column: SimulatedColumn) -> str:
    words = [_quoted(column.name), _type_text(column)]
    if not column.nullable:
        words.append("NOT NULL")
    if column.default is not None:
        words.append(f"DEFAULT {_literal(column)}")
    elif column.nullable:
        words.append("DEFAULT NULL")
    return " ".join(words)


def _type_text(column: SimulatedColumn) -> str:
    """Keywords in capitals, members of ENUM and SET as they are."""
    word, bracket, rest = column.type.partition("(")
    return word.upper() + bracket + (rest if column.parsed.members else rest.upper())


def _literal(column: SimulatedColumn) -> str:
    default = column.default or ""
    kind = column.parsed
    if kind.is_whole or kind.name in {"bit", "float", "double", "decimal"} or default.startswith("CURRENT_"):
        return default
    return "_UTF8MB4'{}'".format(default.replace("'", "''"))


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))


def _names(names: Iterable[str]) -> str:
    return ",".join(map(_quoted, names))
