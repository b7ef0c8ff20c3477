"""What is wrong with suites, before a batch is judged by them: each finding with its place in the file.

First a suite is looked at by itself: expectations, arguments, severities, regular expressions. Then, where tables are
known, it is compared with them: names, types, row conditions. GX and Spark compile those on an empty frame; no row is
read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from great_expectations.expectations.registry import get_expectation_impl

from pipeline.model.names import confusable, folded
from pipeline.quality import regexes, schema
from pipeline.quality.compiled import COMPILED, NotCompiled, compiled, filterable
from pipeline.quality.literals import misfits
from pipeline.quality.suites import CODE, PLACE, matches
from pipeline.settings.document import SettingPlace
from pipeline.settings.faults import did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from pipeline.model.names import TableName
    from pipeline.quality.suites import Check, Suite

    Tables = Mapping[TableName, Mapping[str, str]]

_WILD = re.compile(r"[*?\[]")
_ABOUT_COLUMNS = frozenset({"expect_column_to_exist", "expect_table_columns_to_match_ordered_list"})
"""Whether the table has the columns that they name is what they check."""
_SETS = frozenset({"expect_column_values_to_be_in_set", "expect_column_values_to_not_be_in_set"})
_SHOWN_TABLES = 3


@dataclass(frozen=True, slots=True)
class SuiteFinding:
    """Something that is wrong, or, if it is no error, worth a look."""

    place: SettingPlace
    code: str
    sentence: str
    hint: str = ""
    is_error: bool = True

    def __str__(self) -> str:
        kind = "" if self.is_error else "warning: "
        return f"{self.place}: {kind}{self.sentence}" + (f"; {self.hint}" if self.hint else "")


def unread(sentences: Iterable[str]) -> list[SuiteFinding]:
    """What `suites.scan` could not read, as findings."""
    findings = []
    for sentence in sentences:
        place = PLACE.match(sentence)
        file, _, rest = sentence.partition(": ")
        where = SettingPlace(place[1], int(place[2]), int(place[3])) if place else SettingPlace(file)
        findings.append(SuiteFinding(where, CODE, sentence[place.end() :] if place else rest))
    return findings


def validate(
    suites: Sequence[Suite],
    tables: Tables,
    spark: Callable[[], SparkSession] | None = None,
    *,
    allow_slow_regex: bool = False,
) -> list[SuiteFinding]:
    """Everything that is wrong, in the order of the files.

    `tables`: the live columns of each known source table (name → Spark SQL type); none, and only what needs no table
    is looked at. `spark` starts a session; it is asked where there are regular expressions or tables, and without it
    neither are tried out.
    """
    validation = _Validation(allow_slow_regex)
    for suite in suites:
        for check in suite.checks:
            validation.look_at(check)
    validation.find_doubled(suites, tables)
    checks = (check for suite in suites for check in suite.checks if check.expectation in schema.known())
    validation.judge_patterns(checks, spark)
    if tables:
        validation.find_lost(suites, tables)
        validation.find_misfits(suites, tables, spark)
    return in_order(validation.findings)


def in_order(findings: Iterable[SuiteFinding]) -> list[SuiteFinding]:
    """In the order of the files, and of their lines."""
    return sorted(findings, key=lambda one: (one.place.source, one.place.line, one.place.column))


@dataclass(slots=True)
class _Validation:
    allow_slow_regex: bool
    findings: list[SuiteFinding] = field(default_factory=list)
    bad: set[int] = field(default_factory=set)
    """Checks, by identity, that have an error: another, which follows from it, would say nothing new."""

    def error(self, check: Check, keys: Sequence[str], code: str, sentence: str, hint: str = "") -> None:
        self.bad.add(id(check))
        self.findings.append(SuiteFinding(check.at(*keys), code, sentence, hint))

    def look_at(self, check: Check) -> None:
        """Look at a check by itself, without tables."""
        name = check.expectation
        if name in schema.UNSUPPORTED:
            self.error(
                check, (name,), "EXPECTATION_UNSUPPORTED", f"`{name}` cannot be used: {schema.UNSUPPORTED[name]}"
            )
        elif name not in schema.known():
            near = did_you_mean(name, schema.known())
            self.error(check, (name,), "EXPECTATION_UNKNOWN", f"there is no expectation `{printable(name)}`{near}")
        else:
            for keys, code, sentence, hint in (*_arguments(check), *_consequences(check)):
                self.error(check, keys, code, sentence, hint)

    def find_doubled(self, suites: Sequence[Suite], tables: Tables) -> None:
        """Find checks of one name that two suites give one table.

        The tables are those that are known, and those that a suite names in full.
        """
        named = {folded(name): name for suite in suites for name in suite.tables if not _WILD.search(name)}
        named |= {folded(str(name)): str(name) for name in tables}
        reported: set[int] = set()
        for table in named.values():
            first: dict[str, Check] = {}
            for check in (check for suite in suites if suite.is_about(table) for check in suite.checks):
                other = first.setdefault(check.name, check)
                if other is not check and id(check) not in reported:
                    reported.add(id(check))
                    sentence = f"{table} has a check named `{printable(check.name)}` at {other.place} too"
                    self.error(check, ("name",), "NAME_TWICE", sentence, "give one of them another `name`")

    def judge_patterns(self, checks: Iterable[Check], spark: Callable[[], SparkSession] | None) -> None:
        """Find regular expressions that Java refuses, that are not bounded, or that take too long."""
        for check in checks:
            for keys, pattern in _patterns(check):
                jvm: Any = spark().sparkContext._jvm if spark else None  # noqa: SLF001 - there is no other way to it
                if jvm and (why := regexes.refused(jvm, pattern)):
                    sentence = f"Java refuses the regular expression: {printable(why)}"
                    self.error(check, keys, "REGEX_INVALID", sentence)
                elif not self.allow_slow_regex and (why := regexes.unbounded(pattern)):
                    self.error(check, keys, "REGEX_UNBOUNDED", f"the regular expression has {why}", _UNBOUNDED_HINT)
                elif jvm:
                    self._time(check, keys, pattern, jvm)

    def _time(self, check: Check, keys: Sequence[str], pattern: str, jvm: Any) -> None:
        taken = regexes.seconds(jvm, pattern)
        if taken is None:
            sentence = (
                f"the regular expression takes more than {regexes.BUDGET:g} s on texts of {regexes.MANY} characters"
            )
            self.findings.append(
                SuiteFinding(check.at(*keys), "REGEX_SLOW", sentence, _SLOW_HINT, not self.allow_slow_regex)
            )
        elif why := regexes.strained(jvm, pattern):
            sentence = f"on texts of {regexes.LONG:,} characters the regular expression {why}"
            self.findings.append(
                SuiteFinding(check.at(*keys), "REGEX_STRAINED", sentence, _STRAINED_HINT, is_error=False)
            )

    def find_lost(self, suites: Sequence[Suite], tables: Tables) -> None:
        """Find table patterns that match no table, and private columns that no table of the suite has."""
        for suite in suites:
            for number, pattern in enumerate(suite.tables):
                if not any(matches(pattern, table) for table in tables):
                    near = "" if _WILD.search(pattern) else did_you_mean(pattern, map(str, tables))
                    sentence = f"the warehouse has no table that matches `{printable(pattern)}`{near}"
                    place = suite.at("table", str(number))
                    self.findings.append(SuiteFinding(place, "TABLE_UNKNOWN", sentence, is_error=False))
            columns = {confusable(name) for table in tables if suite.is_about(table) for name in tables[table]}
            for name in sorted(suite.private - columns) if columns else ():
                sentence = (
                    f"no table of the suite has the private column `{printable(name)}`{did_you_mean(name, columns)}"
                )
                self.findings.append(SuiteFinding(suite.at("private"), "COLUMN_UNKNOWN", sentence))

    def find_misfits(self, suites: Sequence[Suite], tables: Tables, spark: Callable[[], SparkSession] | None) -> None:
        """What does not fit the tables' columns; tables of the same columns are looked at once."""
        for suite in suites:
            alike: dict[tuple[tuple[str, str], ...], list[TableName]] = {}
            for table, columns in tables.items():
                if suite.is_about(table):
                    alike.setdefault(tuple(columns.items()), []).append(table)
            for columns_, mine in alike.items():
                good = [check for check in suite.checks if id(check) not in self.bad]
                fits = [check for check in good if self._fits(check, dict(columns_), _listed(mine))]
                if spark is not None and fits:
                    self._compile(spark(), fits, dict(columns_), _listed(mine))

    def _fits(self, check: Check, columns: Mapping[str, str], tables: str) -> bool:
        types = {confusable(name): kind for name, kind in columns.items()}
        if check.expectation in _ABOUT_COLUMNS:
            return True
        lost = [name for name in check.columns if confusable(name) not in types]
        for name in lost:
            sentence = f"{tables} has no column `{printable(name)}`{did_you_mean(name, columns)}"
            self._tell(check, _where(check, name), "COLUMN_UNKNOWN", sentence)
        unfit = [] if lost else list(misfits(check, types))
        for keys, sentence in unfit:
            self._tell(check, (check.expectation, *keys), "TYPES_DIFFER", f"{tables}: {sentence}")
        return not lost and not unfit

    def _tell(self, check: Check, keys: Sequence[str], code: str, sentence: str) -> None:
        """An error about some tables, which says nothing of others."""
        self.findings.append(SuiteFinding(check.at(*keys), code, sentence))

    def _compile(self, spark: SparkSession, checks: list[Check], columns: Mapping[str, str], tables: str) -> None:
        left = list(checks)
        for check in [check for check in left if check.expectation not in COMPILED]:
            left.remove(check)
            try:
                filterable(spark, check, columns)
            except NotCompiled as error:
                self._tell(check, _where(check, error.args[1]), "ROW_CONDITION_INVALID", f"{tables}: {error.args[1]}")
        while left:
            try:
                compiled(spark, left, columns)
            except NotCompiled as error:
                check, why = error.args
                left.remove(check)
                code = "ROW_CONDITION_INVALID" if why.startswith("row_condition") else "CHECK_REFUSED"
                self._tell(check, _where(check, why), code, f"{tables}: {why}")
            else:
                return


