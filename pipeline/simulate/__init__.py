"""A simulated source: a small TiDB with a shop workload, and a changefeed that sends it as TiCDC would."""

from pipeline.simulate.database import Database, RowEvent, Transaction, wall_clock
from pipeline.simulate.produce import SimulatedChangefeed
from pipeline.simulate.shop import Shop
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

__all__ = [
    "Database",
    "RowEvent",
    "Shop",
    "SimulatedChangefeed",
    "SimulatedColumn",
    "SimulatedTable",
    "Transaction",
    "wall_clock",
]
