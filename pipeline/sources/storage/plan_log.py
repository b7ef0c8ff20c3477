"""What was planned, in `_pipeline.files`: a row a file, written before anything of the file is.

A file gets its ordinal here and keeps it. A batch is a range of ordinals: a try that died has left its own, and the
next one takes just these. A file is finished when the ledger has passed its ordinal.

A changefeed may have written millions of files. So of each there are but a few bytes in memory (`_Contents`).
"""

from __future__ import annotations

import datetime as dt
import hashlib
from bisect import bisect_left
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from pipeline.model.frontier import NEVER, Frontier, commit_ts_of
from pipeline.protocols.files.head import ROWS
from pipeline.sources.storage.lanes import LANE, LANE_PATH, MONTH_OR_DAY, Lane, LaneEnd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.sources.source import SourceNotes
    from pipeline.sources.storage.store import StoredFile

TABLE = "files"
LOST = "LOST"
"""The kind of a file that was never there to be taken, and that a person has given up."""
LISTED = "LISTED"
"""The kind of a row that is no file: when everything was listed (`modified`; 1970 as long as some of it is left), and
for which tables (`etag`)."""
ACCEPTED = "ACCEPTED"
"""The kind of a row that is no file: a person has accepted that `metadata` says less (`version`) than the tables show
(`progress`)."""
_NO_FILES = (LOST, LISTED, ACCEPTED)
_HASH_BYTES, _CONTENT_BYTES = 16, 8


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that a batch takes. `incarnation`: how often the path had another content before, and one more.

    `kind`: `ROWS`, the `MessageKind` of a schema file, `LOST`, `LISTED` or `ACCEPTED`. `progress`: how far the tables
    are complete with its batch.
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
    def is_there(self) -> bool:
        """Whether there is a file to be read."""
        return self.kind not in _NO_FILES

    @property
    def shown_path(self) -> str:
        """The path as users see it: with `@2` where it is the second content under it."""
        return self.path if self.incarnation == 1 else f"{self.path}@{self.incarnation}"


class Known(NamedTuple):
    """What is known of a path: the content that was planned last (`content_of`), and how many there were."""

    content: bytes
    incarnation: int


class Listed(NamedTuple):
    """When everything was listed, in seconds since the epoch, and for which tables: see `LISTED`."""

    when: float
    tables: str


class WentBack(NamedTuple):
    """A person has accepted that `metadata` says `checkpoint`, though the tables are complete up to more."""

    checkpoint: int
    complete_up_to: int

    def covers(self, checkpoint: int, complete_up_to: int) -> bool:
        """Whether it is what was accepted: neither has `metadata` gone back further since, nor the tables on."""
        return checkpoint >= self.checkpoint and complete_up_to <= self.complete_up_to


class PlanLog:
    """All files that were planned so far. `ends`: the newest file of each lane; `schemas`: all that describe one.

    `listed`: what the newest row of `LISTED` says. `went_back`: what the newest row of `ACCEPTED` says.
    """

    def __init__(self, notes: SourceNotes) -> None:
        self._notes = notes
        files = notes.read(TABLE)
        self._contents = _Contents.of(files)
        self._newer: dict[str, Known] = {}
        schemas = files.where(~_is_of(ROWS, *_NO_FILES)).orderBy("ordinal")
        self.schemas = [_planned(row.asDict()) for row in schemas.collect()]
        self.ends = _ends(files) if len(self._contents) else {}
        listed = F.max_by(F.struct(F.col("modified").cast("double"), "etag"), F.when(_is_of(LISTED), F.col("ordinal")))
        backwards = F.max_by(F.struct("version", "progress"), F.when(_is_of(ACCEPTED), F.col("ordinal")))
        last = files.agg(F.max("ordinal"), F.max_by("progress", "ordinal"), listed, backwards).first()
        ordinal, progress, latest, back = (0, NEVER, None, None) if last is None or last[0] is None else last
        self.next_ordinal, self.progress = ordinal + 1, Frontier(progress)
        self.listed = Listed(0.0, "") if latest is None else Listed(*latest)
        self.went_back = None if back is None else WentBack(back[0], commit_ts_of(back[1]))

    def since(self, ordinal: int) -> tuple[PlannedFile, ...]:
        """The files from an ordinal on."""
        if ordinal >= self.next_ordinal:
            return ()
        rows = self._notes.read(TABLE).where(F.col("ordinal") >= ordinal).orderBy("ordinal").collect()
        return tuple(_planned(row.asDict()) for row in rows)

    def known(self, path: str) -> Known | None:
        """What is known of a path; None where no batch has planned it."""
        return self._newer.get(path) or self._contents.known(path)

    def add(self, files: Sequence[PlannedFile], progress: Frontier) -> tuple[PlannedFile, ...]:
        """Plan a batch of these files, whose ordinals are given here."""
        first = self.next_ordinal
        planned = tuple(replace(file, ordinal=first + number, progress=progress) for number, file in enumerate(files))
        rows = [{**asdict(file), "modified": dt.datetime.fromtimestamp(file.modified, dt.UTC)} for file in planned]
        self._notes.write(TABLE, rows)
        self.next_ordinal, self.progress = first + len(planned), progress
        for file in planned:
            self._newer[file.path] = Known(content_of(file.size, file.etag), file.incarnation)
            if file.kind == LISTED:
                self.listed = Listed(file.modified, file.etag)
            elif file.kind == ACCEPTED:
                self.went_back = WentBack(file.version, commit_ts_of(progress))
            elif not (file.has_rows or file.kind == LOST):
                self.schemas.append(file)
            elif (match := LANE.fullmatch(file.path)) is not None:
                lane = Lane(match["folder"], match["dispatcher"] or "")
                end = LaneEnd(int(match["number"]), file.path, file.modified)
                self.ends[lane] = max(end, self.ends.get(lane, end))
        return planned


