"""What Great Expectations alone can judge: aggregates, distributions, SQL, and what has meaning on whole tables only.

A run of GX has jobs of its own, a second of them for ten rows. So it judges a batch at most once per
`quality.gx_interval` and table, and whole current tables on demand (`checks run`) and after `run --available-now`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import great_expectations as gx
from great_expectations.expectations.registry import get_expectation_impl
from pyspark.sql import functions as F

from pipeline.model.names import confusable, quoted
from pipeline.quality.compiled import numbers
from pipeline.quality.rules import PRIVATE, RuleResult
from pipeline.quality.schema import Level, level, takes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from pipeline.quality.suites import Check

ENGINE = "gx"
_COLUMN_KEYS = ("column", "column_A", "column_B")
_OF_TABLE = "expect_table_"
_VALUES = 3
_LENGTH = 100


def of_batches(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Those that are judged on the rows of a batch, and do not compile."""
    return tuple(check for check in checks if level(check.expectation) is Level.BATCH)


def of_tables(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Those that are judged on whole tables only."""
    return tuple(check for check in checks if level(check.expectation) is Level.TABLE)


@dataclass(slots=True)
class Judge:
    """An ephemeral GX context that is made once."""

    _batches: Any = None

    def judge(self, frame: DataFrame, checks: Sequence[Check], private: frozenset[str]) -> tuple[RuleResult, ...]:
        """What GX says of these rows, in the order of the checks. What cannot be judged is no success."""
        names = numbers(frame.columns)
        numbered = frame.select("*", *(F.col(quoted(name)).alias(names[confusable(name)]) for name in frame.columns))
        results: dict[int, RuleResult] = {}
        of_columns = {number: check for number, check in enumerate(checks) if _is_of_columns(check)}
        of_tables = {number: check for number, check in enumerate(checks) if number not in of_columns}
        for rows, some in ((numbered, of_columns), (frame, of_tables)):
            results |= self._judged(rows, some, names, private)
        return tuple(results[number] for number in range(len(checks)))

    def _judged(
        self, rows: DataFrame, checks: Mapping[int, Check], names: Mapping[str, str], private: frozenset[str]
    ) -> dict[int, RuleResult]:
        made: dict[int, Any] = {}
        results: dict[int, RuleResult] = {}
        for number, check in checks.items():
            try:
                made[number] = _made(check, names, number)
            except (KeyError, ValueError, TypeError) as error:
                results[number] = _unmade(check, _first_line(error))
        if made:
            suite = gx.ExpectationSuite(name="checks", expectations=list(made.values()))
            form = {"result_format": "BASIC", "partial_unexpected_count": _VALUES}
            outcome = self._batch(rows).validate(suite, result_format=cast("Any", form))
            by_number = {result.expectation_config.meta["number"]: result for result in outcome.results}
            for number in made:
                results[number] = _read(checks[number], by_number[number], private)
        return results

    def _batch(self, rows: DataFrame) -> Any:
        if self._batches is None:
            context = gx.get_context(mode="ephemeral")
            context.variables.progress_bars = cast("Any", {"globally": False})
            source = context.data_sources.add_spark(name="ticdc", persist=False)
            source._spark = rows.sparkSession  # noqa: SLF001 - else SQL runs in whichever session came first
            self._batches = source.add_dataframe_asset(name="rows").add_batch_definition_whole_dataframe("all")
        return self._batches.get_batch(batch_parameters={"dataframe": rows})


def _is_of_columns(check: Check) -> bool:
    """Whether it is about values of columns, and not about which columns there are."""
    return bool(check.columns) and not check.expectation.startswith(_OF_TABLE)


def _made(check: Check, names: Mapping[str, str], number: int) -> Any:
    """GX's expectation, on numbered columns: GX writes names into SQL, and names are hostile."""
    arguments = dict(check.arguments)
    for key in _COLUMN_KEYS:
        if isinstance(arguments.get(key), str):
            arguments[key] = _numbered(arguments[key], names)
    if "column_list" in arguments and _is_of_columns(check):
        arguments["column_list"] = [_numbered(name, names) for name in arguments["column_list"]]
    make = cast("Any", get_expectation_impl(check.expectation))
    if check.row_condition:
        arguments |= {"row_condition": check.row_condition, "condition_parser": "spark"}
    if takes(check.expectation, "mostly"):
        arguments["mostly"] = check.mostly
    return make(**arguments, meta={"number": number})


def _numbered(name: str, names: Mapping[str, str]) -> str:
    if confusable(name) not in names:
        raise KeyError(f"the table has no column `{name}`")
    return names[confusable(name)]


def _read(check: Check, outcome: Any, private: frozenset[str]) -> RuleResult:
    failed = next((info for info in outcome.exception_info.values() if isinstance(info, dict)), outcome.exception_info)
    if failed.get("raised_exception"):
        return _unmade(check, _short(failed["exception_message"]))
    counts, hidden = outcome.result, any(confusable(column) in private for column in check.columns)
    nulls = counts.get("missing_count") or 0
    evaluated = max(0, (counts.get("element_count") or 0) - nulls)
    observed = counts.get("observed_value", counts.get("partial_unexpected_list") or "")
    text = PRIVATE if hidden and observed != "" else _short(observed)
    return _result(check, bool(outcome.success), text, evaluated, int(counts.get("unexpected_count") or 0))


def _unmade(check: Check, why: str) -> RuleResult:
    return replace(_result(check, success=False, observed=f"cannot be checked: {why}"), possible=False)


def _result(check: Check, success: bool, observed: str, evaluated: int = 0, unexpected: int = 0) -> RuleResult:  # noqa: FBT001
    return RuleResult(
        check.name, check.severity, evaluated, unexpected, success, evaluated, ENGINE, check.because, check.owner,
        observed,
    )  # fmt: skip


def _short(value: object) -> str:
    return str(value).split("\n", 1)[0][:_LENGTH]


def _first_line(error: Exception) -> str:
    return _short(error.args[0] if error.args else error)
