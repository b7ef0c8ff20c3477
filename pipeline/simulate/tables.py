"""Source tables as data: columns with their full TiDB types, keys, versions.

The words are those of TiDB's `SHOW COLUMNS`: a type is its text (`decimal(12,2)`, `enum('a','b')`), a default
is its text too (`b'0'` for BIT, an expression as written). A `Value` is what a driver would return: integers
unwrapped, DECIMAL as `Decimal`, DATE / DATETIME as naive `date` / `datetime`, TIMESTAMP as an aware UTC
`datetime`, BIT as `int`, JSON, TIME, ENUM and SET as `str`, binary types as `bytes`. A date that Python
cannot hold (`2024-00-00`) stays text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property

from pipeline.errors import PipelineError

Value = str | int | float | Decimal | bytes | date | datetime | None
Row = Mapping[str, Value]

_TYPE = re.compile(r"^(?P<name>[a-z]+)\s*(?:\((?P<arguments>.*)\))?(?P<flags>[a-z ]*)$", re.DOTALL)
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_SYNONYMS = {
    "bool": "tinyint",
    "boolean": "tinyint",
    "integer": "int",
    "numeric": "decimal",
    "dec": "decimal",
}
_WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
"""The types that TiCDC calls TEXT. JSON, ENUM, SET and VECTOR are texts too, but not to TiCDC."""
_BINARY = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_MOMENT = frozenset({"date", "datetime", "timestamp", "time"})


class SimulationError(PipelineError):
    """The simulated source was asked for something that TiDB or TiCDC would refuse."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A TiDB type taken apart: `decimal(12,2) unsigned` is (decimal, length 12, scale 2, unsigned)."""

    name: str
    length: int | None = None
    scale: int = 0
    unsigned: bool = False
    members: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """An integer type, YEAR included."""
        return self.name in _WHOLE

    @property
    def is_integer(self) -> bool:
        """An integer type; YEAR is none."""
        return self.is_whole and self.name != "year"

    @property
    def is_text(self) -> bool:
        """CHAR, VARCHAR or one of the TEXT family."""
        return self.name in _TEXT

    @property
    def is_binary(self) -> bool:
        """BINARY, VARBINARY or one of the BLOB family."""
        return self.name in _BINARY

    @property
    def is_moment(self) -> bool:
        """DATE, DATETIME, TIMESTAMP or TIME; `length` holds its fraction digits."""
        return self.name in _MOMENT


def parse_type(text: str) -> ColumnType:
    """`bigint(20) unsigned` → `ColumnType`; raises `TYPE_UNKNOWN` for text that is no TiDB type."""
    matched = _TYPE.match(text if "'" in text else text.lower())
    if matched is None:
        raise SimulationError("TYPE_UNKNOWN", f"{text!r} is not a column type that TiDB prints.")
    name = _SYNONYMS.get(matched["name"], matched["name"])
    arguments, unsigned = matched["arguments"], "unsigned" in matched["flags"]
    if name in {"enum", "set"}:
        members = tuple(member.replace("''", "'") for member in _MEMBER.findall(arguments or ""))
        return ColumnType(name, members=members)
    numbers = [int(number) for number in arguments.split(",")] if arguments else []
    length = numbers[0] if numbers else {"decimal": 10, "bit": 1, "char": 1, "binary": 1}.get(name)
    return ColumnType(name, length, numbers[1] if len(numbers) > 1 else 0, unsigned)


@dataclass(frozen=True)
class SimulatedColumn:
    """A column as `SHOW COLUMNS` tells it; `virtual` marks a generated column that TiCDC does not send."""

    name: str
    type: str
    nullable: bool = True
    default: str | None = None
    virtual: bool = False

    @cached_property
    def parsed(self) -> ColumnType:
        """The type, taken apart once."""
        return parse_type(self.type)

    def normalise(self, value: Value) -> Value:
        """Return the value as TiDB stores it: FLOAT in 32 bits, DECIMAL with its scale, BINARY padded."""
        kind = self.parsed
        if value is None:
            if not self.nullable:
                raise SimulationError("NULL_REFUSED", f"Column {self.name!r} is NOT NULL and was given NULL.")
            return None
        if kind.name == "float" and isinstance(value, float | int):
            return float(struct.unpack("<f", struct.pack("<f", value))[0])
        if kind.name == "decimal" and isinstance(value, Decimal | int):
            return Decimal(f"{value:.{kind.scale}f}")
        if kind.name == "binary" and isinstance(value, bytes):
            return value.ljust(kind.length or 1, b"\0")
        if kind.name == "timestamp" and isinstance(value, datetime) and value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        return value

    def origin_default(self) -> Value:
        """Return what older rows show: the column's default, else NULL, else the type's zero value."""
        if self.default is not None:
            return self.normalise(value_of(self.parsed, self.default))
        return None if self.nullable else self.normalise(_zero(self.parsed))


