"""Publishing by commit ts: all tables show one consistent point, but for those whose rows wait."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.ingest.reading import describe_job
from pipeline.observe.logs import bound
from pipeline.warehouse import advance
from pipeline.warehouse.altered import may_be_written
from pipeline.warehouse.exchange import exchange, exchanges
from pipeline.warehouse.iceberg import MAIN
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import OPERATION

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pipeline.ingest.by_commit_ts.batch_progress import BatchProgress
    from pipeline.ingest.by_commit_ts.names import NamesByCommitTs
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.routed import RoutedBatch
    from pipeline.ingest.table_writer import TableWriter
    from pipeline.model.messages import Part
    from pipeline.warehouse.consistent_points import Shown
    from pipeline.warehouse.exchange import Exchange
    from pipeline.warehouse.pairs import TablePair


@dataclass(slots=True)
class Publishing:
    """One batch's publish. `pending`: the rows that are pending after it."""

    context: PipelineContext
    routed: RoutedBatch
    names: NamesByCommitTs
    progress: BatchProgress
    writers: Sequence[TableWriter]
    pending: Collection[Part]
    undone: list[Exchange] = field(default_factory=list)
    """Exchanges whose time has not come for both tables."""

    def publish(self) -> list[Shown]:
        """Show every table up to the resolved ts, or to where its rows wait; gives those that changed."""
        late, exchanged = self._late(), self._exchanged()  # an exchange moves cuts
        to_publish = [
            (table, until, table.uuid in late)
            for table in self.context.tables
            if table.state not in (State.HELD, State.RELEASING)
            and (advance.is_due(table, until := self._until(table)) or table.uuid in late)
            and self._may_be_shown(table)
        ]
        threads = self.context.settings.warehouse.threads(small=self.routed.small is not None)
        with ThreadPoolExecutor(threads, thread_name_prefix="publish") as pool:
            shown: dict[str, Shown] = {
                table.uuid: (table, snapshot) for table, snapshot in pool.map(self._advanced, to_publish) if snapshot
            }
        for table in exchanged:
            if table.current is not None:
                shown.setdefault(table.uuid, (table, table.current.head()))
        return [*shown.values(), *self._marked()]

    @property
    def _operation(self) -> str:
        return f"batch{self.routed.batch_id}"

    def _late(self) -> set[str]:
        """Tables with rows from before what they show, which may never have had them: they are built anew."""
        tables = ((writer.table, writer.messages) for writer in self.writers if self.context.source.brings_late)
        return {t.uuid for t, of in tables if t and any(v.since <= t.by_commit_ts.cut for v in of.versions if v.rows)}

    def _may_be_shown(self, table: TablePair) -> bool:
        """Whether its columns let it be written; those that this batch has rows of were looked at before."""
        has_rows = any(writer.table is table for writer in self.writers)
        return not table.altered if has_rows else may_be_written(self.context.tables, table)

    def _until(self, table: TablePair) -> int:
        """Up to which commit ts a table may show its changes: never beyond an exchange that waits for the other one."""
        until = self.progress.until(table, self.routed.stream_ids)
        until = min([until, *(one.removal.at for one in self.undone if table in (one.table, one.other))])
        for part in self.pending:
            if self.names.find(part.table.key, part.since + 1) is table:
                until = min(until, part.since)
        return until

    def _advanced(self, to_publish: tuple[TablePair, int, bool]) -> Shown:
        table, until, afresh = to_publish
        context, step = self.context, self.context.step
        with bound(batch=self.routed.batch_id, table=str(table.source)):
            describe_job(context, f"{table.source}: publish current")
            done = advance.advance(context.spark, table, context.timezone, self._operation, step, until, afresh=afresh)
        return table, done.snapshot

    def _exchanged(self) -> list[TablePair]:
        """Exchange the rows of partitions and tables that both show the commit ts of that. Returns these tables."""
        context = self.context
        concerned: list[TablePair] = []
        self.undone = [noted for noted in exchanges(context.tables) if not noted.done]
        for noted in tuple(self.undone):
            both, commit_ts = (noted.table, noted.other), noted.removal.at
            if any(table.state is State.HELD or self._until(table) < commit_ts for table in both):
                continue
            if not all(self._may_be_shown(table) for table in both):
                continue
            for table in both:
                if table.by_commit_ts.removed_done < commit_ts:
                    self._advanced((table, commit_ts, False))
            describe_job(context, f"{noted.table.source}: exchange rows with {noted.other.source}")
            with bound(table=str(noted.table.source)):
                exchange(context.spark, noted, context.timezone, self._operation, context.step)
            self.undone.remove(noted)
            concerned += both
        return concerned

    def _marked(self) -> list[Shown]:
        """Give an empty snapshot to tables that are new, or whose columns changed, without rows. Returns those."""
        cut_ts = self.progress.cut_ts
        marked: list[Shown] = []
        for table in self.context.tables if cut_ts else ():
            if not table.unshown or table.current is None or table.state is not State.LIVE:
                continue
            table.unshown = not table.current.shows_its_columns()
            if table.unshown and (table.current.head() is not None or 0 < table.created_at <= cut_ts):
                table.current.mark(OPERATION.entry(self._operation), MAIN)
                table.unshown = False
                marked.append((table, table.current.head()))
        return marked
