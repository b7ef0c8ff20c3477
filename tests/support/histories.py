"""Histories that are drawn from a seed, played, and cut down where they fail: what both batch models are played with.

A history is a list of steps, and a step is a rule's name with plain arguments: it can be pasted into a test. A step
that makes no sense where it stands does nothing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of step: how often it is drawn in which modes (none: in all), and from what its arguments are."""

    name: str
    weight: int
    modes: tuple[str, ...]
    arguments: dict[str, Sequence[Any]]


class Rules(dict[str, Rule]):
    """The rules of one model by name. Called, it registers a method of the model's history."""

    def __call__(self, weight: int, modes: tuple[str, ...] = (), /, **arguments: Sequence[Any]) -> Callable[..., Any]:
        """Register a method as a rule."""

        def register(method: Callable[..., None]) -> Callable[..., None]:
            self[method.__name__] = Rule(method.__name__, weight, modes, arguments)
            return method

        return register

    def drawn(self, seed: int, mode: str, first: Sequence[Step] = (), wanted: Collection[str] = ()) -> list[Step]:
        """The history of a seed after its `first` steps; `wanted`: of these rules alone."""
        chance = random.Random(f"{mode} {seed}")  # noqa: S311 - a reproducible history
        rules = [r for r in self.values() if mode in (r.modes or (mode,)) and (not wanted or r.name in wanted)]
        count = chance.randint(3, 24)
        kinds = chance.choices(rules, [rule.weight for rule in rules], k=count)
        return [*first, *((r.name, {name: chance.choice(v) for name, v in r.arguments.items()}) for r in kinds)]

    def shrunk(self, steps: Sequence[Step], fails: Callable[[Sequence[Step]], object]) -> list[Step]:
        """A history that still fails and from which no step can be left out, with the simplest arguments that do."""
        shortest = list(steps)
        while True:
            for candidate in self._simpler(shortest):
                if fails(candidate):
                    shortest = candidate
                    break
            else:
                return shortest

    def _simpler(self, steps: list[Step]) -> Iterator[list[Step]]:
        for size in (8, 4, 2, 1):
            for start in range(0, len(steps), size):
                yield [*steps[:start], *steps[start + size :]]
        for number, (name, arguments) in enumerate(steps):
            for argument, value in arguments.items():
                values = self[name].arguments.get(argument, ()) if name in self else ()
                for other in dict.fromkeys(values[: values.index(value)] if value in values else ()):
                    yield [*steps[:number], (name, {**arguments, argument: other}), *steps[number + 1 :]]


def play(history: Any, steps: Sequence[Step]) -> None:
    """Run a history to its end. Raises `AssertionError` where something does not hold."""
    for name, arguments in steps:
        getattr(history, name)(**arguments)
        history.everything_holds()
    history.end()
