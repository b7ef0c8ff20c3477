"""Row-level expectations as Spark predicates: Great Expectations' own conditions, taken out of its metrics.

GX counts the unexpected rows of a map expectation with a condition, a Spark column (`column_values.between.condition`).
It is asked for on an empty frame and becomes part of the projection that decodes a batch, so rows and verdicts follow
one rule. What GX applies around the condition (`row_condition`, `ignore_row_if`, NULLs) is said here again; a property
test (tests/spark/test_compiled_expectations.py) compares both on random frames, for every expectation of `COMPILED`.

Rules see columns under numbered names: GX writes names into SQL text, and names are hostile.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, cast

from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.registry import get_expectation_impl, get_metric_kwargs
from great_expectations.validator.metric_configuration import MetricConfiguration
from great_expectations.validator.validation_graph import ValidationGraph
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from pipeline.model.names import confusable, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.quality.suites import Check

logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
"""It sets itself to INFO when it is imported, and tells of each folder that it makes."""

COMPILED = frozenset(
    {
        "expect_column_pair_values_a_to_be_greater_than_b",
        "expect_column_pair_values_to_be_equal",
        "expect_column_pair_values_to_be_in_set",
        "expect_column_value_lengths_to_be_between",
        "expect_column_value_lengths_to_equal",
        "expect_column_values_to_be_between",
        "expect_column_values_to_be_in_set",
        "expect_column_values_to_be_null",
        "expect_column_values_to_match_regex",
        "expect_column_values_to_match_regex_list",
        "expect_column_values_to_not_be_in_set",
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_not_match_regex",
        "expect_column_values_to_not_match_regex_list",
        "expect_multicolumn_sum_to_equal",
        "expect_multicolumn_values_to_be_equal",
        "expect_select_column_values_to_be_unique_within_record",
    }
)
"""What GX judges row by row with a Spark expression. Its other map expectations run Python for each row (JSON,
strftime), look at the whole batch (z-scores, outliers, uniqueness, order) or have no Spark form (LIKE patterns).

One of these with a `row_condition` that its metric ignores (`expect_column_pair_values_to_be_in_set`) is refused: GX
would apply the condition to the count of all rows and not to those of judged and unexpected ones."""

_ABOUT_NULLS = frozenset({"expect_column_values_to_be_null", "expect_column_values_to_not_be_null"})
_COLUMN_KEYS = ("column", "column_A", "column_B")
_MISSING = {
    "both_values_are_missing": and_, "either_value_is_missing": or_,
    "all_values_are_missing": and_, "any_value_is_missing": or_,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A check as two predicates over numbered columns; neither is ever NULL, and neither can fail.

    `judged`: the rows that GX counts for it. `unexpected`: those of them that break it, or for which the condition
    cannot be computed (text that is compared with a number and is none).
    """

    check: Check
    judged: Column
    unexpected: Column
    expectation: Any

    def success(self, judged: int, unexpected: int) -> bool:
        """GX's verdict from its two numbers, `mostly` included."""
        name = self.expectation.map_metric
        metrics = {
            "table.row_count": judged,
            "column_values.nonnull.unexpected_count": 0,
            f"{name}.filtered_row_count": judged,
            f"{name}.unexpected_count": unexpected,
        }
        return bool(self.expectation._validate(metrics)["success"])


@dataclass(frozen=True, slots=True)
class CompiledRules:
    """The compiled checks of one table, and the columns that they see (numbered name → the table's)."""

    rules: tuple[CompiledRule, ...]
    columns: Mapping[str, str]

    def numbered(self, frame: DataFrame) -> DataFrame:
        """The frame with the columns that the rules see beside its own."""
        return frame.withColumns({alias: F.col(quoted(name)) for alias, name in self.columns.items()})


class NotCompiled(Exception):
    """Great Expectations or Spark refuses a check; `args` are the check and why."""


