"""Histories of the model by commit ts, recorded act by act: what a process did, where it died, and what it left.

`replayed_histories` does the same with Spark and Iceberg, and compares what is there after each act.
"""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from support.histories import play
from unit.batch_model import batch as model
from unit.commit_ts_model import history as histories
from unit.commit_ts_model import lake
from unit.commit_ts_model.known import KNOWN
from unit.commit_ts_model.process import Crash, Process

from pipeline.errors import PipelineError
from pipeline.ingest.run_state import Ledger
from pipeline.model import change
from pipeline.runtime.failpoints import STEPS
from pipeline.warehouse.records import DEFINITIONS, where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from support.histories import Step
    from unit.batch_model.upstream import Record

    from pipeline.model.names import TableName
    from pipeline.sources.source import Planned, Stream
    from pipeline.warehouse.pairs import TablePair
    from pipeline.warehouse.tables import Tables

Row = dict[str, Any]
State = dict[str, Any]

OPEN, BATCH, REST, HOLD, RELEASE = "open", "batch", "rest", "hold", "release"
RULES = (
    "rows_change", "a_watermark_is_sent", "the_changefeed_restarts", "a_column_changes", "names_change",
    "another_changefeed_comes", "a_batch_is_taken", "something_befalls_the_checkpoint", "a_table_is_held_or_released",
)  # fmt: skip
MODES = (histories.ROWS, histories.COLUMNS, histories.NAMES)
WORLD = {"shared", "policy"}
"""Rules, modes and worlds of the model's histories whose messages `simple_source` can encode."""
COMPARED = {
    "held": ("reason", "status", "batch_id"),
    "dead_letters": ("code", "status", "batch_id"),
    "batches": ("batch_id", "level", "rows_in", "inserts", "updates", "deletes", "dead_letters"),
    "cuts": ("batch_id", "cut_ts", "schema_name", "table_name", "level", "reason"),
    "ddl_history": ("batch_id", "commit_ts", "schema_name", "table_name", "sql", "action", "status"),
    "tables": ("schema_name", "table_name", "warehouse_name", "state", "held_reason"),
}
"""The pipeline's own tables with the columns that both sides fill alike."""
OF_A_RECORD = ("held", "dead_letters")
"""Those whose rows are about one record: the model has the record in place of its coordinates and bytes."""
MATTERS = {
    *MODES, "shared: True", "shared: False", "policy: keep", "policy: drop", "dies in: batch", "dies in: release",
    HOLD, RELEASE, REST, "waits: DDL_PENDING", "waits: by a person", "waits: RELEASED", "checkpoint: lose",
    "cut: exact", "cut: partial", "applied: RENAME TABLE TO", "applied: DROP TABLE",
    "applied: TRUNCATE TABLE", "applied: ALTER TABLE ADD COLUMN INT DEFAULT",
}  # fmt: skip
"""What happens even in the few histories of the default run: the tags of `Recorded`."""


@dataclass(slots=True)
class Act:
    """Something that a process does.

    `records`: those of a batch. `table`: what is held or released. `faults`: table → where it fails. `dies`: the name
    of a step, and the how many-th of this name the process does not live through. `fails`: the code of an error.
    `streams` and `ends`: what the source has at that time. `left`: what is in the warehouse afterwards.
    """

    kind: str
    streams: dict[str, Stream]
    ends: dict[Any, int]
    records: tuple[Record, ...] = ()
    query_id: str = ""
    planned: Planned | None = None
    table: TableName | None = None
    faults: dict[tuple[str, str], str] = field(default_factory=dict)
    dies: tuple[str, int] | None = None
    fails: str = ""
    left: State = field(default_factory=dict)


@dataclass(slots=True)
class Recorded:
    """A history with what its processes did. `tags`: what has happened in it."""

    steps: list[Step]
    policy: str
    acts: list[Act]
    tags: frozenset[str]

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """What has happened together."""
        return set(itertools.combinations(sorted(self.tags), 2))


# ---- what both sides are asked for


