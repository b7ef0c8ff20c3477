"""What a changefeed's folder does not have any more, or not yet, that a batch should have taken: when to refuse.

Each refusal says what is lost, and how to go on (design.md, rule 3).
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.errors import Refused
from pipeline.model.columns import time_of
from pipeline.observe.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pipeline.sources.storage.plan_log import WentBack
    from pipeline.sources.storage.planner import Checkpoint, Hole

FILES_EXPIRED, FILE_MISSING, CHECKPOINT_WENT_BACK = "FILES_EXPIRED", "FILE_MISSING", "CHECKPOINT_WENT_BACK"
REFUSALS = (FILES_EXPIRED, FILE_MISSING, CHECKPOINT_WENT_BACK)
"""Those that a person can accept."""
_WAITED_FOR = 600.0
"""Seconds for which a file is waited for that is missing before another one."""
_MOST_NAMED = 10
"""So many folders a refusal names; of the others it says how many they are."""
_GOES_BACK_FOR = 60.0
"""Seconds for which `metadata` may say less than before: two TiCDC servers may write it for a moment."""
_log = get_logger(__name__)


@dataclass(slots=True)
class Losses:
    """The judge of one run. `accepted`: codes of refusals to pass over, each at its first look that has some.

    `begins`: whether the warehouse has no file yet: then numbers may begin where the changefeed's cleanup has left
    them. `is_there`: whether the store has a path. `table_of`: the table of a hole's files.
    """

    accepted: Collection[str]
    begins: Callable[[], bool]
    is_there: Callable[[str], bool]
    table_of: Callable[[Hole], str]
    _went_back_at: float | None = field(default=None, init=False)
    _noted: set[str] = field(default_factory=set, init=False)
    _refused: dict[str, list[Hole]] = field(default_factory=lambda: defaultdict(list), init=False)
    _given_up: dict[str, list[Hole]] = field(default_factory=lambda: defaultdict(list), init=False)
    _spent: set[str] = field(default_factory=set, init=False)

    def given_up(self, hole: Hole) -> bool:
        """Whether nobody waits for these files. `refuse` tells of those that were waited for in vain."""
        folder, numbers = hole.lane.folder, _numbers(hole)
        if hole.first == 1 and self.begins():
            self._note(folder, f"{folder}: files {numbers} are gone; the tables begin with what is there")
            return True
        if hole.first == 1 or not self.is_there(hole.before):
            return self._gives_up(FILES_EXPIRED, hole)
        if time.time() - hole.behind.entry.modified < _WAITED_FOR:
            after = f"{hole.behind.entry.path}, which comes after them, is there already"
            self._note(folder, f"{folder}: waiting for files {numbers}: {after}")
            return False
        return self._gives_up(FILE_MISSING, hole)

    def refuse(self) -> None:
        """Raise `Refused` where `given_up` may not give up what is gone; else say what it has given up.

        What a person accepts is what is gone by then: later losses are refused again.
        """
        if expired := self._refused[FILES_EXPIRED]:
            raise self._refusal(
                FILES_EXPIRED,
                f"files were deleted before a run had read them: {self._named(expired)}",
                "check that file-expiration-days leaves enough time. To go on without their rows",
            )
        if missing := self._refused[FILE_MISSING]:
            raise self._refusal(
                FILE_MISSING,
                f"files have been missing for 10 minutes or more, and later ones are there: {self._named(missing)}",
                "restore them, and run again. To go on without their rows",
            )
        for code, holes in self._given_up.items():
            _log.warning("%s was accepted; a run goes on without these files: %s", code, self._named(holes))
            self._spent.add(code)
        self._given_up.clear()

    def judge(
        self, checkpoint: Checkpoint, complete_up_to: int, passed_over: WentBack | None = None, *, at_once: bool
    ) -> bool:
        """Refuse to go on where `metadata` says less than the tables show; `at_once`: without waiting for more.

        `passed_over`: what was accepted before. Gives whether it is accepted now, and was not before.
        """
        was_accepted = passed_over is not None and passed_over.covers(checkpoint.commit_ts, complete_up_to)
        if was_accepted or checkpoint.commit_ts >= complete_up_to:
            self._went_back_at = None
            return False
        now = time.monotonic()
        self._went_back_at = self._went_back_at or now
        if at_once or now - self._went_back_at >= _GOES_BACK_FOR:
            if CHECKPOINT_WENT_BACK in self.accepted:
                return True
            raise self._refusal(
                CHECKPOINT_WENT_BACK,
                f"`metadata` says {_shown(checkpoint.commit_ts)}, but the tables show {_shown(complete_up_to)}: "
                "another changefeed writes here, or the same one began again from an earlier start-ts",
                "give each changefeed a folder of its own. To add what this one writes to what is there",
            )
        return False

    def _gives_up(self, code: str, hole: Hole) -> bool:
        accepts = code in self.accepted and code not in self._spent
        (self._given_up if accepts else self._refused)[code].append(hole)
        return accepts

    @staticmethod
    def _refusal(code: str, what: str, then: str) -> Refused:
        return Refused(code, what, f"{then}: ticdc-warehouse run --accept {code}")

    def _named(self, holes: Sequence[Hole]) -> str:
        """The files of these holes: their numbers, folders (which have the day) and tables."""
        named = [f"{_numbers(hole)} of {hole.lane.folder} ({self.table_of(hole)})" for hole in holes[:_MOST_NAMED]]
        others = len({hole.lane.folder for hole in holes[_MOST_NAMED:]})
        return "; ".join([*named, *([f"and of {others} more folders"] if others else [])])

    def _note(self, folder: str, what: str) -> None:
        """Say it once a folder."""
        if folder not in self._noted:
            self._noted.add(folder)
            _log.warning(what)


def _shown(commit_ts: int) -> str:
    return f"{commit_ts} ({time_of(commit_ts):%Y-%m-%d %H:%M:%S} UTC)"


def _numbers(hole: Hole) -> str:
    return str(hole.first) if hole.first == hole.last else f"{hole.first} to {hole.last}"
