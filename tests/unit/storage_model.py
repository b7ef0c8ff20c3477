"""A model of TiCDC writing files, with all that goes wrong for it, and of the planner that reads them.

The writers are those of STORAGE's three generations: index before data, data before index, and one that looks what is
there. They crash between two writes, use numbers and versions again, move tables to nodes with other clocks, and write
rows again that the checkpoint had not passed. The files are in memory; everything else is the product's.

`play` runs a history by its seed.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from pipeline.model.columns import LOGICAL_BITS
from pipeline.model.frontier import NEVER, commit_ts_of
from pipeline.protocols.files.head import ROWS
from pipeline.settings.sections import SourceSection
from pipeline.simulate.files import schema_file
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable
from pipeline.sources.storage.cleanup import Removable, delete
from pipeline.sources.storage.inventory import Inventory
from pipeline.sources.storage.lanes import LANE, Lane, LaneEnd
from pipeline.sources.storage.plan_log import LISTED, LOST, Known, Listed, content_of
from pipeline.sources.storage.planner import plan
from pipeline.sources.storage.store import Inside, StoredFile, walked

SOURCE = SourceSection(kind="storage", protocol="csv", path="/changefeed")
KINDS = ("index first", "data first", "looks first")
TABLES = ("t", "u")
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04")
_WIDTHS = (6, 20)


class MemoryStore:
    """Files by their paths: content, entity tag, and when they were written."""

    def __init__(self):
        self.files, self.writes, self.minutes = {}, 0, 0

    def write(self, path, content):
        self.writes += 1
        self.files[path] = content, StoredFile(path, len(content), f"{self.writes}", 60.0 * self.minutes)

    def _inside(self, folder):
        start = f"{folder}/" if folder else ""
        files, folders = [], set()
        for path, (_, entry) in self.files.items():
            if path.startswith(start):
                name, slash, _ = path.removeprefix(start).partition("/")
                if slash:
                    folders.add(start + name)
                else:
                    files.append(entry)
        return Inside(files, sorted(folders))

    def everything(self):
        for inside in walked(self._inside, {""}, lambda _: False):
            yield from inside.files

    def recent(self, live):
        for inside in walked(self._inside, live.folders, live.is_closed):
            yield from inside.files

    def delete(self, path):
        del self.files[path]

    def entry(self, path):
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][1]

    def read(self, path, start=0, size=None):
        content = self.files[path][0]
        return content[start:] if size is None else content[start : start + size]


class MemoryLog:
    """What `PlanLog` does, without tables."""

    def __init__(self):
        self.ends, self.schemas, self.contents, self.next_ordinal = {}, [], {}, 1
        self.listed = Listed(0.0, "")

    def known(self, path):
        return self.contents.get(path)

    def add(self, files):
        for file in files:
            self.contents[file.path] = Known(content_of(file.size, file.etag), file.incarnation)
            if file.kind == LISTED:
                self.listed = Listed(file.modified, file.etag)
                continue
            if file.kind not in (ROWS, LOST):
                self.schemas.append(file)
                continue
            match = LANE.fullmatch(file.path)
            lane = Lane(match["folder"], match["dispatcher"] or "")
            end = LaneEnd(int(match["number"]), file.path, file.modified)
            self.ends[lane] = max(end, self.ends.get(lane, end))
        self.next_ordinal += len(files)


@dataclass
class Writer:
    """What TiCDC knows of a table: its versions, the rows that it has not flushed, and where the next file goes."""

    versions: list[int]
    columns: int = 1
    unflushed: list[int] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)


class World:
    """TiDB, TiCDC and its files. A row is its commit ts: all are of different ones."""

    def __init__(self, dice):
        self.dice, self.store, self.now = dice, MemoryStore(), 0
        self.kind, self.width = dice.choice(KINDS), dice.choice(_WIDTHS)
        self.dated, self.day, self.node = dice.random() < 0.7, 1, 0
        self.rows, self.checkpoint, self.history = set(), 0, []
        self.went_back = False
        self.cleanup = dice.random() < 0.3
        self.writers = {}
        for table in TABLES:
            self.writers[table] = Writer([self.tick()])
            self.describe(table)

    def tick(self):
        """The next commit ts, a minute later."""
        self.store.minutes += 1
        self.now = self.store.minutes * 60_000 << LOGICAL_BITS
        return self.now

    def describe(self, table):
        writer = self.writers[table]
        columns = tuple(SimulatedColumn(f"c{number}", "int") for number in range(writer.columns))
        path, content = schema_file("s", SimulatedTable("s", table, columns), writer.versions[-1], None)
        self.store.write(path, content)

    # ---- what may happen

    def change(self):
        table = self.dice.choice(TABLES)
        ts = self.tick()
        self.rows.add(ts)
        self.writers[table].unflushed.append(ts)
        self.history.append((ts, table))

    def alter(self):
        """A statement: what came before it is flushed first, and the rows after it go to a new folder."""
        table = self.dice.choice(TABLES)
        writer = self.writers[table]
        if self.flush(table):
            writer.versions.append(self.tick())
            writer.columns += self.dice.choice((0, 1))
            self.describe(table)

    def flush_all(self):
        """All tables are flushed, and the checkpoint follows, unless TiCDC dies on the way."""
        if all(self.flush(table) for table in TABLES):
            self.checkpoint = self.now
            self.store.write("metadata", f'{{"checkpoint-ts":{self.checkpoint}}}'.encode())

    def flush(self, table):
        """Whether TiCDC lives on."""
        writer = self.writers[table]
        while writer.unflushed:
            version = max(version for version in writer.versions if version < writer.unflushed[0])
            alike = [ts for ts in writer.unflushed if max(v for v in writer.versions if v < ts) == version]
            count = self.dice.randint(1, len(alike))
            rows, writer.unflushed = writer.unflushed[:count], writer.unflushed[count:]
            folder = f"s/{table}/{version}" + (f"/{self.date()}" if self.dated else "")
            number = writer.numbers.get(folder, 0) + 1
            name = f"CDC{number:0{self.width}}.csv"
            steps = [(f"{folder}/{name}", _lines(table, rows)), (f"{folder}/meta/CDC.index", name.encode())]
            if self.kind == "index first":
                steps.reverse()
            for path, content in steps:
                torn = self.dice.random() < 0.03 and path.endswith(".csv")
                self.store.write(path, content[: self.dice.randrange(len(content))] if torn else content)
                if torn or self.dice.random() < 0.06:
                    self.crash()
                    return False
            writer.numbers[folder] = number
        return True

    def date(self):
        """The day by the clock of the node."""
        return DAYS[max(0, min(len(DAYS) - 1, self.day + (self.node % 3 - 1 if self.dice.random() < 0.9 else 0)))]

    def crash(self):
        """TiCDC begins again at the checkpoint: rows after it are written again, each into its version."""
        for writer in self.writers.values():
            writer.unflushed = []
        for ts, table in self.history:
            if ts > self.checkpoint:
                self.writers[table].unflushed.append(ts)
        for table, writer in self.writers.items():
            writer.numbers = {}
            for path in self.store.files:
                match = LANE.fullmatch(path)  # a file that is empty, or not there, gives its number to the next one
                is_there = match is not None and self.store.files[path][1].size
                if is_there and path.startswith(f"s/{table}/"):
                    folder = match["folder"]
                    writer.numbers[folder] = max(writer.numbers.get(folder, 0), int(match["number"]))
            if self.kind != "looks first":
                for folder in writer.numbers:
                    index = self.store.files.get(f"{folder}/meta/CDC.index")
                    named = int(LANE.fullmatch(f"{folder}/{index[0].decode()}")["number"]) if index else 0
                    file = self.store.files.get(f"{folder}/CDC{named:0{self.width}}.csv")
                    written = file is not None and file[1].size > 0
                    writer.numbers[folder] = named if written or not named else named - 1

    def move(self):
        """Tables go to a node with another clock."""
        if all(self.flush(table) for table in TABLES):
            self.node += 1

    def a_day_passes(self):
        self.day = min(self.day + 1, len(DAYS) - 1)

    STEPS = (change, change, change, change, alter, flush_all, flush_all, flush_all, crash, move, a_day_passes)


def _lines(table, rows):
    return "".join(f'"I","{table}","s",{ts},1\r\n' for ts in rows).encode()


def rows_in(content):
    """The rows of its whole lines."""
    return [int(line.split(b",")[3]) for line in content.split(b"\r\n")[:-1]]


class Reader:
    """The product: it lists, plans, and takes."""

    def __init__(self, world):
        self.world, self.log, self.progress = world, MemoryLog(), NEVER
        self.taken, self.contents = Counter(), Counter()
        self.start()

    def start(self):
        self.inventory = Inventory(self.world.store, self.log, SOURCE, lambda last: last.endswith(b"\r\n"))

    def batch(self, *, everywhere):
        if everywhere:
            self.inventory._listed_at = 0.0
        removable = None
        if self.world.cleanup and self.inventory.is_due:
            removable = Removable.of(self.inventory, commit_ts_of(self.progress), 0.0)
        listing = self.inventory.found(removable)
        most = self.world.dice.choice((1, 60, 10_000))
        made = plan(listing.new, most, self._first, self.progress, lambda _: False)
        files = [*listing.schemas, *map(self.inventory.planned, made.rows)]
        for file in files:
            content = self.world.store.read(file.path)
            if file.kind == ROWS:
                self.taken.update(rows_in(content))
                self.contents[file.path, file.etag] += 1
        noted = self.inventory.listed()
        self.log.add([*files, noted] if noted and files else files)
        if removable is not None:
            delete(self.world.store, removable)
        assert made.progress >= self.progress, "it goes back"
        self.progress = made.progress
        return bool(files), made

    def _first(self, entry):
        rows = rows_in(self.world.store.read(entry.path))
        return rows[0] if rows else 0


def play(seed, steps=40):
    """A history; raises `AssertionError` where a row is missing below the progress, or at the end."""
    dice = random.Random(seed)  # noqa: S311 - a history that can be told again
    world = World(dice)
    reader = Reader(world)
    for _ in range(steps):
        if dice.random() < 0.35:
            reader.batch(everywhere=dice.random() < 0.2)
            check(world, reader)
            if dice.random() < 0.15:
                reader.start()
        else:
            dice.choice(World.STEPS)(world)
    for _ in range(50):
        world.flush_all()
        if world.checkpoint == world.now:
            break
    for _ in range(3):  # time goes on, and the checkpoint with it
        world.tick()
    world.flush_all()
    for _ in range(200):
        some, made = reader.batch(everywhere=True)
        if not some and not made.holes:
            break
    missing = world.rows - reader.taken.keys()
    assert not missing, f"rows were never taken: {sorted(missing)}"
    assert not made.holes, f"a hole stays: {made.holes}"
    twice = [path for path, count in reader.contents.items() if count > 1]
    assert not twice, f"a content was taken twice: {twice}"
    assert commit_ts_of(reader.progress) >= world.checkpoint - 1


def check(world, reader):
    """Nothing up to the progress is missing, but for what a clock has put where nobody looks before the next hour."""
    complete = commit_ts_of(reader.progress)
    missing = [ts for ts in world.rows if ts <= complete and ts not in reader.taken]
    if missing and not _hidden(world, missing):
        raise AssertionError(f"complete up to {complete}, and {missing} are missing")


def _hidden(world, missing):
    """Whether these rows stand in a folder of an older date than the newest one of their version.

    What counts is where they were written first. A copy of a later day may wait behind newer rows of its folder: what
    is sent again holds nothing back.
    """
    for ts in missing:
        copies = [
            (int(entry.etag), path)
            for path, (content, entry) in world.store.files.items()
            if path.endswith(".csv") and ts in rows_in(content)
        ]
        paths = [path for _, path in sorted(copies)[:1]]
        newest = {path.rpartition("/")[0].rpartition("/")[0]: "" for path in paths}
        for path in world.store.files:
            folder = path.rpartition("/")[0].rpartition("/")[0]
            if folder in newest and path.endswith(".csv"):
                newest[folder] = max(newest[folder], path.rpartition("/")[0])
        if any(path.rpartition("/")[0] >= newest[path.rpartition("/")[0].rpartition("/")[0]] for path in paths):
            return False
    return bool(world.dated)
