"""Faults planted into the product, each of which the histories must find (docs/decisions/004-by-cut.md)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from unit.batch_model.frames import F
from unit.commit_ts_model import lake
from unit.commit_ts_model.history import AHEAD, ASIDE, COLUMNS, DATABASES, EXCHANGES, KEYLESS, KEYS_MOVE, NAMES, ROWS

from pipeline import ddl as text
from pipeline.ddl.name_history import NameHistory
from pipeline.ingest import ordering as by_ordering
from pipeline.ingest import reading
from pipeline.ingest.accounting import Books
from pipeline.ingest.by_commit_ts import (
    batch_progress,
    foreseen,
    frontier,
    left_over,
    names,
    ordering,
    publishing,
    redeliveries,
    table_ordering,
    timeline,
)
from pipeline.ingest.by_commit_ts.batch_pairs import BatchPairs
from pipeline.ingest.by_commit_ts.batch_progress import BatchProgress
from pipeline.ingest.by_commit_ts.names import NamesByCommitTs
from pipeline.ingest.by_commit_ts.publishing import Publishing
from pipeline.ingest.by_commit_ts.routing import Router
from pipeline.ingest.by_commit_ts.table_ordering import TableByCommitTs
from pipeline.ingest.ddl import applier, columns, drop, exchange, partitions
from pipeline.ingest.ddl.done import Done
from pipeline.ingest.set_aside import pending
from pipeline.ingest.table_writer import TableWriter
from pipeline.model import change
from pipeline.model.messages import EVER
from pipeline.model.places import Partition
from pipeline.operations import release, superseded
from pipeline.operations.superseded import LATER, SupersededChanges
from pipeline.warehouse import advance, publisher
from pipeline.warehouse.consistent_points import ConsistentPoints
from pipeline.warehouse.tables import Tables

if TYPE_CHECKING:
    import pytest

    Plant = pytest.MonkeyPatch


# ---- how far all has been read


def the_fastest_partition_decides(plant: Plant) -> str:
    """All tables are shown as far as any partition has come."""
    plant.setattr(frontier, "resolved", lambda frontiers, _unread: max(frontiers.values(), default=frontier.NEVER))
    return ROWS


def a_watermark_closes_what_comes_after_it(plant: Plant) -> str:
    """A watermark W lets rows of W+1 show, too."""
    for module in (frontier, batch_progress):
        plant.setattr(module, "closed_by_watermark", lambda ts: frontier.Frontier((ts + (1 << 18)) << 1))
    return ROWS


def a_ddl_event_closes_nothing(plant: Plant) -> str:
    """A DDL event is no progress: what waits for it waits on."""
    plant.setattr(frontier, "after_ddl", lambda ts: frontier.Frontier((ts << 1) + (5 << 19)))
    return COLUMNS


def nobody_asks_what_is_left_to_read(plant: Plant) -> str:
    """The partition that has come furthest says how far all have been read."""
    original = frontier.reached

    def reached(recorded, read, oldest, streams, _unread, tried):
        return original(recorded, read, oldest, streams, frozenset(), tried)

    plant.setattr(frontier, "reached", reached)
    return ROWS


def a_stream_that_is_new_is_in_time(plant: Plant) -> str:
    """Its history counts as sent again."""
    plant.setattr(
        frontier, "oldest_of", lambda messages, _: dict.fromkeys((at.stream for at in messages.ends), 1 << 62)
    )
    return ROWS


def a_partition_that_was_read_to_its_end_is_late_afterwards(plant: Plant) -> str:
    """What it brings then is taken for the history of a topic that came later."""
    original = ordering.progress_of

    def progress_of(context, routed):
        watermarks = context.source.progress(routed.messages)
        truth = original(context, routed)
        before = context.run.ledger.progress.frontiers
        frontiers = frontier.progress(before, watermarks, routed.messages.ddl, truth.ends)
        return lake.replace(truth, frontiers=frontiers)

    plant.setattr(ordering, "progress_of", progress_of)
    return NAMES


# ---- what is applied when


def every_statement_is_due(plant: Plant) -> str:
    """DDL events are applied as they come."""
    plant.setattr(BatchProgress, "applied_up_to", lambda _self, _ddl: frontier.Frontier(EVER))
    return COLUMNS


def statements_in_the_order_of_their_text(plant: Plant) -> str:
    """Not by commit ts."""
    original = timeline.executable
    plant.setattr(timeline, "executable", lambda sent, live: sorted(original(sent, live), key=lambda one: one.ddl.sql))
    return NAMES


def what_is_sent_again_is_applied_again(plant: Plant) -> str:
    """No statement has been passed."""
    plant.setattr(timeline, "_is_redelivered", lambda *_: False)
    plant.setattr(NameHistory, "of", staticmethod(lambda bindings, _causes=(): _without_causes(bindings)))
    return NAMES


def _without_causes(bindings):
    names = NameHistory()
    for span in sorted(bindings, key=lambda one: one.since):
        names.bindings.setdefault(span.name, []).append(span)
    return names


def a_drop_is_not_applied(plant: Plant) -> str:
    """The table lives on."""
    plant.setattr(drop, "dropped", lambda *_: "nothing")
    return NAMES


def a_rename_moves_the_name_alone(plant: Plant) -> str:
    """Pairs keep the names that they have."""
    plant.setattr(Tables, "rename", lambda *_, **__: None)
    return NAMES


def a_truncate_leaves_rows(plant: Plant) -> str:
    """No row goes."""
    plant.setattr(advance, "_removals", lambda *_: [])
    return COLUMNS


def a_column_is_added_without_its_default(plant: Plant) -> str:
    """Rows that are there show NULL."""
    plant.setattr(lake.publisher.Publisher, "due_backfills", lambda _self: [])
    return COLUMNS


def chains_are_not_put_in_order(plant: Plant) -> str:
    """RENAMEs of one commit ts are applied as they came."""
    plant.setattr(timeline, "executable", lambda sent, _live: sent)
    return NAMES


# ---- what waits


def nothing_waits(plant: Plant) -> str:
    """Rows after a statement that is not applied are let in."""
    plant.setattr(Router, "pending_parts", lambda _self: {})
    return COLUMNS


def what_waits_is_forgotten(plant: Plant) -> str:
    """It is not kept."""
    plant.setattr(pending, "keep", lambda *_: 0)
    return COLUMNS


def what_has_waited_waits_for_ever(plant: Plant) -> str:
    """It is not read again."""
    plant.setattr(pending, "raw_records", lambda _records: None)
    return COLUMNS


def what_was_let_in_stays_open(plant: Plant) -> str:
    """It is let in once more by the next batch."""
    plant.setattr(pending, "let_in", lambda *_: None)
    return COLUMNS


def what_waits_is_kept_twice(plant: Plant) -> str:
    """Also what has waited before."""
    original = pending.keep

    def keep(context, raw, *more):
        return original(context, raw.withColumn(pending.WAS_PENDING, F.lit(False)), *more)

    plant.setattr(pending, "keep", keep)
    return COLUMNS


def a_second_try_lets_in_what_the_first_has(plant: Plant) -> str:
    """What an unfinished try has put into tables is not looked for."""
    plant.setattr(pending, "not_yet_stored", lambda _context, raw: raw)
    return COLUMNS


def what_an_unfinished_try_held_back_is_not_looked_for(plant: Plant) -> str:
    """It is in no range that is left."""
    plant.setattr(left_over, "parts", lambda *_: {})
    return COLUMNS


# ---- which table rows are of


def rows_are_of_the_table_that_has_the_name_now(plant: Plant) -> str:
    """Whatever it meant at their commit ts."""

    def at(self, name, commit_ts):
        current = self.open(name)
        return current if current is not None else original(self, name, commit_ts)

    original = NameHistory.at
    plant.setattr(NameHistory, "at", at)
    return NAMES


def a_name_is_bound_from_the_commit_ts_of_its_statement_on(plant: Plant) -> str:
    """Also for rows of just that commit ts: it belongs to both tables."""

    def act(self, action, commit_ts, cause):
        if isinstance(action, text.RenameTable):
            commit_ts -= 1 << 19
        original(self, action, commit_ts, cause)

    original = NameHistory.act
    plant.setattr(NameHistory, "act", act)
    return NAMES


def rows_of_one_part_alone(plant: Plant) -> str:
    """Of rows that came under two names only those of the first are taken."""
    original = lake.CommitTsProtocol.where_named
    plant.setattr(lake.CommitTsProtocol, "where_named", lambda self, parts: original(self, parts[:1]))
    return NAMES


# ---- what is shown


def the_last_row_of_a_key_is_the_last_in_the_log(plant: Plant) -> str:
    """Not that of the greatest commit ts: a row that is sent again wins."""
    plant.setattr(lake, "_order", lambda event: event.row.record.sequence)
    return ROWS


def rows_beyond_the_resolved_ts_are_shown(plant: Plant) -> str:
    """A table shows all that it has."""
    plant.setattr(Publishing, "_until", lambda _self, table: max(table.by_commit_ts.cut, _newest(table)))
    return ROWS


def a_small_batch_has_only_what_is_new(plant: Plant) -> str:
    """The driver is not given what has waited."""
    plant.setattr(lake.by_offset, "SMALL", True)
    small = lake.by_offset.ModelSmallBatch

    def of(_spark, frame, _events, _batch_id):
        return small(frame.where(~F.col(pending.WAS_PENDING)))

    plant.setattr(lake.ordering, "SmallBatch", SimpleNamespace(of=of))
    return COLUMNS


def a_clone_shows_what_comes_later(plant: Plant) -> str:
    """Files are linked with all their rows."""
    plant.setattr(lake.by_offset, "CLONES", True)
    original = lake._clone

    def clone(*given):
        return original(*given[:5], replace(given[5], until=EVER))

    plant.setattr(lake.publisher, "clone", clone)
    return ROWS


def _newest(table: Any) -> int:
    return max((row.record.message.commit_ts for row in table.changes.content()), default=0)


def deletes_are_not_shown(plant: Plant) -> str:
    """Rows stay."""
    original = lake.rows_between

    def rows(self, fresh, late, cut):
        return [row for row in original(self, fresh, late, cut) if not row.deletes]

    plant.setattr(advance, "_rows", rows)
    return ROWS


def a_table_says_that_it_shows_more_than_it_does(plant: Plant) -> str:
    """The append up to which all is shown is the newest."""
    plant.setattr(advance._News, "passed", lambda self: self.table.changes.head())
    return ROWS


# ---- what is recorded


def every_cut_is_exact(plant: Plant) -> str:
    """Whatever is missing."""
    plant.setattr(ConsistentPoints, "_missing", lambda *_: [])
    return COLUMNS


def the_ledger_is_ahead_of_the_tables(plant: Plant) -> str:
    """It says that all partitions were read as far as the fastest."""
    original = Books._ledger

    def ledger(self, closing):
        fresh = original(self, closing)
        ahead = max([*closing.progress.frontiers.values(), closing.progress.resolved])
        fresh.progress = lake.replace(fresh.progress, resolved=ahead)
        return fresh

    plant.setattr(Books, "_ledger", ledger)
    return NAMES


def schemas_are_not_kept(plant: Plant) -> str:
    """A restart does not know versions that were described before."""
    plant.setattr(lake.ModelDescriptions, "unwritten", lambda _self: [])
    return COLUMNS


def versions_are_met_in_any_order(plant: Plant) -> str:
    """Statements first, whatever their time: rows of before get the columns of after."""
    original = table_ordering._timeline
    plant.setattr(table_ordering, "_timeline", lambda work: list(reversed(original(work))))
    return COLUMNS


def appends_say_nothing_of_their_times(plant: Plant) -> str:
    """Every append is of the beginning: what is newer than the cut counts as shown."""
    plant.setattr(TableByCommitTs, "times", lambda _self, _work: (0, 0))
    return ROWS


def a_batch_of_what_is_left_is_not_asked_for(plant: Plant) -> str:
    """A batch begins again at the first record of its partitions, whatever the ledger says."""
    plant.setattr(reading._Frames, "without_set_aside", lambda _self, messages: messages)
    return COLUMNS


def a_watermark_is_of_all_partitions(plant: Plant) -> str:
    """What one partition says counts for each."""
    original = frontier.progress

    def progress(before, watermarks, ddl, reached):
        newest = max(watermarks.values(), default=0)
        return original(before, dict.fromkeys({*before, *watermarks}, newest) if newest else {}, ddl, reached)

    plant.setattr(frontier, "progress", progress)
    return ROWS


def a_pending_statement_closes_what_was_not_read(plant: Plant) -> str:
    """What a try that died had read counts for one that reads less."""
    original = frontier.progress

    def progress(before, said, ddl, _reached):
        return original(before, said, ddl, {at: 2**62 for statement in ddl for at in statement.at})

    plant.setattr(frontier, "progress", progress)
    return ROWS


def a_release_lets_nothing_in(plant: Plant) -> str:
    """The table lives, and what it had waited with stays."""
    plant.setattr(release, "let_next_batch_take", lambda *_: 1)
    return ROWS


def one_table_is_not_shown(plant: Plant) -> str:
    """All others are at the cut, and it calls itself exact."""
    original = Publishing._may_be_shown
    plant.setattr(Publishing, "_may_be_shown", lambda self, table: table.source.table != "b" and original(self, table))
    return ROWS


def a_truncate_empties_nothing(plant: Plant) -> str:
    """It is noted, and the rows stay."""
    plant.setattr(publisher.Publisher, "empty", lambda _self, _at=EVER: None)
    return COLUMNS


def a_tables_own_end_is_ignored(plant: Plant) -> str:
    """Each try appends the whole range of its batch."""
    plant.setattr(TableWriter, "ends", lambda _self: {})
    return ROWS


def recovery_ends_with_the_first_batch(plant: Plant) -> str:
    """Whatever the ledger has yet to pass."""
    plant.setattr(Books, "_has_leftovers_beyond", lambda *_: False)
    return COLUMNS


def a_dropped_table_keeps_its_name(plant: Plant) -> str:
    """The next one of that name is taken for it."""
    plant.setattr(NameHistory, "_end", lambda self, name, _at: self.open(name))
    return NAMES


# ---- what is set aside


def what_is_older_than_its_key_is_redriven(plant: Plant) -> str:
    """Nothing is superseded."""
    plant.setattr(SupersededChanges, "_superseded", lambda _self, rows: _none_of(rows))
    return ASIDE


def _none_of(rows: Any) -> Any:
    return rows.where(F.lit(False)).select(*change.POSITION, F.lit(True).alias(LATER))


def what_is_redriven_is_not_shown(plant: Plant) -> str:
    """An append of rows up to the cut counts as sent again."""
    plant.setattr(advance._News, "late", [])
    return ASIDE


def what_is_redriven_stays_open(plant: Plant) -> str:
    """It enters, and is in quarantine still."""
    plant.setattr(lake.CommitTsRecords, "mark", lambda *_: None)
    return ASIDE


def cuts_know_nothing_of_quarantine(plant: Plant) -> str:
    """They are exact without the rows in it."""
    plant.setattr(lake.CommitTsRecords, "open_up_to", lambda *_: 0)
    return ASIDE


def a_second_try_sets_aside_what_the_first_has(plant: Plant) -> str:
    """It does not look what is in quarantine already."""
    quarantined = lambda context: context.records.read("quarantine").where("false")  # noqa: E731
    plant.setattr(pending, "places_set_aside", quarantined)
    return ASIDE


# ---- keys that move


def the_row_that_a_key_left_stays(plant: Plant) -> str:
    """An update that moves a key is the upsert of the new one alone."""
    original = lake.events
    plant.setattr(lake, "events", lambda row: original(row)[:1])
    return KEYS_MOVE


def an_update_that_is_split_deletes_last(plant: Plant) -> str:
    """At a commit ts the delete of a key is later than its upsert."""
    plant.setattr(lake, "_order", lambda one: (one.commit_ts, not one.there, one.row.record.sequence))
    return KEYS_MOVE


def a_key_that_moved_away_supersedes_nothing(plant: Plant) -> str:
    """Only the new key of an update counts as changed."""
    plant.setattr(superseded, "as_it_was", lambda layout: [F.lit(None).alias(name) for name in _names(layout)])
    return KEYS_MOVE


def _names(layout: Any) -> list[str]:
    return [change.UNREPRESENTABLE, *(column.name for column in layout.columns)]


# ---- EXCHANGE PARTITION


def an_exchange_does_not_wait_for_the_other_table(plant: Plant) -> str:
    """Each table shows what comes after it."""
    original = Publishing._until

    def until(self, table):
        undone, self.undone = self.undone, []
        try:
            return original(self, table)
        finally:
            self.undone = undone

    plant.setattr(Publishing, "_until", until)
    return EXCHANGES


def columns_change_before_rows_change_places(plant: Plant) -> str:
    """Nothing ends what a batch applies."""
    plant.setattr(exchange, "barrier", lambda _statements: None)
    return EXCHANGES


def what_comes_after_an_exchange_does_not_wait_for_it(plant: Plant) -> str:
    """Statements of a later batch are applied, whatever an earlier one has noted."""
    plant.setattr(exchange, "after_exchanges", lambda *_: [])
    return EXCHANGES


def an_exchange_that_died_begins_anew(plant: Plant) -> str:
    """The second table gets what the first one has by now."""
    original = lake._exchange

    def exchanged(spark, wanted, *rest):
        wanted.table.by_commit_ts.removed_done = min(wanted.table.by_commit_ts.removed_done, wanted.removal.at - 1)
        original(spark, wanted, *rest)

    plant.setattr(publishing, "exchange", exchanged)
    return EXCHANGES


def a_partition_that_is_emptied_keeps_its_rows(plant: Plant) -> str:
    """TRUNCATE PARTITION is noted, and no row goes."""
    plant.setattr(advance, "_remove", lambda *_: None)
    return EXCHANGES


# ---- tables without a key


def where_rows_are_sent_again_is_not_noted(plant: Plant) -> str:
    """Equal rows count as often as they came."""
    plant.setattr(Tables, "note_deliveries", lambda *_: None)
    return KEYLESS


def what_waits_forgets_where_it_was_sent_again(plant: Plant) -> str:
    """Rows that come in later say nothing of watermarks between them."""
    plant.setattr(redeliveries, "remembered", lambda _records: {})
    return KEYLESS


def watermarks_close_nothing_that_an_earlier_batch_has_read(plant: Plant) -> str:
    """A batch knows its own watermarks."""
    original = lake.multiset.redelivery_starts

    def redelivery_starts(raw, protocol, tables, _frontiers):
        return original(raw, protocol, tables, {})

    plant.setattr(redeliveries, "redelivery_starts", redelivery_starts)
    return KEYLESS


# ---- what each kind of statement does (pipeline/ingest/ddl)


def _kind(plant: Plant, kind: type, instead: Any) -> None:
    """Let statements of a kind do something else. `instead`: (what they do, action, clause, names)."""
    original = applier._KINDS.get(kind, columns.apply)
    plant.setitem(applier._KINDS, kind, lambda *given: instead(original, *given))


def _names_do_not_follow(plant: Plant, kind: type) -> None:
    """Let names mean what they meant, whatever statements of a kind say."""
    original = NameHistory.act

    def act(self, action, commit_ts, cause):
        if not isinstance(action, kind):
            original(self, action, commit_ts, cause)

    plant.setattr(NameHistory, "act", act)


def a_create_makes_no_pair(plant: Plant) -> str:
    """The table is there with its first rows alone."""
    _kind(plant, text.CreateTable, lambda *_: Done("created"))
    return NAMES


def a_create_gives_no_name(plant: Plant) -> str:
    """The name means what it meant."""
    _names_do_not_follow(plant, text.CreateTable)
    return NAMES


def a_new_table_has_its_name_from_the_beginning(plant: Plant) -> str:
    """Rows of the table that had it before are taken for its own."""
    original = BatchPairs.make

    def make(pairs, table_ref, version, binding, *scheme):
        return original(pairs, table_ref, version, binding._replace(since=0), *scheme)

    plant.setattr(BatchPairs, "make", make)
    return NAMES


def a_dropped_table_has_its_name_for_ever(plant: Plant) -> str:
    """Its pair does not note when the name ended."""
    plant.setattr(drop, "ended", lambda bindings, *_: tuple(bindings))
    return NAMES


def what_a_dropped_table_had_set_aside_stays(plant: Plant) -> str:
    """Nothing of it is superseded."""
    plant.setattr(lake.CommitTsRecords, "mark_dropped", lambda *_: None)
    return ASIDE


def a_dropped_pair_is_removed_at_once(plant: Plant) -> str:
    """Not when its batch is committed: what its names meant is forgotten."""
    original = drop.dropped

    def dropped(names, name, pair, commit_ts):
        done = original(names, name, pair, commit_ts)
        if done == "dropped":
            names.context.tables.forget(pair)
        return done

    plant.setattr(drop, "dropped", dropped)
    return NAMES


def a_database_takes_no_table_along(plant: Plant) -> str:
    """DROP DATABASE is about no table."""
    plant.setattr(NamesByCommitTs, "in_database", lambda *_: [])
    return DATABASES


def a_database_takes_its_first_table_along(plant: Plant) -> str:
    """And none of the others."""
    original = NamesByCommitTs.in_database
    plant.setattr(NamesByCommitTs, "in_database", lambda *given: list(original(*given))[:1])
    return DATABASES


def names_outlive_their_database(plant: Plant) -> str:
    """They mean what they meant."""
    _names_do_not_follow(plant, text.DropDatabase)
    return DATABASES


def a_renamed_table_keeps_its_old_name_too(plant: Plant) -> str:
    """A row of a new table of the old name is taken for its own."""
    plant.setattr(names, "ended", lambda bindings, *_: tuple(bindings))
    return NAMES


def a_renamed_table_leaves_what_is_set_aside(plant: Plant) -> str:
    """Under its old name."""
    plant.setattr(lake.CommitTsRecords, "rename_set_aside", lambda *_: None)
    return ASIDE


def a_rename_takes_the_name_of_another_batch(plant: Plant) -> str:
    """Of a statement of several clauses, or of one commit ts, each is taken for the other's second try."""
    original = NamesByCommitTs.done_before

    def done_before(self, action, clause):
        renamed = isinstance(action, text.RenameTable) and any(
            pair.renamed_at == clause.commit_ts for pair in self.context.tables
        )
        return Done("applied before") if renamed else original(self, action, clause)

    plant.setattr(NamesByCommitTs, "done_before", done_before)
    return NAMES


