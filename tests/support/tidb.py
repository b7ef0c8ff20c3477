"""The smallest server of MySQL's protocol that answers what `handle-key-only` asks of TiDB, with `tidb_snapshot`.

It takes SELECT and SET, and nothing else. A real TiDB cannot be had where these tests run.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import sqlglot
from mysql_mimic import IdentityProvider, MysqlServer, NativePasswordAuthPlugin, ResultColumn, User
from mysql_mimic.charset import CharacterSet
from mysql_mimic.errors import MysqlError
from mysql_mimic.session import BaseSession
from mysql_mimic.types import ColumnType
from mysql_mimic.variables import GlobalVariables, SessionVariables
from sqlglot import exp

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping

    from pipeline.model.source_values import UpstreamColumn

    Cells = Mapping[str, bytes | None]

PASSWORD = "s3cret-of-the-upstream"  # noqa: S105 - a server of the tests has it
USER = "reader"
NO_TABLE, NO_VARIABLE, GC_TOO_EARLY, DENIED = 1146, 1193, 9006, 1142


@dataclass
class Tables:
    """What the server has: columns of tables, and rows by the commit ts at which they became what they are."""

    columns: dict[tuple[str, str], tuple[UpstreamColumn, ...]] = field(default_factory=dict)
    since: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """The commit ts from which on a column is there; the others always are."""
    rows: dict[tuple[str, str], list[tuple[int, Cells | None, Any]]] = field(default_factory=lambda: defaultdict(list))
    """(commit ts, the row or None where it was deleted, its key)."""
    collected_up_to: int = 0
    """The safe point of garbage collection."""
    is_tidb: bool = True
    hidden: set[tuple[str, str]] = field(default_factory=set)
    """Tables on which the user has no right."""
    pause: float = 0.0
    """Seconds before each answer."""
    breaks: int = 0
    """So many connections are closed instead of an answer."""
    statements: list[str] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)

    def put(self, table: tuple[str, str], commit_ts: int, key: Any, row: Cells | None) -> None:
        """A row becomes another one, or is deleted."""
        self.rows[table].append((commit_ts, row, key))

    def at(self, table: tuple[str, str], commit_ts: int) -> list[Cells]:
        """The rows of a table as of a commit ts."""
        rows = {key: row for ts, row, key in sorted(self.rows[table], key=lambda one: one[0]) if ts <= commit_ts}
        return [row for row in rows.values() if row is not None]


class _Users(IdentityProvider):
    async def get_user(self, username: str) -> User | None:
        if username != USER:
            return None
        auth = NativePasswordAuthPlugin.create_auth_string(PASSWORD)
        return User(username, auth_string=auth, auth_plugin=NativePasswordAuthPlugin.name)


class _Session(BaseSession):
    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.variables = SessionVariables(GlobalVariables())
        self.username = self.database = None
        self._snapshot = 0
        self._connection: Any = None

    async def init(self, connection: Any) -> None:
        self._connection = connection
        self.tables.encrypted.append(connection.stream.writer.get_extra_info("ssl_object") is not None)

    async def handle_query(self, sql: str, attrs: Mapping[str, str]) -> Any:  # noqa: ARG002 - the library's
        self.tables.statements.append(sql)
        if self.tables.breaks:
            self.tables.breaks -= 1
            self._connection.stream.writer.transport.abort()
            return None
        await asyncio.sleep(self.tables.pause)
        statement = sqlglot.parse_one(sql, read="mysql")
        if isinstance(statement, exp.Set):
            return self._set(statement)
        assert isinstance(statement, exp.Select), sql
        if self._snapshot < self.tables.collected_up_to:
            raise MysqlError("GC life time is shorter than transaction duration", GC_TOO_EARLY)
        return self._of_columns(statement) if "information_schema" in sql else self._of_rows(statement)

    def _set(self, statement: exp.Set) -> None:
        for item in statement.expressions:
            if not isinstance(item.this, exp.EQ):
                continue
            name, value = item.this.left.name.lower(), item.this.right.name
            if name == "tidb_snapshot":
                if not self.tables.is_tidb:
                    raise MysqlError("Unknown system variable 'tidb_snapshot'", NO_VARIABLE)
                self._snapshot = int(value)

    def _of_columns(self, statement: exp.Select) -> Any:
        wanted = {one.this.name: one.expression.name for one in statement.find_all(exp.EQ)}
        source = (wanted["table_schema"], wanted["table_name"])
        columns = () if source in self.tables.hidden else self.tables.columns.get(source, ())
        rows = [
            (
                one.name, one.data_type, one.column_type, "YES" if one.nullable else "NO",
                "utf8mb4" if one.has_charset else None, "STORED GENERATED" if one.generated else "",
            )
            for one in columns
            if self.tables.since.get((*source, one.name), 0) <= self._snapshot
        ]  # fmt: skip
        return rows, [_text(name) for name in ("c1", "c2", "c3", "c4", "c5", "c6")]

    def _of_rows(self, statement: exp.Select) -> Any:
        source = statement.find(exp.Table)
        table = (source.db, source.name)
        if table in self.tables.hidden:
            raise MysqlError(f"SELECT command denied to user '{USER}'@'%' for table '{source}'", DENIED)
        if table not in self.tables.columns:
            raise MysqlError(f"Table '{source}' doesn't exist", NO_TABLE)
        by_name = {one.name: one for one in self.tables.columns[table]}
        chosen = [next(iter(one.find_all(exp.Column))).name for one in statement.selects]
        where = statement.find(exp.In)
        names = [one.name for one in where.this.find_all(exp.Column)]
        asked = [_values(one, len(names)) for one in where.expressions]
        rows = [
            [row.get(name) for name in chosen]
            for row in self.tables.at(table, self._snapshot)
            if [by_name[name].literal(by_name[name].sent(row[name])) for name in names] in asked
        ]
        return rows, [_cells(name) for name in chosen]


def _values(group: exp.Expression, width: int) -> list[Any]:
    parts = group.expressions if isinstance(group, exp.Tuple) else [group.this if width == 1 else group]
    return [_value(part) for part in parts]


def _value(part: exp.Expression) -> Any:
    if isinstance(part, exp.HexString):
        return bytes.fromhex(part.name)
    if isinstance(part, exp.Neg):
        return -_value(part.this)
    if part.is_string:
        return part.name
    return float(part.name) if "e" in part.name else Decimal(part.name)


def _text(name: str) -> ResultColumn:
    return ResultColumn(name, ColumnType.VARCHAR)


def _cells(name: str) -> ResultColumn:
    return ResultColumn(name, ColumnType.BLOB, CharacterSet.binary, text_encoder=lambda _, cell: cell)


@contextmanager
def served(tables: Tables, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server that has these tables."""
    server = MysqlServer(lambda: _Session(tables), identity_provider=_Users(), ssl=context)
    has_begun, ends = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        await server.start_server(host="127.0.0.1", port=0)
        loops.append(asyncio.get_running_loop())
        has_begun.set()
        await ends.wait()
        server.close()

    thread = threading.Thread(target=asyncio.run, args=[serve()], daemon=True)
    thread.start()
    assert has_begun.wait(10)
    try:
        yield server.sockets()[0].getsockname()[1]
    finally:
        loops[0].call_soon_threadsafe(ends.set)
        thread.join(10)
