"""TiDB's column types as data: a row for each, which the protocols, DDL texts and defaults read.

A row goes by TiCDC's word for the type: `tidb_type` without what stands in parentheses. It is coarser than SQL, for
which TINYINT, SMALLINT and INT are three types. docs/contributing/add-a-type.md says what a new row needs elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pipeline.model import types as t

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipeline.model.types import WarehouseType


class Domain(StrEnum):
    """What a type's values are.

    `names` gives the types of a domain. `model.columns` and `model.source_types` ask it for what they treat alike.
    `ddl.sql_types` reads the domain of FLOAT and DOUBLE.
    """

    WHOLE = "whole numbers"
    FLOATING = "floating-point numbers"
    DECIMAL = "decimal numbers"
    TEXT = "texts"
    BYTES = "bytes"
    MEMBERS = "names, each with a number"
    CALENDAR = "dates, with or without a clock"
    CLOCK = "times of day, and spans of time"
    VECTOR = "arrays of floating-point numbers"


class Parameters(StrEnum):
    """What stands in parentheses after a type's name and decides how its values read."""

    NONE = ""
    DIGITS = "p,s"
    BITS = "n"
    FRACTION = "f"
    MEMBERS = "'a','b'"


class ChecksumForm(StrEnum):
    """The bytes that a value adds to TiDB's row checksum (`protocols.row_checksum`)."""

    SIGNED = "a signed whole number, in eight bytes"
    SMALL = "a whole number from 0 to 2^53 - 1, in eight bytes"
    UNSIGNED = "an unsigned number of 64 bits, in eight bytes"
    REAL = "a double, in eight bytes"
    TEXT = "the length in four bytes, then the text"
    BYTES = "the length in four bytes, then the bytes"
    INSTANT = "the same as a text, of the instant in UTC"
    MEMBER = "the member's number, in eight bytes"
    MASK = "a bit for each member, in eight bytes"
    VECTOR = "the number of dimensions in four bytes, then each as a float of four"


class Loss(StrEnum):
    """What the warehouse type cannot hold, and why. The text of such a value is in `_unrepresentable`."""

    ZERO_DATES = "year 0000, month 00 or day 00: the calendar has no such day"
    SECOND_INSTANT = "a wall clock that clocks set back show twice: it becomes the earlier instant"
    OTHER_BYTES = "text that is not UTF-8: readers of Parquet refuse the whole file"


@dataclass(frozen=True, slots=True)
class TidbType:
    """One type of TiDB."""

    name: str
    """TiCDC's word: `tidb_type` without parameters."""
    domain: Domain
    sql: tuple[str, ...]
    """Its names in SQL, without UNSIGNED."""
    codes: tuple[int, ...]
    """MySQL's codes, which Open sends (`BY_CODE`). Types that share a code differ by flags."""
    warehouse: WarehouseType
    """Its natural warehouse type (design.md, 4.4), as far as parameters do not decide."""
    checksum: ChecksumForm
    zero: str | None = None
    """The text of its zero value, without fraction digits; None where it has none of its own.

    `ddl.defaults` and `protocols.avro.defaults` read it: rows from before a NOT NULL column without a default show it.
    """
    parameters: Parameters = Parameters.NONE
    unsigned: bool = False
    """Whether UNSIGNED in a definition makes this type of another one."""
    range: tuple[int, int] | None = None
    """The least and the greatest value of a whole number."""
    sized: Callable[..., WarehouseType] | None = None
    """Gives the natural warehouse type by the parameters, where these decide."""
    widens_to: tuple[str, ...] = ()
    """Types that have every value of this one. Tests alone read it: they compare it with `registry.compatibility`."""
    loses: tuple[Loss, ...] = ()
    """What its warehouse type cannot hold.

    Tests alone read it: they compare it with docs/reference/types.md. The decoders decide what is lost
    (`model.text`). `warehouse.layout.Column.loses` says whether a column may lose values, and does not read this.
    """

    def warehouse_type(self, *numbers: int) -> WarehouseType:
        """The natural warehouse type with these parameters. Without them a value may be as wide as TiDB allows."""
        return self.sized(*numbers) if self.sized and numbers else self.warehouse


