"""The one root of every error that this package raises on purpose.

An error says what is wrong (`message`), carries a stable `code` (also a column of dead letters) and ends with what to
do (`hint`). A bad row is a value, never an exception; a bad batch or a bad setting is one of these.
"""

from __future__ import annotations

from typing import Any


class PipelineError(Exception):
    """An error with a stable code, a sentence with the facts, and the next step.

    `exit_code` is what the command line ends with: 1 for a handled refusal, 2 for anything unexpected.
    """

    exit_code = 1

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)  # all three in args: the error survives pickling
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f"\n  {self.hint}" if self.hint else "")


class SettingsError(PipelineError):
    """The configuration file makes no sense; nothing was started."""


class EnvironmentFault(PipelineError):
    """The machine lacks something: Java, an artefact, a port, a permission."""


class Refused(PipelineError):
    """Going on would lose or double data, or pass a limit that was set; nothing was committed."""


class BatchFailed(PipelineError):
    """A micro-batch could not be committed; a restart repeats it."""

    exit_code = 2


def reason(error: BaseException) -> str:
    """The first line of the cause of an unforeseen error, with its kind.

    An error of Java's gives its deepest cause: Python's text begins with the call that failed, whatever the reason.
    """
    cause: Any = getattr(error, "java_exception", None)
    try:
        if cause is not None:
            while (deeper := cause.getCause()) is not None:
                cause = deeper
            return _first_line(str(cause.toString()))
    except Exception:  # noqa: BLE001, S110 - the JVM is gone: then Python's text is all there is
        pass
    return f"{type(error).__name__}: {_first_line(str(error))}"


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]
