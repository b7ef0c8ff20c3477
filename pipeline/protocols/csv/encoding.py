"""How rows of CSV are read: the source has split each record (`splitting.py`), and a version says what its columns are.

An update with the row as it was is a record of two lines, the row before and the row after.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

from pipeline.model import text
from pipeline.model.change import Op
from pipeline.model.places import SPLIT, SPLIT_TYPE
from pipeline.model.text import Value
from pipeline.protocols.csv.form import escaped
from pipeline.protocols.csv.splitting import split_each
from pipeline.protocols.described.encoding import Codes
from pipeline.protocols.described.head import field_of
from pipeline.protocols.described.text_values import TextValues
from pipeline.protocols.files.encoding import FileEncoding
from pipeline.protocols.files.head import (
    COLUMNS,
    COMMIT_TS_MISSING,
    COMPRESSED,
    FAULTS,
    FILE_NOT_CSV,
    headed,
    of_file,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import TableVersion
    from pipeline.model.projection import Projection
    from pipeline.protocols.csv.form import CsvForm

UNREADABLE, VALUE_UNREADABLE, COLUMNS_DIFFER = "CSV_UNREADABLE", "CSV_VALUE_UNREADABLE", "COLUMNS_DIFFER"
CODES = Codes(
    UNREADABLE,
    VALUE_UNREADABLE,
    {
        UNREADABLE: "the record is not a CSV line with the characters of changefeed.csv, or not UTF-8",
        VALUE_UNREADABLE: "a value of the row does not fit its column's type",
        **FAULTS,
        FILE_NOT_CSV: COMPRESSED,
        COMMIT_TS_MISSING: "the line has no commit ts: set include-commit-ts = true in [sink.csv] of the changefeed",
        COLUMNS_DIFFER: "the line, or the header of its file, has other columns than its version: check whether the "
        "changefeed has a column selector, or the table had a virtual column before the changefeed began",
    },
)
OLD_VALUES_MISSING = (
    "OLD_VALUES_MISSING: the table has no primary key, and its updates do not carry old values, so a run cannot tell "
    "which row they change; set output-old-value = true in [sink.csv] of the changefeed"
)


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
    columns = (*COLUMNS, SPLIT)
    codes = CODES
    needs_before = OLD_VALUES_MISSING
    sends_members = True

    @property
    def values(self) -> CsvValues:
        """How values are read."""
        return CsvValues(self.form)

    def lacks_before(self) -> Column:
        """An update of one line."""
        return (field_of("op") == Op.UPDATE) & (_split("after") == 0)

    def prepared(self) -> Sequence[Projection]:
        """The head of each record."""
        return _prepared()

    def at_once(self, version: TableVersion) -> CsvEncoding:  # noqa: ARG002 - a line says nothing of its version
        """As it is."""
        return self

    def carried(self) -> Column:
        """The names in the header of its file."""
        return F.split(of_file("header"), escaped(self.form.delimiter))

    def width(self) -> Column:
        """The columns of its last line."""
        return F.size(_split("columns")) - _split("after")

    def decoded(self, versions: Sequence[TableVersion]) -> Sequence[Mapping[str, Column]]:  # noqa: ARG002 - there is `SPLIT`
        """Nothing more."""
        return ()

    def after(self, version: TableVersion) -> Column:
        """The columns of the last line."""
        return _row(version, _split("after"))

    def before(self, version: TableVersion) -> Column:
        """The columns of the first of two lines; of a delete, of its line."""
        is_there = (_split("after") > 0) | (field_of("op") == Op.DELETE)
        return F.when(is_there, _row(version, F.lit(0)))

    def fault(self, version: TableVersion) -> Column | None:
        """Where a quote stands where none may, or a line has other columns than the version: so many, or by name."""
        mine, wanted = field_of("version") == F.lit(version.version), F.lit(len(version.columns))
        after = _split("after")
        differs = (self.width() != wanted) | ((after > 0) & (after != wanted))
        names = self.form.delimiter.join(column.name for column in version.columns)
        named_otherwise = F.coalesce(of_file("header") != F.lit(names), F.lit(False))
        return F.when(mine & _split("columns").isNull(), F.lit(VALUE_UNREADABLE)).when(
            mine & (differs | named_otherwise), F.lit(COLUMNS_DIFFER)
        )


def split_again(form: CsvForm) -> Column:
    """`SPLIT` of records that were set aside, from their bytes, as the source does it."""

    def split(batches: Any) -> Any:
        for values in batches:
            each = split_each(form, [bytes(value) for value in values])
            yield pa.RecordBatch.from_struct_array(each).to_pandas(integer_object_nulls=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Spark wants type hints, for which every start would load pandas
        return pandas_udf(split, SPLIT_TYPE, PandasUDFType.SCALAR_ITER)(F.col("value"))


def _split(name: str) -> Column:
    return F.col(SPLIT).getField(name)


def _row(version: TableVersion, begin: Column) -> Column:
    """The columns of the version from a place on."""
    columns = [
        F.get(_split("columns"), begin + F.lit(place)).alias(column.name)
        for place, column in enumerate(version.columns)
    ]
    mine = (field_of("version") == F.lit(version.version)) & _split("columns").isNotNull()
    return F.when(mine, F.struct(*columns) if columns else F.struct(F.lit(None).alias("nothing")))


@lru_cache(maxsize=1)
def _prepared() -> tuple[Projection, ...]:
    return (headed(_split("op"), _split("commit_ts"), CsvEncoding.columns),)
