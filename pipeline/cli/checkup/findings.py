"""One line of `doctor`: what was looked at, what was found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from pipeline import causes
from pipeline.cli.output import Explained
from pipeline.errors import reason
from pipeline.observe.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_log = get_logger(__name__)


class Mark(StrEnum):
    """The verdict of a finding."""

    FINE = "✓"
    NOTE = "!"
    WRONG = "✗"


@dataclass(frozen=True, slots=True)
class Finding:
    """`about`: the part of the set-up; `todo`: the next step, which only what is in order does not have.

    `each`: all of the names of which `sentence` has the first few, each with what there is to say of it, for programs.
    """

    mark: Mark
    about: str
    sentence: str
    todo: str = ""
    each: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.mark} {self.about:<13} {self.sentence}" + (f"\n{'':<16}{self.todo}" if self.todo else "")


def fine(about: str, sentence: str, *, each: Mapping[str, str] | None = None) -> Finding:
    """All is well."""
    return Finding(Mark.FINE, about, sentence, each=each or {})


def note(about: str, sentence: str, todo: str, *, each: Mapping[str, str] | None = None) -> Finding:
    """Nothing stops a run; a person should know."""
    return Finding(Mark.NOTE, about, sentence, todo, each or {})


def wrong(about: str, sentence: str, todo: str) -> Finding:
    """A run would stop, or take something wrongly."""
    return Finding(Mark.WRONG, about, sentence, todo)


def explained(about: str, error: Explained) -> Finding:
    """An error of ours, with its own next step."""
    return wrong(
        about, f"{error.code}: {error.message}", error.hint or "run the same command with --debug to see where"
    )


def guarded(about: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings; an error while they are made is a finding, too."""
    try:
        yield from findings
    except Exception as error:  # noqa: BLE001 - a check that fails is what doctor is there to tell
        cause = error if isinstance(error, Explained) else causes.explained(error)
        if cause is not None:
            yield explained(about, cause)
        else:
            _log.debug("doctor", about=about, exc_info=True)
            yield wrong(about, reason(error)[:300], "run the same command with --debug to see where")
