"""A frame's plan as steps that the driver takes row by row. The one module that knows how Catalyst makes a plan.

A job takes Spark 0.2 s for ten rows: it analyses the frame, optimises it, writes code for it, compiles that, and sends
it to a task. What is left of that here is done once for a table: the optimised plan, taken apart into the conditions
and select lists that Spark itself would evaluate. No code is generated for these: Catalyst's expressions evaluate
themselves, more slowly a row, and at once.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, wraps
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from pipeline.runtime.driver.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

P = ParamSpec("P")
T = TypeVar("T")

_SOURCE = Path(__file__).with_name("DriverSteps.java")
_COUNTERS = "counters"
_DESCRIPTION = "spark.job.description"
TEXT = "text"


class NotInDriver(Exception):
    """The driver does not make such a frame: its plan has something else than conditions and select lists."""


def left_to_spark(step: Callable[P, T]) -> Callable[P, T]:
    """Raise `NotInDriver` where Spark's machinery is another one than is known here: another version's, a vendor's."""

    @wraps(step)
    def tried(*given: P.args, **named: P.kwargs) -> T:
        try:
            return step(*given, **named)
        except Py4JJavaError:
            raise
        except (Py4JError, TypeError) as error:  # no such method, no such class
            raise NotInDriver(str(error)) from error

    return tried


@dataclass(frozen=True, slots=True)
class DriverRows:
    """Rows in the driver's JVM. `java`: an array of Catalyst's rows."""

    java: Any
    count: int


@dataclass(frozen=True, slots=True)
class DriverRow:
    """A row whose columns are put behind those of each row of a plan."""

    java: Any


@dataclass(frozen=True, slots=True)
class DriverPlan:
    """What makes the rows of a frame out of those of the frame that it is over: `Catalyst.plan`."""

    steps: tuple[Any, ...]
    schema: Any
    """The columns of its rows, as Java's StructType."""
    counters: Any = None
    counted: tuple[str, ...] = ()
    """What the counters are called, in their order."""
    evaluating: Lock = field(default_factory=Lock, repr=False, compare=False)
    """Expressions keep what they have computed last: a plan is for one thread at a time."""


