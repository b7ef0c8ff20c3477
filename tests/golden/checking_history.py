"""`ddl_history` against the stream and TiDB: each statement once, with its table, its clauses and what came of them."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from golden.checking_steps import answers_of, renamed_columns
from golden.comparing import Difference
from golden.cut_events import READERS
from golden.expected import expected_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from golden.checking_steps import Answer
    from golden.corpus import GoldenCase
    from golden.loading import LoadedCase
    from golden.warehouse import Warehouse

_TYPES = {
    "CREATE DATABASE": ["CreateDatabase"],
    "DROP DATABASE": ["DropDatabase"],
    "CREATE TABLE": ["CreateTable"],
    "DROP TABLE": ["DropTable"],
    "RENAME TABLE": ["RenameTable"],
    "RENAME AS": ["RenameTable"],
    "TRUNCATE TABLE": ["TruncateTable"],
    "ADD COLUMN": ["AddColumn"],
    "DROP COLUMN": ["DropColumn"],
    "MODIFY COLUMN": ["ModifyColumn"],
    "RENAME COLUMN": ["RenameColumn"],
    "CHANGE COLUMN": ["RenameColumn", "ModifyColumn"],
    "ALTER COLUMN": ["SetDefault"],
    "ADD PARTITION": ["AddPartitions"],
    "DROP PARTITION": ["DropPartitions"],
    "TRUNCATE PARTITION": ["TruncatePartitions"],
    "REORGANIZE PARTITION": ["ReorganizePartitions"],
    "EXCHANGE PARTITION": ["ExchangePartition"],
}
"""What a clause of a statement is called, by its first words as TiCDC writes them; all others have no effect."""
_DONE = {
    "CreateTable": "created",
    "DropTable": "kept, marked dropped",
    "TruncateTable": "rows up to this commit ts leave the current table",
    "DropPartitions": "rows of these partitions leave the current table",
    "TruncatePartitions": "rows of these partitions leave the current table",
}
_CLAUSE = re.compile("|".join(_TYPES))
_VIRTUAL = re.compile(r"ADD COLUMN `\w+` \w+ GENERATED ALWAYS AS\(.*\) VIRTUAL")
_RENAMED = re.compile(r"`(\w+)`\.`(\w+)` (?:TO|RENAME AS) ")
_EXCHANGING = re.compile(r"ALTER TABLE `(\w+)`\.`(\w+)` EXCHANGE PARTITION ")
_EXCHANGED = re.compile(r"EXCHANGE PARTITION `(\w+)` WITH TABLE `(\w+)`\.`(\w+)`")
_ONLY_COLUMN = re.compile(r", existing rows .*|; old values .*|(?<=:) $", re.DOTALL)
"""What the history says besides the column, its type and what it was."""
_WIDER = {("int", "bigint"), ("float", "double"), ("bigint", "decimal(20,0)")}


_Name = tuple[str, str]


class Told(NamedTuple):
    """A row of the history."""

    commit_ts: int | None
    schema: str
    table: str
    type: str
    action: str
    status: str
    sql: str | None


def history_differs(loaded: LoadedCase, warehouse: Warehouse) -> Iterator[Difference]:
    """Every statement that was sent, by clause, and every change of a column that TiDB's answers show; nothing else."""
    first = _first_names(loaded)
    wanted, found = (
        Counter(_under_first_name(row, first) for row in rows)
        for rows in (told(loaded), map(_told, warehouse.own("ddl_history")))
    )
    if not loaded.case.steps_agree:
        found = Counter({one: count for one, count in found.items() if one.sql})
    for one in sorted(wanted.keys() | found.keys(), key=str):
        if wanted[one] != found[one]:
            what = f"{one.commit_ts} {one.schema}.{one.table}: {one}"
            yield Difference("_pipeline.ddl_history", what, "", f"{wanted[one]} times", f"{found[one]} times")


def _first_names(loaded: LoadedCase) -> dict[_Name, _Name]:
    """The name that a table had before all RENAMEs, by each that it got."""
    first: dict[_Name, _Name] = {}
    for row in _statements(loaded):
        if row.type == "RenameTable" and row.sql is not None:
            new = (row.schema, row.table)
            old = next(iter(_RENAMED.findall(row.sql)), new)
            first[new] = first.get(old, old)
    return first


