"""How a run shows itself: a line per batch and table while it works, what went wrong once more at the end.

    batch 128  shop.orders  +412 ~96 −3  dead letters 2  lag 1.4 s  0.9 s

`+` inserted, `~` updated (or written, where the changefeed does not say which), `−` deleted; what is zero is
left out; `lag` is how old the newest change was when the batch was committed, the last number how long the
table took.
"""  # noqa: RUF002 - a real minus sign is as wide as the plus

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from pipeline.cli.output import Format
from pipeline.model.change import Op
from pipeline.model.columns import age_of
from pipeline.settings.durations import written
from pipeline.settings.faults import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.cli.output import Output
    from pipeline.ingest.phases import CommittedBatch
    from pipeline.ingest.table_work import TableResult

NO_TABLE = "no table"
_OPS = ((Op.INSERT, "inserts"), (Op.UPDATE, "updates"), (Op.UPSERT, "updates"), (Op.DELETE, "deletes"))
_MARKS = (("inserts", "+", "green"), ("updates", "~", "yellow"), ("deletes", "−", "red"))  # noqa: RUF001
_SET_ASIDE = (("quarantined", "yellow"), ("dead_letters", "bold red"), ("held", "bold yellow"))


@dataclass(frozen=True, slots=True)
class TableLine:
    """One table's part of one batch, in numbers. `lag` in seconds, None where no commit time is known."""

    table: str
    counts: Counter[str]
    lag: float | None = None
    seconds: float | None = None
    note: str = ""

    @staticmethod
    def of(result: TableResult, now: float) -> TableLine:
        """Put what result into numbers; `now` in seconds since the epoch."""
        counts: Counter[str] = Counter(dead_letters=result.dead_letters, held=result.held)
        for op, name in _OPS:
            counts[name] += result.counts.get(op.value, 0)
        counts["quarantined"] = result.quarantined
        lag = age_of(result.newest, now) if result.newest else None
        notes = [f"{rule} broken by {rows:,}" if rows else f"{rule} broken" for rule, rows in result.broken.items()]
        notes += ["keys in several partitions"] if result.order_unknown else []
        return TableLine(result.table, counts, lag, result.seconds, ", ".join(notes))

    @property
    def marks(self) -> Text:
        """`+412 ~96 −3`."""  # noqa: RUF002
        shown = [(f"{mark}{self.counts[name]:,}", style) for name, mark, style in _MARKS if self.counts[name]]
        return Text(" ").join(Text(text, style) for text, style in shown)

    @property
    def rest(self) -> Text:
        """What was set aside, lag and time."""
        parts = [
            Text(f"{name.replace('_', ' ')} {self.counts[name]:,}", style)
            for name, style in _SET_ASIDE
            if self.counts[name]
        ]
        parts += [Text(self.note, "yellow")] if self.note else []
        parts += [] if self.lag is None else [Text(f"lag {written(self.lag)}", "dim")]
        parts += [] if self.seconds is None else [Text(written(self.seconds), "dim")]
        return Text("  ").join(parts)


