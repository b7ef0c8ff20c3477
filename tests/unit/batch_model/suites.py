"""What rows are judged by in the model: the product's own rules, over numbers that follow from a row's values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unit.batch_model.frames import Col, F

from pipeline.model import change
from pipeline.quality.rulebook import JudgedShape, Rulebook
from pipeline.quality.rules import Rule, RuleSet
from pipeline.quality.suites import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unit.batch_model.upstream import Message

NONE: tuple[str, ...] = ()
FENCE = "fence"
"""No rule: later changes of a key wait behind what is quarantined of it."""
SUITES = (
    NONE, ("set aside",), ("wait",), ("set more aside",), ("note",), ("set aside", "wait"), ("stop",),
    ("set aside", FENCE), ("set more aside", FENCE),
)  # fmt: skip
"""Each the names of its rules; one of them holds for a process, for all tables."""

_RULES = {
    "note": (Severity.WARN, 2),
    "set aside": (Severity.QUARANTINE, 3),
    "set more aside": (Severity.QUARANTINE, 2),
    "wait": (Severity.HOLD, 5),
    "stop": (Severity.FAIL, 7),
}
"""Severity, and of how many rows one is bad."""


def is_bad(message: Message, name: str) -> bool:
    """Whether a row's values break a rule; a delete's key would, if deletes were judged."""
    values = [value for _, value in message.values or (("id", message.key),) if value is not None]
    return sum(int(str(value).removeprefix("s")) for value in values) % _RULES[name][1] == 0


IsBad = Callable[["Message", str], bool]
"""Whether a row breaks the rule of a name."""


def broken(message: Message, suite: Iterable[str], *severities: Severity, breaks: IsBad = is_bad) -> list[str]:
    """The rules that a message breaks; no delete breaks one."""
    if message.kind != "row" or message.deletes:
        return []
    return [name for name in suite if name != FENCE and _RULES[name][0] in severities and breaks(message, name)]


@functools.cache
def rule_set(suite: tuple[str, ...], breaks: IsBad = is_bad) -> RuleSet:
    """The rules of a suite."""
    return RuleSet(tuple(_rule(name, breaks) for name in suite if name != FENCE), "+".join(suite))


def _rule(name: str, breaks: IsBad) -> Rule:
    bad = Col(lambda row: breaks(row[change.VALUE_BYTES].message, name))
    return Rule(name, _RULES[name][0], F.lit(True), bad, ("id",))


@dataclass(slots=True)
class ModelRulebook(Rulebook):
    """The product's own, but for what it makes rules of."""

    suite: tuple[str, ...] = NONE
    breaks: IsBad = is_bad

    def _make(self, shape: JudgedShape) -> RuleSet:  # noqa: ARG002 - rules of the model are the same for all
        return rule_set(self.suite, self.breaks)
