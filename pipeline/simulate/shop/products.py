"""What happens to products: a text key, optional DOUBLE, JSON, VARBINARY and DATE."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from pipeline.simulate.shop.customers import NAMES
from pipeline.simulate.shop.tables import SCHEMA
from pipeline.simulate.shop.values import Dice, Pool

if TYPE_CHECKING:
    from pipeline.simulate.database import Transacting
    from pipeline.simulate.tables import Value

_FIRST_RELEASE = date(2024, 5, 1)
_TABLE = (SCHEMA, "products")


class Products:
    """The products that exist, and the changes they undergo."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._count = 0
        self.alive: Pool[str] = Pool()

    def add(self, writer: Transacting) -> None:
        """Insert a product."""
        self._count += 1
        dice, sku = self._dice, f"SKU-{self._count:05d}"
        row: dict[str, Value] = {
            "sku": sku,
            "title": f'Produkt №{self._count} "{dice.choice(NAMES)}"',
            "price": dice.money(1_500),
            "weight": dice.maybe(dice.below(1, 20_000) / 1_000),
            "stock": dice.below(500),
            "attrs": dice.maybe(dice.json()),
            "image": dice.maybe(dice.bytes(dice.below(1, 64))),
            "active": dice.below(2),
            "released": dice.maybe(_FIRST_RELEASE + timedelta(days=dice.below(400))),
        }
        writer.insert(*_TABLE, row)
        self.alive.add(sku)

    def reprice(self, writer: Transacting) -> None:
        """Update price and stock."""
        changes: dict[str, Value] = {"price": self._dice.money(1_500), "stock": self._dice.below(500)}
        writer.update(*_TABLE, (self.alive.pick(self._dice),), changes)