def a_truncate_takes_later_rows_along(plant: Plant) -> str:
    """Those of the next commit ts, too."""
    original = partitions.apply_to_rows

    def apply_to_rows(layout, action, commit_ts, other=""):
        later = commit_ts + (1 << 18 if isinstance(action, text.TruncateTable) else 0)
        return original(layout, action, later, other)

    plant.setattr(partitions, "apply_to_rows", apply_to_rows)
    return COLUMNS


def the_text_of_a_statement_is_not_applied(plant: Plant) -> str:
    """Columns come with their versions, without what older rows show in them."""
    plant.setattr(
        columns, "apply_actions", lambda layout, _, ts, __: (lake.replace(layout, ddl_at=max(ts, layout.ddl_at)), ())
    )
    return COLUMNS


def a_statement_counts_as_later_than_it_is(plant: Plant) -> str:
    """Versions and statements of just after it are taken for older ones."""
    original = columns.apply_actions
    plant.setattr(
        columns, "apply_actions", lambda layout, actions, ts, policy: original(layout, actions, ts + (9 << 18), policy)
    )
    return COLUMNS


def all_rows_go_with_a_partition(plant: Plant) -> str:
    """Of whatever partition they are."""
    plant.setattr(advance, "_remove", lambda publisher, _segment, removal: lake._empty(publisher, removal.at))
    return EXCHANGES