INT = TidbType(
    "INT",
    Domain.WHOLE,
    (
        "TINYINT", "SMALLINT", "MEDIUMINT", "MIDDLEINT", "INT1", "INT2", "INT3", "BOOL", "BOOLEAN",
        "INT", "INTEGER", "INT4",
    ),
    (1, 2, 3, 9),
    t.INT,
    ChecksumForm.SIGNED,
    zero="0",
    range=(-(2**31), 2**31 - 1),
    widens_to=("BIGINT",),
)  # fmt: skip
INT_UNSIGNED = TidbType(
    "INT UNSIGNED",
    Domain.WHOLE,
    ("INT", "INTEGER", "INT4"),
    (3,),
    t.BIGINT,
    ChecksumForm.SMALL,
    zero="0",
    unsigned=True,
    range=(0, 2**32 - 1),
    widens_to=("BIGINT", "BIGINT UNSIGNED"),
)
BIGINT = TidbType(
    "BIGINT",
    Domain.WHOLE,
    ("BIGINT", "INT8"),
    (8,),
    t.BIGINT,
    ChecksumForm.SIGNED,
    zero="0",
    range=(-(2**63), 2**63 - 1),
)
BIGINT_UNSIGNED = TidbType(
    "BIGINT UNSIGNED",
    Domain.WHOLE,
    ("BIGINT", "INT8"),
    (8,),
    t.UNSIGNED_BIGINT,
    ChecksumForm.UNSIGNED,
    zero="0",
    unsigned=True,
    range=(0, 2**64 - 1),
)
BIT = TidbType(
    "BIT",
    Domain.WHOLE,
    ("BIT",),
    (16,),
    t.UNSIGNED_BIGINT,
    ChecksumForm.UNSIGNED,
    zero="0",
    parameters=Parameters.BITS,
    sized=t.bit,
)
YEAR = TidbType(
    "YEAR",
    Domain.WHOLE,
    ("YEAR",),
    (13,),
    t.INT,
    ChecksumForm.SMALL,
    zero="0",
    range=(0, 2155),
)
FLOAT = TidbType(
    "FLOAT",
    Domain.FLOATING,
    ("FLOAT", "FLOAT4"),
    (4,),
    t.FLOAT,
    ChecksumForm.REAL,
    zero="0",
    widens_to=("DOUBLE",),
)
DOUBLE = TidbType(
    "DOUBLE",
    Domain.FLOATING,
    ("DOUBLE", "REAL", "FLOAT8"),
    (5,),
    t.DOUBLE,
    ChecksumForm.REAL,
    zero="0",
)
DECIMAL = TidbType(
    "DECIMAL",
    Domain.DECIMAL,
    ("DECIMAL", "NUMERIC", "DEC", "FIXED"),
    (246,),
    t.STRING,
    ChecksumForm.TEXT,
    zero="0",
    parameters=Parameters.DIGITS,
    sized=t.decimal,
)
TEXT = TidbType(
    "TEXT",
    Domain.TEXT,
    ("CHAR", "VARCHAR", "VARCHARACTER", "NVARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"),
    (15, 249, 250, 251, 252, 253, 254),
    t.STRING,
    ChecksumForm.TEXT,
    zero="",
    loses=(Loss.OTHER_BYTES,),
)
BLOB = TidbType(
    "BLOB",
    Domain.BYTES,
    ("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"),
    (15, 249, 250, 251, 252, 253, 254),
    t.BINARY,
    ChecksumForm.BYTES,
    zero="",
)
JSON = TidbType(
    "JSON",
    Domain.TEXT,
    ("JSON",),
    (245,),
    t.STRING,
    ChecksumForm.TEXT,
    zero="null",
)
ENUM = TidbType(
    "ENUM",
    Domain.MEMBERS,
    ("ENUM",),
    (247,),
    t.STRING,
    ChecksumForm.MEMBER,
    parameters=Parameters.MEMBERS,
    loses=(Loss.OTHER_BYTES,),
)
SET = TidbType(
    "SET",
    Domain.MEMBERS,
    ("SET",),
    (248,),
    t.STRING,
    ChecksumForm.MASK,
    zero="",
    parameters=Parameters.MEMBERS,
    loses=(Loss.OTHER_BYTES,),
)
DATE = TidbType(
    "DATE",
    Domain.CALENDAR,
    ("DATE",),
    (10, 14),
    t.DATE,
    ChecksumForm.TEXT,
    zero="0000-00-00",
    loses=(Loss.ZERO_DATES,),
)
DATETIME = TidbType(
    "DATETIME",
    Domain.CALENDAR,
    ("DATETIME",),
    (12,),
    t.TIMESTAMP_NTZ,
    ChecksumForm.TEXT,
    zero="0000-00-00 00:00:00",
    parameters=Parameters.FRACTION,
    loses=(Loss.ZERO_DATES,),
)
TIMESTAMP = TidbType(
    "TIMESTAMP",
    Domain.CALENDAR,
    ("TIMESTAMP",),
    (7,),
    t.TIMESTAMP,
    ChecksumForm.INSTANT,
    zero="0000-00-00 00:00:00",
    parameters=Parameters.FRACTION,
    loses=(Loss.ZERO_DATES, Loss.SECOND_INSTANT),
)
TIME = TidbType(
    "TIME",
    Domain.CLOCK,
    ("TIME",),
    (11,),
    t.STRING,
    ChecksumForm.TEXT,
    zero="00:00:00",
    parameters=Parameters.FRACTION,
)
VECTOR = TidbType(
    "VECTOR",
    Domain.VECTOR,
    ("VECTOR",),
    (225,),
    t.VECTOR,
    ChecksumForm.VECTOR,
)

