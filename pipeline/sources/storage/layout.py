"""How a changefeed's files are laid out, as their paths and first lines show it, against what the settings say of it.

What the files say wins. Where the settings say something else, the changefeed is not the one that its user means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pipeline.settings.sections import ChangefeedSettings
    from pipeline.sources.storage.paths import DataFile, VersionPath

_DATES = {re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"): "day", re.compile(r"[0-9]{4}-[0-9]{2}"): "month"}
_YEAR = re.compile(r"[0-9]{4}")


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How one file is laid out. `separator`: as TiCDC's `date-separator`. `digits`: those of its number."""

    separator: str
    partition: bool
    dispatcher: bool
    digits: int

    @staticmethod
    def of(path: str, file: DataFile, version: VersionPath) -> FileLayout:
        """That of a file of this version."""
        levels = [level for level in file.folder.removeprefix(version.folder).split("/") if level]
        separator = next((name for date, name in _DATES.items() for level in levels if date.fullmatch(level)), "none")
        years = [level for level in levels if _YEAR.fullmatch(level)]
        if separator == "none" and (len(levels) > 1 or years):  # of two numbers the second one is the year
            separator = "year"
        return FileLayout(
            separator,
            len(levels) > (separator != "none"),
            bool(file.dispatcher),
            len(re.findall(r"[0-9]+", path.rpartition("/")[2])[-1]),
        )

    def __str__(self) -> str:
        folders = {"none": "no date folders"}.get(self.separator, f"one folder per {self.separator}")
        partitions = ", one folder per partition" if self.partition else ""
        dispatchers = ", several writers per table" if self.dispatcher else ""
        return f"{folders}{partitions}{dispatchers}, numbers of {self.digits} digits"


def denied(asserted: ChangefeedSettings, layout: FileLayout, shown: Callable[[], Mapping[str, bool]]) -> Iterator[str]:
    """A sentence for each setting of `changefeed` that a file disagrees with.

    `shown`: see `Lines.shown`. It is asked only if the settings say something of rows.
    """
    of_rows = {
        "enable-tidb-extension": asserted.enable_tidb_extension,
        "csv.include-commit-ts": asserted.csv.include_commit_ts,
        "csv.output-old-value": asserted.csv.output_old_value,
    }
    says_something = any(wanted is not None for wanted in of_rows.values())
    actual: dict[str, bool | str] = {"date-separator": layout.separator, **(shown() if says_something else {})}
    for name, is_so in actual.items():
        wanted = {"date-separator": asserted.date_separator, **of_rows}[name]
        if wanted is not None and wanted != is_so:
            yield f"changefeed.{name} is {_text(wanted)}, but the files say {_text(is_so)}; they are read as written"


def _text(value: bool | str) -> str:  # noqa: FBT001 - a setting, as it stands
    return str(value).lower() if isinstance(value, bool) else value
