"""Everything that may happen to a changefeed and its warehouse by commit ts, and what must hold whatever happens.

`support.histories` says what a history is.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

from support import histories
from support.histories import Rules
from unit.batch_model import batch as model
from unit.commit_ts_model.process import Crash, Process, World
from unit.commit_ts_model.upstream import KEYS, LATER

from pipeline.errors import BatchFailed
from pipeline.model import types
from pipeline.quality.gate import QualityStop
from pipeline.warehouse.pairs import State
from pipeline.warehouse.records import where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.histories import Step

ROWS, COLUMNS, NAMES = "rows only", "columns change", "names change"
MODES = (ROWS, COLUMNS, NAMES)
TABLES = ("a", "b", "c")
TABLES_OF_BOTH = (*TABLES, *LATER)
LIMITS = ((9,), (1,), (3,), *itertools.product((0, 2, 6), repeat=2), *itertools.product((0, 4), repeat=4))
ALTERATIONS = ("add", "drop", "rename", "widen", "truncate")
CRASHES = (*[None] * 25, *range(30))
OTHERS = ((), (0,), (2,), (5,))
FAULTS = (*[None] * 12, *itertools.product(TABLES[:2], ("evolve", "append")))
WATERMARKS = ("all", "all", "all", "first", "others", "back")

rule = Rules()


def drawn(seed: int, mode: str) -> list[Step]:
    """The history of a seed."""
    world = {"shared": seed % 2 == 0, "policy": ("keep", "keep", "drop")[seed % 3]}
    return rule.drawn(seed, mode, [("the_world_is", world)])


def play(steps: Sequence[Step]) -> History:
    """Run a history to its end. Raises `AssertionError` where something does not hold."""
    history = History()
    histories.play(history, steps)
    return history


class History:
    """One warehouse, one source, and everything that may happen to them."""

    def __init__(self) -> None:
        self.fuse = model.Fuse()
        self.process: Process | None = None
        self.dirty = True
        self.newest_cut = 0
        self.cut_of: dict[str, int] = {}
        self.the_world_is(shared=True, policy="keep")

    def the_world_is(self, shared, policy):
        """The first step: to how many topics tables are sent, and what becomes of dropped ones."""
        self.world = World(shared=shared, policy=policy)
        self.tidb = self.world.tidb
        self.tidb.create("a", "b")

    def table(self, name):
        return self.tidb.tables.get(name)

    # ---- what happens upstream

    @rule(
        30, name=TABLES_OF_BOTH, key=KEYS, what=("put", "put", "delete"), also=(None, None, *TABLES_OF_BOTH), other=KEYS
    )
    def rows_change(self, name, key, what, also, other):
        changes = [(self.table(name), key, what)]
        changes += [(self.table(also), other, "put"), (self.table(also), key, "put")] if also else []
        found = [one for one in changes if one[0] is not None]
        if found:
            self.tidb.transaction(found)

    @rule(16, which=WATERMARKS)
    def a_watermark_is_sent(self, which):
        tidb = self.tidb
        match which:
            case "all":
                tidb.watermark()
            case "first":
                tidb.watermark([0])
            case "others":
                tidb.watermark([1, 2, 3])
            case "back":
                tidb.watermark(back=3)

    @rule(7, back=range(1, 9))
    def the_changefeed_restarts(self, back):
        self.tidb.restart_changefeed(back)

    @rule(
        18,
        (COLUMNS, NAMES),
        name=TABLES_OF_BOTH,
        what=("add", "drop", "rename", "widen", "truncate"),
        pick=range(4),
        key=KEYS,
    )
    def a_column_changes(self, name, what, pick, key):
        table, tidb = self.table(name), self.tidb
        if table is None:
            return
        column = table.others[pick % len(table.others)] if table.others else None
        if what == "add":
            tidb.add_column(table)
        elif what == "truncate":
            tidb.truncate(table)
        elif column is not None and what == "drop":
            tidb.drop_column(table, column)
        elif column is not None and what == "rename":
            tidb.rename_column(table, column)
        elif column is not None and column.type != types.STRING:
            tidb.widen_column(table, column)
        if pick % 2:
            tidb.transaction([(table, key, "put")])

    @rule(16, (NAMES,), what=("create", "drop", "recreate", "rename", "swap", "chain", "away and back"), name=TABLES)
    def names_change(self, what, name):
        tidb, other = self.tidb, TABLES[(TABLES.index(name) + 1) % len(TABLES)]
        there, free = name in tidb.tables, [one for one in TABLES if one not in tidb.tables]
        if what == "create" and not there:
            tidb.create(name)
        elif what == "drop" and there:
            tidb.drop(name)
        elif what == "recreate" and there:
            tidb.drop(name)
            tidb.create(name)
        elif what == "rename" and there and free:
            tidb.rename((name, free[0]))
        elif what == "swap" and there and other in tidb.tables:
            tidb.rename((name, "tmp"), (other, name))
            tidb.rename(("tmp", other))
        elif what == "chain" and there and other in tidb.tables and free:
            tidb.rename((other, free[0]), (name, other))
        elif what == "away and back" and there:
            tidb.rename((name, "tmp"))
            tidb.rename(("tmp", name))
        for one in (name, other):
            if one in tidb.tables:
                tidb.transaction([(tidb.tables[one], 1, "put")])

    @rule(8, name=LATER)
    def another_changefeed_comes(self, name):
        """First there is a table that it is to send, then it sends all of it."""
        if self.tidb.hides(name):
            self.tidb.come(name)
        elif name not in self.tidb.tables:
            self.tidb.begin_later(name)

    # ---- what happens to the process

    @rule(44, limit=LIMITS, crash=CRASHES, others=OTHERS, fault=FAULTS)
    def a_batch_is_taken(self, limit, crash, others, fault):
        def work(process):
            process.context.spark.faults = {("s", fault[0]): fault[1]} if fault else {}
            process.batch(lambda starts: self.plan(starts, limit))
            process.context.spark.faults = {}
            self.an_exact_cut_shows_one_moment()

        self.mortally(work, crash, others)

    def an_exact_cut_shows_one_moment(self):
        """All tables together, at the commit ts of the newest cut, if its level says that nothing is missing."""
        batches, resolved = self.content("batches"), self.process.resolved
        if not resolved or not batches or batches[-1]["level"] != "exact" or self.tidb.ddl[resolved >> 1] > 1:
            return  # of several DDL events of one commit ts some may be unread: the cut has those that were
        tables = [table for table in self.loaded() if table.state is not State.DROPPED and table.current is not None]
        known = {table.source.table for table in tables}
        states = [
            {name: rows for name, rows in state.items() if name in known or name not in LATER}
            for state in self.tidb.around(resolved >> 1)
        ]
        alike = [state for state in states if known == set(state)]
        assert alike, f"there are {[str(t.source) for t in tables]}, and TiDB has {sorted(states[0])} then"
        for table in tables:
            self.assert_shows(table, [state[table.source.table] for state in alike], f"{table.source} in an exact cut")

    def mortally(self, work, crash=None, others=()):
        """Work of a process that may end on the way."""
        self.fuse.arm(crash, others)
        self.dirty = True
        try:
            if self.process is None:
                self.process = Process(self.world, self.fuse)
            return work(self.process)
        except (Crash, BatchFailed, QualityStop):
            self.process = None
        finally:
            self.fuse.arm(None)

    def plan(self, starts, limit):
        """The ends of the next batch: partitions are read unevenly."""
        ends = {
            at: min(end, starts.get(at, 0) + limit[number % len(limit)])
            for number, (at, end) in enumerate(sorted(self.world.brought.ends.items()))
        }
        return ends if any(end > starts.get(at, 0) for at, end in ends.items()) else None

    @rule(12, what=("stop", "lose", "back up", "restore"))
    def something_befalls_the_checkpoint(self, what):
        world = self.world
        if what == "back up":
            world.backup = world.checkpoint.copy() if world.checkpoint else None
            return
        self.process = None
        if what == "lose":
            world.checkpoint = None
        elif what == "restore" and world.backup is not None:
            world.checkpoint = world.backup.copy()

    @rule(8, name=TABLES, crash=(None, None, *range(12)), hold=(True, False))
    def a_table_is_held_or_released(self, name, crash, hold):
        def work(process):
            for table in () if process.context.recovering else list(process.context.tables):
                if table.source.table != name:
                    continue
                if hold and table.state is State.LIVE:
                    process.hold(table)
                elif not hold:
                    self.release(process, table)

        self.mortally(work, crash)

    # ---- what must hold

    def everything_holds(self):
        if not self.dirty:
            return
        self.dirty = False
        self.no_record_stands_twice()
        self.cuts_never_go_back()
        self.tables_show_what_tidb_showed()

    def content(self, name):
        metadata = self.world.catalog.pointers.get(where(name))
        return metadata.content() if metadata is not None else ()

    def no_record_stands_twice(self):
        standing = Counter(
            row.record.place
            for metadata in self.world.catalog.pointers.values()
            if metadata.properties.get("ticdc.role") == "changes"
            for row in metadata.content()
        )
        standing.update(row["value"].place for row in self.content("dead_letters"))
        twice = [place for place, count in standing.items() if count > 1]
        assert not twice, f"these records stand twice: {twice}"
        held = Counter(row["value"].place for row in self.content("held") if row["status"] == "open")
        twice = [place for place, count in held.items() if count > 1]
        assert not twice, f"these records wait twice: {twice}"

    def cuts_never_go_back(self):
        cuts = [row["cut_ts"] for row in self.content("cuts")]
        assert max(cuts, default=0) >= self.newest_cut
        self.newest_cut = max(cuts, default=0)

    def loaded(self):
        """The pairs as a process finds them."""
        tables = Process.tables_of(self.world)
        return list(tables)

    def tables_show_what_tidb_showed(self):
        """Each current table is TiDB's at the table's own cut, whoever has its name since."""
        for table in self.loaded():
            if table.current is None:
                continue
            assert table.cut >= self.cut_of.get(table.uuid, 0), f"{table.source} has gone back"
            self.cut_of[table.uuid] = table.cut
            name = next((s.table for s in table.spans if s.since < table.cut <= s.until), None)
            states = [state[name] for state in self.tidb.around(table.cut) if name in state]
            if table.state is State.DROPPED or not states or not table.cut:
                continue
            self.assert_shows(table, states, f"{table.source} (then {name}) at {table.cut}", then=True)

    def assert_shows(self, table, states, what, *, then=False):
        """One of these states. `then`: columns may have gone since, or have got other names and types."""
        failures = []
        for wanted in states:
            try:
                self.assert_is(table, wanted, what, then=then)
            except AssertionError as failure:
                failures.append(failure)
            else:
                return
        raise failures[0]

    @staticmethod
    def assert_is(table, wanted, what, *, then):
        shown = table.current.fields()
        rows = {row.key: row.values for row in table.current.content()}
        assert rows.keys() == wanted.keys(), f"{what} shows the keys {sorted(rows)}, TiDB has {sorted(wanted)}"
        for key, values in wanted.items():
            for name, value in values.items():
                column = table.layout.live(name)
                got = rows[key].get(shown.get(column.name)) if column is not None else None
                if then and (column is None or column.name not in shown or type(value) is not type(got)):
                    continue  # also where a try died between the columns and what is noted of them
                assert column is not None, f"{what} has no column {name}"
                assert got == value, f"{what}, {name} of key {key}: {got!r}, TiDB has {value!r}"

    # ---- the end

    def end(self):
        """Let everything arrive, then compare with the source."""
        for name in LATER:
            if self.tidb.hides(name):
                self.tidb.come(name)
        for _ in range(2):  # the second time nothing is held any more
            self.tidb.watermark()
            self.drain()
            self.everything_holds()
        self.nothing_waits()
        self.every_ddl_event_is_recorded()
        self.current_tables_are_the_truth()

    def drain(self):
        for _ in range(200):
            if self.mortally(self.release_and_go_on) is False:
                return
        raise AssertionError("the stream never ends")

    def release_and_go_on(self, process):
        released = False
        for table in list(process.context.tables):
            released = self.release(process, table) or released
        return process.batch(lambda starts: self.plan(starts, (10**6,))) or released

    @staticmethod
    def release(process, table):
        """Release a held table; not while a batch is begun that may have renamed it (a limit: docs/operations.md)."""
        if table.state is not State.HELD or process.context.recovering:
            return False
        process.release(table.source)
        return True

    def nothing_waits(self):
        waiting = [row for row in self.content("held") if row["status"] == "open"]
        assert not waiting, f"these wait although everything is there: {waiting}"
        newest = max((row["batch_id"] for row in self.content("batches")), default=-1)
        levels = {row["level"] for row in self.content("batches") if row["batch_id"] == newest}
        assert levels <= {"exact", "none"}, f"the last batch is {levels}"

    def every_ddl_event_is_recorded(self):
        recorded = {(row["commit_ts"], row["sql"]) for row in self.content("ddl_history")}
        missing = [event for event in self.tidb.ddl_events() if event not in recorded]
        assert not missing, f"ddl_history lacks {missing}"

    def current_tables_are_the_truth(self):
        context, state = self.process.context, self.tidb.at(self.tidb.ts)
        live = {table.source.table for table in context.tables if table.state is State.LIVE}
        assert live == set(state), f"live are {sorted(live)}, TiDB has {sorted(state)}"
        for name, rows in state.items():
            table = context.tables.find(self.tidb.tables[name].name)
            self.assert_shows(table, [rows], f"{name} at the end")
