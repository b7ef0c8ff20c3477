"""A simulated source: a small TiDB with a shop workload, and a changefeed that sends it as TiCDC would."""

from pipeline.simulate.database import Database, RowEvent, Transaction, wall_clock
from pipeline.simulate.produce import Changefeed
from pipeline.simulate.shop import Shop
from pipeline.simulate.tables import Column, Table

__all__ = ["Changefeed", "Column", "Database", "RowEvent", "Shop", "Table", "Transaction", "wall_clock"]
