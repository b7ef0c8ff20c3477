"""What a report says, as data: every form of it (page, Markdown, JSON) shows this tree and computes nothing.

Texts that come from data are printable and short already; each form escapes them in its own way. Times are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from datetime import datetime

T = TypeVar("T")


class PipelineState(StrEnum):
    """How the pipeline stands, best first; `nothing`: no batch yet."""

    NOTHING = "nothing"
    RIGHT = "right"
    WARNED = "warned"
    SET_ASIDE = "set_aside"
    HELD = "held"
    STOPPED = "stopped"

    @property
    def rank(self) -> int:
        """How bad it is."""
        return _STANDINGS[self]


class CheckMark(StrEnum):
    """What a check found in a batch, mildest first; `none`: it had nothing to judge."""

    NONE = "none"
    PASSED = "passed"
    VIOLATED = "violated"
    QUARANTINED = "quarantined"
    HELD = "held"
    STOPPED = "stopped"

    @property
    def rank(self) -> int:
        """How bad it is."""
        return _MARKS[self]

    @property
    def is_bad(self) -> bool:
        """Whether the check found something."""
        return self.rank > CheckMark.PASSED.rank


_STANDINGS = {standing: rank for rank, standing in enumerate(PipelineState)}
_MARKS = {mark: rank for rank, mark in enumerate(CheckMark)}


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """As many items as a page can hold, and how many more there are."""

    items: tuple[T, ...] = ()
    left_out: int = 0

    @staticmethod
    def of(items: list[T], most: int) -> Listing[T]:
        """Keep the first so many."""
        return Listing(tuple(items[:most]), max(0, len(items) - most))

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.items) + self.left_out


@dataclass(frozen=True, slots=True)
class BatchTime:
    """A batch and its time; `earlier`: the truth began before the oldest batch that was looked at."""

    batch: int
    at: datetime
    earlier: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """One row that broke a check: where it stands in the source, its key, the values that were judged."""

    at: str
    key: str
    values: str


@dataclass(frozen=True, slots=True)
class ReportFinding:
    """One thing that is not right: what, since when, which rows, why it matters, what to do now."""

    standing: PipelineState
    table: str
    rule: str
    title: str
    since: BatchTime | None
    rows: int
    because: str = ""
    owner: str = ""
    detail: str = ""
    examples: tuple[Example, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """The answer: a headline for everybody, a sentence with the facts, and the worst findings."""

    standing: PipelineState
    headline: str
    detail: str
    findings: Listing[ReportFinding]


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """One column of the timeline: a batch, or several in a row; `at` is when the last was committed."""

    first: int
    last: int
    batches: int
    at: datetime

    @property
    def label(self) -> str:
        """`batch 12` or `batches 12 to 14`."""
        return f"batch {self.first}" if self.first == self.last else f"batches {self.first} to {self.last}"


@dataclass(frozen=True, slots=True)
class ReportCell:
    """What a check found in one column: the worst of its batches, the rows of all."""

    mark: CheckMark = CheckMark.NONE
    evaluated: int = 0
    unexpected: int = 0


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check of one table over time; `mark` is its newest word, `since` when its present trouble began."""

    table: str
    rule: str
    severity: str
    mark: CheckMark
    since: BatchTime | None
    evaluated: int
    unexpected: int
    bad: int
    """Batches in which it found something."""
    judged: int
    """Batches in which it had rows to judge."""
    retired: bool
    """Whether its table is judged without it by now."""
    because: str
    owner: str
    observed: str
    examples: tuple[Example, ...]
    cells: tuple[ReportCell, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Tables and checks over the batches, the worst first."""

    columns: tuple[ReportColumn, ...]
    checks: Listing[CheckRow]
    current: int
    """Checks that are still judged, shown or not."""
    passing: int
    """Those of them whose newest word is no finding."""


@dataclass(frozen=True, slots=True)
class Volume:
    """What came in with one column's batches."""

    column: ReportColumn
    rows_in: int
    inserts: int
    updates: int
    deletes: int
    aside: int
    """Quarantined changes and dead letters."""
    seconds: float


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One source table: how it stands, how fresh it is, how much came in."""

    table: str
    warehouse_name: str
    state: str
    checks: int
    failing: int
    rows: int | None
    """Rows that its checks saw in the window; None where no check tells."""
    aside: int
    waiting: int
    last: BatchTime | None
    """The newest batch that is known to have had rows of it."""
    complete_to: datetime | None
    """Source time of the newest cut that shows it."""
    lag: float | None
    """Seconds from that source time to when the cut was recorded."""
    volume: tuple[int, ...]
    """Rows per column of the timeline."""


@dataclass(frozen=True, slots=True)
class SetAsideGroup:
    """Open quarantined changes of one table and rule, or open dead letters of one table and code."""

    table: str
    rule: str
    code: str
    rows: int
    since: BatchTime
    message: str
    example: Example
    command: str


@dataclass(frozen=True, slots=True)
class FencedKey:
    """A key whose newer changes wait for a quarantined one."""

    table: str
    key: str
    changes: int
    rules: str
    since: BatchTime


@dataclass(frozen=True, slots=True)
class Held:
    """A table that waits, why, and how much waits with it."""

    table: str
    state: str
    reason: str
    records: int
    since: BatchTime | None
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Everything that is set aside."""

    quarantined: int
    """Open quarantined changes, with those that only wait for one."""
    fenced: int
    """Of these, the ones that only wait."""
    dead_letters: int
    settled: int
    """Changes and dead letters that were redriven or overtaken since."""
    by_rule: Listing[SetAsideGroup]
    by_code: Listing[SetAsideGroup]
    keys: Listing[FencedKey]
    held: Listing[Held]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One DDL statement and what was done about it; `at` is its commit time at the source."""

    at: datetime | None
    batch: int
    table: str
    kind: str
    action: str
    sql: str


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a table's columns, and in words what it changed."""

    at: datetime
    batch: int
    table: str
    version: int
    columns: int
    changes: str


@dataclass(frozen=True, slots=True)
class PointFacts:
    """One moment of the source that the tables can be read as of."""

    ts: int
    time: datetime
    batch: int
    tables: int
    level: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """The whole report of one pipeline, as of `made_at`."""

    pipeline: str
    made_at: datetime
    batches: int
    """All that the ledger knows."""
    first: BatchTime | None
    """The oldest batch that was looked at."""
    last: BatchTime | None
    verdict: ReportVerdict
    timeline: Timeline
    volume: tuple[Volume, ...]
    tables: Listing[TableFacts]
    quarantine: Quarantine
    statements: Listing[HistoryEntry]
    versions: Listing[SchemaVersion]
    cuts: Listing[PointFacts]

    @property
    def looked_at(self) -> int:
        """Batches that the timeline shows, one that was refused included."""
        return sum(column.batches for column in self.timeline.columns)

    @property
    def changes(self) -> int:
        """Changes that came in with the batches that were looked at."""
        return sum(one.inserts + one.updates + one.deletes for one in self.volume)
