"""The micro-batch under every history that hypothesis can think of: crashes, re-sends, checkpoints, schema changes.

The product's own code runs on dictionaries (`unit.batch_model`); invariants hold after every step. Each planted
fault must be found: a machine that cannot fail proves nothing. `TICDC_WAREHOUSE_HISTORIES` runs more histories.
"""

import os
from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from unit.batch_model import batch as model
from unit.batch_model.process import Crash, Process, World
from unit.batch_model.upstream import KEYS, PARTITIONS

from pipeline.errors import BatchFailed
from pipeline.model import types
from pipeline.warehouse.tables import State, obligations

pytestmark = pytest.mark.skip(
    reason="the model is not complete yet: its releases and DDL histories are still being matched"
)

HISTORIES = int(os.environ.get("TICDC_WAREHOUSE_HISTORIES", "30"))
PLAIN, COLUMNS, NAMES = "rows only", "columns change", "names change"
tables = st.sampled_from("ab")
keys = st.sampled_from(KEYS)
limits = st.lists(st.integers(0, 5), min_size=1, max_size=4)


class Histories(RuleBasedStateMachine):
    """One warehouse, one source, and everything that may happen to them."""

    modes = (PLAIN, COLUMNS, NAMES)

    def __init__(self):
        super().__init__()
        self.fuse = model.Fuse()
        self.process = None
        self.replayed = {}
        self.checked_ends = {}
        self.dirty = True
        self.swapped = False

    @initialize(data=st.data())
    def begin(self, data):
        self.mode = data.draw(st.sampled_from(self.modes))
        self.world = World(ddl_sent=self.mode != PLAIN)
        self.source = self.world.source
        self.source.create("a")
        self.source.create("b")
        for table in self.source.tables.values() if self.mode == NAMES else ():
            self.source.put(table, 0)  # a pair, before names change

    # what happens upstream

    def table(self, name):
        return self.source.tables.get(name)

    @rule(name=tables, key=keys, what=st.sampled_from(["put", "put", "delete", "replace"]), times=st.integers(1, 3))
    def a_row_changes(self, name, key, what, times):
        table = self.table(name)
        for _ in range(times if table else 0):
            getattr(self.source, what)(table, key)

    @rule(back=st.integers(1, 12))
    def the_changefeed_restarts(self, back):
        self.source.restart_changefeed(back)

    @rule(
        name=tables, what=st.sampled_from(["add", "again", "drop", "rename", "widen"]), key=keys, pick=st.integers(0, 3)
    )
    def a_column_changes(self, name, what, key, pick):
        table = self.table(name)
        if table is None or (self.mode == PLAIN and what in ("rename", "again")):
            return
        column = table.others[pick % len(table.others)] if table.others else None
        if what == "add":
            self.source.add_column(table)
        elif what == "again":
            names = {c.name for c in table.others}
            gone = [f"c{n}" for n in range(table.next_column) if f"c{n}" not in names]
            if gone:
                self.source.add_column(table, again=gone[pick % len(gone)])
        elif column is not None and what == "drop":
            self.source.drop_column(table, column)
        elif column is not None and what == "rename":
            self.source.rename_column(table, column)
        elif column is not None and column.type != types.STRING:
            self.source.change_type(table, column)
        self.source.put(table, key)  # a version that no message carries is never registered

    @precondition(lambda self: self.mode == COLUMNS)
    @rule(name=tables, what=st.sampled_from(["truncate", "strange_statement"]))
    def a_statement_of_another_kind(self, name, what):
        getattr(self.source, what)(self.table(name))

    @precondition(lambda self: self.mode == NAMES)
    @rule(name=tables, what=st.sampled_from(["swap", "recreate", "away and back"]))
    def names_change(self, name, what):
        source, other = self.source, "b" if name == "a" else "a"
        if what == "swap" and not self.swapped:  # twice in one batch: see the limits at the end of this file
            self.swapped = True
            for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
                source.rename_table(old, new)
        elif what == "recreate":
            source.drop_table(name)
            source.create(name)
            source.put(self.table(name), 2)
        elif what == "away and back":
            source.rename_table(name, "y")
            source.put(source.tables["y"], 0)
            source.rename_table("y", name)
        source.put(self.table(other), 1)

    @rule()
    def a_watermark_is_sent(self):
        if self.source.ddl_sent:
            self.source.watermark()

    @rule(name=tables, partition=st.integers(0, PARTITIONS - 1), header=st.booleans())
    def a_message_is_damaged(self, name, partition, header):
        if self.table(name):
            self.source.damage(self.table(name), partition, header=header)

    @rule(pick=st.integers(0, 3), forget=st.booleans())
    def the_registry_forgets_or_remembers(self, pick, forget):
        registry = self.source.registry
        ids = registry.value_ids()
        if forget and ids:
            registry.forgotten.add(ids[pick % len(ids)])
        else:
            registry.forgotten.clear()

    # what happens to the process

    @rule(
        limit=limits,
        crash=st.none() | st.integers(0, 30),
        others=st.lists(st.integers(0, 12), max_size=2),
        fault=st.none() | st.tuples(tables, st.sampled_from(["evolve", "append", "publish"])),
    )
    def a_batch_is_taken(self, limit, crash, others, fault):
        self.fuse.arm(crash, others)
        try:
            self.open()
            self.process.bench.spark.faults = {("s", fault[0]): fault[1]} if fault else {}
            self.process.batch(lambda starts: self.plan(starts, limit))
            self.process.bench.spark.faults = {}
        except (Crash, BatchFailed):
            self.process = None
        finally:
            self.fuse.arm(None)
            self.dirty = True

    def open(self):
        if self.process is None:
            self.process = Process(self.world, self.fuse)

    def plan(self, starts, limit):
        """The ends of the next batch: partitions are read unevenly, or in the order of sending."""
        latest = self.source.broker.latest
        if self.mode == NAMES:
            return self.in_order(starts, latest, sum(limit) * 2)
        ends = {
            at: min(end, starts.get(at, 0) + limit[number % len(limit)])
            for number, (at, end) in enumerate(sorted(latest.items()))
        }
        return ends if any(end > starts.get(at, 0) for at, end in ends.items()) else None

    def in_order(self, starts, _latest, count):
        """Everything up to a record; all copies of a statement are in one batch (docs/limits: they must be)."""
        logs = self.source.broker.logs
        unread = sorted((r for at, log in logs.items() for r in log[starts.get(at, 0) :]), key=lambda r: r.sequence)
        if not unread or not count:
            return None
        last = unread[min(count, len(unread)) - 1]
        copies = [r.sequence for r in unread if r.message.kind == "ddl" and r.message == last.message]
        self.world.least = max(self.world.least, last.sequence, *copies)
        return {at: sum(r.sequence <= self.world.least for r in log) for at, log in logs.items()}

    @rule(what=st.sampled_from(["stop", "back up", "lose", "restore"]))
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

    @rule(name=tables, crash=st.none() | st.integers(0, 12), hold=st.booleans())
    def a_table_is_held_or_released(self, name, crash, hold):
        self.fuse.arm(crash)
        try:
            self.open()
            bench = self.process.bench
            found = [t for t in bench.tables if t.source.table == name and t.state in (State.LIVE, State.HELD)]
            for table in found:
                if hold and table.state == State.LIVE:
                    bench.tables.set_state(table, State.HELD, "by a person")
                elif not hold and table.state == State.HELD:
                    self.process.release(table.source)
        except Crash:
            self.process = None
        finally:
            self.fuse.arm(None)
            self.dirty = True

    # what must hold

    @invariant()
    def everything_holds(self):
        if self.dirty and hasattr(self, "world"):
            self.no_record_stands_twice_and_none_is_lost()
            self.current_tables_are_their_changes_replayed()
            self.dirty = False

    def pairs(self):
        with ExitStack() as undo:
            undo.enter_context(patch.object(self.world.catalog, "before_commit", lambda _what: None))
            return list(Process.tables_of(self.world))

    def standing(self):
        """Where every record stands: in a changes table, a dead letter, or held and open.

        While a release is under way, what it has appended is still marked as held.
        """
        catalog, found, held = self.world.catalog, Counter(), []
        releasing = set()
        for name, metadata in catalog.pointers.items():
            content = catalog.table(name).content()
            if metadata.properties.get("ticdc.role") == "changes":
                found.update(row.record.place for row in content)
                if metadata.properties["ticdc.state"] == State.RELEASING:
                    releasing.add(
                        (metadata.properties["ticdc.source-schema"], metadata.properties["ticdc.source-table"])
                    )
            elif name.name == "dead_letters":
                found.update(row.record.place for row in content)
            elif name.name == "held":
                held = [r for r in content if r.status == "open" and r.record.message.kind != "ddl"]
        for row in held:
            if row.table not in releasing or row.record.place not in found:
                found[row.record.place] += 1
        return found

    def no_record_stands_twice_and_none_is_lost(self):
        standing = self.standing()
        twice = [place for place, count in standing.items() if count > 1]
        assert not twice, f"these records stand twice: {twice}"
        ends = Process.ledger_of(self.world).ends
        for at, log in self.source.broker.logs.items():
            end = ends.get((self.source.broker.topics[at.topic].id, at.partition), 0)
            lost = [r for r in log[:end] if r.message.kind not in ("ddl", "watermark") and r.place not in standing]
            assert not lost, f"the ledger is ahead of the tables: {lost}"

    def current_tables_are_their_changes_replayed(self):
        for table in self.pairs():
            if table.current is None or table.applied is None:
                continue
            state = (table.applied, table.current.head(), len(table.layout.versions))
            if self.replayed.get(table.uuid) == state:
                continue
            self.replayed[table.uuid] = state
            self.assert_replayed(table)

    def assert_replayed(self, table):
        fields, expected = table.changes.fields(), {}
        applied = self.rows_until(table)
        for row in applied:
            expected.pop(row.key, None)
            if not row.deletes and row.record.message.commit_ts > table.truncated_done:
                expected[row.key] = row
        if table.filled != frozenset(obligations(table.layout)):
            return  # the schema has gone on since; the next publish fills
        shown = table.current.fields()
        live = [column for column in table.layout.current if column.live]
        for row in table.current.content():
            assert row.key in expected, f"{table.source} shows a key that its changes do not: {row}"
            want = model.image(table.layout, expected.pop(row.key), fields)
            for column in live:
                got = row.values.get(shown[column.name])
                assert got == want[column.name], f"{table.source}.{column.name} of key {row.key}: {got}, not {want}"
        assert not expected, f"{table.source} lacks rows of its changes: {expected}"

    def rows_until(self, table):
        snapshot = table.changes._meta.snapshots[table.applied]
        return snapshot.content

    def teardown(self):
        if not hasattr(self, "world"):
            return
        self.source.registry.forgotten.clear()
        for table in self.source.tables.values():
            self.source.put(table, 0)  # the newest version is in the stream
        self.drain()
        self.everything_holds()
        self.everything_is_accounted_for()
        self.current_tables_are_the_truth()

    def drain(self):
        self.fuse.arm(None)
        for _ in range(300):
            self.open()
            for table in list(self.process.bench.tables):
                if table.state == State.HELD:
                    self.process.release(table.source)
            if not self.process.batch(lambda starts: self.plan(starts, [10**6])):
                break
        else:
            pytest.fail("the stream never ends")
        self.dirty = True

    def everything_is_accounted_for(self):
        standing = self.standing()
        for log in self.source.broker.logs.values():
            for record in log:
                if record.message.kind not in ("ddl", "watermark"):
                    assert standing[record.place] == 1, f"{record} stands {standing[record.place]} times"

    def current_tables_are_the_truth(self):
        dead = {row.record.place for row in self.process.bench.records.aside("dead_letters")}
        for name, source in self.source.tables.items():
            table = next(t for t in self.process.bench.tables if t.source == source.name and t.state == State.LIVE)
            logs = self.source.broker.logs
            tainted = {
                record.message.key
                for log in logs.values()
                for record in log
                if record.place in dead and record.message.kind == "row"
            }
            fields = table.current.fields()
            rows = {row.key: row.values for row in table.current.content()}
            for key in set(KEYS) - tainted:
                want = source.rows.get(key)
                assert (key in rows) == (want is not None), f"{name} {key}: {rows.get(key)}, but TiDB has {want}"
                for column in source.columns if want else ():
                    live = table.layout.live(column.name)
                    assert live is not None, f"{name} has no column {column.name}"
                    got = rows[key].get(fields[live.name])
                    assert got == want[column.name], f"{name}.{column.name} {key}: {got}, TiDB has {want}"


def run(machine, histories, phases=None):
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=40,
            deadline=None,
            database=None,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            **({"phases": phases} if phases else {}),
        ),
    )


@pytest.fixture(autouse=True)
def sparkless(monkeypatch):
    for where, name, instead in model.replacements():
        monkeypatch.setattr(where, name, instead)


@pytest.mark.parametrize("mode", [PLAIN, COLUMNS, NAMES])
def test_no_history_loses_or_doubles_a_record_or_shows_a_wrong_row(mode):
    machine = type("Machine", (Histories,), {"modes": (mode,)})
    run(machine, HISTORIES // 3)
