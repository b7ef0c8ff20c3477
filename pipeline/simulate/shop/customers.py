"""What happens to customers: keys above 2^63, a unique e-mail that changes, rows that come back."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pipeline.simulate.shop.tables import SCHEMA
from pipeline.simulate.shop.values import Dice, Pool

if TYPE_CHECKING:
    from pipeline.simulate.database import Transacting
    from pipeline.simulate.tables import Value

NAMES = ("Chloé", "Nguyễn", "O'Neil", "Иван", "Fátima", "José", "Elif", "Åsa", "李娜", "Ada")
_TAGS = ("", "vip", "newsletter", "b2b", "vip,newsletter", "vip,newsletter,b2b")
_TIERS = ("bronze", "silver", "gold")
_BIG_KEYS_FROM = 1 << 63
_BIG_KEY_EVERY = 40
_TABLE = (SCHEMA, "customers")
_REMEMBERED = 10_000
"""So many of those that went may come back."""


class Customers:
    """The customers that exist, and the changes they undergo."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._count = 0
        self._gone: deque[int] = deque(maxlen=_REMEMBERED)
        self.alive: Pool[int] = Pool()

    def sign_up(self, writer: Transacting) -> None:
        """Insert a customer; every 40th key is above 2^63, where Avro's long wraps."""
        self._count += 1
        self._insert(writer, self._count + (0 if self._count % _BIG_KEY_EVERY else _BIG_KEYS_FROM))

    def edit(self, writer: Transacting) -> None:
        """Update columns that are in no key."""
        changes: dict[str, Value] = {
            "tier": self._dice.choice(_TIERS),
            "balance": self._dice.money(10**6) - 5_000,
            "profile": self._dice.maybe(self._dice.json(), 0.8),
            "updated_at": self._dice.moment(6),
        }
        writer.update(*_TABLE, (self.alive.pick(self._dice),), changes)

    def change_email(self, writer: Transacting) -> None:
        """Update a unique key: TiCDC sends DELETE + INSERT."""
        key = self.alive.pick(self._dice)
        writer.update(*_TABLE, (key,), {"email": self._email(key)})

    def swap_emails(self, writer: Transacting) -> None:
        """Two customers swap a unique key within one transaction."""
        first, second = self.alive.pick(self._dice), self.alive.pick(self._dice)
        if first == second:
            return
        mail_of_first = writer.read(*_TABLE, (first,))["email"]
        mail_of_second = writer.read(*_TABLE, (second,))["email"]
        writer.update(*_TABLE, (first,), {"email": f"swap{first}@example.com"})
        writer.update(*_TABLE, (second,), {"email": mail_of_first})
        writer.update(*_TABLE, (first,), {"email": mail_of_second})

    def close_account(self, writer: Transacting) -> None:
        """Delete a customer."""
        key = self.alive.pick(self._dice)
        writer.delete(*_TABLE, (key,))
        self.alive.remove(key)
        self._gone.append(key)

    def come_back(self, writer: Transacting) -> None:
        """Insert a deleted key again."""
        if self._gone:
            self._insert(writer, self._gone.pop())

    def re_register(self, writer: Transacting) -> None:
        """Delete and insert one key in one transaction: TiKV sees an update."""
        key = self.alive.pick(self._dice)
        row = dict(writer.read(*_TABLE, (key,)))
        writer.delete(*_TABLE, (key,))
        writer.insert(*_TABLE, row | {"name": self._name(), "updated_at": self._dice.moment(6)})

    def _insert(self, writer: Transacting, key: int) -> None:
        dice = self._dice
        row: dict[str, Value] = {
            "id": key,
            "email": self._email(key),
            "name": self._name(),
            "phone": dice.maybe(f"+{dice.below(10**11, 10**12)}"),
            "tags": dice.choice(_TAGS),
            "profile": dice.maybe(dice.json(), 0.8),
            "loyalty": dice.choice((0, dice.below(10**6), (1 << 64) - 1)),
            "created_at": dice.moment(3).replace(tzinfo=None),
            "updated_at": dice.moment(6),
        }
        writer.insert(*_TABLE, row)
        self.alive.add(key)

    def _email(self, key: int) -> str:
        return f"user{key}.{self._dice.below(10**6)}@example.com"

    def _name(self) -> str:
        return f"{self._dice.choice(NAMES)} {self._dice.choice(NAMES)}"