def a_partition_that_goes_is_not_noted(plant: Plant) -> str:
    """The layout does not know of it."""
    original = partitions.apply_to_rows

    def apply_to_rows(layout, action, *rest):
        return (layout, "") if isinstance(action, text.TruncatePartitions) else original(layout, action, *rest)

    plant.setattr(partitions, "apply_to_rows", apply_to_rows)
    return EXCHANGES


def a_new_table_is_not_partitioned(plant: Plant) -> str:
    """What the text says of partitions is not kept, so that nobody can tell which rows are in one."""
    plant.setattr(BatchPairs, "_partitioned", lambda *_: None)
    return EXCHANGES


def what_is_not_understood_holds_nothing(plant: Plant) -> str:
    """The statement is passed over."""
    _kind(plant, text.NotUnderstood, lambda *_: Done("done"))
    return DATABASES


def what_is_not_understood_concerns_no_table(plant: Plant) -> str:
    """None is held."""
    plant.setattr(NamesByCommitTs, "concerned", lambda *_: [])
    return DATABASES


def a_table_that_is_to_be_held_lives(plant: Plant) -> str:
    """What holds it is said, and not done."""
    plant.setattr(NamesByCommitTs, "hold", lambda _self, name, _why, _ts: Done.held(name))
    return DATABASES


