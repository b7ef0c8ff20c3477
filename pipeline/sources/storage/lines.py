"""What the files of each protocol differ in for the source: where records end, and where a commit ts stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pipeline.protocols import canal
from pipeline.protocols.csv.form import form_of
from pipeline.sources.storage.cutting import HEADER, csv_records, is_closed, json_records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipeline.protocols.csv import CsvForm
    from pipeline.settings import Settings
    from pipeline.sources.storage.cutting import Cutter


@dataclass(frozen=True, slots=True)
class Lines:
    """`cut` gives the records of a file. `is_closed`: whether a file that ends with some bytes ends with a record.

    `first_commit_ts` gives the commit ts of the first row of a file that begins with some bytes: 0 if there is no whole
    row, None if the row does not say it. `remedy`: which option of the changefeed adds it.
    """

    cut: Cutter
    is_closed: Callable[[bytes], bool]
    first_commit_ts: Callable[[bytes], int | None]
    remedy: str


def lines_of(settings: Settings) -> Lines:
    """The lines of the protocol that the settings name."""
    return _LINES[settings.source.protocol](settings)


def _csv(settings: Settings) -> Lines:
    form = form_of(settings.changefeed.csv)
    first = partial(first_csv_commit_ts, form)
    return Lines(csv_records(form), partial(is_closed, form), first, "include-commit-ts = true in [sink.csv]")


def _canal(settings: Settings) -> Lines:
    del settings
    return Lines(
        json_records,
        lambda last: last.endswith(b"\n"),
        canal.first_commit_ts,
        "enable-tidb-extension=true in the sink URI",
    )


_LINES: Mapping[str, Callable[[Settings], Lines]] = {"csv": _csv, "canal-json": _canal}


def first_csv_commit_ts(form: CsvForm, content: bytes) -> int | None:
    """See `Lines.first_commit_ts`."""
    end = form.terminator.encode()
    if content.startswith(HEADER):
        content = content.partition(end)[2]
    match = re.match(form.head.encode(), content)
    if match:
        return int(match[2])
    return None if end in content and re.match(form.names.encode(), content) else 0
