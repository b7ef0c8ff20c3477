"""Values that are made once and kept, up to a number of them."""

from __future__ import annotations

import random
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by what they depend on. Where there are too many, any one goes.

    Tables are asked for in rounds. If the one that was asked for longest ago went, one table too many would have all
    of them made anew in each round.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[K, V] = {}
        self._changing = Lock()
        self._dice = random.Random(0)  # noqa: S311 - no secret

    def get(self, key: K, make: Callable[[K], V]) -> V:
        """The value of a key, made where there is none. Two threads may make it at once."""
        if key not in self._values:
            value = make(key)
            with self._changing:
                if len(self._values) >= self._most:
                    del self._values[self._dice.choice(list(self._values))]
                self._values[key] = value
            return value
        try:
            return self._values[key]
        except KeyError:  # it has just gone
            return make(key)

    def drop(self, key: K) -> None:
        """Keep a value no longer."""
        with self._changing:
            self._values.pop(key, None)