def content_of(size: int, etag: str) -> bytes:
    """A few bytes that tell one content of a path from another."""
    return _hash(f"{size} {etag}")[:_CONTENT_BYTES]


def is_same(planned: Known | None, entry: StoredFile) -> bool:
    """Whether the content is the one that was planned last."""
    return planned is not None and planned.content == content_of(entry.size, entry.etag)


class _Contents:
    """The newest content of each path: records of fixed length, in the order of the paths' hashes."""

    def __init__(self, paths: bytes, contents: bytes, incarnations: Sequence[int]) -> None:
        self._paths, self._contents, self._incarnations = paths, contents, incarnations

    def __len__(self) -> int:
        return len(self._incarnations)

    def __getitem__(self, place: int) -> bytes:
        return self._paths[place * _HASH_BYTES : (place + 1) * _HASH_BYTES]

    @staticmethod
    def of(files: DataFrame) -> _Contents:
        """Those of a table."""
        newest = F.max_by(_hashed(F.concat_ws(" ", "size", "etag"), _CONTENT_BYTES), "incarnation")
        grouped = files.groupBy(_hashed(F.col("path"), _HASH_BYTES).alias("path")).agg(
            newest.alias("content"), F.max("incarnation").alias("incarnation")
        )
        table = grouped.orderBy("path").toArrow()
        paths, contents = _joined(table.column("path"), _HASH_BYTES), _joined(table.column("content"), _CONTENT_BYTES)
        return _Contents(paths, contents, table.column("incarnation").to_numpy())

    def known(self, path: str) -> Known | None:
        """What is known of a path."""
        wanted = _hash(path)
        place = bisect_left(self, wanted)
        if place == len(self) or self[place] != wanted:
            return None
        content = self._contents[place * _CONTENT_BYTES : (place + 1) * _CONTENT_BYTES]
        return Known(content, int(self._incarnations[place]))


def _joined(values: pa.ChunkedArray, width: int) -> bytes:
    """Values of this width, one behind the other."""
    return b"".join(chunk.cast(pa.binary(width)).buffers()[1].to_pybytes() for chunk in values.chunks)


def _hash(text: str) -> bytes:
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()


def _hashed(text: Column, length: int) -> Column:
    """`_hash` on the JVM."""
    return F.substring(F.unhex(F.md5(text)), 1, length)


def _is_of(*kinds: str) -> Column:
    return F.col("kind").isin(*kinds)


def _planned(values: dict[str, Any]) -> PlannedFile:
    named = {name: values[name] for name in PlannedFile.__dataclass_fields__}
    named["modified"] = named["modified"].replace(tzinfo=dt.UTC).timestamp()
    return PlannedFile(**named)


def _ends(files: DataFrame) -> dict[Lane, LaneEnd]:
    """The newest file of each lane; of lanes that differ in the date alone, of the newest."""
    folder, dispatcher, number = (F.regexp_extract("path", LANE_PATH, group) for group in (1, 2, 3))
    end = F.struct(
        number.cast("decimal(20,0)").alias("number"), "path", F.col("modified").cast("double").alias("modified")
    )
    lanes = files.where(_is_of(ROWS, LOST)).groupBy(folder.alias("folder"), dispatcher.alias("dispatcher"))
    newest = F.max_by(F.struct("folder", "dispatcher", "end"), "folder").alias("newest")
    undated = F.regexp_replace("folder", MONTH_OR_DAY, "")
    rows = lanes.agg(F.max(end).alias("end")).groupBy(undated, "dispatcher").agg(newest).collect()
    return dict(_end(row["newest"]) for row in rows)


def _end(newest: Any) -> tuple[Lane, LaneEnd]:
    end = newest["end"]
    return Lane(newest["folder"], newest["dispatcher"]), LaneEnd(int(end["number"]), end["path"], end["modified"])
