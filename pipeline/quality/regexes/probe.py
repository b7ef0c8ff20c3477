"""Patterns tried in the JVM, where they will run: on texts that are made against them."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pipeline.quality.regexes.syntax import Atomic, Chain, Chars, Choice, Look, Node, Repeat, Unread, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUDGET = 1.0
"""Seconds that a pattern may take for all of its samples together."""
LONG = 8000
"""Characters of the longest sample."""
MANY = 400
"""Characters of the others, the shortest of which have 30."""
_MOST = 8
_PAUSE = 0.02
_READABLE = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ -_.,:;/@"


def refused(jvm: Any, pattern: str) -> str:
    """Why Java does not take it; empty if it does."""
    try:
        jvm.java.util.regex.Pattern.compile(pattern)
    except (Py4JError, PySparkException) as error:  # PySpark changes some of Java's
        return str(error).strip().splitlines()[0]
    return ""


def samples(pattern: str) -> tuple[str, ...]:
    """Texts that are hard for a pattern: much that it could match, with an end that it could not."""
    try:
        tree, alphabet = read(pattern)
    except Unread:
        tree, alphabet = Chain(), frozenset()
    letters = list(dict.fromkeys(_letters(tree, alphabet)))
    parts = ["a", "0", " ", *letters[:_MOST], "".join(letters)]
    parts += [one + other for one, other in pairwise(letters)][:_MOST]
    counts = (30, MANY)
    return tuple(part * (count // len(part) + 1) + "!\n" for count in counts for part in dict.fromkeys(parts) if part)


def _letters(node: Node, alphabet: frozenset[str]) -> Iterator[str]:
    """A character of each set, readable ones first, in the order of the pattern."""
    match node:
        case Chars():
            candidates = (char for char in (*_READABLE, *sorted(alphabet)) if node.holds(char))
            yield from next(candidates, "")
        case Chain() | Choice():
            for item in node.items:
                yield from _letters(item, alphabet)
        case Repeat() | Atomic() | Look():
            yield from _letters(node.item, alphabet)


def seconds(jvm: Any, pattern: str, budget: float = BUDGET) -> float | None:
    """Seconds of computing that Java searches in all samples.

    None beyond the budget: it is left alone then, in a thread of its own, and searches no further sample.
    """
    probe = RegexProbe(jvm)

    def search() -> None:
        compiled = jvm.java.util.regex.Pattern.compile(pattern)
        for sample in samples(pattern):
            if probe.over:
                return
            compiled.matcher(sample).find()

    return probe.took(search, budget)


def strained(jvm: Any, pattern: str, budget: float = BUDGET) -> str:
    """What Java does with a long text that begins as the pattern wants; a stack overflow would end a Spark task."""
    errors: list[str] = []
    probe = RegexProbe(jvm)

    def match() -> None:
        compiled = jvm.java.util.regex.Pattern.compile(pattern)
        try:
            for sample in samples(pattern):
                part = sample.removesuffix("!\n")
                if not probe.over:
                    compiled.matcher((part * (LONG // len(part) + 1))[:LONG]).lookingAt()
        except Py4JError as error:
            errors.append(str(error))

    taken = probe.took(match, budget)
    if any("StackOverflow" in error for error in errors):
        return "can overflow Java's stack"
    return f"takes more than {budget:g} s" if taken is None else ""


class RegexProbe:
    """Work of the JVM in a thread that is left alone when it has computed for too long; waiting does not count."""

    def __init__(self, jvm: Any) -> None:
        self.over = False
        self._java = jvm.java.lang
        self._threads = self._java.management.ManagementFactory.getThreadMXBean()
        self._known = threading.Event()
        self._java_id = 0

    def took(self, work: Callable[[], None], budget: float) -> float | None:
        """Seconds that the work took, None if it was left alone."""
        thread = threading.Thread(target=self._run, args=(work,), name="regex probe", daemon=True)
        thread.start()
        self._known.wait()
        begun = computed = self._computed()
        while thread.is_alive():
            thread.join(_PAUSE)
            computed = max(computed, self._computed())
            if computed - begun > budget:
                self.over = True
                return None
        return computed - begun

    def _run(self, work: Callable[[], None]) -> None:
        try:
            self._java_id = self._java.Thread.currentThread().getId()  # PySpark gives each thread one of the JVM
        finally:
            self._known.set()
        work()

    def _computed(self) -> float:
        return float(self._threads.getThreadCpuTime(self._java_id)) / 1e9