_ROWS = (
    INT, INT_UNSIGNED, BIGINT, BIGINT_UNSIGNED, BIT, YEAR, FLOAT, DOUBLE, DECIMAL, TEXT, BLOB, JSON, ENUM, SET,
    DATE, DATETIME, TIMESTAMP, TIME, VECTOR,
)  # fmt: skip

TYPES: Mapping[str, TidbType] = {row.name: row for row in _ROWS}
"""Every type, by TiCDC's word."""
BY_CODE: Mapping[int, tuple[TidbType, ...]] = {
    code: tuple(row for row in _ROWS if code in row.codes)
    for code in sorted({code for row in _ROWS for code in row.codes})
}
"""Of several types with one code the first is the one without flags."""
MYSQL_CODES: Mapping[str, int] = {
    "tinyint": 1, "smallint": 2, "int": 3, "float": 4, "double": 5, "timestamp": 7, "bigint": 8, "mediumint": 9,
    "date": 10, "time": 11, "datetime": 12, "year": 13, "varchar": 15, "varbinary": 15, "bit": 16, "vector": 225,
    "json": 245, "decimal": 246, "enum": 247, "set": 248, "tinytext": 249, "tinyblob": 249, "mediumtext": 250,
    "mediumblob": 250, "longtext": 251, "longblob": 251, "text": 252, "blob": 252, "char": 254, "binary": 254,
}  # fmt: skip
"""The code of each type's name in SQL, in lower case (TiCDC Open Protocol, "Column type codes")."""

_BY_SQL_NAME = {(name, row.unsigned): row for row in _ROWS for name in row.sql}
_NUMBER = re.compile(r"[0-9]+")


def of(tidb_type: str) -> TidbType | None:
    """The type of a `tidb_type`, with or without parameters; None of one that is not known."""
    return TYPES.get(tidb_type.partition("(")[0])


def of_sql(name: str, *, unsigned: bool = False) -> TidbType | None:
    """The type of a name in SQL, in capitals; None of a name that is not known. UNSIGNED mostly changes nothing."""
    return _BY_SQL_NAME.get((name, unsigned)) or _BY_SQL_NAME.get((name, False))


def names(*domains: Domain) -> tuple[str, ...]:
    """TiCDC's words for the types of these domains."""
    return tuple(row.name for row in _ROWS if row.domain in domains)


def natural(tidb_type: str) -> WarehouseType:
    """The natural warehouse type of a `tidb_type` (design.md, 4.4); an unknown type is taken as text."""
    row = of(tidb_type)
    if row is None:
        return t.STRING
    return row.warehouse_type(*(int(number) for number in _NUMBER.findall(tidb_type.partition("(")[2])))
