"""How lines of CSV are read: each is taken apart by one expression, and a version says what its fields are.

An update with the row as it was is a record of two lines, the row before and the row after.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import text
from pipeline.model.change import Op
from pipeline.model.conditions import any_of
from pipeline.model.projection import Projection, once
from pipeline.model.text import Value
from pipeline.protocols.csv.form import escaped
from pipeline.protocols.described.encoding import Codes
from pipeline.protocols.described.head import field_of
from pipeline.protocols.described.text_values import TextValues
from pipeline.protocols.files.encoding import FileEncoding
from pipeline.protocols.files.head import (
    COLUMNS,
    COMMIT_TS_MISSING,
    FILE_TRUNCATED,
    ROWS,
    TRUNCATED,
    headed,
    of_file,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import TableVersion
    from pipeline.protocols.csv.form import CsvForm

UNREADABLE, VALUE_UNREADABLE, COLUMNS_DIFFER = "CSV_UNREADABLE", "CSV_VALUE_UNREADABLE", "COLUMNS_DIFFER"
CODES = Codes(
    UNREADABLE,
    VALUE_UNREADABLE,
    {
        UNREADABLE: "the record is no line of a changefeed's CSV with these characters (changefeed.csv), or no UTF-8",
        VALUE_UNREADABLE: "a value of the row is not what its column's type says",
        FILE_TRUNCATED: TRUNCATED,
        COMMIT_TS_MISSING: "the line has no commit ts: set include-commit-ts = true in [sink.csv] of the changefeed",
        COLUMNS_DIFFER: "the line, or the header of its file, has other columns than its version: does the changefeed "
        "have a column selector, or was a virtual column there before it began?",
    },
)
OLD_VALUES_MISSING = (
    "OLD_VALUES_MISSING: the table has no primary key, and its updates do not carry the row as it was: nobody can tell "
    "which row they change; set output-old-value = true in [sink.csv] of the changefeed"
)
_BEFORE_COLUMNS = 3
"""Operation, table and schema."""
_FIELDS, _OLD_FIELDS = "_fields", "_old_fields"
_LENGTH, _OLD_LENGTH = "_length", "_old_length"
_LINE, _MOMENT, _TWO, _OP = "_line", "_moment", "_two", "_op"


@dataclass(frozen=True, slots=True)
class CsvValues(TextValues):
    """Texts; ENUM and SET by their names."""

    form: CsvForm

    def octets(self, sent: Column) -> Column:
        """Base64, or hexadecimal."""
        return F.try_to_binary(sent, F.lit(self.form.binary))

    def instant(self, sent: Column, timezone: str) -> Value:
        """The clock of the changefeed's time zone."""
        return text.timestamp(sent, timezone)

    def member(self, sent: Column, members: tuple[str, ...]) -> Value:  # noqa: ARG002 - it is named
        """By its name."""
        return Value(sent)

    def members(self, sent: Column, members: tuple[str, ...]) -> Value:  # noqa: ARG002 - they are named
        """By their names."""
        return Value(sent)


