"""Which rules judge which table: the built-in ones and those of the user's suites, made once per layout."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipeline.quality.builtin import builtin
from pipeline.quality.rules import Rule, RuleResult, RuleSet
from pipeline.quality.suites import Check, Suite, fingerprint, refused, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.columns import TableVersion
    from pipeline.model.messages import ColumnMapping
    from pipeline.model.names import TableName
    from pipeline.settings import Quality

_REMEMBERED = 4096
_COMPILATIONS: dict[tuple[object, ...], tuple[Any, tuple[RuleResult, ...]]] = {}
"""Made once in a process for all tables of the same columns and checks: it takes a second or two."""


@dataclass(frozen=True, slots=True)
class JudgedShape:
    """What the rules of a table depend on, besides the suites."""

    table: TableName
    versions: tuple[TableVersion, ...]
    mapping: ColumnMapping
    live: tuple[str, ...]
    """The columns that checks may name: those of the changes table that the source still has."""


@dataclass(slots=True)
class Rulebook:
    """The rules of one pipeline. Great Expectations is imported with the first table that has a suite."""

    spark: SparkSession
    suites: Sequence[Suite] = ()
    built_in: bool = True
    _made: dict[JudgedShape, RuleSet] = field(default_factory=dict)
    _judge: Any = None

    def renewed(self, quality: Quality) -> Rulebook:
        """The rules as the suites' files have them now; this one where nothing has changed. Raises `SettingsError`."""
        suites, unread = scan(quality.suites) if quality.suites else ((), [])
        if suites == self.suites and not unread:
            return self
        now = Rulebook(self.spark, suites, self.built_in)
        now.refuse_nonsense(unread, allow_slow_regex=quality.allow_slow_regex)
        return now

    def of(self, shape: JudgedShape) -> RuleSet:
        """The rules for messages of these versions. A check that cannot be made of the table fails with every batch."""
        if shape not in self._made:
            if len(self._made) >= _REMEMBERED:
                self._made.clear()
            self._made[shape] = self._make(shape)
        return self._made[shape]

    def refuse_nonsense(self, unread: Sequence[str] = (), *, allow_slow_regex: bool) -> None:
        """Raise `SettingsError` with everything that is wrong in the suites, whatever the tables are.

        `unread`: what `suites.scan` could not read.
        """
        if not self.suites and not unread:
            return
        validation = import_module("pipeline.quality.validation")  # with Great Expectations
        findings = validation.unread(unread)
        findings += validation.validate(self.suites, {}, lambda: self.spark, allow_slow_regex=allow_slow_regex)
        wrong = [str(finding) for finding in validation.in_order(findings) if finding.is_error]
        if wrong:
            raise refused(wrong)

    def checks(self, table: TableName) -> tuple[Check, ...]:
        """What the suites expect of a table."""
        return tuple(check for suite in self.suites if suite.is_about(table) for check in suite.checks)

    def private(self, table: TableName) -> frozenset[str]:
        """The table's columns, in lower case, of which no value is kept as a sample."""
        return frozenset().union(*(suite.private for suite in self.suites if suite.is_about(table)))

    def judge(self, frame: DataFrame, checks: Sequence[Check], table: TableName) -> tuple[RuleResult, ...]:
        """What Great Expectations says of these rows; with jobs of its own."""
        if self._judge is None:
            self._judge = _gx().Judge()
        judged: tuple[RuleResult, ...] = self._judge.judge(frame, checks, self.private(table))
        return judged

    def of_whole(self, table: TableName, *, only: bool) -> tuple[Check, ...]:
        """The checks that can be run on a whole table; `only`: those that say nothing about a batch."""
        checks = self.checks(table)
        return tuple(_gx().of_tables(checks)) if checks and only else checks

    def _make(self, shape: JudgedShape) -> RuleSet:
        rules = list(builtin(shape.versions, shape.mapping)) if self.built_in else []
        checks = self.checks(shape.table)
        numbered: Mapping[str, str] = {}
        unmade: tuple[RuleResult, ...] = ()
        beyond: tuple[Check, ...] = ()
        if checks:
            types = {target.name: target.type for target in shape.mapping.targets if target.name in shape.live}
            compiled, unmade = self._compiled(checks, types)
            numbered, beyond = compiled.columns, _gx().of_batches(checks)
            rules += [_rule(rule) for rule in compiled.rules]
        of_checks = fingerprint(checks) if checks else ""
        fingerprints = of_checks or ("builtin" if rules else "")
        return RuleSet(tuple(rules), fingerprints, numbered, self.private(shape.table), unmade, beyond)

    def _compiled(self, checks: Sequence[Check], types: Mapping[str, str]) -> tuple[Any, tuple[RuleResult, ...]]:
        """The checks compiled for a table as it is now, and a result for each that lacks a column there."""
        key = self.spark.sparkContext.applicationId, repr(checks), tuple(types.items())
        if key not in _COMPILATIONS:
            if len(_COMPILATIONS) >= _REMEMBERED:
                _COMPILATIONS.clear()
            _COMPILATIONS[key] = self._compile(checks, types)
        return _COMPILATIONS[key]

    def _compile(self, checks: Iterable[Check], types: Mapping[str, str]) -> tuple[Any, tuple[RuleResult, ...]]:
        compiled = import_module("pipeline.quality.compiled")  # Great Expectations takes seconds to import
        left = [check for check in checks if check.expectation in compiled.COMPILED]
        unmade: list[RuleResult] = []
        while True:
            try:
                return compiled.compiled(self.spark, left, types), tuple(unmade)
            except compiled.NotCompiled as error:
                check, why = error.args
                left.remove(check)
                unmade.append(
                    RuleResult(
                        check.name, check.severity, 0, 0, success=False,
                        because=check.because, owner=check.owner, observed=f"cannot be checked: {why}", possible=False,
                    )
                )  # fmt: skip


def _gx() -> Any:
    return import_module("pipeline.quality.gx")


def _rule(made: Any) -> Rule:
    check: Check = made.check
    return Rule(
        check.name,
        check.severity,
        made.judged,
        made.unexpected,
        check.columns,
        made.success,
        check.because,
        check.owner,
    )
