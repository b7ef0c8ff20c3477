"""Rows of Canal-JSON in files: of a line the head is read first, which skips the row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.columns import LOGICAL_BITS
from pipeline.model.projection import Projection, once
from pipeline.protocols.canal.reading import message
from pipeline.protocols.canal.rows import CanalRows, CanalRowsAtOnce, is_one_row, sides
from pipeline.protocols.described.head import ROW_TYPES, SENT, one_of, sent_as
from pipeline.protocols.files.encoding import FileEncoding
from pipeline.protocols.files.head import COLUMNS, ROWS, headed, of_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import TableVersion

_OP = "_op"
_COMMIT_TS = re.compile(rb'"_tidb":\{"commitTs":([0-9]+)')
_COMMIT_TIME = re.compile(rb'"es":([0-9]+)')


class CanalEncoding(CanalRows, FileEncoding):
    """See `Encoding`."""

    columns = COLUMNS
    sends_members = False
    needs_before = ""

    def lacks_before(self) -> Column:
        """None does."""
        return F.lit(False)

    def prepared(self) -> Sequence[Projection]:
        """The head of each line."""
        return _prepared()

    def at_once(self, version: TableVersion) -> CanalAtOnce:
        """With the columns of this version."""
        return CanalAtOnce(version)

    def carried(self) -> Column:
        """The keys of `sqlType`."""
        return F.json_object_keys(F.get_json_object(F.col("value").cast("string"), "$.sqlType"))


@dataclass(frozen=True, slots=True)
class CanalAtOnce(CanalRowsAtOnce, CanalEncoding):
    """A whole line in one pass."""

    version: TableVersion

    def prepared(self) -> Sequence[Projection]:
        """The head of each line, with its rows."""
        return _prepared_at_once(self.version)


def first_commit_ts(content: bytes) -> int | None:
    """The commit ts of the first row of a file that begins so: 0 if it has no row yet, None of one without it."""
    line, end, _ = content.partition(b"\n")
    match = _COMMIT_TS.search(line)
    if match:
        return int(match[1])
    return None if end and b'"isDdl":false' in line else 0


def first_commit_ts_at_most(content: bytes) -> int:
    """The same; at most, where the first row is cut off behind the millisecond of its commit; 0 if nobody knows."""
    commit_ts = first_commit_ts(content) or 0
    milliseconds = None if commit_ts else _COMMIT_TIME.search(content.partition(b"\n")[0])
    return (int(milliseconds[1]) + 1 << LOGICAL_BITS) - 1 if milliseconds else commit_ts


@cache
def _prepared() -> tuple[Projection, ...]:
    read = message(_line())
    return (sent_as(read, COLUMNS), *_headed(F.col(SENT).isNotNull()))


@lru_cache(maxsize=256)
def _prepared_at_once(version: TableVersion) -> tuple[Projection, ...]:
    read = message(_line(), version)
    whole = is_one_row(F.col(SENT)) & F.col(SENT).getField("fits")
    return (sent_as(read, COLUMNS), *_headed(whole, sides(F.col(SENT))))


def _line() -> Column:
    return F.when(once() & (of_file("kind") == ROWS), F.col("value"))


def _headed(whole: Column, rows: Mapping[str, Column] | None = None) -> tuple[Projection, Projection]:
    """What a row does is found once a line; then all else."""
    sent = F.col(SENT)
    kind = sent.getField("type")
    is_row = whole & (sent.getField("isDdl") == F.lit(False)) & one_of(kind, ROW_TYPES)
    op = F.when(once() & is_row, F.lower(kind))
    with_op = Projection([*(F.col(name) for name in COLUMNS), F.col(SENT), op.alias(_OP)])
    return with_op, headed(F.col(_OP), sent.getField("commitTs"), carried=rows or {})
