"""The till of the e2e tests (`e2e.till`) in memory: two tables, and whatever a test says of them, by commit ts.

It takes what is sent in a pipeline of the model by commit ts (`unit.commit_ts_model`), where the product's own code
runs on dictionaries. A test calls `replaced` first.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from unit.batch_model import suites
from unit.batch_model.batch import Crash, Fuse
from unit.batch_model.upstream import HANDLE
from unit.commit_ts_model import lake
from unit.commit_ts_model.process import Process, World
from unit.commit_ts_model.upstream import TICK, TOO_LARGE, Message, TidbTable

from pipeline.ddl import ActionType
from pipeline.model import types
from pipeline.model.columns import SchemaId, SourceColumn
from pipeline.model.names import TableName, WarehouseName
from pipeline.warehouse.records import where

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

    from pipeline.warehouse.pairs import TablePair

SCHEMA, ALL = "s", 10**6


def replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the product run without Spark."""
    for module, name, instead in lake.replacements():
        monkeypatch.setattr(module, name, instead)


class Suite:
    """Which rows break the rule of all tables: those with one of the values of `bad` in their last column."""

    def __init__(self, till: Till) -> None:
        self._world, self.bad = till.world, set[int]()
        till.world.is_bad = lambda message, _rule: message.values[-1][1] in self.bad

    def forbids(self, severity: str) -> None:
        """What the rule does in processes that begin from now on: "quarantine", "hold", or "" for nothing."""
        self._world.suite = {"quarantine": ("set aside",), "hold": ("wait",), "": suites.NONE}[severity]


