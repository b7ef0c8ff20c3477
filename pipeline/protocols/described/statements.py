"""DDL and BOOTSTRAP messages, as Simple has them: statements, and the versions that they describe."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeline.ddl import ActionType
from pipeline.ddl.classify import classify
from pipeline.model.columns import CommitTs
from pipeline.model.messages import Ddl
from pipeline.model.names import TableName
from pipeline.protocols.described.schemas import NotATableSchema, table_version
from pipeline.protocols.described.virtuals import ColumnDdl
from pipeline.protocols.overrides import overrides_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipeline.model.columns import TableVersion
    from pipeline.model.places import Partition
    from pipeline.model.types import WarehouseType

_GONE = "ERASE"
"""The type of which either schema is the table before the statement: after it there is none."""
_VARIOUS = "QUERY"
"""The type of databases and views, but of TTL, EXCHANGE PARTITION and tables of a restore as well."""
_NAMING = "RENAME"
"""The type whose `preTableSchema` is the same table under its old name."""
_VIEWS = (ActionType.CREATE_VIEW, ActionType.DROP_VIEW)
_NO_TABLE = TableName("", "")


@dataclass(frozen=True, slots=True)
class SentDdl:
    """A DDL message and where it stands; None where it cannot be read."""

    partition: Partition
    position: int
    message: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Statements:
    """What DDL messages say, each statement once."""

    ddl: tuple[Ddl, ...] = ()
    described: tuple[TableVersion, ...] = ()
    bad: tuple[SentDdl, ...] = ()
    column_ddl: tuple[ColumnDdl, ...] = ()
    """In the order of their commit ts."""


def described(schema: Mapping[str, Any], overrides: Mapping[str, WarehouseType]) -> TableVersion:
    """The version that a `tableSchema` describes. Raises `NotATableSchema`."""
    table = named(schema)
    return table_version(schema, overrides_for(overrides, table.schema, table.table))


def named(schema: Mapping[str, Any]) -> TableName:
    """The table of a `tableSchema`. Raises `NotATableSchema`."""
    try:
        names = schema["schema"] if "schema" in schema else schema["database"], schema["table"]
    except (KeyError, TypeError) as error:
        raise NotATableSchema(f"{type(error).__name__}: {error}") from error
    if not all(isinstance(name, str) for name in names):
        raise NotATableSchema(f"{names!r:.60} is no name")
    return TableName(*names)


def _refuse_what_cannot_be_kept(statement: Ddl) -> None:
    if not 0 <= statement.commit_ts < 2**63:
        raise ValueError(f"{statement.commit_ts} is no commit ts")
    f"{statement.sql}{statement.table}".encode()  # half a surrogate pair is a ValueError


def read_statements(
    sent: Iterable[SentDdl], overrides: Mapping[str, WarehouseType], *, closes: bool = True
) -> Statements:
    """Statements in the order of their commit ts; copies in several partitions, and redeliveries, are one.

    `closes`: see `Ddl`.
    """
    first: dict[tuple[int, str, TableName], Ddl] = {}
    places: dict[tuple[int, str, TableName], dict[Partition, int]] = defaultdict(dict)
    column_ddl: dict[tuple[int, str, TableName], ColumnDdl] = {}
    versions: dict[object, TableVersion] = {}
    bad: list[SentDdl] = []
    for copy in sorted(sent, key=lambda copy: (copy.partition, copy.position)):
        try:
            statement = _statement(copy.message or {}, overrides)
            then = _version_before(copy.message or {}, overrides)
            _refuse_what_cannot_be_kept(statement)
        except (NotATableSchema, KeyError, TypeError, ValueError, ArithmeticError):
            bad.append(copy)
            continue
        key = (statement.commit_ts, statement.sql, statement.table)
        first.setdefault(key, statement)
        places[key].setdefault(copy.partition, copy.position)
        column_ddl.setdefault(key, ColumnDdl(statement.commit_ts, statement.sql, then, statement.version))
        sides = [version for version in (then, statement.version) if version is not None]
        versions |= {(version.table.key, version.version): version for version in sides}
    ddl = [replace(statement, at=places[key], closes=closes) for key, statement in first.items()]
    return Statements(
        tuple(sorted(ddl, key=lambda one: one.commit_ts)), tuple(versions.values()), tuple(bad),
        tuple(sorted(column_ddl.values(), key=lambda one: one.commit_ts)),
    )  # fmt: skip


def _statement(message: Mapping[str, Any], overrides: Mapping[str, WarehouseType]) -> Ddl:
    """The statement, without its places. `table` is the table as it is after it: for a rename, the new name."""
    sql = str(message["sql"])
    now, then = message.get("tableSchema"), message.get("preTableSchema")
    schema = now or then
    table = named(schema) if schema else _NO_TABLE
    old = named(then) if then and message["type"] == _NAMING else None
    version = None if message["type"] == _GONE else _version(message, "tableSchema", overrides)
    table_id = int((schema or {}).get("tableID") or 0)
    return Ddl(CommitTs(int(message["commitTs"])), table, classify(sql), sql, {}, version, old, table_id)


def _version_before(message: Mapping[str, Any], overrides: Mapping[str, WarehouseType]) -> TableVersion | None:
    """What the table was before the statement. What a DROP says of it is the last word, and rows may wait for that."""
    is_in_other_field = message["type"] == _GONE and not message.get("preTableSchema")
    return _version(message, "tableSchema" if is_in_other_field else "preTableSchema", overrides)


def _version(message: Mapping[str, Any], side: str, overrides: Mapping[str, WarehouseType]) -> TableVersion | None:
    """What the table was, or is after the statement; None where nothing is said of a table with columns."""
    schema, kind = message.get(side), message["type"]
    if not schema or (kind in (_VARIOUS, _GONE) and not _is_of_a_table(schema, str(message["sql"]))):
        return None
    return described(schema, overrides)


def _is_of_a_table(schema: Mapping[str, Any], sql: str) -> bool:
    return bool(named(schema).table and schema.get("columns")) and classify(sql) not in _VIEWS
