"""Java's regular expressions as a tree, as far as matching time asks for it.

Source: the page of `java.util.regex.Pattern`. What a set of characters holds is a test on one character; where that
is not known exactly (properties, grapheme clusters), it holds too many, so that sets overlap rather than not.
Whatever else Java knows is `Unread`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

Holds: TypeAlias = Callable[[str], bool]


class Unread(Exception):
    """Syntax that is not known here, or is wrong; `args` say what."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    holds: Holds


@dataclass(frozen=True, slots=True)
class Chain:
    """One after the other; none of them is the empty text."""

    items: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """So many times; `most` is None without a bound."""

    item: Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Atomic:
    """What gives nothing back once it has matched."""

    item: Node


@dataclass(frozen=True, slots=True)
class Look:
    """A lookahead or lookbehind: it takes no text."""

    item: Node


@dataclass(frozen=True, slots=True)
class Back:
    """A reference to what a group has matched."""

    name: str


Node: TypeAlias = Chars | Chain | Choice | Repeat | Atomic | Look | Back

_QUANTIFIER = re.compile(r"(?:([*+?])|\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\})([?+]?)")
_OPENING = re.compile(r"\?(?:(:|>|=|!|<=|<!)|<([A-Za-z][A-Za-z0-9]*)>|([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)]))")
_CODED = re.compile(
    r"x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|0([0-3]?[0-7]{1,2})|c([@-_])", re.DOTALL
)
_NAMED = re.compile(r"([pP])(?:\{([^{}]+)\}|(.))", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_LINE_ENDS = "\n\r\x85\u2028\u2029"
_ANCHORS = frozenset("bBAGZz")
_CLASSES: dict[str, Holds] = {
    "d": str.isdigit,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
    "h": lambda char: char.isspace() and char not in _LINE_ENDS,
    "v": lambda char: char in f"{_LINE_ENDS}\x0b\x0c",
}
_PROPERTIES: dict[str, Holds] = {
    "L": str.isalpha, "Lu": str.isupper, "Ll": str.islower, "Alpha": str.isalpha, "Upper": str.isupper,
    "Lower": str.islower, "Digit": str.isdigit, "Nd": str.isdigit, "Alnum": str.isalnum, "Space": str.isspace,
    "IsAlphabetic": str.isalpha, "IsDigit": str.isdigit, "IsWhite_Space": str.isspace,
    "Punct": lambda char: char.isprintable() and not char.isalnum() and not char.isspace(),
}  # fmt: skip


def everything(_: str) -> bool:
    """Any character."""
    return True


@dataclass(slots=True)
class Pattern:
    """A pattern read from the left; `alphabet` is every character by which two of its sets can differ."""

    text: str
    position: int = 0
    flags: frozenset[str] = frozenset()
    alphabet: set[str] = field(default_factory=lambda: {*map(chr, range(256)), "Ж", "ж", "中", "٣", "\u2028", "😀"})
    seen: set[str] = field(default_factory=set)

    def tree(self) -> Node:
        """The whole pattern. Raises `Unread`."""
        try:
            node = self._choice()
        except RecursionError:
            raise Unread("it is nested too deeply") from None
        if self.position < len(self.text):
            raise Unread(f"`{self.text[self.position]}` at {self.position + 1}")
        return node

    def _next(self) -> str:
        if self.position >= len(self.text):
            raise Unread("it ends too early")
        self.position += 1
        return self.text[self.position - 1]

    def _takes(self, text: str) -> bool:
        if not self.text.startswith(text, self.position):
            return False
        self.position += len(text)
        return True

    def _skip(self) -> None:
        while "x" in self.flags and self.position < len(self.text):
            if self._takes("#"):
                end = self.text.find("\n", self.position)
                self.position = len(self.text) if end < 0 else end
            elif self.text[self.position] in " \t\n\x0b\f\r":
                self.position += 1
            else:
                return

    def _choice(self) -> Node:
        flags, items = self.flags, [self._chain()]
        while self._takes("|"):
            items.append(self._chain())
        self.flags = flags
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def _chain(self) -> Node:
        items: list[Node] = []
        while True:
            self._skip()
            if self.position >= len(self.text) or self.text[self.position] in "|)":
                return items[0] if len(items) == 1 else Chain(tuple(items))
            node = self._atom()
            self._skip()
            while (quantifier := _QUANTIFIER.match(self.text, self.position)) is not None:
                self.position = quantifier.end()
                node = _repeated(node, quantifier)
                self._skip()
            items.append(node)

    def _atom(self) -> Node:
        char = self._next()
        match char:
            case "(":
                return self._group()
            case "[":
                return Chars(self._set())
            case "\\":
                return self._escape()
            case ".":
                return Chars(self._dot())
            case "^" | "$":
                return Chain()
            case "*" | "+" | "?" | "{":
                raise Unread(f"`{char}` at {self.position} repeats nothing")
        return Chars(self._only(char))

    def _dot(self) -> Holds:
        if {"s", "d"} & self.seen:
            return everything
        return lambda char: char not in _LINE_ENDS

    def _only(self, wanted: str) -> Holds:
        either = {wanted, wanted.lower(), wanted.upper()} if "i" in self.seen else {wanted}
        self.alphabet |= {one for one in either if len(one) == 1}
        return lambda char: char in either

    def _group(self) -> Node:
        flags, kind = self.flags, ""
        if self.text.startswith("?", self.position):
            prefix = _OPENING.match(self.text, self.position)
            if prefix is None:
                raise Unread(f"a group at {self.position} that begins in an unknown way")
            self.position = prefix.end()
            kind = prefix[1] or ""
            if prefix[5]:
                self._set_flags(prefix[3], prefix[4] or "")
                if prefix[5] == ")":
                    return Chain()  # for the rest of the group around it
        inner = self._choice()
        if not self._takes(")"):
            raise Unread("a group does not end")
        self.flags = flags
        if kind == ">":
            return Atomic(inner)
        return Look(inner) if kind in {"=", "!", "<=", "<!"} else inner

    def _set_flags(self, on: str, off: str) -> None:
        if unknown := set(on + off) - set("idmsuxU"):
            raise Unread(f"the flag `{min(unknown)}`")
        self.flags = (self.flags | set(on)) - set(off)

    def _escape(self) -> Node:
        if reference := re.compile(r"k<(\w+)>|([1-9])").match(self.text, self.position):
            self.position = reference.end()
            return Back(reference[1] or reference[2])
        if self._takes("Q"):
            quoted, _, _ = self.text[self.position :].partition("\\E")
            self.position = min(self.position + len(quoted) + 2, len(self.text))
            return _quoted([Chars(self._only(char)) for char in quoted], self)
        if self._takes("b{g}") or (self.position < len(self.text) and self.text[self.position] in _ANCHORS):
            self.position += (
                self.text[self.position - 1] != "}" or self.text[self.position - 4 : self.position] != "b{g}"
            )
            return Chain()
        if self._takes("R"):
            return Chars(_CLASSES["v"])
        if self._takes("X"):
            return Chars(everything)
        holds, _ = self._one()
        return Chars(holds)

    def _one(self) -> tuple[Holds, str]:
        """The set of characters that an escape means, and the character if it is a single one."""
        if coded := _CODED.match(self.text, self.position):
            self.position = coded.end()
            code = (
                int(coded[4], 8)
                if coded[4]
                else ord(coded[5]) ^ 64
                if coded[5]
                else int(coded[1] or coded[2] or coded[3], 16)
            )
            if code > sys.maxunicode:
                raise Unread("a character that is none")
            return self._only(chr(code)), chr(code)
        if named := _NAMED.match(self.text, self.position):
            self.position = named.end()
            holds_property = _PROPERTIES.get(named[2] or named[3])
            if holds_property is None or (named[2] in {"Upper", "Lower", "Lu", "Ll"} and "i" in self.seen):
                return everything, ""
            return (holds_property if named[1] == "p" else _not(holds_property)), ""
        char = self._next()
        if char.lower() in _CLASSES:
            holds = _CLASSES[char.lower()] if "U" in self.seen or char in "hvHV" else _ascii(_CLASSES[char.lower()])
            return (holds if char.islower() else _not(holds)), ""
        if char in _CONTROL or not (char.isascii() and char.isalnum()):
            char = _CONTROL.get(char, char)
            return self._only(char), char
        raise Unread(f"`\\{char}` at {self.position - 1}")

    def _set(self) -> Holds:
        """A class after its bracket."""
        negated = self._takes("^")
        if self.text.startswith("]", self.position):
            raise Unread(f"`]` as the first of a class at {self.position + 1}")
        parts: list[Holds] = []
        both: list[Holds] = []
        while not self._takes("]"):
            if self._takes("&&"):
                both.append(_any(parts))
                parts = []
            elif self._takes("["):
                parts.append(self._set())
            else:
                self._member(parts)
        both.append(_any(parts))
        holds = _all(both)
        return _not(holds) if negated else holds

    def _member(self, parts: list[Holds]) -> None:
        char = self._next()
        if "x" in self.flags and char in " \t\n\x0b\f\r#":
            raise Unread("a blank or `#` in a class, with the flag `x`")
        if char == "\\" and self._takes("Q"):
            raise Unread("`\\Q` in a class")
        holds, first = self._one() if char == "\\" else (self._only(char), char)
        ends = self.text[self.position + 1 : self.position + 2]
        if not first or not self.text.startswith("-", self.position) or ends in {"]", "[", ""}:
            parts.append(holds)
            return
        self.position += 1
        last = self._next()
        last = self._one()[1] if last == "\\" else last
        if not last or last < first:
            raise Unread(f"a range in a class that ends at {self.position}")
        parts.append(self._range(first, last))

    def _range(self, first: str, last: str) -> Holds:
        self.alphabet |= {first, last}
        if "i" in self.seen:
            return lambda char: any(first <= one <= last for one in (char, char.lower(), char.upper()))
        return lambda char: first <= char <= last


def _quoted(items: list[Node], pattern: Pattern) -> Node:
    """Quoted text: a quantifier after it repeats its last character."""
    if items and _QUANTIFIER.match(pattern.text, pattern.position):
        raise Unread("a quantifier after `\\E`")
    return Chain(tuple(items))


def _repeated(item: Node, quantifier: re.Match[str]) -> Node:
    sign, least, comma, most, manner = quantifier.groups()
    bounds: tuple[int, int | None]
    if sign:
        bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
    else:
        bounds = int(least), (int(most) if most else None if comma else int(least))
    if bounds[1] is not None and bounds[1] < bounds[0]:
        raise Unread("a quantifier whose bounds are the wrong way round")
    made = Repeat(item, *bounds)
    return Atomic(made) if manner == "+" else made


def _ascii(holds: Holds) -> Holds:
    return lambda char: char.isascii() and holds(char)


def _not(holds: Holds) -> Holds:
    return lambda char: not holds(char)


def _any(parts: list[Holds]) -> Holds:
    return lambda char: any(holds(char) for holds in parts)


def _all(parts: list[Holds]) -> Holds:
    return lambda char: all(holds(char) for holds in parts)


def read(text: str) -> tuple[Node, frozenset[str]]:
    """The tree of a pattern, and every character by which two of its sets can differ. Raises `Unread`."""
    seen = {flag for found in re.finditer(r"\(\?([a-zA-Z]+)", text) for flag in found[1]}
    pattern = Pattern(text, seen=seen)
    return pattern.tree(), frozenset(pattern.alphabet)
