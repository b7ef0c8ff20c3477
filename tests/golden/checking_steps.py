"""The changes tables against every answer of TiDB, not only those that a batch ended at.

Read once, without Spark: what a transaction left there must turn TiDB's answer before it into the one behind it. So
the tables that they give, replayed to any step, are TiDB's then.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from golden.comparing import Difference, mappings_differ, rows_differ
from golden.exceptions import unread_table
from golden.expected import ExpectedTable, expected_table
from golden.values import Row

from pipeline.warehouse.pairs import name_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from golden.corpus import GoldenCase
    from golden.loading import LoadedCase
    from golden.warehouse import Warehouse

_RENAMED = re.compile(r"(?:rename column|change column) (\w+) (?:to )?(\w+)", re.IGNORECASE)

At = tuple[int, str]
"""The number of an answer and a table of it."""


class _Turn(NamedTuple):
    """What one row of a changes table takes from its table, and what it brings."""

    gone: Row | None
    come: Row | None


@dataclass(frozen=True, slots=True)
class Answer:
    """TiDB's tables, behind everything up to a commit ts."""

    step: int | str
    kind: str
    commit_ts: int
    sql: list[str]
    tables: Mapping[str, Any]


def steps_differ(loaded: LoadedCase, warehouse: Warehouse) -> Iterator[Difference]:
    """Changes tables, replayed, against TiDB at every step at which it was asked: full rows, at their commit ts.

    What a DDL does to rows that it finds stands in no changes table: behind it the replay goes on from TiDB's answer.
    That the current tables show it is left to the cuts (`cuts_differ`).
    """
    case, answers = loaded.case, answers_of(loaded.case)
    columns, turns = Columns(case, warehouse, answers), _turns(loaded, warehouse, answers)
    asked = cache(lambda number, source: expected_table(case, source, answers[number].tables[source]))
    before: Mapping[str, Any] = {}
    for number, answer in enumerate(answers):
        for source, dump in answer.tables.items():
            mine, was = turns.pop((number, source), []), before.get(source)
            if unread_table(case, source) or not (mine or (dump != was and answer.kind == "txn")):
                continue
            now, rows = asked(number, source), asked(number - 1, source).rows if was else ()
            yield from _turned(answer, rows, now, columns.of(number, now), mine)
        before = answer.tables
    for (number, source), mine in turns.items():
        if not unread_table(case, source):
            yield Difference(f"{source}__changes", _when(answers[min(number, len(answers) - 1)]), "", "no row", mine)


def answers_of(case: GoldenCase) -> list[Answer]:
    """In order; the last one is that of the end. Of a sequence, whose steps have no commit ts, TiCDC sends nothing."""
    assert case.steps_agree
    asked = [
        Answer(step["step"], step["kind"], step["commit_ts"], step["sql"], step["tables"])
        for step in case.steps
        if "tables" in step and step["commit_ts"]
    ]
    return [*asked, Answer("the end", "txn", max(step["commit_ts"] for step in case.steps), [], case.final)]


def _turns(loaded: LoadedCase, warehouse: Warehouse, answers: list[Answer]) -> dict[At, list[_Turn]]:
    """By the first answer that must show them, and by what the table was called when they were sent.

    What was sent again turns nothing.
    """
    events = {(loaded.topic(event.record), *event.place[1:]): event for event in loaded.cut_events()}
    stamps, found, seen = [answer.commit_ts for answer in answers], {}, set()
    for rows in warehouse.changes().values():
        for row in rows:
            event = events.get((row["_topic"], row["_kafka_partition"], row["_offset"], row["_index"]))
            if event is None or (sent := (event.record.seq, event.record.partition, event.index)) in seen:
                continue  # `changes_differ` tells of rows that nobody sent
            seen.add(sent)
            at = bisect_left(stamps, row["_commit_ts"]), event.table
            found.setdefault(at, []).append(_turn(row))
    return found


def _turn(row: Mapping[str, Any]) -> _Turn:
    after = None if row["_op"] == "delete" else _row(row)
    if row["_op"] == "insert" or not row.get("_before"):
        return _Turn(None, after)
    return _Turn(_row(row["_before"]), after)


def _row(values: Mapping[str, Any]) -> Row:
    return Row(dict(values), dict(values["_unrepresentable"] or ()))


