"""The batches of a storage changefeed: each is planned, noted in `_pipeline.files`, and only then taken."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.errors import Refused
from pipeline.model.frontier import Frontier, closed_by_watermark, commit_ts_of
from pipeline.observe.logs import get_logger
from pipeline.protocols.described.head import MessageKind
from pipeline.protocols.files.head import COMMIT_TS_MISSING
from pipeline.sources.storage.cleanup import Removable, delete
from pipeline.sources.storage.feed import Batch
from pipeline.sources.storage.inventory import Inventory
from pipeline.sources.storage.layout import FileLayout, denied
from pipeline.sources.storage.losses import Losses
from pipeline.sources.storage.paths import SchemaPath, read_path
from pipeline.sources.storage.plan_log import PlanLog
from pipeline.sources.storage.planner import plan
from pipeline.sources.storage.schema_files import SCHEMA_FILE_DAMAGED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pipeline.settings import Settings
    from pipeline.sources.source import SourceNotes
    from pipeline.sources.storage.inventory import Found
    from pipeline.sources.storage.lines import Lines
    from pipeline.sources.storage.plan_log import PlannedFile
    from pipeline.sources.storage.planner import Checkpoint, Hole, RowsFile
    from pipeline.sources.storage.store import Store, StoredFile

COMPLETE = "complete"
"""Beside the positions of a batch in `_pipeline.batches`: the commit ts up to which the tables are complete with it."""
FIRST_BYTES, _MORE = 1 << 20, 8
"""So much of a file is read for the commit ts of its first row; so many times more where that does not do."""
_MUCH = 64 << 20
"""From so many bytes of rows on, reading them twice takes longer than a batch more."""
_SAID_AFTER = 60.0
"""Seconds for which files may wait for their schema file without a word."""
_log = get_logger(__name__)


class BatchPlans:
    """Plans one batch after the other. `progress`: how far the tables are complete with the last one."""

    def __init__(
        self, store: Store, settings: Settings, lines: Lines, notes: SourceNotes, accept: Collection[str]
    ) -> None:
        self._store, self._source, self._lines = store, settings.source, lines
        self._changefeed = settings.changefeed
        self._keep_for = settings.warehouse.maintenance.keep_for_seconds
        self.log = PlanLog(notes)
        self.inventory = Inventory(store, self.log, self._source, lines.is_closed)
        self.progress: Frontier = max(self.log.progress, closed_by_watermark(_complete_up_to(notes)))
        self._losses = Losses(accept, lambda: self.log.next_ordinal == 1, self._has, self.inventory.table_of)
        self._first_ts: dict[tuple[str, str], int] = {}
        self._said: set[str] = set()
        self._accepted: int | None = None
        self._aim: int | None = None
        checkpoint = self.inventory.checkpoint()
        if checkpoint is not None:
            self._judge_checkpoint(checkpoint, at_once=True)

    def next_batch(self, ordinal: int) -> Batch:
        """What a try that died has planned, or else what is new; `ordinal`: see `Batches.next_batch`."""
        inventory, before = self.inventory, self.progress
        planned = self.log.since(ordinal)
        if planned:
            self.progress = max(before, planned[-1].progress)
            return Batch(planned, moved=True, settled=False, reached=False)
        removable = self._removable()
        listing = inventory.found(removable)
        self._judge(listing)
        given_up: list[PlannedFile] = []

        def is_given_up(hole: Hole) -> bool:
            gone = self._losses.given_up(hole)
            given_up.extend(inventory.given_up(hole) if gone else ())
            return gone

        most = 0 if self._waits_for_its_table(listing) else self._source.most_bytes
        made = plan(listing.new, most, self._first_commit_ts, before, is_given_up)
        self._losses.refuse()
        self.progress = made.progress
        files = [*listing.schemas, *given_up, *map(inventory.planned, made.rows)]
        if self._accepted is not None:
            files.append(inventory.went_back(self._accepted))
            self._accepted = None
        noted = inventory.listed()
        taken = self.log.add([*files, *([noted] if noted else [])], self.progress) if files else ()
        if removable is not None:
            delete(self._store, removable)
        checkpoint = listing.new.checkpoint
        settled = (checkpoint is None or checkpoint.settled) and not made.holes
        if self._aim is None and checkpoint is not None and checkpoint.commit_ts >= commit_ts_of(before):
            self._aim = checkpoint.commit_ts
        reached = self._aim is not None and self.progress >= closed_by_watermark(self._aim - 1)
        return Batch(taken, moved=self.progress > before, settled=settled, reached=reached)

    def _waits_for_its_table(self, listing: Found) -> bool:
        """Whether a batch is of schema files alone, since much waits of one version that a statement among them makes.

        Then the table is there before its rows, and the next batch reads these once, not twice (`ingest.fast_path`).
        """
        lanes = listing.new.lanes.values()
        versions = {files[0].file.under(self.inventory.described) for files in lanes}
        stated = {path.describes for file in listing.schemas if (path := _stated(file)) is not None}
        return len(versions) == 1 and versions <= stated and sum(map(_size, lanes)) >= _MUCH

    def _removable(self) -> Removable | None:
        """What finds files to delete, if everything is listed now and the settings want it."""
        if self._source.cleanup == "keep" or not self.inventory.is_due:
            return None
        return Removable.of(self.inventory, commit_ts_of(self.progress), self._keep_for)

    def _judge(self, listing: Found) -> None:
        """Refuse a folder that is not as the settings say, or not as it was."""
        checkpoint, lanes = listing.new.checkpoint, listing.new.lanes
        if checkpoint is not None:
            self._judge_checkpoint(checkpoint, at_once=False)
        if not lanes and listing.other and self.log.next_ordinal == 1:
            raise Refused(
                "PROTOCOL_DIFFERS",
                f"{self._source.path} has {listing.other:,} files of rows, but none of protocol "
                f"{self._source.protocol}",
                "set source.protocol to the protocol in the changefeed's sink URI",
            )
        if lanes and not self._first_ts:
            first = next(iter(lanes.values()))[0]
            self._first_commit_ts(first.entry)
            self._compare(first)
        self._say_what_waits(listing)

    def _judge_checkpoint(self, checkpoint: Checkpoint, *, at_once: bool) -> None:
        """Refuse a checkpoint that went back. What a person accepts is noted with the next batch, for later runs."""
        complete_up_to = commit_ts_of(self.progress)
        if self._losses.judge(checkpoint, complete_up_to, self.log.went_back, at_once=at_once):
            self._accepted = checkpoint.commit_ts

    def _compare(self, first: RowsFile) -> None:
        """Say what the first file says otherwise than the settings."""
        version = first.file.under(self.inventory.described)
        if version is not None:
            layout = FileLayout.of(first.entry.path, first.file, version)
            for sentence in denied(self._changefeed, layout, lambda: self._shown(first.entry)):
                _log.warning(sentence)

    def _shown(self, entry: StoredFile) -> dict[str, bool]:
        return self._lines.shown(self._store.read(entry.path, 0, FIRST_BYTES))

    def _say_what_waits(self, listing: Found) -> None:
        """Say once of each version that its files have waited for a schema file for a while; and what is wrong."""
        for path, why in listing.damaged.items():
            _log.warning("%s: %s: %s; its table is held", SCHEMA_FILE_DAMAGED, path, why)
        for doubt, tables in listing.doubts:
            for table in tables if doubt.loses else ():
                if (sentence := doubt.sentence.format(table)) not in self._said:
                    self._said.add(sentence)
                    _log.warning("%s; %s", sentence, doubt.remedy)
        now = time.time()
        for lane, files in listing.new.lanes.items():
            first = files[0]
            if not first.described and now - first.entry.modified > _SAID_AFTER and lane.folder not in self._said:
                self._said.add(lane.folder)
                _log.warning("SCHEMA_PENDING: %s has files of a version that no schema file describes", lane.folder)

    def _has(self, path: str) -> bool:
        try:
            self._store.entry(path)
        except FileNotFoundError:
            return False
        return True

    def _first_commit_ts(self, entry: StoredFile) -> int:
        key = entry.path, entry.etag
        if key not in self._first_ts:
            self._first_ts[key] = self._asked_first_commit_ts(entry)
        return self._first_ts[key]

    def _asked_first_commit_ts(self, entry: StoredFile) -> int:
        size = FIRST_BYTES
        commit_ts: int | None = 0
        while commit_ts == 0:
            commit_ts = self._lines.first_commit_ts(self._store.read(entry.path, 0, size))
            if size >= entry.size:
                break
            size *= _MORE
        if commit_ts is None:
            raise Refused(
                COMMIT_TS_MISSING,
                f"the rows of {entry.path} have no commit ts, so a run cannot know their order",
                f"set {self._lines.remedy} of the changefeed, then let the changefeed begin again in another folder",
            )
        return commit_ts


def _stated(file: PlannedFile) -> SchemaPath | None:
    """The path of a schema file that has a statement; None of any other one."""
    path = read_path(file.path)
    return path if file.kind == MessageKind.DDL and isinstance(path, SchemaPath) else None


def _size(files: Sequence[RowsFile]) -> int:
    return sum(rows.entry.size for rows in files)


def _complete_up_to(notes: SourceNotes) -> int:
    """The commit ts up to which the last batch has made the tables complete; 0 before the first one."""
    last = notes.read("batches").agg(F.max_by("end_offsets", "batch_id")).first()
    return int(json.loads(last[0]).get(COMPLETE, 0)) if last and last[0] else 0
