"""Why a pattern is unbounded: it asks for what was matched before, or a loop of it can match one text in many ways.

A loop is judged by the pattern's automaton (Glushkov's: a state for each character that the pattern names). Where two
walks over one text lead from a state back to it, the number of walks doubles with each round, and a text that does not
match in the end makes Java try them all (`(a+)+`, `(a|a)*`, `(.*)*`). So `(-[a-z]+)*`, whose rounds begin with a
mark of their own, is bounded. What gives nothing back (`++`, `(?>…)`) is one step from outside and judged by itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, TypeVar

from pipeline.quality.regexes.syntax import Atomic, Back, Chain, Chars, Choice, Look, Node, Repeat, Unread, read

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

MOST_STATES = 200
_UNROLLED = 40
"""States up to which a counted repetition is written out; a larger one is taken for a loop."""

State = TypeVar("State", bound="Hashable")


def unbounded(pattern: str) -> str:
    """Why a pattern may take for ever on some text; empty if it does not."""
    try:
        tree, alphabet = read(pattern)
        letters = {char: 1 << bit for bit, char in enumerate(sorted(alphabet))}
        return next(_reasons(tree, letters), "")
    except Unread as error:
        return f"a running time that cannot be predicted: {error}"


def _reasons(tree: Node, letters: dict[str, int]) -> Iterator[str]:
    nodes = list(_all(tree))
    if any(isinstance(node, Back) for node in nodes):
        yield "a back-reference"
    looks = [node.item for node in nodes if isinstance(node, Look)]
    if any(_is_loop(inner) for look in looks for inner in _all(look)):
        yield "a lookaround with a quantified group"
    for part in (tree, *looks, *(node.item for node in nodes if isinstance(node, Atomic))):
        automaton = _Automaton(letters)
        automaton.add(part)
        if automaton.is_ambiguous():
            yield "nested quantifiers that can match one text in many ways"


def _all(node: Node) -> Iterator[Node]:
    yield node
    items = (
        node.items
        if isinstance(node, Chain | Choice)
        else (node.item,)
        if isinstance(node, Repeat | Atomic | Look)
        else ()
    )
    for item in items:
        yield from _all(item)


def _is_loop(node: Node) -> bool:
    return isinstance(node, Repeat) and node.most not in {0, 1} and not isinstance(node.item, Chars)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the automaton: can it be empty, with which states does it begin and end, and in how many ways."""

    empty: bool
    first: Counter[int]
    last: Counter[int]


_NOTHING = _Piece(True, Counter(), Counter())


@dataclass(slots=True)
class _Automaton:
    letters: dict[str, int]
    sets: list[int] = field(default_factory=list)
    follow: list[Counter[int]] = field(default_factory=list)

    def add(self, node: Node) -> _Piece:
        match node:
            case Chars():
                return self._state(self._letters(node))
            case Atomic():
                inner = _Automaton(self.letters).add_all(node.item)
                piece = self._state(reduce(or_, inner[1], 0))
                return _Piece(inner[0].empty, piece.first, piece.last)
            case Choice():
                pieces = [self.add(item) for item in node.items]
                return _Piece(
                    any(piece.empty for piece in pieces), _sum(p.first for p in pieces), _sum(p.last for p in pieces)
                )
            case Chain():
                return reduce(self._joined, (self.add(item) for item in node.items), _NOTHING)
            case Repeat():
                return self._repeated(node)
        return _NOTHING

    def add_all(self, node: Node) -> tuple[_Piece, list[int]]:
        """The piece of a node, and the sets of its states."""
        return self.add(node), self.sets

    def _letters(self, node: Chars) -> int:
        return sum(bit for char, bit in self.letters.items() if node.holds(char))

    def _state(self, letters: int) -> _Piece:
        if len(self.sets) >= MOST_STATES:
            raise Unread("it is too large")
        self.sets.append(letters)
        self.follow.append(Counter())
        mine = Counter({len(self.sets) - 1: 1})
        return _Piece(False, mine, mine)

    def _linked(self, last: Counter[int], first: Counter[int]) -> None:
        for state, ways in last.items():
            for following, more in first.items():
                self.follow[state][following] += ways * more

    def _joined(self, left: _Piece, right: _Piece) -> _Piece:
        self._linked(left.last, right.first)
        first = left.first + right.first if left.empty else left.first
        last = right.last + left.last if right.empty else right.last
        return _Piece(left.empty and right.empty, first, last)

    def _repeated(self, node: Repeat) -> _Piece:
        if node.most == 0:
            return _NOTHING
        begun = len(self.sets)
        piece = self.add(node.item)
        size = len(self.sets) - begun
        if node.most is not None and size * node.most <= _UNROLLED:
            return self._counted(piece, node)
        self._linked(piece.last, piece.first)
        return _Piece(piece.empty or node.least == 0, piece.first, piece.last)

    def _counted(self, piece: _Piece, node: Repeat) -> _Piece:
        """The item written out: first as often as it must be there, then as often as it may, each within the last."""
        most = node.most or 0
        pieces = [piece, *(self.add(node.item) for _ in range(most - 1))]
        made = _NOTHING
        for number in reversed(range(most)):
            made = self._joined(pieces[number], made)
            if number >= node.least:
                made = _Piece(True, made.first, made.last)
        return made

    def is_ambiguous(self) -> bool:
        """Whether two walks over one text lead from a state back to it."""
        rounds = _components(range(len(self.sets)), lambda state: self.follow[state])
        ways = ((state, following, number) for state in rounds for following, number in self.follow[state].items())
        if any(number > 1 and rounds[state] == rounds[following] for state, following, number in ways):
            return True
        inner = {state: [f for f in self.follow[state] if rounds[f] == rounds[state]] for state in rounds}

        def both(pair: tuple[int, int]) -> Iterator[tuple[int, int]]:
            for left in inner[pair[0]]:
                yield from ((left, right) for right in inner[pair[1]] if self.sets[left] & self.sets[right])

        pairs = _components([(state, state) for state in rounds], both)
        same = {number for pair, number in pairs.items() if pair[0] == pair[1]}
        return any(pair[0] != pair[1] and number in same for pair, number in pairs.items())


def _sum(counters: Iterable[Counter[int]]) -> Counter[int]:
    return sum(counters, Counter())


def _components(starts: Iterable[State], follow: Callable[[State], Iterable[State]]) -> dict[State, int]:
    """Each state that can be reached → its component. Two states share one if each leads to the other (Kosaraju)."""
    ahead: dict[State, list[State]] = {}
    back: dict[State, list[State]] = {}

    def explored(state: State) -> list[State]:
        ahead[state] = list(follow(state))
        for following in ahead[state]:
            back.setdefault(following, []).append(state)
        return ahead[state]

    left = _left_in_order(starts, explored)
    component_of: dict[State, int] = {}
    for number, state in enumerate(reversed(left)):
        for member in _left_in_order(
            [state] if state not in component_of else [], lambda one: back.get(one, ()), set(component_of)
        ):
            component_of[member] = number
    return component_of


def _left_in_order(
    starts: Iterable[State], follow: Callable[[State], Iterable[State]], seen: set[State] | None = None
) -> list[State]:
    """The states in the order in which a depth-first walk leaves them."""
    seen, left = seen or set(), list[State]()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        walk = [(start, iter(follow(start)))]
        while walk:
            state, rest = walk[-1]
            following = next((one for one in rest if one not in seen), None)
            if following is None:
                left.append(state)
                walk.pop()
            else:
                seen.add(following)
                walk.append((following, iter(follow(following))))
    return left
