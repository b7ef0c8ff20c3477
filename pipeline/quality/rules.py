"""What a batch is judged by: the rules of one table, as bits that are set while its rows are decoded.

Two BIGINTs for every 63 rules carry, bit by bit, which rules judged a row and which of them it breaks. Deletes and
messages that cannot be decoded are judged by none. The counters add up bits, since conditions by the dozen in an
`Observation` would take Spark's code generation away (decision 003).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.change import Op
from pipeline.model.conditions import any_of
from pipeline.model.names import confusable, quoted
from pipeline.model.projection import Projection

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.quality.suites import Check, Severity

BITS = 63
_JUDGED, _BROKEN = "_ticdc#judged", "_ticdc#broken"
_SHOWN = 100
"""Characters of a value that a sentence shows."""
PRIVATE = "(private)"


def _passes(_judged: int, unexpected: int) -> bool:
    return unexpected == 0


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that is expected of every row. `judged` and `unexpected` are never NULL and cannot fail.

    `unexpected` is true of judged rows alone. `passes` gives the verdict on a batch from both counts. `columns` are
    those of the table that show why a row breaks it. `possible`: whether a row can break it at all.
    """

    name: str
    severity: Severity
    judged: Column
    unexpected: Column
    columns: tuple[str, ...] = ()
    passes: Callable[[int, int], bool] = _passes
    because: str = ""
    owner: str = ""
    possible: bool = True


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule says of one batch of a table; a row of `_pipeline.quality_results`.

    `rows`: of how many. What was not evaluated had nothing to be checked (NULL, another condition, no checksum).
    """

    rule: str
    severity: Severity
    evaluated: int
    unexpected: int
    success: bool
    rows: int = 0
    engine: str = "compiled"
    because: str = ""
    owner: str = ""
    observed: str = ""
    possible: bool = True
    """Whether the check could be made at all; one that could not forbids nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class RuleSet:
    """The rules of one table, with the expressions that apply them; these are made once.

    `numbered`: columns that rules see under another name (that name → the table's). `private`: columns of which no
    value is shown, in lower case.
    """

    rules: tuple[Rule, ...] = ()
    fingerprint: str = ""
    numbered: Mapping[str, str] = field(default_factory=dict)
    private: frozenset[str] = frozenset()
    unmade: tuple[RuleResult, ...] = ()
    """What checks say that cannot be made of the table as it is."""
    beyond: tuple[Check, ...] = ()
    """Checks of batches that only Great Expectations can judge."""
    _steps: tuple[Projection, ...] = field(init=False, repr=False)
    counters: tuple[Column, ...] = field(init=False, repr=False)
    """Aggregates over a judged frame: two for each rule, in their order."""

    def __post_init__(self) -> None:
        seen = [F.col(quoted(name)).alias(alias) for alias, name in self.numbered.items()]
        made = [Projection([F.col("*"), *columns]) for columns in (seen, list(self._bits())) if columns]
        object.__setattr__(self, "_steps", tuple(made))
        object.__setattr__(self, "counters", tuple(self._counters()))

    @property
    def gates(self) -> bool:
        """Whether its verdict can keep rows, or a whole batch, from the tables."""
        if any(check.severity.policy.forbids_batch for check in self.beyond):
            return True
        return any(not rule.severity.policy.only_records and rule.possible for rule in self.rules)

    def judged(self, frame: DataFrame) -> DataFrame:
        """A change frame with the bits of every rule beside its columns."""
        for step in self._steps:
            frame = step.of(frame)
        return frame

    def only(self, names: Collection[str]) -> RuleSet:
        """Some of the rules: all of them are more than Spark can compile beside the sentences about rows."""
        return replace(self, rules=tuple(rule for rule in self.rules if rule.name in names))

    def _bits(self) -> Iterator[Column]:
        if not self.rules:
            return
        due = F.col(change.ERROR).isNull() & (F.col(change.OP) != Op.DELETE.value)
        for number, rules in enumerate(_words(self.rules)):
            yield F.when(due, _word(rule.judged for rule in rules)).otherwise(_long(0)).alias(f"{_JUDGED}{number}")
            yield F.when(due, _word(rule.unexpected for rule in rules)).otherwise(_long(0)).alias(f"{_BROKEN}{number}")

    def breaks(self, *severities: Severity) -> Column:
        """Whether a judged row breaks a rule of these severities."""
        masks = [
            sum(1 << bit for bit, rule in enumerate(word) if rule.severity in severities) for word in _words(self.rules)
        ]
        broken = [F.col(f"{_BROKEN}{number}").bitwiseAND(_long(mask)) != 0 for number, mask in enumerate(masks) if mask]
        return any_of(broken)

    def _counters(self) -> Iterator[Column]:
        for number in range(len(self.rules)):
            yield from (_counter(name, number) for name in (_JUDGED, _BROKEN))

    def results(self, counted: Mapping[str, int | None], rows: int) -> tuple[RuleResult, ...]:
        """The verdict of every rule, from what its counters have counted."""
        results = []
        for number, rule in enumerate(self.rules):
            evaluated, unexpected = (counted.get(f"{name}_{number}") or 0 for name in (_JUDGED, _BROKEN))
            success = rule.passes(evaluated, unexpected)
            results.append(
                RuleResult(
                    rule.name, rule.severity, evaluated, unexpected, success, rows,
                    because=rule.because, owner=rule.owner,
                )
            )  # fmt: skip
        return (*results, *self.unmade)

    def broken(self) -> Column:
        """ARRAY<STRING> of a judged row: the names of the rules that it breaks."""
        names = (F.when(_bit(_BROKEN, n) == 1, F.lit(rule.name)) for n, rule in enumerate(self.rules))
        return F.array_compact(F.array(*names)) if self.rules else F.array().cast("array<string>")

    def sentence(self) -> Column:
        """Which rules a judged row breaks, and with which values."""
        sentences = [F.when(_bit(_BROKEN, n) == 1, self._said(rule)) for n, rule in enumerate(self.rules)]
        return F.concat_ws("; ", *sentences) if sentences else F.lit("")

    def _said(self, rule: Rule) -> Column:
        shown = [F.concat(F.lit(f"{name} = "), self.shown(name)) for name in rule.columns]
        return F.concat(F.lit(f"{rule.name}: "), F.concat_ws(", ", *shown)) if shown else F.lit(rule.name)

    def shown(self, column: str) -> Column:
        """A column's value as text of bounded length; nothing of a private one."""
        if confusable(column) in self.private:
            return F.lit(PRIVATE)
        text = F.col(quoted(column)).cast("string")
        lost = F.col(change.UNREPRESENTABLE)[F.lit(column)]
        return F.substring(F.coalesce(text, lost, F.lit("NULL")), 1, _SHOWN)


def _words(rules: Sequence[Rule]) -> list[Sequence[Rule]]:
    return [rules[start : start + BITS] for start in range(0, len(rules), BITS)]


def _word(conditions: Iterator[Column]) -> Column:
    bits = [F.when(condition, _long(1 << bit)).otherwise(_long(0)) for bit, condition in enumerate(conditions)]
    return reduce(lambda one, other: one.bitwiseOR(other), bits)


# The same for every table: each function of Spark costs a millisecond in Python.
@lru_cache(maxsize=1024)
def _counter(name: str, number: int) -> Column:
    return F.sum(_bit(name, number)).alias(f"{name}_{number}")


@lru_cache(maxsize=1024)
def _bit(name: str, number: int) -> Column:
    """1 where a judged row has the bit of a rule, else 0."""
    word, bit = divmod(number, BITS)
    return F.shiftright(f"{name}{word}", bit).bitwiseAND(_long(1))


@lru_cache(maxsize=256)
def _long(number: int) -> Column:
    return F.lit(number).cast("bigint")