_UNBOUNDED_HINT = "use `++` or `(?>…)`, which do not backtrack; or set quality.allow_slow_regex"
_STRAINED_HINT = "write `[ab]*` for `(a|b)*`, and `*+` for `*`: they need less"
_SLOW_HINT = "begin it with `^`, or make its parts match different texts"
_Fault = tuple[tuple[str, ...], str, str, str]


def _arguments(check: Check) -> Iterator[_Fault]:
    """Arguments that GX refuses, and those that do nothing."""
    name, accepted = check.expectation, schema.arguments(check.expectation)
    unknown = False
    for key, value in check.arguments.items():
        if key in schema.OF_GX_ITSELF:
            hint = (
                "write `because` and `owner` beside the expectation" if key in {"notes", "description", "meta"} else ""
            )
            yield (name, key), "ARGUMENT_IDLE", f"`{key}` does nothing here", hint
        elif key not in accepted:
            unknown = True
            sentence = f"`{name}` has no argument `{printable(key)}`{did_you_mean(key, accepted)}"
            yield (name, key), "ARGUMENT_UNKNOWN", sentence, ""
        elif isinstance(value, dict) and "$PARAMETER" in value:
            yield (name, key), "ARGUMENT_IDLE", f"`{key}`: there are no parameters here", "write the value"
    if not unknown:
        yield from _refused(check, accepted)
    yield from _limits(check)
    yield from _members(check)