def _under_first_name(row: Told, first: Mapping[_Name, _Name]) -> Told:
    """A change of a column is told under the name that its table has at the end of the batch, so under any of them."""
    if row.sql is not None:
        return row
    schema, table = first.get((row.schema, row.table), (row.schema, row.table))
    return row._replace(schema=schema, table=table)


def told(loaded: LoadedCase) -> list[Told]:
    """What the history must say."""
    case = loaded.case
    return [*_statements(loaded), *(_columns(case) if case.steps_agree else ())]


def _told(row: Mapping[str, Any]) -> Told:
    names = ("commit_ts", "schema_name", "table_name", "ddl_type", "action", "status", "sql")
    one = Told(*(row[name] for name in names))
    return one if one.sql else one._replace(action=_ONLY_COLUMN.sub("", one.action))


def _statements(loaded: LoadedCase) -> Iterator[Told]:
    """What is to be told of the statements that were sent, each once."""
    case = loaded.case
    read = READERS[case.protocol].statement
    sent = dict.fromkeys((record.commit_ts, *read(case, record)) for record in loaded.sent if record.kind == "ddl")
    living: set[_Name] = set()
    for commit_ts, *named, sql in sorted(sent, key=itemgetter(0)):
        schema, table = (_EXCHANGING.findall(sql) or [named])[
            0
        ]  # of the new architecture the event names the other one
        types = [one for clause in _CLAUSE.findall(_VIRTUAL.sub("", sql)) for one in _TYPES[clause]] or ["NoEffect"]
        left = _left(living, types[0], (schema, table), sql)
        for kind in types:
            done = _done(kind, (schema, table), sql, len(living - left)) if len(types) == 1 else "done"
            yield Told(commit_ts, schema, table, kind, done, "applied", sql)
        living = left


def _left(living: set[_Name], kind: str, table: _Name, sql: str) -> set[_Name]:
    """The tables behind a statement."""
    match kind:
        case "CreateTable":
            return living | {table}
        case "DropTable":
            return living - {table}
        case "RenameTable":
            return living - {*_RENAMED.findall(sql)} | {table}
        case "DropDatabase":
            return {one for one in living if one[0] != sql.removeprefix("DROP DATABASE ").strip("`")}
    return living


def _done(kind: str, table: _Name, sql: str, gone: int) -> str:
    """What a statement of one clause does. `gone`: how many tables are no more."""
    match kind:
        case "RenameTable":
            return f"renamed to {'.'.join(table)}"
        case "ExchangePartition":
            [(partition, *other)] = _EXCHANGED.findall(sql)
            return f"rows of {partition} and those of {'.'.join(other)} change places"
        case "DropDatabase":
            return "; ".join(["kept, marked dropped"] * gone) or "no such table"
    return _DONE.get(kind, "done")


def _columns(case: GoldenCase) -> Iterator[Told]:
    """What is to be told of the columns that change between two answers of TiDB."""
    for before, after in pairwise(answers_of(case)):
        for source in before.tables.keys() & after.tables.keys():
            schema, _, table = source.partition(".")
            for kind, what in _changes(case, source, before, after):
                yield Told(None, schema, table, kind, what, "applied", None)


def _changes(case: GoldenCase, source: str, before: Answer, after: Answer) -> Iterator[tuple[str, str]]:
    was, now = (expected_table(case, source, {**one.tables[source], "rows": ()}).types for one in (before, after))
    renamed = {old: new for old, new in renamed_columns(after).items() if old in was and new in now}
    then = {renamed.get(name, name): kind for name, kind in was.items()}
    for old, new in renamed.items():
        yield "rename_column", f"{new}: was {old}"
    for name, kind in now.items():
        if name not in then:
            yield "add_column", f"{name}: {kind}"
        elif then[name] != kind:
            yield "widen" if (then[name], kind) in _WIDER else "fork", f"{name}: {then[name]} to {kind}"
    for name in then.keys() - now.keys():
        yield "keep_column", f"{name}:"