def state_of(
    tables: Tables,
    ledger: Ledger,
    rows_of: Callable[[TablePair], tuple[list[Row], list[Row]]],
    own: Callable[[str], Iterable[Row]],
) -> State:
    """What a warehouse has, flat, so that a difference says where it is.

    Of the ledger all but the last watermarks: they are for tables without a key, which the model has not.
    """
    state: State = {
        "ledger": {
            "batch": ledger.batch_id, "ends": ledger.ends, "unfinished": ledger.unfinished,
            "resolved": ledger.progress.resolved, "frontiers": ledger.progress.frontiers,
        },
    }  # fmt: skip
    for pair in tables:
        shown, changes = rows_of(pair)
        state[str(pair.name)] = {
            "source": str(pair.source), "state": pair.state.value, "why": pair.held_reason,
            "cut": pair.by_commit_ts.cut, "dropped at": pair.dropped_at,
            "names": pair.by_commit_ts.bindings, "ends": pair.ends,
        }  # fmt: skip
        state[f"{pair.name}, columns"] = [(column.name, column.type) for column in pair.layout.current]
        state[f"{pair.name}, rows"] = ordered(shown)
        state[f"{pair.name}, changes"] = ordered(changes)
    for name, columns in COMPARED.items():
        places = ("place",) if name in OF_A_RECORD else ()
        state[name] = ordered({column: row[column] for column in (*places, *columns)} for row in own(name))
    return state


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Rows in an order that tells nothing."""
    return sorted(rows, key=repr)


def own_columns(names: Iterable[str]) -> list[str]:
    """The source's columns of a table."""
    return [name for name in names if not name.startswith("_")]


# ---- the model's side


class Fuse(model.Fuse):
    """Ends the process before a step that the product names; nothing else is done then, in no thread."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: Counter[str] = Counter()
        self.dead = False

    def arm(self, steps: int | None, others: Iterable[int] = ()) -> None:
        super().arm(steps, ())
        del others
        self.dead = False

    def burn(self, step: str) -> None:
        if self.dead:
            raise Crash(step)
        if step not in STEPS:
            return
        self.passed[step] += 1
        try:
            super().burn(step)
        except Crash:
            self.dead = True
            raise


class RecordedProcess(Process):
    """A process that tells what it does."""

    def __init__(self, world: Any, fuse: Fuse) -> None:
        with world.recorder.act(OPEN):
            super().__init__(world, fuse)

    def batch(self, plan: Any) -> bool:
        with self.world.recorder.act("") as act:
            act.faults = dict(self.context.spark.faults)
            return super().batch(plan)

    def take(self, raw: Any, query_id: str, planned: Planned | None) -> None:
        act = self.world.recorder.now
        act.kind, act.query_id, act.planned = (REST if planned is None else BATCH), query_id, planned
        act.records = tuple(row["value"] for row in raw.rows)
        super().take(raw, query_id, planned)

    def hold(self, table: TablePair) -> None:
        with self.world.recorder.act(HOLD) as act:
            act.table = table.source
            super().hold(table)

    def release(self, source: TableName) -> None:
        with self.world.recorder.act(RELEASE) as act:
            act.table = source
            super().release(source)


class Recorder:
    """Records acts; one at a time."""

    def __init__(self, world: Any, fuse: Fuse) -> None:
        self.world, self.fuse = world, fuse
        self.acts: list[Act] = []
        self.now: Act | None = None

    @contextmanager
    def act(self, kind: str) -> Iterator[Act]:
        source = self.world.brought
        act = self.now = Act(kind, dict(source.known), source.ends)
        self.fuse.passed.clear()
        try:
            yield act
        except Crash:
            act.dies = self.fuse.last, self.fuse.passed[self.fuse.last]
            raise
        except PipelineError as error:
            act.fails = error.code
            raise
        finally:
            if act.kind:
                self.fuse.dead = False
                act.left = left_in(self.world)
                self.fuse.dead = act.dies is not None
                self.acts.append(act)


def left_in(world: Any) -> State:
    """What the model's warehouse has."""

    def rows_of(pair: TablePair) -> tuple[list[Row], list[Row]]:
        shown = [
            {change.COMMIT_TS: row.commit_ts, **_values(pair.current, row.values)}
            for row in (pair.current.content() if pair.current is not None else ())
        ]
        changes = [
            {
                "place": row.record.place, change.OP: row.op, change.COMMIT_TS: row.record.message.commit_ts,
                change.SCHEMA_ID: row.schema, change.BATCH_ID: row.batch_id, **_values(pair.changes, row.values),
            }
            for row in pair.changes.content()
        ]  # fmt: skip
        return shown, changes

    def own(name: str) -> list[Row]:
        metadata = world.catalog.pointers.get(where(name))
        rows = metadata.content() if metadata is not None else ()
        return [{**row, "place": row["value"].place} if name in OF_A_RECORD else row for row in rows]

    return state_of(Process.tables_of(world), _ledger(world), rows_of, own)


def _ledger(world: Any) -> Ledger:
    if any(world.catalog.table(where(name)) is None for name in DEFINITIONS):
        return Ledger()
    return Ledger.load(lake.CommitTsRecords.load(world.catalog))


def _values(table: Any, values: Mapping[int, Any]) -> Row:
    fields = table.fields()
    return {name: values.get(fields[name]) for name in own_columns(fields)}


