"""Rows of which a message has the key alone (`handle-key-only`), read from TiDB as they were at their commit ts.

One SELECT for all keys of a table and a commit ts, under `tidb_snapshot`, and one more a tick before where changes have
a row before them. Types come from `information_schema.columns`, which a snapshot has as of the same moment. No other
statement is sent but SELECT and SET.

Source: TiDB, "Read Historical Data Using the System Variable `tidb_snapshot`"; TiDB, "Error Codes".
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pymysql
from pymysql import err
from pymysql.converters import encoders
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential

from pipeline.errors import reason
from pipeline.model.large_rows import Images, Message
from pipeline.model.source_values import UpstreamColumn, quoted
from pipeline.observe.logs import get_logger
from pipeline.protocols.large.codes import (
    UPSTREAM_FORBIDDEN,
    UPSTREAM_GC,
    UPSTREAM_NOT_TIDB,
    UPSTREAM_ROW_MISSING,
    UPSTREAM_ROW_UNREADABLE,
    UPSTREAM_UNREACHABLE,
    UPSTREAM_UNTRUSTED,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pipeline.model.large_rows import LargeRows
    from pipeline.model.source_values import Columns, SentRow, SentValue, SqlValue

_PATIENCE = 60.0
"""Seconds for which a server that does not answer is asked again."""
_CONNECTING, _ANSWERING = 10, 60
"""Seconds."""
_DENIED = (1044, 1045, 1130, 1142, 1143, 1227, 1251, 1698, 1820, 1862, 3118, 3159, 3162, 3955)
_CODES = {
    **dict.fromkeys((8055, 9006), UPSTREAM_GC),
    **dict.fromkeys((1049, 1054, 1146), UPSTREAM_ROW_MISSING),  # no such database, column, table
    **dict.fromkeys(_DENIED, UPSTREAM_FORBIDDEN),
    1193: UPSTREAM_NOT_TIDB,  # no such variable
}
_PASSING = (1040, 1205, 1317, 2002, 2003, 2006, 2013, 2055, 9001, 9002, 9003, 9004, 9005, 9007, 9008, 9010, 9011, 9012)
"""Errors that may be gone the next time: too many connections, none, and those of TiKV, PD and TiFlash."""
_NO_TLS = 2026
_OF_A_TABLE = (1044, 1142, 1143)
"""Of `_DENIED`: those that say nothing of other tables."""
_FOR_ALL = (UPSTREAM_FORBIDDEN, UPSTREAM_UNREACHABLE, UPSTREAM_UNTRUSTED, UPSTREAM_NOT_TIDB)
"""Where the server says one of these, it is not asked for another row in the same task."""
_COLUMNS = """
SELECT column_name, data_type, column_type, is_nullable, character_set_name, extra
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_VIRTUAL, _STORED = "VIRTUAL GENERATED", "STORED GENERATED"
_AT_ONCE = 1_000
"""Keys in one SELECT. What a transaction has written, and so what a group can give, TiDB itself bounds."""
_ENCODERS: Any = encoders
"""What puts values into statements. There is nothing that reads values: they stay bytes."""
_log = get_logger(__name__)


class Asked(NamedTuple):
    """A message that has keys alone, and which row it is of."""

    sent: Message
    schema: str
    table: str
    commit_ts: int

    @property
    def group(self) -> tuple[str, str, int]:
        """What one SELECT is for."""
        return self[1:]


