"""How rows of CSV are read: each record is split (`splitting.py`), and a version says what its columns are.

An update with the row as it was is a record of two lines, the row before and the row after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import text
from pipeline.model.change import Op
from pipeline.model.text import Value
from pipeline.protocols.csv.form import escaped
from pipeline.protocols.csv.splitting import SPLIT, said, split
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
        """Base64, or hexadecimal, of which Spark also takes half an octet."""
        octets = F.try_to_binary(sent, F.lit(self.form.binary))
        return F.when(F.length(sent) % 2 == 0, octets) if self.form.binary == "hex" else octets

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
    """See `Encoding`. `of_one`: all rows are of the one version that is asked for."""

    form: CsvForm
    of_one: bool = False
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
        return (field_of("op") == Op.UPDATE) & said("before").isNull()

    def prepared(self) -> Sequence[Projection]:
        """Each record is split, and so says its head."""
        return split(self.form), _headed()

    def at_once(self, version: TableVersion) -> CsvEncoding:  # noqa: ARG002 - a line says nothing of its version
        """The rows are taken as they are, without a copy for each version."""
        return replace(self, of_one=True)

    def carried(self) -> Column:
        """The names in the header of its file."""
        return F.split(of_file("header"), escaped(self.form.delimiter))

    def width(self) -> Column:
        """The columns of its last line."""
        return F.size(said("after"))

    def decoded(self, versions: Sequence[TableVersion]) -> Sequence[Mapping[str, Column]]:  # noqa: ARG002 - there is `SPLIT`
        """Nothing more."""
        return ()

    def after(self, version: TableVersion) -> Column:
        """The values of its last line."""
        return self._of(version, said("after"))

    def before(self, version: TableVersion) -> Column:
        """The values of the first of two lines; of a delete, of its line."""
        return self._of(version, said("before"))

    def _of(self, version: TableVersion, row: Column) -> Column:
        return row if self.of_one else F.when(_is_of(version), row)

    def item(self, row: Column, version: TableVersion, place: int) -> Column:  # noqa: ARG002 - there are no names
        """By its place."""
        return F.get(row, F.lit(place))

    def fault(self, version: TableVersion) -> Column | None:
        """Where a quote stands where none may, or a line has other columns than the version: so many, or by name."""
        wanted = F.lit(len(version.columns))
        differs = (F.size(said("after")) != wanted) | (F.size(said("before")) != wanted)
        names = self.form.delimiter.join(column.name for column in version.columns)
        named_otherwise = of_file("header") != F.lit(names)
        return F.when(_is_of(version) & said("after").isNull(), F.lit(VALUE_UNREADABLE)).when(
            _is_of(version) & (F.coalesce(differs, F.lit(False)) | F.coalesce(named_otherwise, F.lit(False))),
            F.lit(COLUMNS_DIFFER),
        )


def _is_of(version: TableVersion) -> Column:
    return field_of("version") == F.lit(version.version)


@cache
def _headed() -> Projection:
    return headed(said("op"), said("commit_ts"), CsvEncoding.columns)
