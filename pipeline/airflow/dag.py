"""The DAG of a changefeed: take what is there, check whole tables, write the report, look after files."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAlias, Variable

from pipeline.airflow.execution import Local
from pipeline.airflow.operator import WarehouseOperator
from pipeline.airflow.outcome import changed, newly_held

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow.sdk import Context

    from pipeline.airflow.execution import Execution

_BEGINNING = datetime(2024, 1, 1)  # noqa: DTZ001 - Airflow reads it in its own zone; nothing is caught up


def table_asset(pipeline: str, table: str) -> Asset:
    """The asset of a pipeline's source table (`shop.orders`), to schedule DAGs by: changes alone update it."""
    return Asset(name=f"{pipeline}/{table}", uri=f"x-ticdc-warehouse://{pipeline}/{table}")


def changefeed_dag(  # noqa: PLR0913 - what a person may want to say of a schedule
    name: str,
    config: str,
    execution: Execution | None = None,
    *,
    schedule: Any = timedelta(minutes=10),
    environment: Mapping[str, str] | None = None,
    checks: bool = True,
    report: str | None = None,
    timeout: timedelta = timedelta(hours=2),
    retries: int = 2,
    retry_delay: timedelta = timedelta(minutes=1),
    on_held: Callable[[Context, Sequence[str]], None] | None = None,
    default_args: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
) -> DAG:
    """A DAG `ticdc_warehouse_<name>`: `run`, `checks`, `report`, `maintain`, `done`, in this order; one run at a time.

    `name` is the pipeline's, `config` its file where the command runs. `checks`: whether the suites are run on whole
    tables; not where there are none. `report`: where the page is written there; no such task without one.
    `on_held(context, tables)` is called when a run ends, well or not, with the held tables that were not reported
    before for the same reason. A refusal (quality stop, offsets that are gone, …) fails its task at once; anything else
    is tried again `retries` times.
    """
    execution = execution or Local()
    dag = DAG(
        dag_id=f"ticdc_warehouse_{name}",
        schedule=schedule,
        start_date=_BEGINNING,
        catchup=False,
        max_active_runs=1,
        tags=["ticdc-warehouse", *tags],
        doc_md=__doc__,
        default_args={
            "retries": retries, "retry_delay": retry_delay, "execution_timeout": timeout, **(default_args or {}),
        },
    )  # fmt: skip
    common: dict[str, Any] = {"dag": dag, "config": config, "execution": execution, "environment": environment or {}}
    tasks: list[WarehouseOperator] = [RunOperator(task_id="run", pipeline=name, on_held=on_held, **common)]
    if checks:
        tasks.append(WarehouseOperator(task_id="checks", words=["checks", "run"], **common))
    whatever: dict[str, Any] = {"trigger_rule": "all_done", **common}  # a report is wanted most when a check has failed
    if report is not None:
        tasks.append(WarehouseOperator(task_id="report", words=["report", "--to", report], **whatever))
    tasks.append(WarehouseOperator(task_id="maintain", words=["tables", "maintain"], **whatever))
    for before, after in pairwise(tasks):
        before >> after
    tasks >> EmptyOperator(task_id="done", dag=dag)  # fails where any of them has; the DAG goes by the last task alone
    return dag


class RunOperator(WarehouseOperator):
    """`run --available-now`: says which tables changed (assets), and which are held.

    Airflow's variable `ticdc_warehouse_<name>` has how many changes each table had when it was last reported. So the
    next try that succeeds also reports what a failed try had committed. Without the variable it reports all changes.
    `held_ticdc_warehouse_<name>` has the held tables that were last reported, with their reasons.
    """

    def __init__(self, *, pipeline: str, on_held: Callable[[Context, Sequence[str]], None] | None, **task: Any) -> None:
        alias = AssetAlias(f"ticdc-warehouse/{pipeline}")
        super().__init__(words=["run", "--available-now"], outlets=[alias], **task)
        self.pipeline = pipeline
        self.alias = alias
        self.variable = f"ticdc_warehouse_{pipeline}"
        self.held = f"held_{self.variable}"
        self.on_held = on_held

    def execute(self, context: Context) -> dict[str, Any]:
        """Run it, then report tables: held ones even if the run has failed, as they may be why.

        What has changed comes last: Airflow passes it on only if the task succeeds, and it is reported once.
        """
        try:
            result = super().execute(context)
        except Exception:
            self._tell_held_if_possible(context)
            raise
        tables = self._tables()
        self._tell_held(context, tables)
        self._tell_changed(context, result.get("tables", {}), {table["source"]: table["changes"] for table in tables})
        return result

    def _tables(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.called(["tables", "list"]).get("tables", [])
        return listed

    def _tell_held_if_possible(self, context: Context) -> None:
        """Nothing that goes wrong here hides why the run has failed."""
        try:
            self._tell_held(context, self._tables())
        except Exception:
            self.log.exception("Held tables could not be reported")

    def _tell_held(self, context: Context, tables: Sequence[Mapping[str, Any]]) -> None:
        """Call back for tables that are newly held, or held for another reason than was last reported."""
        held = {table["source"]: table.get("held_because") for table in tables if table["state"] == "held"}
        for table, reason in held.items():
            self.log.warning("%s is held (%s): ticdc-warehouse tables list says how to go on", table, reason)
        reported = Variable.get(self.held, default={}, deserialize_json=True)
        news = newly_held(held, reported)
        if news and self.on_held is not None:
            self.on_held(context, news)
        if held != reported:
            Variable.set(self.held, held, serialize_json=True)

    def _tell_changed(self, context: Context, counted: Mapping[str, Mapping[str, int]], now: Mapping[str, int]) -> None:
        """Update assets. `counted`: what this run did, by table; `now`: how many changes the tables have."""
        reported = Variable.get(self.variable, default={}, deserialize_json=True)
        for table, numbers in changed(counted, now, reported).items():
            context["outlet_events"][self.alias].add(table_asset(self.pipeline, table), extra=numbers)
        if now != reported:
            Variable.set(self.variable, dict(now), serialize_json=True)
