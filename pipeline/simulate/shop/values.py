"""Random values of the shop's columns, and random choice among living keys."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

T = TypeVar("T")
K = TypeVar("K", int, str)

_LANGUAGES = ("en", "de", "pt-BR")


class Pool(Generic[K]):
    """Keys that are alive: add, remove and pick one at random, each in constant time."""

    def __init__(self) -> None:
        self._keys: list[K] = []
        self._places: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: K) -> None:
        """Add a key."""
        self._places[key] = len(self._keys)
        self._keys.append(key)

    def remove(self, key: K) -> None:
        """Remove a key; the last one takes its place."""
        place, last = self._places.pop(key), self._keys.pop()
        if last != key:
            self._keys[place] = last
            self._places[last] = place

    def pick(self, dice: Dice) -> K:
        """Return a living key."""
        return dice.choice(self._keys)


class Dice:
    """A seeded source of values; times are near `now`, which the database tells."""

    def __init__(self, seed: int, now: Callable[[], datetime]) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a workload, not a secret
        self._now = now
        self.choice = self._random.choice
        self.choices = self._random.choices
        self.below = self._random.randrange
        self.bytes = self._random.randbytes

    def chance(self, share: float) -> bool:
        """Return true in that share of the calls."""
        return self._random.random() < share

    def maybe(self, value: T, share: float = 0.5) -> T | None:
        """Return the value, or else NULL."""
        return value if self.chance(share) else None

    def moment(self, digits: int) -> datetime:
        """Return the present UTC second with a random fraction of that many digits."""
        return self._now().replace(microsecond=self.below(10**digits) * 10 ** (6 - digits))

    def money(self, limit: int, places: int = 2) -> Decimal:
        """Return an amount below the limit."""
        return Decimal(self.below(100, limit * 10**places)).scaleb(-places)

    def uuid(self) -> str:
        """Return a random UUID's text."""
        return str(UUID(int=self._random.getrandbits(128)))

    def json(self) -> str:
        """Return JSON text as TiDB prints it: sorted keys, a space after each colon and comma."""
        value = {
            "lang": self.choice(_LANGUAGES),
            "nick": None,
            "prefs": {"news": self.chance(0.5), "tags": ["a", "b", self.below(9)]},
            "score": self.below(10_000) / 100,
        }
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