@dataclass(frozen=True, slots=True)
class Upstream:
    """The changefeed's own cluster. `timezone`: the changefeed's.

    With `ca_file` the connection is encrypted and the server's name is checked; else it is encrypted if the server can.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    timezone: str = "UTC"
    ca_file: str | None = None

    def session(self) -> Session:
        """A session, of which a task has one. Nothing is asked for yet."""
        return Session(self)


class _NotGiven(Exception):
    """Rows cannot be had; the code says why. `for_all`: no other row can be had either."""

    def __init__(self, code: str, *, for_all: bool = False) -> None:
        super().__init__(code)
        self.code, self.for_all = code, for_all


@dataclass(slots=True)
class _TableAt:
    """A table as it was at a commit ts."""

    session: Session
    schema: str
    table: str
    commit_ts: int

    def messages(self, sent: Sequence[Message], form: LargeRows) -> Sequence[Message]:
        """The whole messages for these, or marks."""
        columns = self._columns()
        keys = [_keys(form, message, columns) for message in sent]
        after = self._rows(columns, [one.after for one in keys if one.after], self.commit_ts)
        before = self._rows(columns, [one.before for one in keys if one.before], self.commit_ts - 1)
        whole = []
        for message, key in zip(sent, keys, strict=True):
            rows = Images(_of(before, key.before), _of(after, key.after))
            has_all = all(bool(wanted) == bool(row) for wanted, row in zip(key, rows, strict=True))
            made = _whole(form, message, columns, rows) if any(key) and has_all else None
            code = UPSTREAM_ROW_MISSING if any(key) and not has_all else UPSTREAM_ROW_UNREADABLE
            whole.append(made or form.marked(message, code))
        return whole

    def _columns(self) -> Columns:
        listed = self.session.rows(_COLUMNS, (self.schema, self.table), self.commit_ts)
        columns = [_column(*row) for row in listed if _VIRTUAL not in _text(row[-1])]
        if not columns:  # there is no such table, or TiDB hides it from this user: then it refuses this
            self.session.rows(f"SELECT 1 FROM {self._name} LIMIT 0", (), self.commit_ts)  # noqa: S608 - quoted
            raise _NotGiven(UPSTREAM_ROW_MISSING)
        return {column.name: column for column in columns}

    def _rows(self, columns: Columns, keys: Sequence[SentRow], ts: int) -> Mapping[_Handle, SentRow | None]:
        """The rows with these keys, by their keys; None where several have one."""
        rows: dict[_Handle, SentRow | None] = {}
        for names, some in _by_names(keys):
            for cells in self.session.rows(*self._select(columns, names, some), ts):
                row = _row(columns, cells)
                handle = _handle({name: row[name] for name in names})
                rows[handle] = None if handle in rows else row
        return rows

    @property
    def _name(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    def _select(
        self, columns: Columns, names: Sequence[str], keys: Sequence[SentRow]
    ) -> tuple[str, Sequence[SqlValue]]:
        """A SELECT for the rows with these keys, and what is to be put into it."""
        chosen = ",".join(column.asked for column in columns.values())
        key = f"({','.join(map(quoted, names))})"
        places = ",".join([f"({','.join(['%s'] * len(names))})"] * len(keys))
        values = [columns[name].literal(key[name]) for key in keys for name in names]
        return f"SELECT {chosen} FROM {self._name} WHERE {key} IN ({places})", values  # noqa: S608 - names are quoted


_Handle = frozenset[tuple[str, "SentValue"]]
"""The values of a key, by column."""


def _row(columns: Columns, cells: Sequence[bytes | None]) -> SentRow:
    """A row as TiCDC sends it. Raises `_NotGiven` where a value is none of its column."""
    try:
        return {column.name: column.sent(cell) for column, cell in zip(columns.values(), cells, strict=True)}
    except (ValueError, ArithmeticError) as error:
        _log.warning("the upstream gave a value that its column cannot have", why=type(error).__name__)
        raise _NotGiven(UPSTREAM_ROW_UNREADABLE) from error


def _handle(key: SentRow) -> _Handle:
    return frozenset(key.items())


def _of(rows: Mapping[_Handle, SentRow | None], key: SentRow | None) -> SentRow | None:
    return rows.get(_handle(key)) if key else None


def _by_names(keys: Sequence[SentRow]) -> Iterator[tuple[Sequence[str], Sequence[SentRow]]]:
    """Keys of the same columns together, no more than one SELECT asks for."""
    for names in dict.fromkeys(map(tuple, keys)):
        alike = [key for key in keys if tuple(key) == names]
        yield from ((names, alike[start : start + _AT_ONCE]) for start in range(0, len(alike), _AT_ONCE))


def _keys(form: LargeRows, sent: Message, columns: Columns) -> Images:
    """The keys of a message; none where it is damaged, in whatever way."""
    try:
        keys = form.keys(sent, columns)
        for key in filter(None, keys):
            for name, value in key.items():
                columns[name].literal(value)
    except Exception as error:  # noqa: BLE001 - it is bytes of others, and is kept
        _log.warning("a message with a key alone is damaged", why=reason(error))
        return Images(None, None)
    return keys


def _whole(form: LargeRows, sent: Message, columns: Columns, rows: Images) -> Message | None:
    """The message with these rows; None where it cannot be written."""
    try:
        return form.whole(sent, columns, rows)
    except Exception as error:  # noqa: BLE001 - see `_keys`
        _log.warning("a message with a key alone cannot be made whole", why=reason(error))
        return None


def _column(*cells: bytes | None) -> UpstreamColumn:
    name, data_type, column_type, nullable, charset, extra = map(_text, cells)
    has_charset = charset not in ("", "binary")
    return UpstreamColumn(name, data_type.lower(), column_type, nullable == "YES", has_charset, _STORED in extra)


def _text(cell: bytes | None) -> str:
    return (cell or b"").decode(errors="replace")  # members of an ENUM may be no UTF-8


@dataclass(slots=True)
class Session:
    """A connection, made when it is first needed, and made again after it has gone."""

    upstream: Upstream
    _connection: Any = None
    _snapshot: int = 0
    _given_up: str = ""
    """Why the server is not asked again."""

    def rows(self, statement: str, values: Sequence[Any], snapshot: int) -> Sequence[tuple[bytes | None, ...]]:
        """What a SELECT gives, as the text protocol has it. Raises `_NotGiven`."""
        if self._given_up:
            raise _NotGiven(self._given_up)
        try:
            answer: Sequence[tuple[bytes | None, ...]] = _RETRIES(self._asked, statement, values, snapshot)
        except _NotGiven as refusal:
            self._given_up = refusal.code if refusal.for_all else ""
            raise
        return answer

    def messages(self, asked: Iterable[Asked], form: LargeRows) -> Iterator[Message]:
        """The whole messages for those that were sent, in their order; marks where a row can't be had."""
        for (schema, table, commit_ts), group in groupby(asked, lambda one: one.group):
            sent = [one.sent for one in group]
            try:
                yield from _TableAt(self, schema, table, commit_ts).messages(sent, form)
            except _NotGiven as refusal:
                yield from (form.marked(message, refusal.code) for message in sent)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._snapshot = None, 0

    def _asked(self, statement: str, values: Sequence[Any], snapshot: int) -> Sequence[tuple[bytes | None, ...]]:
        try:
            if self._connection is None:
                self._connection = self._connected()
            with self._connection.cursor() as cursor:
                if snapshot != self._snapshot:
                    self._snapshot = 0
                    cursor.execute("SET tidb_snapshot = %s", (str(snapshot),))
                    self._snapshot = snapshot
                cursor.execute(statement, values)
                answer: Sequence[tuple[bytes | None, ...]] = cursor.fetchall()
                return answer
        except Exception as error:  # a server of another protocol makes the client fail in any way
            code, number = _code_of(error), error.args[0] if error.args else None
            _log.warning("the upstream refuses to give a row", code=code, why=reason(error))
            if code == UPSTREAM_UNREACHABLE or not isinstance(error, err.Error):
                with suppress(Exception):
                    self.close()
            for_all = code in _FOR_ALL and number not in _OF_A_TABLE
            raise _NotGiven(code, for_all=for_all) from error

    def _connected(self) -> Any:
        given = self.upstream
        connection = pymysql.connect(
            host=given.host, port=given.port, user=given.user, password=given.password,
            ssl_ca=given.ca_file, ssl_verify_identity=True if given.ca_file else None,
            charset="utf8mb4", use_unicode=False, conv=_ENCODERS, autocommit=True, program_name="ticdc-warehouse",
            connect_timeout=_CONNECTING, read_timeout=_ANSWERING, write_timeout=_ANSWERING,
        )  # fmt: skip
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = %s", (given.timezone,))
        return connection


_RETRIES = Retrying(
    retry=retry_if_exception(lambda error: isinstance(error, _NotGiven) and error.code == UPSTREAM_UNREACHABLE),
    stop=stop_after_delay(_PATIENCE),
    wait=wait_exponential(multiplier=0.5, max=8),
    reraise=True,
)


def _code_of(error: Exception) -> str:
    number = error.args[0] if error.args else None
    if number == _NO_TLS or isinstance(getattr(error, "original_exception", None), ssl.SSLError):
        return UPSTREAM_UNTRUSTED
    if isinstance(error, ssl.SSLError | FileNotFoundError | PermissionError):  # of `ca_file`
        return UPSTREAM_UNTRUSTED
    if isinstance(error, OSError | err.InterfaceError) or number in _PASSING:
        return UPSTREAM_UNREACHABLE
    return _CODES.get(number, UPSTREAM_ROW_UNREADABLE) if isinstance(number, int) else UPSTREAM_ROW_UNREADABLE