@dataclass(frozen=True, slots=True)
class CsvEncoding(FileEncoding):
    """See `Encoding`."""

    form: CsvForm
    codes = CODES
    needs_before = OLD_VALUES_MISSING
    sends_members = True

    @property
    def values(self) -> CsvValues:
        """How values are read."""
        return CsvValues(self.form)

    def lacks_before(self) -> Column:
        """An update of one line."""
        return (field_of("op") == Op.UPDATE) & ~field_of("two")

    def prepared(self) -> Sequence[Projection]:
        """The head of each line."""
        return _prepared(self.form)

    def at_once(self, version: TableVersion) -> CsvEncoding:  # noqa: ARG002 - a line says nothing of its version
        """As it is."""
        return self

    def carried(self) -> Column:
        """The names in the header of its file."""
        return F.split(of_file("header"), escaped(self.form.delimiter))

    def width(self) -> Column:
        """The fields behind those of every line."""
        lines = F.split(F.col("value").cast("string"), self.form.second_line, 2)
        return F.size(_fields(self.form, F.get(lines, F.lit(0)))) - field_of("meta")

    def decoded(self, versions: Sequence[TableVersion]) -> list[Column]:  # noqa: ARG002 - whatever the version
        """The fields of both lines."""
        value = F.when(once() & (of_file("kind") == ROWS), F.col("value").cast("string"))
        lines = F.when(field_of("two"), F.split(value, self.form.second_line, 2))
        first, last = F.get(lines, F.lit(0)), F.coalesce(F.get(lines, F.lit(1)), value)
        return [
            *(_fields(self.form, last).alias(_FIELDS), F.length(last).alias(_LENGTH)),
            *(_fields(self.form, first).alias(_OLD_FIELDS), F.length(first).alias(_OLD_LENGTH)),
        ]

    def after(self, version: TableVersion) -> Column:
        """The columns of the last line."""
        return self._row(version, F.col(_FIELDS))

    def before(self, version: TableVersion) -> Column:
        """The columns of the first of two lines; of a delete, of its line."""
        was = F.when(field_of("op") == Op.DELETE, F.col(_FIELDS)).otherwise(F.col(_OLD_FIELDS))
        return self._row(version, was)

    def fault(self, version: TableVersion) -> Column | None:
        """Where a line is not its fields alone, or has other columns than the version: by number, or by its header."""
        mine, wanted = field_of("version") == F.lit(version.version), field_of("meta") + F.lit(len(version.columns))
        lines = [(F.col(_FIELDS), F.col(_LENGTH)), (F.col(_OLD_FIELDS), F.col(_OLD_LENGTH))]
        more = any_of(F.length(F.array_join(fields, self.form.delimiter)) != length for fields, length in lines)
        differs = any_of(fields.isNotNull() & (F.size(fields) != wanted) for fields, _ in lines)
        names = self.form.delimiter.join(column.name for column in version.columns)
        named_otherwise = F.coalesce(of_file("header") != F.lit(names), F.lit(False))
        return F.when(mine & more, F.lit(VALUE_UNREADABLE)).when(
            mine & (differs | named_otherwise), F.lit(COLUMNS_DIFFER)
        )

    def _row(self, version: TableVersion, fields: Column) -> Column:
        mine = (field_of("version") == F.lit(version.version)) & fields.isNotNull()
        columns = [
            self._value(F.get(fields, field_of("meta") + F.lit(place))).alias(column.name)
            for place, column in enumerate(version.columns)
        ]
        return F.when(mine, F.struct(*columns) if columns else F.struct(F.lit(None).alias("nothing")))

    def _value(self, field: Column) -> Column:
        """The value of a field; NULL for NULL."""
        form = self.form
        null = field == F.lit(form.null)
        if not form.quote:
            parts = F.transform(F.split(field, r"\\\\"), _unescaped)
            return F.when(~null, F.array_join(parts, "\\"))
        inner = F.substring(field, F.lit(2), F.length(field) - 2)
        is_text = F.startswith(field, F.lit(form.quote))
        plain = F.when(inner.contains(form.quote), F.replace(inner, F.lit(form.quote * 2), F.lit(form.quote)))
        return F.when(is_text, plain.otherwise(inner)).when(~null, field)


def _unescaped(part: Column) -> Column:
    """A text between two backslashes that stand for one."""
    ends = F.replace(F.replace(part, F.lit(r"\n"), F.lit("\n")), F.lit(r"\r"), F.lit("\r"))
    return F.replace(ends, F.lit("\\"), F.lit(""))


def _fields(form: CsvForm, line: Column) -> Column:
    """The fields of a line as they stand there. What is no field is passed over: `CsvEncoding.fault` sees that."""
    return F.regexp_extract_all(line, F.lit(form.field), F.lit(1))


@lru_cache(maxsize=16)
def _prepared(form: CsvForm) -> tuple[Projection, ...]:
    """In steps, each of whose columns is computed once a row, whatever asks for it."""
    raw, line, moment, op, two = [F.col(name) for name in COLUMNS], *map(F.col, (_LINE, _MOMENT, _OP, _TWO))
    text = F.when(once() & (of_file("kind") == ROWS), F.col("value").cast("string"))
    commit_ts, update = (F.split_part(moment, F.lit(form.delimiter), F.lit(part)) for part in (1, 2))
    letter = F.when(moment != "", F.substring(line, 1 + len(form.quote), 1))
    has_two = F.when(once(), (update == "true") & F.regexp_like(line, F.lit(form.second_line)))
    kind = (
        F.when((letter == "U") | two | ((letter == "I") & (update == "true")), F.lit(Op.UPDATE.value))
        .when(letter == "D", F.lit(Op.DELETE.value))
        .when(letter == "I", F.lit(Op.INSERT.value))
        .when(F.regexp_like(line, F.lit(form.names)), F.lit(Op.INSERT.value))  # without a commit ts
    )
    meta = F.when(update == "", F.lit(_BEFORE_COLUMNS + 1)).otherwise(F.lit(_BEFORE_COLUMNS + 2))
    return (
        Projection([*raw, F.try_validate_utf8(text).alias(_LINE)]),
        Projection([*raw, line, F.when(once(), F.regexp_extract(line, form.moment, 1)).alias(_MOMENT)]),
        Projection([*raw, line, moment, has_two.alias(_TWO)]),
        Projection([*raw, moment, two, F.when(once(), kind).alias(_OP)]),
        headed(op, commit_ts.try_cast("bigint"), {"meta": meta, "two": two}),
    )