class NamedFuse(Fuse):
    """Ends the process before a step of this name (`*`: that begins so); `skip`: when so many of them have passed."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted, self.skip = "", 0

    def burn(self, step: str) -> None:
        """One durable step."""
        whole, wanted = not self.wanted.endswith("*"), self.wanted.rstrip("*")
        if not wanted or (step != wanted and (whole or not step.startswith(wanted))):
            return
        self.skip -= 1
        if self.skip < 0:
            raise Crash(step)


class Till:
    """Two tables, `account` and `note`, and a warehouse that nothing has been taken into yet.

    `shared`: whether all tables are sent to one topic. `policy`: what becomes of dropped tables.
    """

    def __init__(self, *, shared: bool = True, policy: str = "keep") -> None:
        self.world, self.fuse = World(shared=shared, policy=policy), NamedFuse()
        self.tidb = self.world.tidb
        self.tidb.create("account")
        self.tidb.create("note")

    # ---- what is sent

    def put(self, name: str, *keys: int) -> None:
        """Insert or change rows, a transaction each."""
        for key in keys:
            self.tidb.transaction([(self.tidb.tables[name], key, "put")])

    def value(self, name: str, key: int) -> int:
        """What TiDB has of a row."""
        return int(self.tidb.tables[name].rows[key]["c0"])

    def delete(self, name: str, key: int) -> None:
        """Delete a row."""
        self.tidb.transaction([(self.tidb.tables[name], key, "delete")])

    def truncate(self, name: str) -> None:
        """TRUNCATE TABLE."""
        self.tidb.truncate(self.tidb.tables[name])

    def rename(self, old: str, new: str) -> None:
        """RENAME TABLE."""
        self.tidb.rename((old, new))

    def move(self, name: str, to: TableName, old: TableName | None = None) -> None:
        """RENAME TABLE to any database; `name`: as TiDB is asked for the table."""
        tidb, table = self.tidb, self.tidb.tables.pop(name)
        tidb.ts += TICK
        old = old or table.name
        table.name, table.version = to, SchemaId(tidb.ts // TICK)
        tidb.tables[to.table] = table
        sql = f"RENAME TABLE `{old.schema}`.`{old.table}` TO `{to.schema}`.`{to.table}`"
        tidb._ddl(ActionType.RENAME_TABLE, sql, table, old)
        tidb._done()

    def say(self, kind: int, sql: str, name: str = "", schema: str = SCHEMA) -> int:
        """A statement that changes nothing in TiDB; gives its commit ts."""
        tidb = self.tidb
        tidb.ts += TICK
        tidb.ddl[tidb.ts] += 1
        message = Message("ddl", tidb.ts, TableName(schema, name), sql=sql, action=int(kind))
        for partition in range(2):
            tidb._send(tidb.topic_of(message.table), partition, message)
        tidb._done()
        return tidb.ts

    def undescribed(self, name: str, key: int, version: int = 10**6, sent_at: int = 0) -> int:
        """A row of a version that no message describes; gives its commit ts."""
        tidb = self.tidb
        at = sent_at or tidb.ts + TICK
        tidb.ts = max(tidb.ts, at)
        self.row_at(at, name, key, version)
        tidb._done()
        return at

    def row_at(self, commit_ts: int, name: str, key: int, version: int) -> None:
        """A row event of any commit ts."""
        values = (("id", key), ("c0", key * 100))
        message = Message("row", commit_ts, TableName(SCHEMA, name), SchemaId(version), key, values, "insert")
        self.tidb._send(self.tidb.topic_of(message.table), key % 2, message)

    def elsewhere(self, topic: str, name: str, key: int) -> None:
        """Insert or change a row of which the event goes to another topic."""
        topic_of = self.tidb.topic_of
        self.tidb.topic_of = lambda _name: topic
        self.put(name, key)
        self.tidb.topic_of = topic_of

    def too_large(self, name: str, key: int, sent_at: int = 0) -> int:
        """A row of which only the key is sent; gives its commit ts."""
        tidb = self.tidb
        at = sent_at or tidb.ts + TICK
        tidb.ts = max(tidb.ts, at)
        table = TableName(SCHEMA, name)
        tidb._send(tidb.topic_of(table), key % 2, Message(TOO_LARGE, at, table, key=key))
        tidb._done()
        return at

    def described_at_last(self, name: str, version: int = 10**6) -> None:
        """A statement describes the version of rows that came without."""
        tidb = self.tidb
        columns = (HANDLE, SourceColumn("c0", types.INT, "INT"))
        table = TidbTable(TableName(SCHEMA, name), columns, SchemaId(version))
        tidb.ts += TICK
        tidb._ddl(ActionType.MODIFY_TABLE_COMMENT, f"ALTER TABLE `{SCHEMA}`.`{name}` COMMENT = 'described'", table)
        tidb._done()

    def create(self, name: str, definition: str = "(`id` INT PRIMARY KEY,`c0` INT)") -> None:
        """CREATE TABLE with more to say of it than its columns."""
        tidb = self.tidb
        tidb.ts += TICK
        columns = (HANDLE, SourceColumn("c0", types.INT, "INT"))
        tidb.tables[name] = TidbTable(TableName(SCHEMA, name), columns, SchemaId(tidb.ts // TICK))
        tidb._ddl(ActionType.CREATE_TABLE, f"CREATE TABLE `{SCHEMA}`.`{name}` {definition}", tidb.tables[name])
        tidb._done()

    def recovered(self, name: str) -> None:
        """DROP TABLE, and RECOVER TABLE: what TiDB has then no message says."""
        table = self.tidb.tables[name]
        self.tidb.drop(name)
        self.say(ActionType.RECOVER_TABLE, f"RECOVER TABLE `{SCHEMA}`.`{name}`", name)
        self.tidb.tables[name] = table

    # ---- what is taken

    def run(self, dies_before: str = "", skip: int = 0, *, watermark: bool = True, limit: int = ALL) -> None:
        """A process takes all that was sent, `limit` records of a partition in a batch; it may die on its way."""
        if watermark:
            self.tidb.watermark()
        with self.process(dies_before, skip) as opened:
            self._all(opened, limit)

    def release(self, name: str, dies_before: str = "", skip: int = 0) -> None:
        """A process releases a table, and takes what that lets in."""
        with self.process(dies_before, skip) as opened:
            opened.release(TableName(SCHEMA, name))
            self._all(opened, 0)

    def take(self, opened: Process) -> None:
        """A process that lives takes what was sent."""
        self.tidb.watermark()
        self._all(opened, ALL)

    def _all(self, opened: Process, limit: int) -> None:
        while opened.batch(lambda starts: self._ends(starts, limit)):
            pass

    @contextmanager
    def process(self, dies_before: str = "", skip: int = 0) -> Iterator[Process]:
        """A process of its own. Where it is to die, it has to."""
        self.fuse.wanted, self.fuse.skip = dies_before, skip
        died = not dies_before
        with suppress(Crash):
            try:
                opened = Process(self.world, self.fuse)
                opened.context.records.held_counts()  # as `Pipeline.open`
                yield opened
            except Crash:
                died = True
                raise
            finally:
                self.fuse.wanted = ""
        assert died, f"no step {dies_before} was to come"

    def _ends(self, starts: Mapping[Any, int], limit: int) -> dict[Any, int] | None:
        ends = {at: min(end, starts.get(at, 0) + limit) for at, end in self.world.brought.ends.items()}
        return ends if any(end > starts.get(at, 0) for at, end in ends.items()) else None

    # ---- what is there

    @property
    def tables(self) -> dict[str, TablePair]:
        """The table pairs by their name in the warehouse."""
        return {str(pair.name).removeprefix(f"{SCHEMA}."): pair for pair in Process.tables_of(self.world)}

    def states(self) -> dict[str, tuple[str, str]]:
        """By name in the warehouse: the name in the source, and the state."""
        return {name: (pair.source.table, str(pair.state.value)) for name, pair in self.tables.items()}

    def keys(self, name: str) -> list[int]:
        """The keys that a current table shows."""
        return sorted(row.key for row in self.tables[name].current.content())

    def own(self, name: str, **like: object) -> list[Mapping[str, Any]]:
        """Rows of one of the pipeline's own tables."""
        rows = self.world.catalog.pointers[where(name)].content()
        return [row for row in rows if all(row[column] == value for column, value in like.items())]

    def cut(self) -> tuple[str, str]:
        """Level and reason of the newest cut."""
        newest = max(self.own("cuts"), key=lambda row: (row["batch_id"], row["cut_ts"], row["recorded_at"]))
        return newest["level"], newest["reason"]

    def level(self) -> str:
        """Level of the newest batch: it has one, too, where no table shows anything new."""
        return str(max(self.own("batches"), key=lambda row: row["batch_id"])["level"])

    def anothers(self, name: str) -> None:
        """A table that somebody has put into the warehouse."""
        self.world.catalog.create(WarehouseName(SCHEMA, name), [("mine", "int")], f"elsewhere/{name}", {})

    def move_anothers(self, name: str, to: str) -> None:
        """Somebody renames a table in the warehouse."""
        self.world.catalog.rename(WarehouseName(SCHEMA, name), WarehouseName(SCHEMA, to))

    def assert_right(self, *names: str) -> None:
        """These tables are TiDB's, and no record stands twice."""
        for name in names:
            pair = next(pair for pair in self.tables.values() if pair.source.table == name and pair.dropped_at == 0)
            fields, wanted = pair.current.fields(), self.tidb.tables[name].rows
            shown = {row.key: row.values for row in pair.current.content()}
            assert shown.keys() == wanted.keys(), f"{name} shows {sorted(shown)}, TiDB has {sorted(wanted)}"
            for key, row in wanted.items():
                got = {column: shown[key].get(fields[pair.layout.live(column).name]) for column in row}
                assert got == row, f"{name}, key {key}"
        places = [row.record.place for pair in self.tables.values() for row in pair.changes.content()]
        assert len(set(places)) == len(places)
