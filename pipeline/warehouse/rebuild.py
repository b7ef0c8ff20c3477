"""Building a current table again from its changes table, which is the durable record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import Refused
from pipeline.model.holding import GET_A_KEY, NO_KEY, WITHOUT_KEY
from pipeline.observe.logs import bound
from pipeline.warehouse import advance, current
from pipeline.warehouse.altered import refuse
from pipeline.warehouse.evolution import let_leave
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.publisher import Published
from pipeline.warehouse.state import EXCHANGED

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from pipeline.warehouse.pairs import TablePair
    from pipeline.warehouse.tables import Tables


def rebuild(spark: SparkSession, tables: Tables, table: TablePair, timezone: str) -> int:
    """Replay every change and statement; how many keys that wrote.

    Readers see the old rows until the new ones are published. By commit ts, tables have names over time (`bindings`).
    Such a table is replayed up to its cut, which stays.
    """
    refuse(table, "built again")
    if EXCHANGED.is_in(table.changes.properties):
        raise Refused(
            "ROWS_EXCHANGED",
            f"rows of {table.source} came by EXCHANGE PARTITION, and its changes table does not have them",
            "its current table stays as it is",
        )
    if not (table.by_commit_ts.bindings or table.layout.handle):
        raise Refused(NO_KEY, f"{table.source} has no rows to show: {WITHOUT_KEY}", GET_A_KEY)
    spark.sparkContext.setJobDescription(f"rebuild {table.source}")
    with bound(table=str(table.source)):
        if table.by_commit_ts.bindings:
            return replay(spark, tables, table, timezone, "rebuild", lambda _step: None).keys
        return current.publish(spark, table, timezone, "rebuild", lambda _step: None, afresh=True).keys


def replay(
    spark: SparkSession,
    tables: Tables,
    table: TablePair,
    timezone: str,
    operation: str,
    step: Callable[[str], None],
) -> Published:
    """Show a table's changes up to its cut as if nothing were shown yet (ordering by commit ts).

    Columns that were in the key, or decided on a partition, at an earlier time may have left since. They come back
    until the replay is done.
    """
    if table.current is None:
        return Published()
    layout = table.layout
    tables.evolve(table, let_leave(layout, Layout(), 0))
    done = advance.advance(spark, table, timezone, operation, step, table.by_commit_ts.cut, afresh=True)
    tables.evolve(table, let_leave(table.layout, layout, table.by_commit_ts.cut))
    return done