def compiled(spark: SparkSession, checks: Iterable[Check], columns: Mapping[str, str]) -> CompiledRules:
    """The checks of `COMPILED` on a table of these columns (name → Spark SQL type), in their order.

    Raises `NotCompiled`. No job is run.
    """
    names = numbers(columns)
    aliases = {alias: name for name, alias in zip(columns, names.values(), strict=True)}
    empty = _empty(spark, columns)
    wanted = [check for check in checks if check.expectation in COMPILED]
    for check in wanted:
        _analyse_condition(empty, check)
    try:
        made = _compiled(CompiledRules((), aliases).numbered(empty), wanted, names)
    except NotCompiled as refusal:
        check, why = refusal.args
        raise NotCompiled(check, re.sub(r"\b_q_*\d+\b", lambda match: aliases.get(match[0], match[0]), why)) from None
    seen = {names[confusable(column)] for check in wanted for column in check.columns}
    return CompiledRules(made, {alias: name for alias, name in aliases.items() if alias in seen})


def filterable(spark: SparkSession, check: Check, columns: Mapping[str, str]) -> None:
    """Whether the row condition of any check can be asked of a table of these columns. Raises `NotCompiled`."""
    _analyse_condition(_empty(spark, columns), check)


def _empty(spark: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    return spark.createDataFrame([], ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items()))


def _compiled(numbered: DataFrame, checks: Sequence[Check], names: Mapping[str, str]) -> tuple[CompiledRule, ...]:
    expectations = [_made(check, names) for check in checks]
    conditions = _conditions(numbered, checks, expectations)
    rules = tuple(map(_rule, checks, expectations, conditions))
    _analysed(numbered, rules)
    return rules


def numbers(columns: Iterable[str]) -> dict[str, str]:
    """Name without case → numbered name. No column has a numbered name of its own."""
    folded_names = [confusable(name) for name in columns]
    prefix = "_q"
    while any(name.startswith(prefix) for name in folded_names):
        prefix += "_"
    return {name: f"{prefix}{number}" for number, name in enumerate(folded_names)}


def _made(check: Check, names: Mapping[str, str]) -> Any:
    """GX's expectation on numbered columns."""
    for column in check.columns:
        if confusable(column) not in names:
            raise NotCompiled(check, f"the table has no column `{column}`")
    arguments = dict(check.arguments)
    for key in _COLUMN_KEYS:
        if isinstance(arguments.get(key), str):
            arguments[key] = names[confusable(arguments[key])]
    if "column_list" in arguments:
        arguments["column_list"] = [names[confusable(name)] for name in arguments["column_list"]]
    try:
        make = cast("Any", get_expectation_impl(check.expectation))
        return make(**arguments | {"mostly": check.mostly})
    except ValueError as error:  # pydantic's are
        listed: list[Any] = getattr(error, "errors", list)()
        reason = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in listed)
        raise NotCompiled(check, reason or _first_line(error)) from None


def _analyse_condition(empty: DataFrame, check: Check) -> None:
    """Refuse a row condition that cannot be part of a predicate. It uses the table's own names."""
    if not check.row_condition:
        return
    try:
        plan = cast("Any", empty.filter(check.row_condition))._jdf.queryExecution().analyzed()
    except PySparkException as error:
        raise NotCompiled(check, f"row_condition: {_first_line(error)}") from None
    if not plan.condition().deterministic():
        raise NotCompiled(check, "row_condition: its outcome differs from one evaluation to the next")
    expressions = cast("Any", SparkSession.active())._jvm.org.apache.spark.sql.catalyst.expressions
    if expressions.SubqueryExpression.hasSubquery(plan.condition()):
        raise NotCompiled(check, "row_condition: it has a subquery, which would need a job of its own for every batch")


