"""A seeded shop: five tables, and transactions that show every kind of change."""

from pipeline.simulate.shop.tables import CHANNEL, SCHEMA, TABLES
from pipeline.simulate.shop.workload import Shop

__all__ = ["CHANNEL", "SCHEMA", "TABLES", "Shop"]
