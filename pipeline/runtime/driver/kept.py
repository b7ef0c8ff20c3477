"""Values that are made once and kept, as long as they weigh no more than so much together."""

from __future__ import annotations

import random
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by what they depend on. Where they weigh too much together, some go, whichever.

    Tables are asked for in rounds. If the one that was asked for longest ago went, one table too many would have all
    of them made anew in each round.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[K, V] = {}
        self._weights: dict[K, int] = {}
        self._changing = Lock()
        self._dice = random.Random(0)  # noqa: S311 - no secret

    def get(self, key: K, make: Callable[[K], V], weight: int = 1) -> V:
        """The value of a key, made where there is none. Two threads may make it at once."""
        try:
            return self._values[key]
        except KeyError:
            value = make(key)
        with self._changing:
            while self._values and sum(self._weights.values()) + weight > self._most:
                self._remove(self._dice.choice(list(self._values)))
            self._values[key], self._weights[key] = value, weight
        return value

    def drop(self, key: K) -> None:
        """Keep a value no longer."""
        with self._changing:
            self._remove(key)

    def _remove(self, key: K) -> None:
        self._values.pop(key, None)
        self._weights.pop(key, None)