def a_statement_is_not_recorded(plant: Plant) -> str:
    """What was done is nowhere in the history."""
    original = applier.history_row
    plant.setattr(applier, "history_row", lambda *given: {**original(*given), "sql": ""})
    return COLUMNS


def names_follow_no_statement(plant: Plant) -> str:
    """Tables change, and names mean what they meant before."""
    plant.setattr(NamesByCommitTs, "follow", lambda *_: None)
    return NAMES


# ---- statements in one partition


def nobody_looks_ahead(plant: Plant) -> str:
    """A row is taken before a statement that it comes after, and that another partition has."""
    plant.setattr(by_ordering, "foresee", lambda *_: None)
    return AHEAD


def what_is_kept_ahead_is_kept_again(plant: Plant) -> str:
    """A statement that waits is kept once more when its own record is read."""
    plant.setattr(pending, "not_kept", lambda _context, frame: frame)
    return AHEAD


def a_stream_that_the_batch_does_not_have_is_searched(plant: Plant) -> str:
    """Its statements make it a stream in time, and its rows come late."""
    plant.setattr(
        foreseen, "_behind", lambda context, _raw: {Partition(name, 0): 0 for name in context.source.streams()}
    )
    return AHEAD


FAULTS = [
    fault
    for name, fault in list(globals().items())
    if callable(fault) and not name.startswith("_") and getattr(fault, "__module__", "") == __name__
]
