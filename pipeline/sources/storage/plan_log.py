"""What was planned, in `_pipeline.files`: a row a file, written before anything of the file is.

A file gets its ordinal here and keeps it. A batch is a range of ordinals: a try that died has left its own, and the
next one takes just these. A file is finished when the ledger has passed its ordinal.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from pipeline.model.frontier import NEVER, Frontier
from pipeline.protocols.files.head import ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.sources.source import SourceNotes
    from pipeline.sources.storage.store import StoredFile

TABLE = "files"


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that a batch takes. `incarnation`: how often the path had another content before, and one more.

    `kind`: `ROWS`, or the `MessageKind` of a schema file. `progress`: how far the tables are complete with its batch.
    """

    ordinal: int
    path: str
    incarnation: int
    size: int
    etag: str
    modified: float
    kind: str
    schema_name: str
    table_name: str
    version: int
    progress: Frontier = NEVER

    @property
    def has_rows(self) -> bool:
        """Whether its records are rows."""
        return self.kind == ROWS

    @property
    def shown_path(self) -> str:
        """The path as users see it: with `@2` where it is the second content under it."""
        return self.path if self.incarnation == 1 else f"{self.path}@{self.incarnation}"

    def is_of(self, entry: StoredFile) -> bool:
        """Whether it is just this content."""
        return (self.size, self.etag) == (entry.size, entry.etag)


class PlanLog:
    """All files that were planned so far."""

    def __init__(self, notes: SourceNotes) -> None:
        self._notes = notes
        rows = notes.read(TABLE).orderBy("ordinal").collect()
        names = PlannedFile.__dataclass_fields__
        self.files: list[PlannedFile] = []
        for row in rows:
            values = {name: row[name] for name in names}
            values["modified"] = row["modified"].replace(tzinfo=dt.UTC).timestamp()
            self.files.append(PlannedFile(**values))
        self._newest = {file.path: file for file in self.files}

    @property
    def next_ordinal(self) -> int:
        """The ordinal of the next file."""
        return self.files[-1].ordinal + 1 if self.files else 1

    @property
    def progress(self) -> Frontier:
        """How far the tables are complete with all that was planned."""
        return max((file.progress for file in self.files[-1:]), default=NEVER)

    def since(self, ordinal: int) -> tuple[PlannedFile, ...]:
        """The files from an ordinal on."""
        return tuple(file for file in self.files if file.ordinal >= ordinal)

    def newest(self, path: str) -> PlannedFile | None:
        """The newest content that was planned of a path."""
        return self._newest.get(path)

    def add(self, files: Sequence[PlannedFile], progress: Frontier) -> tuple[PlannedFile, ...]:
        """Plan a batch of these files, whose ordinals are given here."""
        first = self.next_ordinal
        planned = tuple(replace(file, ordinal=first + number, progress=progress) for number, file in enumerate(files))
        rows = [{**asdict(file), "modified": dt.datetime.fromtimestamp(file.modified, dt.UTC)} for file in planned]
        self._notes.write(TABLE, rows)
        self.files += planned
        self._newest |= {file.path: file for file in planned}
        return planned