def value_of(kind: ColumnType, text: str) -> Value:
    """Read the text of a default or of TiDB's text protocol as a value of the type."""
    if kind.name == "bit":
        return int(text[2:-1], 2) if text.startswith("b'") else int(text)
    if kind.is_whole:
        return int(text)
    if kind.name in {"float", "double"}:
        return float(text)
    if kind.name == "decimal":
        return Decimal(text)
    if kind.is_binary:
        return text.encode()
    return _moment_of(kind, text) if kind.is_moment else text


def _moment_of(kind: ColumnType, text: str) -> Value:
    try:
        if kind.name == "date":
            return date.fromisoformat(text)
        moment = datetime.fromisoformat(text) if kind.name in {"datetime", "timestamp"} else None
    except ValueError:
        return text  # a zero date, or an expression such as CURRENT_TIMESTAMP
    if moment is None:
        return text
    return moment.replace(tzinfo=UTC) if kind.name == "timestamp" else moment


def _zero(kind: ColumnType) -> Value:
    if kind.name == "enum":
        return kind.members[0]
    if kind.is_whole or kind.name == "bit":
        return 0
    if kind.name in {"float", "double"}:
        return 0.0
    if kind.name == "decimal":
        return Decimal(0)
    if kind.is_binary:
        return b""
    zeros = {"date": "0000-00-00", "time": "00:00:00", "json": "null"}
    return zeros.get(kind.name, "0000-00-00 00:00:00" if kind.is_moment else "")


@dataclass(frozen=True)
class SimulatedTable:
    """A source table at one schema version.

    `unique` holds the unique indexes in the order of their ids. `clustered` says whether the primary key is
    the row's own address in TiKV, which decides how TiCDC sees a change of it (wire-formats.md, "Update
    splitting").
    """

    schema: str
    name: str
    columns: tuple[SimulatedColumn, ...]
    primary_key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    clustered: bool = True
    version: int = 1
    _by_name: dict[str, SimulatedColumn] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._by_name.update((column.name, column) for column in self.columns)

    @property
    def full_name(self) -> str:
        """`schema.table`."""
        return f"{self.schema}.{self.name}"

    def column(self, name: str) -> SimulatedColumn:
        """Return the column of that name, or raise `COLUMN_UNKNOWN`."""
        try:
            return self._by_name[name]
        except KeyError:
            names = ", ".join(self._by_name)
            raise SimulationError(
                "COLUMN_UNKNOWN", f"{self.full_name} has no column {name!r}.", f"It has: {names}."
            ) from None

    @cached_property
    def handle(self) -> tuple[str, ...]:
        """The key that TiCDC uses, in table order: PRIMARY KEY, else the shortest non-null unique index."""
        if not self.has_handle:
            raise SimulationError(
                "NO_HANDLE", f"{self.full_name} has no key that TiCDC can use: Avro refuses such a table."
            )
        return tuple(column.name for column in self.columns if column.name in self._chosen)

    @property
    def has_handle(self) -> bool:
        """Whether there is such a key; without one a changefeed needs force-replicate, and Avro refuses."""
        return bool(self._chosen)

    @property
    def has_integer_handle(self) -> bool:
        """Whether the primary key, one clustered integer, is the row's address in TiKV itself."""
        is_one_column = self.clustered and len(self.primary_key) == 1
        return is_one_column and self.column(self.primary_key[0]).parsed.is_integer

    @cached_property
    def _chosen(self) -> tuple[str, ...]:
        usable = [index for index in self.unique if not any(self.column(name).nullable for name in index)]
        return self.primary_key or min(usable, key=len, default=())

    @cached_property
    def sent_columns(self) -> tuple[SimulatedColumn, ...]:
        """The columns that TiCDC sends: all but virtual generated ones, in table order."""
        return tuple(column for column in self.columns if not column.virtual)

    def key_of(self, row: Row) -> tuple[Value, ...]:
        """Return the row's handle values, in table order."""
        return tuple(row[name] for name in self.handle)

    def with_column(self, column: SimulatedColumn) -> SimulatedTable:
        """Return the next version of the table: one more column, at the end."""
        return replace(self, columns=(*self.columns, column), version=self.version + 1)
