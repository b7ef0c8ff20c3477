"""One table's part of a batch, as an ordering has placed it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.ddl.statement import Statement
    from pipeline.ingest.routed import RoutedBatch
    from pipeline.model.columns import SchemaId
    from pipeline.model.messages import Messages, TableMessages
    from pipeline.model.places import Partition, Ranges
    from pipeline.warehouse.evolution import Note
    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.pairs import State, TablePair


@dataclass(frozen=True, slots=True)
class TableWork:
    """The messages of one table among the events of a batch, and the statements about its columns.

    `pair` is None until a new table's pair is made. `forced`: a person wants the rows in, whatever the verdict on all
    of them is. `named`: what an operation is called that is no batch.
    """

    routed: RoutedBatch
    messages: TableMessages
    statements: tuple[Statement, ...]
    pair: TablePair | None
    ordering: TableOrdering
    forced: bool = False
    named: str = ""

    @property
    def operation(self) -> str:
        """What names the staging branch and marks every commit."""
        return self.named or f"batch{self.routed.batch_id}"

    @property
    def during(self) -> str:
        """How the descriptions of Spark's jobs begin."""
        return self.routed.raw.query_id if self.named else f"batch {self.routed.batch_id}"


@dataclass(frozen=True, slots=True)
class EvolvedLayout:
    """The columns of a table after the versions and statements of a batch.

    `met`: versions that are new to it. `unclear`: why it is to be held, if it is. `partners`: pairs that are to be held
    with it, each with the reason.
    """

    layout: Layout
    notes: tuple[Note, ...] = ()
    met: frozenset[SchemaId] = frozenset()
    unclear: str = ""
    partners: tuple[tuple[TablePair, str], ...] = ()


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


class TableOrdering(Protocol):
    """What only an ordering knows of one table's rows in a batch."""

    @property
    def takes_pending(self) -> bool:
        """Whether pending records are among its rows, which stand in no range of this batch."""
        ...

    def times(self, work: TableWork) -> tuple[int, int] | None:
        """Between which commit ts the changes lie, where that is known."""
        ...

    def why_not_created(self, work: TableWork) -> str:
        """Why no pair can be made of them; nothing, if it can."""
        ...

    def evolved(self, work: TableWork, pair: TablePair | None) -> EvolvedLayout:
        """The columns after the versions and statements of this batch, in their order."""
        ...

    def create(self, work: TableWork, evolved: EvolvedLayout, noted: Mapping[str, str]) -> TablePair:
        """Make the pair of a new table; `noted`: further properties of its changes table."""
        ...

    def noted(self, evolved: EvolvedLayout, state: State) -> Mapping[str, str]:
        """Properties for the commit that changes the layout of a pair."""
        ...

    def settle(self, work: TableWork, pair: TablePair, evolved: EvolvedLayout) -> None:
        """Note where the rows come from, and hold the pair where it is unclear what they are."""
        ...

    def within(self, work: TableWork, events: DataFrame, ranges: Ranges | None, *, pending: bool) -> DataFrame:
        """Those events of which `SourceProtocol.recipe` makes the table's changes of these ranges; None: of all.

        `events`: of the batch. `pending`: with those that have waited, which stand in no range.
        """
        ...

    def records(self, work: TableWork) -> Column:
        """Which raw records are rows of the table, or copies of its statements."""
        ...

    def ranges(self, work: TableWork, batch: Messages) -> Ranges:
        """Where in the batch the rows stand: positions [from, to)."""
        ...

    def status(self, pair: TablePair | None) -> str:
        """The status with which rows are set aside: `open`, or `superseded`."""
        ...

    def hold(self, work: TableWork, pair: TablePair | None, ends: Mapping[Partition, int], reason: str) -> int:
        """Keep the raw records past these ends until the table is released; how many there were."""
        ...

    def publish(self, work: TableWork, pair: TablePair | None) -> TableResult:
        """Bring the current table up to the changes table, where that is not done for all tables together."""
        ...