def _limits(check: Check) -> Iterator[_Fault]:
    given = check.arguments
    for side in ("min", "max"):
        if given.get(f"strict_{side}") and given.get(f"{side}_value") is None:
            sentence = f"`strict_{side}` does nothing without `{side}_value`"
            yield (check.expectation, f"strict_{side}"), "ARGUMENT_IDLE", sentence, ""
    low, high = given.get("min_value"), given.get("max_value")
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        sentence = f"no value is at least {low} and at most {high}"
        yield (check.expectation, "min_value"), "ARGUMENT_INVALID", sentence, ""


def _members(check: Check) -> Iterator[_Fault]:
    members = check.arguments.get("value_set")
    if check.expectation not in _SETS or not isinstance(members, list):
        return
    if not members:
        yield (check.expectation, "value_set"), "ARGUMENT_IDLE", "`value_set` is empty", ""
    elif None in members:
        sentence = "Great Expectations lets every value pass if NULL is in `value_set`"
        keys = (check.expectation, "value_set", str(members.index(None)))
        yield keys, "ARGUMENT_IDLE", sentence, "leave NULL out: NULLs are ignored in any case"


def _refused(check: Check, accepted: Iterable[str]) -> Iterator[_Fault]:
    made: Any = get_expectation_impl(check.expectation)
    try:
        made(**{key: value for key, value in check.arguments.items() if key in accepted})
    except (ValueError, TypeError) as error:
        listed: list[Any] = getattr(error, "errors", list)()
        places = set[tuple[str, ...]]()
        for detail in listed or [{"loc": (), "msg": str(error).split("\n", 1)[0]}]:
            keys = tuple(str(key) for key in detail["loc"] if key != "__root__")
            if keys not in places:  # of a value that could be one of several things, pydantic says each by itself
                places.add(keys)
                sentence = f"`{'.'.join(keys)}`: {detail['msg']}" if keys else detail["msg"]
                yield (check.expectation, *keys), "ARGUMENT_INVALID", printable(sentence), ""