@dataclass(slots=True)
class Progress:
    """Listens to a pipeline, prints its batches, and remembers what the summary needs."""

    out: Output
    console: Console | None = None
    """For colours; None: plain lines through `out`."""
    batches: int = 0
    messages: int = 0
    tables: dict[str, Counter[str]] = field(default_factory=dict)
    codes: Counter[str] = field(default_factory=Counter)
    """Messages that no table takes, by the code of their dead letters."""
    order_unknown: set[str] = field(default_factory=set)
    broken: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Batches in which a rule was broken, by table and rule."""
    warnings: list[str] = field(default_factory=list)
    """What the batches had to say of the changefeed."""

    @classmethod
    def on(cls, out: Output, output: Format) -> Progress:
        """Print to `out`, in colours where people look at a terminal."""
        console = Console(highlight=False, emoji=False)
        return cls(out, console if output is Format.TEXT and console.is_terminal else None)

    def batch(self, number: int, committed: CommittedBatch, _seconds: float) -> None:
        """Take a committed batch; called by the thread that has committed it."""
        self.batches += 1
        self.messages += committed.messages.events
        lines = lines_of(committed, time.time())
        for line in lines:
            self.tables.setdefault(line.table, Counter()).update(line.counts)
        self.codes.update({refused.code: refused.rows for refused in committed.messages.refused})
        self.order_unknown.update(result.table for result in committed.tables if result.order_unknown)
        self.broken.update((result.table, rule) for result in committed.tables for rule in result.broken)
        for text in aligned(number, lines):
            self._print(text)
        for warning in committed.messages.warnings:
            self.warnings.append(warning)
            self._print(Text(f"! {warning}", "yellow"))

    def total(self, name: str) -> int:
        """Add up over all tables: `inserts`, `updates`, `deletes`, `dead_letters`, `held`."""
        return sum(counts[name] for counts in self.tables.values())

    @property
    def changes(self) -> int:
        """Changes that went into tables."""
        return sum(self.total(name) for name, _, _ in _MARKS)

    def facts(self) -> dict[str, Any]:
        """Give the totals, for programs."""
        names = [name for name, *_ in (*_MARKS, *_SET_ASIDE)]
        tables = {
            table: {name: counts[name] for name in names}
            for table, counts in sorted(self.tables.items())
            if table != NO_TABLE
        }
        sums = {name: self.total(name) for name in names}
        return {"batches": self.batches, "messages": self.messages, **sums, "tables": tables}

    def _print(self, text: Text) -> None:
        if self.console is None:
            self.out.line(text.plain)
        else:
            self.console.print(text, soft_wrap=True)


def lines_of(committed: CommittedBatch, now: float) -> list[TableLine]:
    """Make the lines of a batch: its tables by name, then the messages that belong to none."""
    lines = sorted((TableLine.of(result, now) for result in committed.tables), key=lambda line: line.table)
    lines = merged(lines)
    unattributed = committed.dead_letters - sum(result.dead_letters for result in committed.tables)
    if unattributed:
        codes = ", ".join(sorted({refused.code for refused in committed.messages.refused if not refused.tables}))
        lines.append(TableLine(NO_TABLE, Counter(dead_letters=unattributed), note=codes))
    return [line for line in lines if line.marks or line.rest]


def merged(lines: Iterable[TableLine]) -> list[TableLine]:
    """Make one line per table: a DDL event in the middle of a batch gives its table two results."""
    by_table: dict[str, TableLine] = {}
    for line in lines:
        earlier = by_table.get(line.table)
        by_table[line.table] = line if earlier is None else _both(earlier, line)
    return list(by_table.values())


def _both(first: TableLine, second: TableLine) -> TableLine:
    lags = [lag for lag in (first.lag, second.lag) if lag is not None]
    seconds = [number for number in (first.seconds, second.seconds) if number is not None]
    counts = first.counts + second.counts
    notes = dict.fromkeys(note for line in (first, second) for note in line.note.split(", ") if note)
    return TableLine(first.table, counts, min(lags, default=None), sum(seconds), ", ".join(notes))


def aligned(batch: int, lines: Sequence[TableLine]) -> list[Text]:
    """Lay out the lines of one batch, table names and counts in columns."""
    names = [printable(line.table) for line in lines]
    name_width = max(map(len, names), default=0)
    mark_width = max((len(line.marks) for line in lines), default=0)
    return [_row(batch, name.ljust(name_width), line, mark_width) for name, line in zip(names, lines, strict=True)]


def _row(batch: int, name: str, line: TableLine, mark_width: int) -> Text:
    marks = line.marks
    marks.pad_right(mark_width - len(marks))
    text = Text("  ").join([Text(f"batch {batch}", "dim"), Text(name, "bold"), marks, line.rest])
    text.rstrip()
    return text
