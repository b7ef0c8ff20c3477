"""The micro-batch: the one function to read first.

It moves records into tables in steps that are durable one by one and harmless when repeated, and knows tables and
messages only through a `Port`, which Spark and Iceberg implement and a test implements with dictionaries.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pipeline.model.messages import Ddl, Messages, TableMessages
    from pipeline.model.places import Partition, Range

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TableResult:
    """What became of one table's messages in this batch."""

    table: str
    counts: Mapping[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    held: int = 0
    order_unknown: int = 0
    seconds: float = 0.0
    snapshot: int | None = None
    quarantined: int = 0
    broken: Mapping[str, int] = field(default_factory=dict)
    """Rule → rows that break it, of the rules whose verdict is no."""
    newest: int = 0
    """The greatest commit ts of what was appended; 0 where none is known."""
    unnamed: int = 0
    """Changes of a batch whose rows have ENUM or SET columns with numbers of members that nobody has named."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """Statements that change which table a name means, and the messages that come after them."""

    ddl: tuple[Ddl, ...]
    tables: tuple[TableMessages, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one micro-batch did."""

    messages: Messages
    tables: tuple[TableResult, ...] = ()
    dead_letters: int = 0


class TablePort(Protocol):
    """One source table, while its messages of this batch are landed."""

    @property
    def held(self) -> bool:
        """Whether the table's records must wait."""
        ...

    @property
    def takes_pending(self) -> bool:
        """Whether records are let in that have waited, and stand in no range of this batch."""
        ...

    def ends(self) -> Mapping[Partition, int]:
        """How far the changes table has come, by its own commits."""
        ...

    def evolve(self) -> None:
        """Meet the versions and statements of this batch, in their order."""
        ...

    def append(self, ranges: Mapping[Partition, Range]) -> Mapping[str, int]:
        """Judge the changes in these ranges and append them, in one commit.

        Gives counts by op, of `errors` (cannot be decoded) and of `quarantined` (break a rule), which are not in it,
        and `newest`, the greatest commit ts (0: none is known).
        Where the verdict forbids the batch nothing is appended, and the table is `held`, or `QualityStop` raised.
        """
        ...

    def set_aside_unreadable(self, ranges: Mapping[Partition, Range]) -> int:
        """Make dead letters of the messages in these ranges (none: in all) that cannot be decoded; how many."""
        ...

    def quarantine(self, ranges: Mapping[Partition, Range], *, again: bool) -> int:
        """Set aside the changes in these ranges (none: in all) that break a rule; how many.

        `again`: an earlier try has appended some of them; what it left out goes aside, whatever the rules say now.
        """
        ...

    def hold(self) -> int:
        """Keep the raw records until the table is released; how many there were."""
        ...

    def broken(self) -> Mapping[str, int]:
        """The rules that the verdict on `append` was no for, with the number of rows that break each."""
        ...

    def publish(self) -> TableResult:
        """Bring the current table up to the changes table."""
        ...


class Port(Protocol):
    """What a micro-batch needs of the outside."""

    def read(self) -> Messages:
        """What is in the batch past what the ledger has committed."""
        ...

    def epochs(self, messages: Messages) -> Iterable[Epoch]:
        """The batch cut where a statement changes which table a name means; almost always one epoch.

        By commit ts the tables of an epoch are known when its statements are applied.
        """
        ...

    def keep_pending(self) -> int:
        """Hold what cannot be placed yet and is let in by itself when it can; how many records are new among it."""
        ...

    def apply(self, ddl: Ddl) -> None:
        """Apply one statement; a statement that was applied before does nothing."""
        ...

    def table(self, messages: TableMessages) -> TablePort:
        """The table that these messages belong to."""
        ...

    def side_by_side(self, work: Callable[[TableMessages], T], tables: Sequence[TableMessages]) -> list[T]:
        """Do the work for every table, several at once. The first error is raised when all have ended."""
        ...

    def finish_tables(self, results: Sequence[TableResult]) -> Sequence[TableResult]:
        """What is done when all tables have their changes: by commit ts, show them up to the resolved ts."""
        ...

    def set_aside_refused(self, messages: Messages) -> int:
        """Make dead letters of the messages that no table takes; how many there were that name no table.

        `finish_tables` counts the others with their tables.
        """
        ...

    def commit(self, outcome: Outcome) -> None:
        """Write cuts, then the ledger: the batch is committed."""
        ...


def micro_batch(port: Port, step: Callable[[str], None]) -> Outcome | None:
    """Take one micro-batch from the raw frame to the ledger.

    `step` is called between durable steps with the name of the last one: a test ends the process there. After a
    crash at any of them, or with a batch that overlaps what was committed, the same records give the same tables:

    - what the ledger has committed is not read again;
    - each changes table knows, in its own commits, how far it has come, and takes only what lies beyond;
    - each current table knows which changes it was built from;
    - dead letters and held records of an unfinished batch are found by their coordinates.

    None: the batch had nothing new.
    """
    messages = port.read()
    if not (messages.rows or messages.pending_rows):
        return None
    step("read")
    refused = port.set_aside_refused(messages)  # first: a second try, to which they are readable, leaves them there
    step("dead-letters-appended")
    results: list[TableResult] = []
    for epoch in port.epochs(messages):
        for statement in epoch.ddl:
            port.apply(statement)
            step("ddl-applied")
        results += port.side_by_side(lambda table: land(port.table(table), table, messages, step), epoch.tables)
    if port.keep_pending():
        step("waiting-held")
    results = list(port.finish_tables(results))
    outcome = Outcome(messages, tuple(results), refused + sum(table.dead_letters for table in results))
    port.commit(outcome)
    step("ledger-appended")
    return outcome


def land(table: TablePort, messages: TableMessages, batch: Messages, step: Callable[[str], None]) -> TableResult:
    """One table's messages: held, or appended to its changes and published in its current table."""
    before = begun(table.ends(), messages, batch)
    if not table.held:
        table.evolve()
        step("evolved")
    ranges: Mapping[Partition, Range] = {} if table.held else beyond(table.ends(), messages, batch)
    counts = dict(table.append(ranges)) if ranges or (table.takes_pending and not table.held) else {}
    if table.held:  # from here on, where a statement is not understood or a verdict forbids the batch
        unreadable = table.set_aside_unreadable(before) if before else 0
        quarantined = table.quarantine(before, again=True) if before else 0
        held = table.hold()
        step("held-appended")
        return TableResult(
            str(messages.table), dead_letters=unreadable, held=held, quarantined=quarantined, broken=table.broken()
        )
    step("changes-appended")
    unreadable = table.set_aside_unreadable({}) if counts.pop("errors", 0) or before else 0
    step("unreadable-set-aside")
    quarantined = table.quarantine({}, again=bool(before)) if counts.pop("quarantined", 0) or before else 0
    step("quarantined")
    newest = counts.pop("newest", 0)
    result = replace(table.publish(), dead_letters=unreadable, quarantined=quarantined, broken=table.broken())
    return replace(result, counts=counts, newest=newest)


def begun(reached: Mapping[Partition, int], messages: TableMessages, batch: Messages) -> dict[Partition, Range]:
    """What an unfinished try of these messages has appended already: it may have gone no further than that."""
    return {
        partition: (batch.starts[partition], min(reached[partition], batch.ends[partition]))
        for partition in messages.partitions
        if reached.get(partition, 0) > batch.starts[partition]
    }


def beyond(reached: Mapping[Partition, int], messages: TableMessages, batch: Messages) -> dict[Partition, Range]:
    """The ranges of a batch that a table does not have yet: from its own end, not from the batch's start.

    Never by batch id: a restored checkpoint gives the same id to other ranges.
    """
    ranges: dict[Partition, Range] = {}
    for partition in messages.partitions:
        begin, end = (messages.bounds or {}).get(partition, (batch.starts[partition], batch.ends[partition]))
        low, high = max(begin, batch.starts[partition], reached.get(partition, 0)), min(end, batch.ends[partition])
        if low < high:
            ranges[partition] = (low, high)
    return ranges