def _consequences(check: Check) -> Iterator[_Fault]:
    """What a check has beside its expectation that does nothing, or contradicts the expectation."""
    name = check.expectation
    if check.mostly < 1 and not schema.takes(name, "mostly"):
        yield ("mostly",), "ARGUMENT_IDLE", f"`mostly` does nothing: `{name}` does not count rows", ""
    if check.row_condition and not schema.takes(name, "row_condition"):
        yield ("row_condition",), "ARGUMENT_IDLE", f"`row_condition` does nothing: `{name}` ignores it", ""
    if not check.severity.policy.sets_row_aside:
        return
    if name not in COMPILED:
        sentence = f"`severity: quarantine` finds no row to set aside: `{name}` judges many rows together"
        yield ("severity",), "QUARANTINE_WITHOUT_ROWS", sentence, "`hold` makes the table wait, `warn` records"
    elif check.mostly < 1:
        sentence = "`mostly` lets some rows break the check, and `severity: quarantine` sets each of them aside"
        yield ("mostly",), "QUARANTINE_OF_SOME", sentence, "leave `mostly` out, or use `severity: warn`"


def _patterns(check: Check) -> Iterator[tuple[tuple[str, ...], str]]:
    """The regular expressions of a check, with their keys."""
    if isinstance(pattern := check.arguments.get("regex"), str):
        yield (check.expectation, "regex"), pattern
    if isinstance(several := check.arguments.get("regex_list"), list):
        for number, pattern in enumerate(several):
            if isinstance(pattern, str):
                yield (check.expectation, "regex_list", str(number)), pattern


def _where(check: Check, what: str) -> tuple[str, ...]:
    """The keys of a column's name, or of the row condition."""
    if what.startswith("row_condition:"):
        return ("row_condition",)
    for key, value in check.arguments.items():
        if value == what:
            return check.expectation, key
        if isinstance(value, list) and what in value:
            return check.expectation, key, str(value.index(what))
    return (check.expectation,)


def _listed(tables: Sequence[TableName]) -> str:
    shown = ", ".join(map(str, tables[:_SHOWN_TABLES]))
    return shown if len(tables) <= _SHOWN_TABLES else f"{shown} and {len(tables) - _SHOWN_TABLES} more"