class Catalyst:
    """Spark's evaluation of expressions, in the driver of one session: `of`."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._jvm: Any = cast("Any", spark)._jvm
        self._session: Any = spark._jsparkSession
        self._gateway: Any = cast("Any", spark.sparkContext)._gateway
        self._empty: dict[str, DataFrame] = {}
        self._expressions = self._jvm.org.apache.spark.sql.catalyst.expressions

    @staticmethod
    @lru_cache(maxsize=1)
    def of(spark: SparkSession) -> Catalyst:
        """The one of this session."""
        return Catalyst(spark)

    def empty(self, like: DataFrame) -> DataFrame:
        """A frame with the columns of another one and no rows: the same one, for the same columns.

        Spark does not know that it has none, and plans as for any rows.
        """
        name = str(cast("Any", like)._jdf.schema().json())
        if name not in self._empty:
            self._empty[name] = self.another_empty(like)
        return self._empty[name]

    def another_empty(self, like: DataFrame) -> DataFrame:
        """The same, made anew."""
        no_rows = cast("Any", self.spark.sparkContext)._jsc.emptyRDD()
        return self._frame(self._session.createDataFrame(no_rows, cast("Any", like)._jdf.schema()))

    def empty_texts(self) -> DataFrame:
        """An empty frame of one column of texts, `TEXT`."""
        return self.empty(self.spark.range(0).select(F.lit(None).cast("string").alias(TEXT)))

    def texts(self, texts: Sequence[str]) -> DriverRows:
        """Rows of one column of texts, of which none has a line break."""
        return DriverRows(self._steps.texts("\n".join(texts)) if texts else self._no_rows, len(texts))

    def size(self, frame: DataFrame) -> int:
        """How many bytes a frame has, as Spark knows or guesses it; of one that is kept it knows."""
        return int(cast("Any", frame)._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

    def collected(self, frame: DataFrame, job: str) -> DriverRows:
        """The rows of a frame, brought to the driver by one job, which is described so."""
        context = frame.sparkSession.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setJobDescription(job)
        try:
            rows = cast("Any", frame)._jdf.queryExecution().executedPlan().executeCollect()
        finally:
            context.setLocalProperty(_DESCRIPTION, cast("str", before))
        return DriverRows(rows, len(rows))

    def counting(self, frame: DataFrame, counters: Sequence[Column]) -> DataFrame:
        """The frame, with BIGINTs that its plan counts."""
        return frame.observe(_COUNTERS, *counters)

    @left_to_spark
    def plan(self, frame: DataFrame) -> DriverPlan:
        """The steps from an `empty` frame to one that is over it. Raises `NotInDriver`.

        A plan that asks for the time of day is left to Spark: kept, it would have the one of now for good.
        """
        self._activate()
        execution = cast("Any", frame)._jdf.queryExecution()
        if self._asks_for_the_time(execution.analyzed()):
            raise NotInDriver("the time of day")
        plan = execution.optimizedPlan()
        steps: list[Any] = []
        counters, counted = None, ()
        while (kind := plan.nodeName()) != "LogicalRDD":
            if kind not in ("Project", "Filter", "CollectMetrics"):
                raise NotInDriver(kind)
            child = plan.child()
            if kind == "Project":
                steps.append(self._select_list(plan.projectList(), child.output()))
            elif kind == "Filter":
                steps.append(self._condition(plan.condition(), child.output()))
            elif counters is not None:
                raise NotInDriver("counters twice")
            else:
                accumulators = self._jvm.org.apache.spark.sql.execution.AggregatingAccumulator
                counters = accumulators.apply(plan.metrics(), child.output())
                counted = tuple(counters.schema().fieldNames())
                steps.append(counters)
            plan = child
        return DriverPlan(tuple(reversed(steps)), cast("Any", frame)._jdf.schema(), counters, counted)

    def run(self, rows: DriverRows, *parts: DriverPlan | DriverRow) -> tuple[DriverRows, Mapping[str, int | None]]:
        """The rows that come of plans, one after the other, and what these have counted."""
        self._activate()
        plans = [part for part in parts if isinstance(part, DriverPlan)]
        steps = [step for part in parts for step in (part.steps if isinstance(part, DriverPlan) else (part.java,))]
        counting = [plan for plan in plans if plan.counted]
        with ExitStack() as evaluating:
            for plan in plans:
                evaluating.enter_context(plan.evaluating)
            for plan in counting:
                plan.counters.reset()
            left = self._steps.run(self.array(self._jvm.java.lang.Object, steps), rows.java)
            numbers = [(plan.counted, json.loads(self._steps.counted(plan.counters))) for plan in counting]
        counts = {name: number for names, values in numbers for name, number in zip(names, values, strict=True)}
        return DriverRows(left, len(left)), counts

    def widest(self, rows: DriverRows) -> int:
        """How many bytes the largest of the rows has that a plan gave."""
        return int(self._steps.widest(rows.java))

    def pair(self, first: int, second: int) -> DriverRow:
        """A row of one column, an array of two BIGINTs."""
        return DriverRow(self._steps.pair(first, second))

    def write(self, writer: Any, rows: DriverRows) -> None:
        """Give rows to a DataWriter of Spark's, as a task does."""
        self._steps.write(writer, rows.java)

    def files(self, message: Any) -> Sequence[Any]:
        """The data files in the message of an Iceberg writer that has ended."""
        return list(self._steps.files(message))

    def array(self, kind: Any, items: Sequence[Any]) -> Any:
        """An array of Java objects."""
        array = self._gateway.new_array(kind, len(items))
        for place, item in enumerate(items):
            array[place] = item
        return array

    @left_to_spark
    def assigned(self, frame: DataFrame, table: Any) -> DataFrame:
        """The frame with the columns of a table of Spark's, as an append by name puts them in order and casts them."""
        nothing = self._jvm.scala.Option.empty()
        relation = self._jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
        target = relation.create(table, nothing, nothing)
        appending = _companion(self._jvm.org.apache.spark.sql.catalyst.plans.logical, "AppendData")
        no_options = getattr(appending, "byName$default$3")()
        append = appending.byName(target, cast("Any", frame)._jdf.logicalPlan(), no_options)
        analysed = self._session.sessionState().analyzer().execute(append)
        return self._frame(self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session, analysed.query()))

    def _asks_for_the_time(self, plan: Any) -> bool:
        """Whether a plan has `current_date()` and the like, or a text such as 'today' as a date."""
        catalyst = self._jvm.org.apache.spark.sql.catalyst
        if plan.containsPattern(catalyst.trees.TreePattern.CURRENT_LIKE()):
            return True
        return not _companion(catalyst.optimizer, "SpecialDatetimeValues").apply(plan).fastEquals(plan)

    @cached_property
    def _no_rows(self) -> Any:
        return self.array(self._jvm.org.apache.spark.sql.catalyst.InternalRow, [])

    @cached_property
    def _steps(self) -> Any:
        """The loops over rows."""
        return compiled(self._jvm, _SOURCE)

    @cached_property
    def _binding(self) -> Any:
        return _companion(self._expressions, "BindReferences")

    @cached_property
    def _projecting(self) -> Any:
        return _companion(self._expressions, "InterpretedUnsafeProjection")

    def _select_list(self, columns: Any, of: Any) -> Any:
        made = self._projecting.createProjection(self._binding.bindReferences(columns, self._attributes(of)))
        made.initialize(0)  # the number of a partition, for what asks for it
        return made

    def _condition(self, condition: Any, of: Any) -> Any:
        made = self._expressions.InterpretedPredicate(
            self._binding.bindReference(condition, self._attributes(of), False)
        )
        made.initialize(0)
        return made

    def _attributes(self, output: Any) -> Any:
        return getattr(self._expressions, "package$AttributeSeq")(output)

    def _activate(self) -> None:
        """Let this thread's expressions find the settings of the session."""
        self._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self._session)

    def _frame(self, java: Any) -> DataFrame:
        return cast("DataFrame", ClassicDataFrame(java, self.spark))


def _companion(package: Any, name: str) -> Any:
    """A companion object of Scala."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
