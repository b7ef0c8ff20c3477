"""The shop as a whole: which change comes next, and the transactions it commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipeline.simulate.database import Database, Transacting, Transaction
from pipeline.simulate.shop.customers import Customers
from pipeline.simulate.shop.orders import Orders
from pipeline.simulate.shop.products import Products
from pipeline.simulate.shop.tables import CHANNEL, SCHEMA, TABLES
from pipeline.simulate.shop.values import Dice

Action = Callable[[Transacting], None]
_STOCK = 5  # products and customers before the first order


class Shop:
    """A seeded workload over five tables; `database` is the source, its rows are the truth so far.

    Every kind of change that a changefeed can show comes up: inserts, updates, deletes, a row deleted and
    inserted again, changes of a unique key (e-mail), of a clustered primary key (line number) and of a
    non-clustered one (payment id), a swap of two keys, unsigned keys above 2^63, and a column that appears
    half way. The same seed gives the same rows, keys and commit timestamps on any machine as long as the
    clock is the simulated one.

    `clock` gives the physical time in ms of commit timestamps (default: simulated, 100 ms a transaction, from
    the base of the golden data). `dirty` is the share of orders with a fault that a quality rule should
    catch: a negative total, an unknown currency, or a time of order a century ahead.

    `most` bounds the orders, the customers and the products that there are at once, and with them the memory.
    """

    def __init__(
        self,
        seed: int = 7,
        clock: Callable[[], int] | None = None,
        dirty: float = 0.0,
        most: int | None = None,
    ) -> None:
        self.database = Database(clock)
        self._dice = Dice(seed, lambda: self.database.now)
        self._customers, self._products = Customers(self._dice), Products(self._dice)
        self._orders = Orders(self._dice, self._customers, self._products, dirty)
        self._most = most
        weights = _weights(self._customers, self._products, self._orders)
        self._actions, self._weights = list(weights), list(weights.values())

    def transactions(self, count: int, *, add_column: bool = True) -> Iterator[Transaction]:
        """Yield the DDL of a new shop, then `count` transactions; half way `orders.channel` appears.

        Call it again to go on: tables and the column are made once.
        """
        yield from self._open()
        for number in range(count):
            if add_column and number == count // 2 and not self._orders.has_channel:
                yield self.add_channel()
            yield self._next()

    def add_channel(self) -> Transaction:
        """ALTER TABLE shop.orders ADD COLUMN channel: older rows show its default from now on."""
        self._orders.has_channel = True
        return self.database.add_column(SCHEMA, "orders", CHANNEL)

    def _open(self) -> Iterator[Transaction]:
        if self.database.tables():
            return
        yield self.database.create_schema(SCHEMA)
        for table in TABLES:
            yield self.database.create_table(table)

    def _next(self) -> Transaction:
        """Commit the next action that finds something to do."""
        while True:
            writer = self.database.begin()
            self._choose()(writer)
            if writer.events():
                return self.database.commit(writer)

    def _choose(self) -> Action:
        if len(self._products.alive) < _STOCK:
            return self._products.add
        if len(self._customers.alive) < _STOCK:
            return self._customers.sign_up
        return self._drawn() if self._most is None else self._instead(self._drawn(), self._most)

    def _instead(self, action: Action, most: int) -> Action:
        """Where there are enough, an old one goes for one that would come."""
        for kind, more, less in (
            (self._orders, (self._orders.place,), self._orders.cancel),
            (self._customers, (self._customers.sign_up, self._customers.come_back), self._customers.close_account),
            (self._products, (self._products.add,), self._products.reprice),
        ):
            if action in more and len(kind.alive) >= most:
                return less
        return action

    def _drawn(self) -> Action:
        return self._dice.choices(self._actions, self._weights)[0]


def _weights(customers: Customers, products: Products, orders: Orders) -> dict[Action, int]:
    """How often each change comes, of a hundred or so."""
    return {
        customers.sign_up: 12,
        customers.edit: 8,
        customers.change_email: 3,
        customers.swap_emails: 1,
        customers.close_account: 2,
        customers.come_back: 2,
        customers.re_register: 1,
        products.add: 4,
        products.reprice: 6,
        orders.place: 30,
        orders.pay: 12,
        orders.advance: 12,
        orders.renumber: 2,
        orders.reissue_payment: 2,
        orders.drop_line: 3,
        orders.cancel: 3,
    }
