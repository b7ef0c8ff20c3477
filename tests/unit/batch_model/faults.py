"""Faults to plant: each takes a monkeypatch, breaks the product in one way, and says where that can show."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from unit.batch_model import batch as model
from unit.batch_model.batch import ModelRecords
from unit.batch_model.history import COLUMNS, NAMES, PLAIN
from unit.batch_model.iceberg import ModelTable

from pipeline import ddl as text
from pipeline.ddl.table_ref import PairRef
from pipeline.ingest import batch, reading, table_rows, table_writer
from pipeline.ingest.accounting import Books
from pipeline.ingest.by_offset import names, ordering, stages, table_ordering
from pipeline.ingest.by_offset.names import NamesByOffset, PastDdl
from pipeline.ingest.by_offset.ordering import ByOffset
from pipeline.ingest.fast_path import speculation
from pipeline.ingest.run_state import Ledger
from pipeline.ingest.set_aside import fence
from pipeline.ingest.table_writer import TableWriter
from pipeline.operations import redrive, release, superseded
from pipeline.quality import rules
from pipeline.warehouse import changes, current, evolution, publisher, state
from pipeline.warehouse.pairs import State
from pipeline.warehouse.staged import Staged
from pipeline.warehouse.tables import Tables

if TYPE_CHECKING:
    import pytest

    from pipeline.ingest.context import PipelineContext

    Plant = pytest.MonkeyPatch

ROWS, COLUMN, BATCH = "a_row_changes", "a_column_changes", "a_batch_is_taken"
DAMAGE, CHECKPOINT = "a_message_is_damaged", "something_befalls_the_checkpoint"
HOLD = "a_table_is_held_or_released"
SUITE, REDRIVE = "the_suite_changes", "what_was_set_aside_is_redriven"


@dataclass(frozen=True, slots=True)
class Hunt:
    """Which histories show a fault soon: of this mode and, where it takes more than a few, of these rules."""

    mode: str
    rules: tuple[str, ...] = ()
    first: int = 0
    """The seed from which on histories are played: just below one that shows a rare fault."""


def deduped_by_batch_id(plant: Plant) -> Hunt:
    """A batch whose id the table has already had is not appended again, whatever its range."""

    def append(self: TableWriter, ranges: Any) -> Any:
        done = [row.batch_id for row in self.table.changes.content()]
        return {} if self.work.routed.batch_id in done else original(self, ranges)

    original = TableWriter.append
    plant.setattr(TableWriter, "append", append)
    return Hunt(PLAIN)


def ledger_before_the_tables(plant: Plant) -> Hunt:
    """The ledger says that a batch is done when its tables have only begun."""

    def read(self: ByOffset, raw: Any, kept: Any) -> Any:
        routed = original(self, raw, kept)
        if routed.messages.events:
            ledger, ids = self.context.run.ledger, routed.stream_ids
            ends = {(ids[at.stream], at.number): end for at, end in routed.messages.ends.items()}
            fresh = Ledger(
                ledger.batch_id, ledger.ends | ends, ledger.streams, ledger.watermarks, unfinished=ledger.unfinished
            )
            self.context.records.write("batches", ledger.batch_id, [{}], fresh.summary())
        return routed

    original = ByOffset.read
    plant.setattr(ByOffset, "read", read)
    return Hunt(PLAIN)


def a_tables_own_end_ignored(plant: Plant) -> Hunt:
    """Each try appends its whole range."""
    original = batch.beyond
    plant.setattr(batch, "beyond", lambda _reached, messages, whole: original({}, messages, whole))
    return Hunt(PLAIN)


def partitions_without_a_range_appended(plant: Plant) -> Hunt:
    """A partition of which the table has everything is not kept out."""
    plant.setattr(table_rows, "NOTHING", (0, 2**62))
    return Hunt(PLAIN, (ROWS, BATCH, CHECKPOINT))


def ends_shared_between_tables(plant: Plant) -> Hunt:
    """What one table has of a topic counts for every table in it."""

    def ends(self: TableWriter) -> Any:
        shared: dict[Any, int] = {}
        for table in self.context.tables:
            for at, end in table.ends.items():
                shared[at] = max(end, shared.get(at, 0))
        own, self.table.ends = self.table.ends, shared
        try:
            return original(self)
        finally:
            self.table.ends = own

    original = TableWriter.ends
    plant.setattr(TableWriter, "ends", lambda self: ends(self) if self.table else {})
    return Hunt(PLAIN)


def applied_snapshot_not_recorded(plant: Plant) -> Hunt:
    """A publish does not say from which changes it was built."""
    original = publisher.Publisher.show
    plant.setattr(publisher.Publisher, "show", lambda self, _marks: original(self, {}))
    return Hunt(PLAIN)


def a_clone_does_not_say_what_it_shows(plant: Plant) -> Hunt:
    """The commit of linked files does not say from which changes they are."""
    plant.setattr(model, "CLONES", True)
    original = model.show_clone
    plant.setattr(model, "show_clone", lambda *given: original(*given[:4], {}, given[5]))
    return Hunt(PLAIN)


def applied_snapshot_said_too_early(plant: Plant) -> Hunt:
    """The table is said to be applied although the publish is yet to come."""

    def stage(self: Any, branch: str) -> None:
        mark = state.APPLIED.entry(head) if (head := heads.get(self.name)) else {}
        self.mark(mark)
        original(self, branch)

    def news(self: Any, head: int | None) -> Any:
        heads[self.publisher.current.name] = head
        return wanted(self, head)

    heads: dict[Any, int | None] = {}
    original, wanted = ModelTable.stage, current._ByOffset.news
    plant.setattr(ModelTable, "stage", stage)
    plant.setattr(current._ByOffset, "news", news)
    return Hunt(PLAIN)


def release_without_its_mark(plant: Plant) -> Hunt:
    """A release does not know, after a crash, that it has appended."""
    plant.setattr(release, "OPERATION", replace(state.OPERATION, name="ticdc.nothing"))
    return Hunt(PLAIN, (ROWS, BATCH, HOLD))


def released_before_it_is_published(plant: Plant) -> Hunt:
    """The table lives as soon as its records are replayed: a crash leaves them open."""

    def replay(context: Any, *given: Any) -> Any:
        table = original(context, *given)
        context.tables.set_state(table, State.LIVE)
        return table

    original = release._replay
    plant.setattr(release, "_replay", replay)
    return Hunt(PLAIN, (ROWS, BATCH, HOLD))


def released_records_stay_open(plant: Plant) -> Hunt:
    """What was released is not marked."""
    plant.setattr(ModelRecords, "mark_held", lambda *_: None)
    return Hunt(PLAIN)


def stale_versions_change_the_table(plant: Plant) -> Hunt:
    """A version that is older than the newest is taken for the newest."""
    original = table_ordering.meet
    plant.setattr(table_ordering, "meet", lambda layout, version, policy, **_: original(layout, version, policy))
    return Hunt(PLAIN, (COLUMN, BATCH))


def stale_values_hidden(plant: Plant) -> Hunt:
    """A value that a late version brings and no column holds is not shown."""
    original = evolution._meet_stale

    def hidden(*given: Any) -> Any:
        layout, notes = original(*given)
        return replace(layout, columns=tuple(replace(column, shown_in=None) for column in layout.columns)), notes

    plant.setattr(evolution, "_meet_stale", hidden)
    return Hunt(PLAIN, (COLUMN, BATCH))


def key_versions_counted_as_newest(plant: Plant) -> Hunt:
    """A key-only version passes for the newest layout."""

    def newest(layout: Any) -> Any:
        ordered = sorted(layout.versions, key=lambda version: version.number)
        return ordered[-1].version if ordered else None

    plant.setattr(table_ordering, "newest", newest)
    return Hunt(PLAIN, (ROWS, COLUMN, BATCH))


def statements_in_the_order_of_arrival_only(plant: Plant) -> Hunt:
    """A version that stands before an applied statement is not known to be older."""
    plant.setattr(table_ordering, "is_stale", lambda *_: False)
    return Hunt(COLUMNS, (COLUMN, BATCH))


def refused_after_the_tables(plant: Plant) -> Hunt:
    """Dead letters of no table are written when the tables have gone on already."""

    def later(ordering: ByOffset, planned: Any, refused: Any) -> Any:
        landed = land(ordering, planned, refused)
        put(ordering, planned.routed)
        return landed

    put, land = batch._set_aside, ByOffset.land
    plant.setattr(batch, "_set_aside", lambda *_: {})
    plant.setattr(ByOffset, "land", later)
    return Hunt(PLAIN)


def settled_records_forgotten(plant: Plant) -> Hunt:
    """A second try sets aside again what the first has set aside."""
    plant.setattr(reading._Frames, "without_set_aside", lambda _self, messages: messages)
    return Hunt(PLAIN)


def recovery_ends_with_the_first_batch(plant: Plant) -> Hunt:
    """After one committed batch, nothing of an unfinished one is looked for, though its range was longer."""
    plant.setattr(Books, "_has_leftovers_beyond", lambda *_: False)
    return Hunt(PLAIN, (DAMAGE, BATCH, CHECKPOINT), first=850)


def filled_columns_not_filled(plant: Plant) -> Hunt:
    """Rows that are there never show the default of a new column."""
    plant.setattr(publisher.Publisher, "due_backfills", lambda _self: [])
    return Hunt(PLAIN)


def a_truncate_forgotten_before_the_first_row(plant: Plant) -> Hunt:
    """TRUNCATE of a table whose first rows are in the same batch does nothing."""
    original = NamesByOffset.truncate
    plant.setattr(NamesByOffset, "truncate", lambda self, pair, *rest: pair and original(self, pair, *rest))
    return Hunt(COLUMNS)


def names_bound_anew_by_each_copy(plant: Plant) -> Hunt:
    """A copy of CREATE TABLE that comes late means another table."""
    plant.setattr(PastDdl, "has", lambda *_: False)
    plant.setattr(stages, "_repeats", lambda *_: False)

    def bound_after(bindings: Any, action: Any, commit_ts: int) -> Any:
        names = dict(bindings)
        if isinstance(action, text.CreateTable):
            names.pop(action.table.key, None)
        return bound(names, action, commit_ts)

    bound = stages.bound_after
    for module in (stages, names):
        plant.setattr(module, "bound_after", bound_after)
    plant.setattr(NamesByOffset, "_made_since", lambda *_: None)
    return Hunt(COLUMNS, (ROWS, BATCH, CHECKPOINT))


def a_new_table_known_by_its_commit_ts_alone(plant: Plant) -> Hunt:
    """Tables that were created at one commit ts are one table."""

    def born(self: Tables, created_at: int, _name: Any) -> Any:
        return next((table for table in self if table.created_at == created_at), None)

    plant.setattr(Tables, "born", born)
    return Hunt(NAMES, (ROWS, BATCH, "names_change"))


def renames_in_the_order_in_which_they_come(plant: Plant) -> Hunt:
    """RENAMEs of one commit ts are applied as they are sent."""
    plant.setattr(ordering, "executable", lambda statements, _live: list(statements))
    return Hunt(NAMES, (ROWS, BATCH, "names_change"))


def tables_that_wait_for_each_others_names(plant: Plant) -> Hunt:
    """Each of two tables that have changed names in two batches is to be released after the other."""
    plant.setattr(release, "_cycle", lambda *_: [])
    return Hunt(NAMES, (ROWS, BATCH, "names_change"), first=200)


def statements_applied_with_each_copy(plant: Plant) -> Hunt:
    """A copy of DROP or RENAME that comes in a later batch is applied again."""
    plant.setattr(PastDdl, "has", lambda *_: False)
    return Hunt(NAMES)


def columns_of_redelivered_rows_are_news(plant: Plant) -> Hunt:
    """What stands between two copies of a statement in one partition is after it."""
    original = stages.is_stale

    def is_stale(layout: Any, seen: Any, statements: Any) -> bool:
        once = [replace(one, ddl=replace(one.ddl, redelivered_at={})) for one in statements]
        return original(layout, seen, once)

    plant.setattr(table_ordering, "is_stale", is_stale)
    return Hunt(COLUMNS, (ROWS, BATCH, COLUMN, "the_changefeed_restarts"), first=1800)


def names_bound_as_they_are_today(plant: Plant) -> Hunt:
    """A second try binds names to what the first has renamed already."""

    def today(context: PipelineContext, *_: object) -> Any:
        return {t.source.key: PairRef(t.uuid) for t in context.tables if t.state != State.DROPPED}, ()

    plant.setattr(ordering, "names_before", today)
    plant.setattr(NamesByOffset, "_bind_made", lambda _self: None)
    return Hunt(NAMES, first=460)


def held_records_left_under_the_old_name(plant: Plant) -> Hunt:
    """A held table that is renamed leaves what waits behind."""
    plant.setattr(ModelRecords, "rename_set_aside", lambda *_: None)
    return Hunt(NAMES)


def speculation_never_doubted(plant: Plant) -> Hunt:
    """What is appended while the batch is read counts, whatever else the batch has."""
    plant.setattr(speculation, "_is_right", lambda *_: True)
    return Hunt(PLAIN, (ROWS, BATCH, DAMAGE))


def speculation_shown_at_once(plant: Plant) -> Hunt:
    """What is appended while the batch is read goes to main, whether it was guessed right or not."""

    def stage(table: Any, *given: Any) -> Any:
        staged = original(table, *given)
        table.changes.publish(staged.branch)
        table.changes.stage(staged.branch)
        return staged

    original = speculation.stage
    plant.setattr(speculation, "stage", stage)
    return Hunt(PLAIN, (ROWS, BATCH, COLUMN))


def quarantined_by_the_rules_of_today(plant: Plant) -> Hunt:
    """A second try sets aside what breaks a rule now, not what the first has left out."""
    original = TableWriter.quarantine
    plant.setattr(TableWriter, "quarantine", lambda self, ranges, *, again: original(self, ranges, again=False))  # noqa: ARG005
    return Hunt(PLAIN, (ROWS, BATCH, SUITE))


def quarantined_rows_counted_nowhere(plant: Plant) -> Hunt:
    """A batch does not say how many rows it has set aside."""
    original = TableWriter.quarantine
    plant.setattr(TableWriter, "quarantine", lambda self, ranges, *, again: original(self, ranges, again=again) * 0)
    return Hunt(PLAIN, (ROWS, BATCH, SUITE))


def forbidden_batches_shown(plant: Plant) -> Hunt:
    """A verdict holds the table, and its batch is shown nevertheless."""

    class Shown(Staged):
        __slots__ = ()

        def drop(self) -> None:
            self.show()

    def let_in(writer: TableWriter, staged: Staged) -> Any:
        return original(writer, Shown(**{field.name: getattr(staged, field.name) for field in fields(staged)}))

    original = table_writer._show_staged
    plant.setattr(table_writer, "_show_staged", let_in)
    return Hunt(PLAIN, (ROWS, BATCH, SUITE))


def stopped_batches_left_on_their_branch(plant: Plant) -> Hunt:
    """A batch that is forbidden stays on its branch."""
    plant.setattr(Staged, "drop", lambda self: setattr(self, "waits", False))
    return Hunt(PLAIN, (ROWS, BATCH, SUITE))


def deletes_judged(plant: Plant) -> Hunt:
    """Rules judge deletes."""
    plant.setattr(rules, "Op", SimpleNamespace(DELETE=SimpleNamespace(value="no such thing")))
    return Hunt(PLAIN, (ROWS, BATCH, SUITE))


def released_rows_not_judged(plant: Plant) -> Hunt:
    """What a person lets in enters whole, with rows that are to be set aside."""

    def append(self: TableWriter, ranges: Any) -> Any:
        if not self.work.forced:
            return original(self, ranges)
        with plant.context() as lenient:
            lenient.setattr(table_rows.TableRows, "rules", property(lambda _self: changes.NO_RULES))
            return original(self, ranges)

    original = TableWriter.append
    plant.setattr(TableWriter, "append", append)
    return Hunt(PLAIN, (ROWS, BATCH, SUITE, HOLD))


def later_changes_overlooked(plant: Plant) -> Hunt:
    """A redriven row undoes what came after it."""

    original = superseded.SupersededChanges._superseded
    plant.setattr(superseded.SupersededChanges, "_superseded", lambda self, rows: original(self, rows).limit(0))
    return Hunt(PLAIN, (ROWS, BATCH, SUITE))


def redriven_again_after_a_crash(plant: Plant) -> Hunt:
    """A redrive does not know, after a crash, that it has appended."""
    plant.setattr(redrive, "OPERATION", replace(state.OPERATION, name="ticdc.nothing"))
    return Hunt(PLAIN, (ROWS, BATCH, SUITE, REDRIVE))


def redrives_not_taken_up_again(plant: Plant) -> Hunt:
    """Nobody ends a redrive that a crash has interrupted."""
    plant.setattr(redrive, "unfinished", lambda _bench: None)
    return Hunt(PLAIN, (ROWS, BATCH, SUITE, REDRIVE))


def redriven_records_stay_open(plant: Plant) -> Hunt:
    """What was redriven is not marked."""
    plant.setattr(ModelRecords, "mark", lambda *_: None)
    return Hunt(PLAIN, (ROWS, BATCH, SUITE))


def redriven_whatever_the_rules_say(plant: Plant) -> Hunt:
    """A redrive lets rows in that still break a rule."""

    def breaks(self: Any, *severities: Any) -> Any:
        return original(self, *(one for one in severities if len(severities) == 1))

    original = rules.RuleSet.breaks
    plant.setattr(rules.RuleSet, "breaks", breaks)
    return Hunt(PLAIN, (ROWS, BATCH, SUITE, REDRIVE))


def fences_that_forget(plant: Plant) -> Hunt:
    """Changes wait behind what their own batch quarantines, not behind what an earlier one has."""
    original = fence.open_keys
    plant.setattr(fence, "open_keys", lambda *given: original(*given).limit(0))
    return Hunt(PLAIN, (ROWS, BATCH, SUITE))


def fences_open_to_a_redrive(plant: Plant) -> Hunt:
    """A redrive lets changes in that wait behind one that stays."""
    plant.setattr(redrive._Part, "_fenced", lambda _self, decided: decided)
    return Hunt(PLAIN, (ROWS, BATCH, SUITE, REDRIVE), first=750)


FAULTS = (
    a_clone_does_not_say_what_it_shows,
    deduped_by_batch_id,
    ledger_before_the_tables,
    a_tables_own_end_ignored,
    partitions_without_a_range_appended,
    ends_shared_between_tables,
    applied_snapshot_not_recorded,
    applied_snapshot_said_too_early,
    release_without_its_mark,
    released_before_it_is_published,
    released_records_stay_open,
    stale_versions_change_the_table,
    stale_values_hidden,
    key_versions_counted_as_newest,
    statements_in_the_order_of_arrival_only,
    refused_after_the_tables,
    settled_records_forgotten,
    recovery_ends_with_the_first_batch,
    filled_columns_not_filled,
    a_truncate_forgotten_before_the_first_row,
    names_bound_anew_by_each_copy,
    names_bound_as_they_are_today,
    a_new_table_known_by_its_commit_ts_alone,
    renames_in_the_order_in_which_they_come,
    tables_that_wait_for_each_others_names,
    statements_applied_with_each_copy,
    columns_of_redelivered_rows_are_news,
    held_records_left_under_the_old_name,
    speculation_never_doubted,
    speculation_shown_at_once,
    quarantined_by_the_rules_of_today,
    quarantined_rows_counted_nowhere,
    forbidden_batches_shown,
    stopped_batches_left_on_their_branch,
    deletes_judged,
    released_rows_not_judged,
    later_changes_overlooked,
    redriven_again_after_a_crash,
    redrives_not_taken_up_again,
    redriven_records_stay_open,
    redriven_whatever_the_rules_say,
    fences_that_forget,
    fences_open_to_a_redrive,
)
