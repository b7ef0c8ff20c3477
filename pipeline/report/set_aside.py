"""What is set aside: quarantined changes, the keys that wait for them, dead letters, held tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.model.holding import needs_release
from pipeline.model.set_aside import FENCED, OPEN
from pipeline.report import commands
from pipeline.report.facts import BatchTime, Example, FencedKey, Held, Listing, Quarantine, SetAsideGroup
from pipeline.report.ledger import ALL_THERE, Counted, Spelling, moment, of_pipeline, pairs, place
from pipeline.report.wording import NAME, VALUE, clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pipeline.report.ledger import Records, Row, Totals

GROUPS_SHOWN, KEYS_SHOWN = 20, 12
WAITING_STATES = ("held", "releasing")


@dataclass(slots=True)
class _AlikeRows:
    first: Row
    last: Row
    rows: int = 0

    def add(self, row: Row) -> None:
        self.rows += 1
        self.first = min(self.first, row, key=_batch)
        self.last = max(self.last, row, key=_batch)


def _batch(row: Row) -> int:
    return int(row["batch_id"])


@dataclass(slots=True)
class SetAside:
    """All of it, counted; `quarantine` says how much of it a report shows."""

    rules: dict[tuple[str, str], SetAsideGroup] = field(default_factory=dict)
    """Open quarantined changes by table and rule, the most first; rule `""`: changes that only wait."""
    dead_letters: dict[tuple[str, str], SetAsideGroup] = field(default_factory=dict)
    """Open dead letters by table and code, the most first."""
    keys: list[FencedKey] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    by_table: Counter[str] = field(default_factory=Counter)
    """Open quarantined changes and dead letters."""
    settled_rules: set[tuple[str, str]] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def of(records: Records, pipeline: str, names: Spelling, totals: Totals = ALL_THERE) -> SetAside:
        """Count the rows of `quarantine`, `dead_letters`, `held` and `tables`."""
        set_aside = SetAside()
        for name, count in (
            ("quarantine", set_aside._count_quarantine),
            ("dead_letters", set_aside._count_dead_letters),
        ):
            rows = Counted(of_pipeline(records, name, pipeline))
            count(rows, names)
            set_aside.counts["settled"] += max(0, totals.get(name, 0) - rows.seen)
        set_aside.held = _held(records, pipeline, names)
        return set_aside

    @property
    def rows(self) -> int:
        """Open quarantined changes and dead letters together."""
        return self.counts["quarantined"] + self.counts["dead_letters"]

    @property
    def quarantine(self) -> Quarantine:
        """What the report shows."""
        return Quarantine(
            self.counts["quarantined"],
            self.counts["fenced"],
            self.counts["dead_letters"],
            self.counts["settled"],
            Listing.of(list(self.rules.values()), GROUPS_SHOWN),
            Listing.of(list(self.dead_letters.values()), GROUPS_SHOWN),
            Listing.of(self.keys, KEYS_SHOWN),
            Listing.of(self.held, GROUPS_SHOWN),
        )

    def _count_quarantine(self, rows: Iterable[Row], names: Spelling) -> None:
        groups: dict[tuple[str, str], _AlikeRows] = {}
        keys: dict[tuple[str, str], tuple[_AlikeRows, set[str]]] = {}
        for row in rows:
            table, rules = names.of(row), [clean(rule, NAME) for rule in row["rules"] or ()]
            fenced = row["code"] == FENCED
            if row["status"] != OPEN:
                self.counts["settled"] += 1
                self.settled_rules.update((table, rule) for rule in rules)
                continue
            self.counts.update(quarantined=1, fenced=int(fenced))
            self.by_table[table] += 1
            for rule in [""] if fenced else rules or [clean(row["code"], NAME)]:
                groups.setdefault((table, rule), _AlikeRows(row, row)).add(row)
            group, broken = keys.setdefault((table, clean(row["key_values"], 4 * VALUE)), (_AlikeRows(row, row), set()))
            group.add(row)
            broken.update(() if fenced else rules)
        self.rules = _listed(groups, commands.redrive)
        quarantined_keys = [_key(table, *group) for (table, _), group in keys.items()]
        self.keys = sorted(quarantined_keys, key=lambda key: (key.since.batch, key.table, key.key))

    def _count_dead_letters(self, rows: Iterable[Row], names: Spelling) -> None:
        groups: dict[tuple[str, str], _AlikeRows] = {}
        for row in rows:
            if row["status"] != OPEN:
                self.counts["settled"] += 1
                continue
            table = names.of(row)
            self.counts["dead_letters"] += 1
            self.by_table[table] += 1
            groups.setdefault((table, clean(row["code"], NAME)), _AlikeRows(row, row)).add(row)
        self.dead_letters = _listed(groups, lambda table, _: commands.redrive_dead_letters(table))


def _listed(
    groups: dict[tuple[str, str], _AlikeRows], command: Callable[[str, str], str]
) -> dict[tuple[str, str], SetAsideGroup]:
    ordered = sorted(groups.items(), key=lambda item: (-item[1].rows, item[0]))
    return {key: _group(key, group, command(*key)) for key, group in ordered}


def _group(key: tuple[str, str], group: _AlikeRows, command: str) -> SetAsideGroup:
    table, rule = key
    last = group.last
    example = Example(place((last["topic"], last["kafka_partition"], last["offset"])), pairs(last["key_values"]), "")
    code = clean(last["code"], NAME)
    return SetAsideGroup(table, rule, code, group.rows, moment(group.first), clean(last["message"]), example, command)


def _key(table: str, group: _AlikeRows, rules: set[str]) -> FencedKey:
    return FencedKey(
        table, pairs(group.last["key_values"]), group.rows, clean(", ".join(sorted(rules))), moment(group.first)
    )


def _held(records: Records, pipeline: str, names: Spelling) -> list[Held]:
    """Tables that say they wait, and tables of which records wait; the most records first.

    `tables` is a copy that is written now and then: where what was held since it was written is released, it is old.
    """
    waiting: dict[str, _AlikeRows] = {}
    released: dict[str, int] = {}
    for row in of_pipeline(records, "held", pipeline):
        table = names.of(row)
        if row["status"] == OPEN:
            waiting.setdefault(table, _AlikeRows(row, row)).add(row)
        else:
            released[table] = max(_batch(row), released.get(table, -1))
    states = {
        table: row
        for row in of_pipeline(records, "tables", pipeline)
        if row["state"] in WAITING_STATES
        and ((table := names.of(row)) in waiting or released.get(table, -1) < _batch(row))
    }
    held = [_held_table(table, states.get(table), waiting.get(table)) for table in {**states, **waiting}]
    return sorted(held, key=lambda one: (-one.records, one.table))


def _held_table(table: str, row: Row | None, group: _AlikeRows | None) -> Held:
    state = "held" if row is None else clean(row["state"], NAME)
    reason = (row and row["held_reason"]) or (group and group.last["reason"]) or ""
    since: BatchTime | None = None if group is None else moment(group.first)
    ways = (commands.history(table), *([commands.release(table)] if needs_release(reason) else []))
    return Held(table, state, clean(reason), 0 if group is None else group.rows, since, ways)