class RecordedHistory(histories.History):
    """A history whose processes are recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.fuse = Fuse()
        self.tags: set[str] = set()

    def the_world_is(self, **world: Any) -> None:
        super().the_world_is(**world)
        self.world.recorder = None

    def something_befalls_the_checkpoint(self, what: str) -> None:
        if self.world.checkpoint is not None and self.world.checkpoint.commits:
            self.tags.add(f"checkpoint: {what}")
        super().something_befalls_the_checkpoint(what)

    def mortally(self, work: Any, crash: Any = None, others: Any = ()) -> Any:
        if self.world.recorder is None:
            self.world.recorder = Recorder(self.world, self.fuse)
        return super().mortally(work, crash, others)


@contextmanager
def in_memory() -> Iterator[None]:
    """Replace Spark's part of the product for so long."""
    with pytest.MonkeyPatch.context() as patch:
        for place, name, instead in lake.replacements():
            patch.setattr(place, name, instead)
        patch.setattr(histories, "Process", RecordedProcess)
        yield


def record(steps: Sequence[Step], mode: str = "") -> Recorded:
    """Play a history to its end. Raises `AssertionError` where something does not hold."""
    with in_memory():
        history = RecordedHistory()
        play(history, steps)
    acts, (_, world) = history.world.recorder.acts, steps[0]
    tags = {mode, *history.tags, *_tags(acts), *(f"{name}: {value}" for name, value in world.items())}
    return Recorded(list(steps), history.world.policy, acts, frozenset(tags))


# ---- which histories


MOST_ACTS = 10
_CANDIDATES = 120
_STEPS = 9
_HELD_FIRST = (
    ("a_batch_is_taken", {"limit": (9,), "crash": None, "others": (), "fault": None}),
    ("a_table_is_held_or_released", {"name": "a", "crash": None, "hold": True}),
)
_ABOUT_HELD_TABLES = (
    "rows_change", "a_watermark_is_sent", "a_column_changes", "a_batch_is_taken", "a_table_is_held_or_released",
)  # fmt: skip
"""Rules of histories in which a table is held, which others seldom have."""


def _tags(acts: Sequence[Act]) -> Iterator[str]:
    """What has happened in a history."""
    for act in acts:
        yield act.kind
        if act.dies:
            yield f"dies: {act.dies[0]}"
            yield f"dies in: {act.kind}"
        if act.fails:
            yield "fails"
        for row in act.left["held"]:
            yield f"waits: {row['reason'].partition(':')[0]}"
        for row in act.left["ddl_history"]:
            yield f"applied: {_kind(row['sql'])}" if row["sql"] else "noted"
        for row in act.left["batches"]:
            yield f"cut: {row['level']}"


def _kind(sql: str) -> str:
    """The words of a statement that are no names."""
    return " ".join(word for word in sql.partition(" (")[0].split() if word.isupper())


def drawn(seed: int, mode: str) -> list[Step]:
    """The history of a seed, with few steps."""
    world = {"shared": seed % 2 == 0, "policy": ("keep", "keep", "drop")[seed % 3]}
    first, wanted = (_HELD_FIRST, _ABOUT_HELD_TABLES) if seed % 4 == 3 else ((), RULES)
    steps = histories.rule.drawn(seed, mode, [("the_world_is", world), *first], wanted)[:_STEPS]
    dies = {"name": "a", "crash": seed % 13, "hold": False}
    return [*steps, ("a_table_is_held_or_released", dies)] if first else steps


def _of_a_world(steps: Sequence[Step]) -> list[Step]:
    """A history that begins with its world."""
    given = steps[0][0] == "the_world_is"
    return list(steps) if given else [("the_world_is", {"shared": True, "policy": "keep"}), *steps]


def _is_played(steps: Sequence[Step]) -> bool:
    """Whether nothing is in a history that only the model can play."""
    return {*steps[0][1]} <= WORLD and {name for name, _ in steps[1:]} <= {*RULES}


def _brings(history: Recorded, met: set[str], pairs: set[tuple[str, str]]) -> tuple[int, int, float]:
    """What a history has that those before it have not, the most important first."""
    news = history.tags - met
    return len(news & MATTERS), len(news), len(history.pairs - pairs) / len(history.acts)


@cache
def chosen(count: int) -> list[Recorded]:
    """So many short histories, in which as much happens as may be: each brings most that none before it has.

    What `MATTERS` comes first, then anything else that happens, then what happens together.
    """
    candidates = [record(drawn(seed, mode), mode) for seed in range(_CANDIDATES) for mode in MODES]
    known = {name: _of_a_world(steps) for name, steps in KNOWN.items()}
    candidates += [record(steps, name) for name, steps in known.items() if _is_played(steps)]
    candidates = [one for one in candidates if len(one.acts) <= MOST_ACTS]
    picked: list[Recorded] = []
    met: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    while len(picked) < count:
        best = max(candidates, key=lambda one: _brings(one, met, pairs))
        candidates.remove(best)
        picked.append(best)
        met |= best.tags
        pairs |= best.pairs
    return picked
