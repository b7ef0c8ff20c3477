"""What the files of each protocol differ in for the source: where records end, and where a commit ts stands."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from pipeline.model.columns import time_of
from pipeline.protocols import canal
from pipeline.protocols.csv.form import form_of
from pipeline.protocols.csv.lines import csv_records
from pipeline.protocols.files.cut import json_lines
from pipeline.protocols.files.head import FILE_NOT_CSV, FILE_NOT_JSON
from pipeline.sources.storage.cutting import HEADER, is_closed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipeline.protocols.csv import CsvForm
    from pipeline.settings import Settings
    from pipeline.sources.storage.cutting import Cutter

_FIRST_TIDB = datetime(2016, 1, 1, tzinfo=UTC)
_CLOCKS_DIFFER_BY = 86_400.0
"""Seconds by which TiDB's clock may be ahead of this machine's."""


@dataclass(frozen=True, slots=True)
class Lines:
    """`cut` gives the records that some bytes of a file begin with.

    `is_closed`: whether a file that ends with some bytes ends with a record.

    `compressed` is the kind of records of a file that is compressed.

    `header`: the names of the columns as the first line of a file has them, None if that is a row.

    `first_commit_ts` gives the commit ts of the first row of a file that begins with some bytes: 0 if there is no whole
    row, None if the row does not say it. `begins_at_most` gives the same or more, and 0 if nobody knows; the row may be
    cut off. `remedy`: which option of the changefeed adds it. `shown` gives what the same bytes show of the
    changefeed's options, by their names in `changefeed`.

    `names_members`: whether rows have the values of ENUM and SET by name, and not by number.
    """

    cut: Cutter
    is_closed: Callable[[bytes], bool]
    compressed: str
    header: Callable[[bytes], str | None]
    first_commit_ts: Callable[[bytes], int | None]
    begins_at_most: Callable[[bytes], int]
    remedy: str
    shown: Callable[[bytes], dict[str, bool]]
    names_members: bool = True


def lines_of(settings: Settings) -> Lines:
    """The lines of the protocol that the settings name."""
    return _LINES[settings.source.protocol](settings)


def _csv(settings: Settings) -> Lines:
    form = form_of(settings.changefeed.csv)
    first = partial(first_csv_commit_ts, form)
    return Lines(
        partial(csv_records, form),
        partial(is_closed, form),
        FILE_NOT_CSV,
        partial(header_of, form),
        first,
        lambda content: first(content) or 0,
        "include-commit-ts = true in [sink.csv]",
        partial(_shown_by_csv, form),
    )


def _canal(settings: Settings) -> Lines:
    del settings
    return Lines(
        json_lines,
        lambda last: last.endswith(b"\n"),
        FILE_NOT_JSON,
        lambda _: None,
        canal.first_commit_ts,
        canal.first_commit_ts_at_most,
        "enable-tidb-extension=true in the sink URI",
        lambda content: {"enable-tidb-extension": True} if canal.first_commit_ts(content) else {},
        names_members=False,
    )


_LINES: Mapping[str, Callable[[Settings], Lines]] = {"csv": _csv, "canal-json": _canal}


def header_of(form: CsvForm, line: bytes) -> str | None:
    """See `Lines.header`: the names behind those of what TiCDC says of a row."""
    if not line.startswith(HEADER):
        return None
    names = line.decode("utf-8", "replace").split(form.delimiter)
    return form.delimiter.join(name for name in names if not name.startswith(HEADER.decode()))


def first_csv_commit_ts(form: CsvForm, content: bytes) -> int | None:
    """See `Lines.first_commit_ts`."""
    content = _without_header(form, content)
    match = re.match(form.head.encode(), content)
    if match:
        return int(match[2]) if _is_of_tidb(int(match[2])) else None
    has_line = form.terminator.encode() in content
    return None if has_line and re.match(form.names.encode(), content) else 0


def _is_of_tidb(commit_ts: int) -> bool:
    """Whether a number may be a commit ts. Else it is a column's, in a file without one: a large id, for example."""
    return _FIRST_TIDB.timestamp() <= time_of(commit_ts).timestamp() <= time.time() + _CLOCKS_DIFFER_BY


def _shown_by_csv(form: CsvForm, content: bytes) -> dict[str, bool]:
    match = re.match(form.head.encode(), _without_header(form, content))
    return {"csv.include-commit-ts": True, "csv.output-old-value": match[3] is not None} if match else {}


def _without_header(form: CsvForm, content: bytes) -> bytes:
    return content.partition(form.terminator.encode())[2] if content.startswith(HEADER) else content