def _turned(
    answer: Answer, before: tuple[Row, ...], after: ExpectedTable, columns: Mapping[str, str], turns: list[_Turn]
) -> Iterator[Difference]:
    """What is there and what has gone, against what was there and what has come: nothing goes that was not there."""
    gone, come = (
        [_named(row, columns) for turn in turns if (row := getattr(turn, side)) is not None] for side in _Turn._fields
    )
    table, there = f"{after.name}__changes {_when(answer)}", [name for name in after.types if name in columns]
    yield from mappings_differ(table, "columns", dict.fromkeys(after.types), dict.fromkeys(there))
    key = [name for name in after.key if name in columns]
    yield from rows_differ(table, there, key, [*after.rows, *gone], [*before, *come])


def _named(row: Row, columns: Mapping[str, str]) -> Row:
    """A row of a changes table under the names of an answer."""
    lost = {name: row.lost[column] for name, column in columns.items() if column in row.lost}
    return Row({name: row.values[column] for name, column in columns.items()}, lost)


def _when(answer: Answer) -> str:
    return f"after step {answer.step} ({answer.commit_ts})"


class Columns:
    """Where the columns of each answer stand in the changes tables at the end.

    Under the name that they have come to, by statements that rename them; under a name of its own what a change of
    type left behind (`x__v1`), or what was dropped before another column took the name.
    """

    def __init__(self, case: GoldenCase, warehouse: Warehouse, answers: list[Answer]) -> None:
        self._names, self._bindings = warehouse.by_uuid(), warehouse.bindings()
        types = {name: warehouse.types_of_changes(name) for name in self._names.values()}
        self._found: dict[At, dict[str, str]] = {}
        later: dict[str, dict[str, tuple[str, str]]] = {}
        taken: dict[str, set[str]] = {}
        for number, answer in reversed([*enumerate(answers)]):
            renamed = renamed_columns(answers[number + 1]) if number + 1 < len(answers) else {}
            here = {}
            for source, now in self._now(answer):
                sent = expected_table(case, source, {**answer.tables[source], "rows": ()}).types
                behind = {old: later[now].get(renamed.get(old, old)) for old in sent} if now in later else {}
                here[now] = _placed(sent, behind, types[now], taken.setdefault(now, set()))
                taken[now] |= {column for column, _ in here[now].values()}
                self._found[number, source] = {name: column for name, (column, _) in here[now].items()}
            later = here

    def of(self, number: int, table: ExpectedTable) -> dict[str, str]:
        """Column of the changes table by the one of an answer's table; each by itself where it has no changes table."""
        return self._found.get((number, table.source), {name: name for name in table.types})

    def _now(self, answer: Answer) -> Iterator[tuple[str, str]]:
        """The tables of an answer that have changes, with the name that they have at the end."""
        for uuid, bindings in self._bindings.items():
            name = name_at(bindings, answer.commit_ts)
            source = next((one for one in answer.tables if name and one.casefold() == str(name).casefold()), None)
            if source is not None:
                yield source, self._names[uuid]


def renamed_columns(answer: Answer) -> dict[str, str]:
    """Columns by their former names, as the statements say it that led to an answer."""
    return dict(pair for sql in answer.sql for pair in _RENAMED.findall(sql))


def _placed(
    sent: Mapping[str, str], behind: Mapping[str, tuple[str, str] | None], there: Mapping[str, str], taken: set[str]
) -> dict[str, tuple[str, str]]:
    """Column of the changes table, and type then, by the name in an answer.

    `sent`: the answer's types; `behind`: the same of the answer behind it, by the names of this one; `there`: the types
    of the changes table; `taken`: its columns that are those of answers behind.
    """
    found = {}
    for name, kind in sent.items():
        column, type_behind = behind.get(name) or (None, None)
        former = [one for one in there if _is_former(one, name) and there[one] == kind and one not in taken]
        if column is not None and (kind == type_behind or not former):
            found[name] = column, kind
        elif former:
            found[name] = former[-1], kind
    return found


def _is_former(column: str, name: str) -> bool:
    return column == name or (column.startswith(f"{name}__v") and column.removeprefix(f"{name}__v").isdigit())
