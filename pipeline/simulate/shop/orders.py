"""What happens to orders: transactions over several tables, and primary keys that change."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from pipeline.simulate.shop.tables import CHANNEL, SCHEMA
from pipeline.simulate.shop.values import Dice, Pool

if TYPE_CHECKING:
    from pipeline.simulate.database import Transacting
    from pipeline.simulate.shop.customers import Customers
    from pipeline.simulate.shop.products import Products
    from pipeline.simulate.tables import Value

_STATUSES = ("new", "paid", "packed", "shipped", "delivered", "returned")
_CURRENCIES = ("EUR", "USD", "JPY", "GBP")
_CHANNELS = ("web", "app", "store", "phone")
_METHODS = ("card", "sepa", "paypal", "gift,card")
_FIRST_ORDER = 1_000_001


class Orders:
    """The orders that exist with their lines and payments, and the changes they undergo.

    `dirty` is the share of new orders with one fault that a quality rule should catch.
    """

    def __init__(self, dice: Dice, customers: Customers, products: Products, dirty: float) -> None:
        self._dice, self._customers, self._products, self._dirty = dice, customers, products, dirty
        self._next = _FIRST_ORDER
        self._lines: dict[int, list[int]] = {}
        self._payments: dict[int, str] = {}
        self.alive: Pool[int] = Pool()
        self.has_channel = False

    def place(self, writer: Transacting) -> None:
        """Insert an order and its one to five items."""
        order, total = self._next, Decimal(0)
        self._next += 1
        self._lines[order] = list(range(1, self._dice.below(1, 6) + 1))
        for line in self._lines[order]:
            quantity, price = self._dice.below(1, 5), self._dice.money(500)
            total += quantity * price
            self._insert_item(writer, order, line, quantity, price)
        row: dict[str, Value] = {
            "order_id": order,
            "customer_id": self._customers.alive.pick(self._dice),
            "total": total,
            "currency": self._dice.choice(_CURRENCIES),
            "placed_at": self._dice.moment(0).replace(tzinfo=None),
            "note": self._dice.maybe('leave at the door\n"ring" twice, s\'il vous plaît', 0.2),
        }
        if self.has_channel and self._dice.chance(0.7):
            row[CHANNEL.name] = self._dice.choice(_CHANNELS)
        writer.insert(SCHEMA, "orders", row | self._fault(total))
        self.alive.add(order)

    def pay(self, writer: Transacting) -> None:
        """Insert a payment and mark its order as paid: two tables in one transaction."""
        order = self._any()
        if order is None or order in self._payments:
            return
        dice, payment = self._dice, self._dice.uuid()
        row: dict[str, Value] = {
            "payment_id": payment,
            "order_id": order,
            "method": dice.choice(_METHODS),
            "amount": dice.money(10**5, 4),
            "paid_at": dice.moment(3),
            "flags": dice.below(256),
            "raw": dice.maybe(dice.bytes(dice.below(0, 12)), 0.7),
        }
        writer.insert(SCHEMA, "payments", row)
        writer.update(SCHEMA, "orders", (order,), {"status": "paid"})
        self._payments[order] = payment

    def advance(self, writer: Transacting) -> None:
        """Update an order's status."""
        if (order := self._any()) is not None:
            writer.update(SCHEMA, "orders", (order,), {"status": self._dice.choice(_STATUSES)})

    def renumber(self, writer: Transacting) -> None:
        """Change a clustered primary key: TiKV itself sees a delete and a put."""
        order = self._any()
        if order is not None and self._lines[order]:
            old = self._dice.choice(self._lines[order])
            new = max(self._lines[order]) + 100
            self._lines[order].remove(old)
            self._lines[order].append(new)
            writer.update(SCHEMA, "order_items", (order, old), {"line_no": new})

    def reissue_payment(self, writer: Transacting) -> None:
        """Change a non-clustered primary key: TiCDC splits the update."""
        order = self._any()
        if order in self._payments:
            old, new = self._payments[order], self._dice.uuid()
            writer.update(SCHEMA, "payments", (old,), {"payment_id": new})
            self._payments[order] = new

    def drop_line(self, writer: Transacting) -> None:
        """Delete an item."""
        order = self._any()
        if order is not None and self._lines[order]:
            writer.delete(SCHEMA, "order_items", (order, self._lines[order].pop()))

    def cancel(self, writer: Transacting) -> None:
        """Delete an order, its items and its payment."""
        if (order := self._any()) is None:
            return
        for line in self._lines.pop(order):
            writer.delete(SCHEMA, "order_items", (order, line))
        if order in self._payments:
            writer.delete(SCHEMA, "payments", (self._payments.pop(order),))
        writer.delete(SCHEMA, "orders", (order,))
        self.alive.remove(order)

    def _any(self) -> int | None:
        return self.alive.pick(self._dice) if len(self.alive) else None

    def _insert_item(self, writer: Transacting, order: int, line: int, quantity: int, price: Decimal) -> None:
        row: dict[str, Value] = {
            "order_id": order,
            "line_no": line,
            "sku": self._products.alive.pick(self._dice),
            "qty": quantity,
            "price": price,
            "discount": self._dice.maybe(self._dice.below(1, 50) / 100, 0.4),
        }
        writer.insert(SCHEMA, "order_items", row)

    def _fault(self, total: Decimal) -> dict[str, Value]:
        """One fault in the share `dirty` of the orders; without it the dice are not even thrown."""
        if not self._dirty or not self._dice.chance(self._dirty):
            return {}
        late = self._dice.moment(0).replace(tzinfo=None) + timedelta(days=36_500)
        faults: tuple[dict[str, Value], ...] = ({"total": -total}, {"currency": "???"}, {"placed_at": late})
        return self._dice.choice(faults)
