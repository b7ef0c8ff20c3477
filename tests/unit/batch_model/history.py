"""Everything that may happen to one source and one warehouse, and what must hold whatever happens.

`support.histories` says what a history is.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from support import histories
from support.histories import Rules
from unit.batch_model import batch as model
from unit.batch_model.process import Crash, Process, World
from unit.batch_model.suites import NONE, SUITES, broken
from unit.batch_model.upstream import KEYS, PARTITIONS

from pipeline.errors import BatchFailed, Refused
from pipeline.model import types
from pipeline.model.names import PIPELINE_NAMESPACE, TableName
from pipeline.model.set_aside import FENCED
from pipeline.operations.redrive import DEAD_LETTERS, QUARANTINE
from pipeline.quality.gate import QualityStop
from pipeline.quality.suites import Severity
from pipeline.warehouse.pairs import State, backfills_of
from pipeline.warehouse.records import where
from pipeline.warehouse.state import UNDER_WAY

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from support.histories import Step

PLAIN, COLUMNS, NAMES = "rows only", "columns change", "names change"
MODES = (PLAIN, COLUMNS, NAMES)
EXCHANGES = ("swap", "cycle", "replace")
TABLES = ("a", "b")
LIMITS = (
    (9,), (1,), (2,), (5,), *itertools.product((0, 1, 4), repeat=2), *itertools.product((0, 3), repeat=4),
)  # fmt: skip
CRASHES = (*[None] * 25, *range(25))
OTHERS = ((), (0,), (2,), (5,), (9,), (0, 4), (6, 1))
FAULTS = (*[None] * 12, *itertools.product(TABLES, ("evolve", "append", "publish")))
SET_ASIDE = (QUARANTINE, DEAD_LETTERS)

rule = Rules()


def drawn(seed: int, mode: str, wanted: Collection[str] = ()) -> list[Step]:
    """The history of a seed; `wanted`: of these rules alone."""
    first = [("the_tables_share_a_topic", {})] if mode == PLAIN and seed % 4 == 0 else []
    return rule.drawn(seed, mode, first, wanted)


def play(mode: str, steps: Sequence[Step]) -> History:
    """Run a history to its end. Raises `AssertionError` where something does not hold."""
    history = History(mode)
    histories.play(history, steps)
    return history


class History:
    """One warehouse, one source, and everything that may happen to them."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.fuse = model.Fuse()
        self.process: Process | None = None
        self.world = World(ddl_sent=mode != PLAIN)
        self.source = self.world.source
        self.replayed: dict[str, tuple[Any, ...]] = {}
        self.dirty = True
        self.source.create("a")
        self.source.create("b")
        for table in self.source.tables.values() if mode == NAMES else ():
            self.source.put(table, 0)  # a pair, before names change

    # what happens upstream

    def table(self, name):
        return self.source.tables.get(name)

    @rule(0, (PLAIN,))
    def the_tables_share_a_topic(self):
        if not self.source.broker.sent:
            self.source.topic_of = lambda _name: "t_both"

    @rule(30, name=TABLES, key=KEYS, what=("put", "put", "delete", "replace"), times=(1, 2, 3))
    def a_row_changes(self, name, key, what, times):
        table = self.table(name)
        for _ in range(times if table else 0):
            getattr(self.source, what)(table, key)

    @rule(8, back=range(1, 13))
    def the_changefeed_restarts(self, back):
        self.source.restart_changefeed(back)

    @rule(18, name=TABLES, what=("add", "widen", "drop", "again", "rename", "widen"), key=KEYS, pick=range(4))
    def a_column_changes(self, name, what, key, pick):
        table = self.table(name)
        if table is None or not self.followed(table, what):
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

    def followed(self, table, what):
        """Whether a reader can know what has happened.

        Limits (docs/reference/protocols/avro.md): without statements a rename is a drop and an add, and a name
        that is used again is the same column; a statement that one partition has brought before any row of the table
        has come is forgotten, and a version that another partition brings later, or that is read later since the
        registry had lost it, is not known to be older.
        """
        if self.mode == PLAIN:
            return what not in ("rename", "again")
        if what in ("add", "widen"):
            return True
        is_another = any(sql.startswith(("DROP TABLE", "RENAME TABLE")) for _, sql in self.unread_ddl())
        unread = self.source.registry.forgotten or any(row["status"] == "open" for row in self.letters())
        return not (is_another or unread) and Process.tables_of(self.world).find(table.name) is not None

    def letters(self):
        """The dead letters, whether a process lives or not."""
        return self.process.context.records.read(DEAD_LETTERS).rows if self.process else ()

    def unread_ddl(self):
        """Commit ts and text of the DDL events of which a copy has not been read."""
        ends, broker = Process.ledger_of(self.world).ends, self.source.broker
        unread = (
            record.message
            for at, log in broker.logs.items()
            for record in log[ends.get((broker.topics[at.stream].id, at.number), 0) :]
        )
        return {(message.commit_ts, message.sql) for message in unread if message.kind == "ddl"}

    @rule(6, (COLUMNS,), name=TABLES, what=("truncate", "strange_statement"))
    def a_statement_of_another_kind(self, name, what):
        getattr(self.source, what)(self.table(name))

    @rule(10, (NAMES,), name=TABLES, what=("swap", "recreate", "away and back", "restore", "cycle", "replace"))
    def names_change(self, name, what):
        source, other = self.source, "b" if name == "a" else "a"
        if not self.names_may_change(what):
            return
        if what == "swap":
            for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
                source.rename_table(old, new)
        elif what == "recreate":
            source.drop_table(name)
            source.create(name)
            source.put(self.table(name), 2)
        elif what == "restore":
            for old in (name, other):
                source.drop_table(old)
            source.create(name, other)
            source.put(self.table(name), 2)
        elif what == "cycle":
            source.rename_at_once((name, other), (other, name))
        elif what == "replace":  # the new one first, as TiCDC may send it
            source.rename_at_once((other, name), (name, "old"))
            source.rename_at_once(("old", other))
        elif what == "away and back":
            source.rename_table(name, "y")
            source.put(source.tables["y"], 0)
            source.rename_table("y", name)
        source.put(self.table(other), 1)

    def names_may_change(self, what):
        """Limits: two exchanges of names in one batch, or one of tables that have no row yet.

        Of an exchange that is read in two parts the rest must come before its names are dropped: rows of a new table
        of such a name are held until a person releases it, which nobody does here before it has a pair.
        """
        unread = {(commit_ts, sql) for commit_ts, sql in self.unread_ddl() if sql.startswith("RENAME TABLE")}
        if what in EXCHANGES:
            return not unread and self.are_known(TableName("s", name) for name in TABLES)
        at_once = len(unread) > len({commit_ts for commit_ts, _ in unread})
        return what == "away and back" or not at_once

    def are_known(self, names):
        """Whether the warehouse has these tables: of others a statement about names is forgotten (a limit)."""
        tables = Process.tables_of(self.world)
        return all(tables.find(name) is not None for name in names)

    @rule(4, (COLUMNS, NAMES))
    def a_watermark_is_sent(self):
        self.source.watermark()

    @rule(5, name=TABLES, partition=range(PARTITIONS), header=(False, True))
    def a_message_is_damaged(self, name, partition, header):
        if self.table(name):
            self.source.damage(self.table(name), partition, header=header)

    @rule(6, pick=range(4), forget=(False, True))
    def the_registry_forgets_or_remembers(self, pick, forget):
        registry = self.source.registry
        ids = registry.value_ids()
        changed = any(" RENAME COLUMN " in sql or " DROP COLUMN " in sql for _, sql in self.unread_ddl())
        if forget and ids and not changed:  # a limit, see `followed`
            registry.forgotten.add(ids[pick % len(ids)])
        else:
            registry.forgotten.clear()

    # what happens to the process

    @rule(40, limit=LIMITS, crash=CRASHES, others=OTHERS, fault=FAULTS)
    def a_batch_is_taken(self, limit, crash, others, fault):
        def work(process):
            process.context.spark.faults = {("s", fault[0]): fault[1]} if fault else {}
            process.batch(lambda starts: self.plan(starts, limit))
            process.context.spark.faults = {}

        self.mortally(work, crash, others)

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
        """The ends of the next batch: partitions are read unevenly, or in the order of sending."""
        latest = self.source.broker.latest
        if self.mode == NAMES:
            return self.in_order(starts, sum(limit) * 2, late=sum(limit) % 2 == 1)
        ends = {
            at: min(end, starts.get(at, 0) + limit[number % len(limit)])
            for number, (at, end) in enumerate(sorted(latest.items()))
        }
        return ends if any(end > starts.get(at, 0) for at, end in ends.items()) else None

    def in_order(self, starts, count, *, late):
        """Everything up to a record; all copies of a statement in one batch, but one of the last that may be late."""
        logs = self.source.broker.logs
        unread = sorted((r for at, log in logs.items() for r in log[starts.get(at, 0) :]), key=lambda r: r.sequence)
        if not unread or not count:
            return None
        last = unread[min(count, len(unread)) - 1]
        ddl = [r for r in unread if r.message.kind == last.message.kind == "ddl"]
        of_then = [r for r in ddl if r.message.commit_ts == last.message.commit_ts]  # mostly with all its messages
        copies = [r.sequence for r in of_then if r.message == last.message or count % 6]
        self.world.least = max(self.world.least, last.sequence, *copies)
        ends = {at: sum(r.sequence <= self.world.least for r in log) for at, log in logs.items()}
        return self.without_a_copy(starts, ends) if late else ends

    def without_a_copy(self, starts, ends):
        """Ends of which one partition's lies before its copy of the last statement, which others have."""
        logs = self.source.broker.logs
        found = [
            (record.sequence, record.message, at, offset)
            for at, end in ends.items()
            for offset, record in enumerate(logs[at][:end])
            if offset >= starts.get(at, 0) and record.message.kind == "ddl"
        ]
        if not found:
            return ends
        message = max(found, key=lambda copy: copy[0])[1]
        copies = [(at, offset) for _, other, at, offset in found if other == message]
        return ends | dict(copies[:1]) if len(copies) > 1 else ends

    @rule(14, what=("stop", "lose", "back up", "restore", "lose"))
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

    @rule(14, name=TABLES, crash=(None, None, *range(12)), hold=(True, False))
    def a_table_is_held_or_released(self, name, crash, hold):
        def work(process):
            for table in process.context.tables:
                if table.source.table == name and table.state in (State.LIVE, State.HELD):
                    if hold and table.state == State.LIVE:
                        process.context.tables.set_state(table, State.HELD, "by a person")
                    elif not hold:
                        self.release(process, table)

        self.mortally(work, crash)

    @rule(12, suite=SUITES)
    def the_suite_changes(self, suite):
        self.world.suite, self.process = suite, None

    @rule(14, what=SET_ASIDE, crash=(None, None, *range(15)), then=(None, None, *SUITES))
    def what_was_set_aside_is_redriven(self, what, crash, then):
        """`then`: what holds after a crash. No dead letters where names change: what a name meant is forgotten."""
        if what == QUARANTINE or self.mode != NAMES:
            self.mortally(lambda process: self.redrive(process, what), crash)
        if self.process is None and then is not None:
            self.world.suite = then

    def redrive(self, process, what):
        """Redrive all: what enters breaks no rule of now, and what was behind another enters with it or after it."""
        tables = process.context.tables
        before = {table.uuid: len(table.changes.content()) for table in tables}
        process.redrive(what)
        quarantine = process.context.records.read(QUARANTINE).rows
        fenced = {row["value"].place for row in quarantine if row["code"] == FENCED}
        for table in tables:
            first = {r["value"].message.key for r in quarantine if r["status"] == "open" and r["code"] != FENCED
                     and r["table_name"] == table.source.table}  # fmt: skip
            for row in table.changes.content()[before.get(table.uuid, 0) :]:
                bad = broken(row.record.message, self.world.suite, Severity.QUARANTINE, Severity.HOLD, Severity.FAIL)
                assert not bad, f"{table.source} has got {row}, which breaks {bad}"
                assert row.key not in first or row.record.place not in fenced, f"{row} does not wait"

    # what must hold

    def everything_holds(self):
        if self.dirty:
            self.no_record_stands_twice_and_none_is_lost()
            self.no_delete_is_set_aside_by_a_rule()
            self.current_tables_are_their_changes_replayed()
            self.dirty = False

    def standing(self):
        """Where every record stands: in a changes table, set aside and not redriven, or held and open.

        While a release or a redrive is under way, what it has appended is still marked as held or set aside.
        """
        catalog, found, releasing = self.world.catalog, Counter(), set()
        for name, metadata in catalog.pointers.items():
            properties = metadata.properties
            if name.namespace != PIPELINE_NAMESPACE and properties["ticdc.role"] == "changes":
                found.update(row.record.place for row in metadata.content())
                if properties["ticdc.state"] == State.RELEASING:
                    releasing.add((properties["ticdc.source-schema"], properties["ticdc.source-table"]))
        for name in SET_ASIDE:
            metadata = catalog.pointers.get(where(name))
            under_way = metadata is not None and UNDER_WAY.read(metadata.properties)
            for row in metadata.content() if metadata is not None else ():
                if row["status"] != "redriven" and not (under_way and row["value"].place in found):
                    found[row["value"].place] += 1
        held = catalog.pointers.get(where("held"))
        for row in held.content() if held is not None else ():
            if row["value"].message.kind == "ddl" or row["status"] == "released":
                continue
            if (row["schema_name"], row["table_name"]) not in releasing or row["value"].place not in found:
                found[row["value"].place] += 1
        return found

    def no_record_stands_twice_and_none_is_lost(self):
        standing = self.standing()
        twice = [place for place, count in standing.items() if count > 1]
        assert not twice, f"these records stand twice: {twice}"
        ends = Process.ledger_of(self.world).ends
        for at, log in self.source.broker.logs.items():
            end = ends.get((self.source.broker.topics[at.stream].id, at.number), 0)
            lost = [r for r in log[:end] if r.place not in standing and r.message.kind not in ("ddl", "watermark")]
            assert not lost, f"the ledger is ahead of the tables: {lost}"

    def no_delete_is_set_aside_by_a_rule(self):
        quarantine = self.world.catalog.pointers.get(where("quarantine"))
        deletes = [r for r in quarantine.content() if r["value"].message.deletes] if quarantine is not None else []
        assert not deletes, f"deletes are in quarantine: {deletes}"

    def current_tables_are_their_changes_replayed(self):
        for table in Process.tables_of(self.world):
            if table.current is None or table.applied is None:
                rows = table.current.content() if table.current else ()
                assert not rows, f"{table.source} does not say from which changes it was built: {rows}"
                continue
            state = (table.applied, table.current.head(), len(table.layout.versions))
            if self.replayed.get(table.uuid) != state:
                self.replayed[table.uuid] = state
                self.assert_replayed(table)

    def assert_replayed(self, table):
        fields, expected = table.changes.fields(), {}
        for row in table.changes.content_at(table.applied):
            expected.pop(row.key, None)
            if not row.deletes and row.record.message.commit_ts > table.by_offset.truncated_done:
                expected[row.key] = row
        if table.backfilled != frozenset(backfills_of(table.layout)):
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

    def end(self):
        """Let everything arrive, then compare with the source."""
        self.source.registry.forgotten.clear()
        for table in self.source.tables.values():
            self.source.put(table, 0)  # the newest version is in the stream
        self.the_suite_changes(NONE)
        self.drain()
        self.everything_holds()
        for what in reversed(SET_ASIDE):
            self.what_was_set_aside_is_redriven(what, None, None)
            self.everything_holds()
        self.everything_is_accounted_for()
        self.current_tables_are_the_truth()

    def drain(self):
        for _ in range(300):
            if self.mortally(self.release_and_go_on) is False:
                return
        raise AssertionError("the stream never ends")

    def release_and_go_on(self, process):
        more = process.batch(lambda starts: self.plan(starts, (10**6,)))
        released = [self.release(process, table) for table in process.context.tables]
        return any(released) or more

    def release(self, process, table):
        """Release a held table; not while a batch is begun that may have renamed it.

        The limit is in docs/how-to/recover-a-held-table.md.

        One whose name another table has that waits for its own is to be released after that.
        """
        if table.state != State.HELD or (self.mode == NAMES and process.context.run.recovering):
            return False
        try:
            process.release(table.source)
        except Refused as refused:
            if "let that table have its own name" in refused.hint or "takes the name from that table" in refused.hint:
                return False
            raise
        return True

    def everything_is_accounted_for(self):
        standing = self.standing()
        for log in self.source.broker.logs.values():
            for record in log:
                if record.message.kind not in ("ddl", "watermark"):
                    assert standing[record.place] == 1, f"{record} stands {standing[record.place]} times"

    def current_tables_are_the_truth(self):
        context = self.process.context
        letters = self.rows_of(DEAD_LETTERS)
        waiting = [row for row in (*letters, *self.rows_of(QUARANTINE)) if row["status"] == "open"]
        assert self.mode == NAMES or not waiting, f"these wait although nothing is in their way: {waiting}"
        for name, source in self.source.tables.items():
            table = context.tables.find(source.name)
            assert table is not None, f"{name} is not in the warehouse"
            assert table.state == State.LIVE, f"{name} is {table.state}: {table.held_reason}"
            fields = table.current.fields()
            rows = {row.key: row.values for row in table.current.content()}
            for key in set(KEYS) - self.tainted(letters, source, table):
                want = source.rows.get(key)
                assert (key in rows) == (want is not None), f"{name} {key}: {rows.get(key)}, but TiDB has {want}"
                for column in source.columns if want else ():
                    live = table.layout.live(column.name)
                    assert live is not None, f"{name} has no column {column.name}"
                    got = rows[key].get(fields[live.name])
                    assert got == want[column.name], f"{name}.{column.name} {key}: {got}, TiDB has {want}"

    def rows_of(self, what):
        """The readable rows that were set aside."""
        return [row for row in self.process.context.records.read(what).rows if row["value"].message.kind == "row"]

    @staticmethod
    def tainted(letters, source, table):
        """Keys whose row nobody can know.

        A dead letter that waits; one that was redriven, but a TRUNCATE came when nobody knew the table (a limit).
        """
        unknown = source.truncated_at if table.by_offset.truncated_at < source.truncated_at else 0
        return {
            row["value"].message.key
            for row in letters
            if row["status"] == "open" or row["value"].message.commit_ts < unknown
        }