def _conditions(empty: DataFrame, checks: Sequence[Check], expectations: Sequence[Any]) -> list[tuple[Column, Any]]:
    """GX's condition of each expectation, with the domain that it applies to."""
    engine = SparkDFExecutionEngine(batch_data_dict={"batch": empty}, persist=False)
    graph = ValidationGraph(execution_engine=engine)
    metrics = []
    for check, expectation in zip(checks, expectations, strict=True):
        name = f"{expectation.map_metric}.condition"
        kwargs = get_metric_kwargs(metric_name=name, configuration=expectation.configuration)
        if check.row_condition and "row_condition" not in kwargs["metric_domain_keys"]:
            raise NotCompiled(check, "row_condition: Great Expectations ignores it here")
        metric = MetricConfiguration(name, kwargs["metric_domain_kwargs"], kwargs["metric_value_kwargs"])
        graph.build_metric_dependency_graph(metric_configuration=metric, runtime_configuration=None)
        metrics.append(metric)
    resolved, aborted = graph.resolve(show_progress_bars=False)
    for check, metric in zip(checks, metrics, strict=True):
        if metric.id not in resolved:
            raise NotCompiled(check, _why(aborted.get(metric.id)))
    return [(cast("Any", resolved[metric.id])[0], metric.metric_domain_kwargs) for metric in metrics]


def _rule(check: Check, expectation: Any, condition_and_domain: tuple[Column, Any]) -> CompiledRule:
    condition, domain = condition_and_domain
    judged = F.expr(check.row_condition) if check.row_condition else F.lit(True)
    if "column" in domain and check.expectation not in _ABOUT_NULLS:
        judged = judged & F.col(domain["column"]).isNotNull()
    several = domain.get("column_list") or [domain[key] for key in _COLUMN_KEYS if key in domain]
    if domain.get("ignore_row_if") in _MISSING:
        missing = reduce(_MISSING[domain["ignore_row_if"]], (F.col(name).isNull() for name in several))
        judged = judged & ~missing
    any_column = F.col(several[0])
    return CompiledRule(check, _safe(judged, any_column), _safe(judged & condition, any_column), expectation)


def _safe(predicate: Column, column: Column) -> Column:
    """The predicate, where NULL counts as no and what cannot be computed counts as yes.

    Spark computes what several expressions have in common once and first. It takes such a part out of a `TryEval`,
    too, which then no longer guards it. Spark leaves a part where it is if only one branch of a CASE has it. So the
    predicate is in such a branch. The branch's condition is always true, which Spark cannot see.
    """
    utils, known_nullable, try_eval = _classes(cast("Any", SparkSession.active())._jvm)

    def wrapped(inner: Column, kind: Any) -> Column:
        return ClassicColumn(utils.column(kind(utils.expression(cast("Any", inner)._jc))))

    any_value = wrapped(column, known_nullable)
    tried = wrapped(F.coalesce(predicate, F.lit(False)), try_eval)
    return F.coalesce(F.when(any_value.isNull() | any_value.isNotNull(), tried), F.lit(True))


@lru_cache(maxsize=1)
def _classes(jvm: Any) -> tuple[Any, Any, Any]:
    """Each step of a class's name is a call to the JVM."""
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    return jvm.org.apache.spark.sql.classic.ExpressionUtils, expressions.KnownNullable, expressions.TryEval


def _analysed(frame: DataFrame, rules: Sequence[CompiledRule]) -> None:
    """Let Spark analyse all rules at once, and one by one only to find which of them it refuses."""
    try:
        frame.select(*(column for rule in rules for column in (rule.judged, rule.unexpected)))
    except AnalysisException as error:
        if len(rules) == 1:
            raise NotCompiled(rules[0].check, _first_line(error)) from None
        for rule in rules:
            _analysed(frame, [rule])
        raise


def _why(aborted: Any) -> str:
    """What GX says of a metric that it could not resolve."""
    message = (
        aborted["exception_info"]["exception_message"] if aborted else "Great Expectations has no condition for it"
    )
    return str(message).split("\n", 1)[0]


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
