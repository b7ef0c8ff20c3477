"""What others ask of a `run` that lives: files in the warehouse, taken between two batches (design.md, rule 9).

A request is `<id>.json`, its answer `<id>.answer.json`; both appear whole, by a rename. When the author goes away, it
withdraws a request that the run has not begun; an author that was killed leaves it. When the run dies with a request,
the author does it itself, because it has the lock then.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import causes
from pipeline.errors import PipelineError, Refused, reason
from pipeline.observe.logs import get_logger
from pipeline.runtime.lock import LOCKED, described, holder
from pipeline.service.dispatch import SEPARATE
from registry import RegistryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_FOLDER = ".requests"
_POLL_SECONDS = 0.2
_ANSWER = ".answer.json"
_OLD_SECONDS = 3600
_UNEXPECTED = "UNEXPECTED"
_ENDED = "the run that was asked to do this ended with the error; its log has more"
_GOES_ON = "the run that was asked to do this goes on; its log has more"
_NAMESPACE = Path("/proc/self/ns/pid")
"""The space in which numbers of processes mean the same, by its own number; only Linux tells."""
TAKERS = frozenset({"run"})
"""Purposes whose processes take requests; any other holder of the lock is refused to wait for."""

_log = get_logger(__name__)


class Inbox:
    """The requests of one warehouse, as the process that holds its lock sees them."""

    def __init__(self, warehouse: Path) -> None:
        self._folder = warehouse / _FOLDER

    def take(self, operation: Callable[[str, Sequence[str]], Mapping[str, Any]]) -> None:
        """Do what is asked, in the order of asking, and answer. An error is an answer too.

        An unexpected error is answered and raised: the next start ends what it has left half done. After an operation
        that leaves nothing half done (`SEPARATE`) the run goes on instead.
        """
        for path, request in sorted(self._waiting(), key=lambda waiting: waiting[1]["asked"]):
            try:
                answer: dict[str, Any] = {"done": dict(operation(request["what"], request["names"]))}
            except (PipelineError, RegistryError) as error:
                answer = {"refused": [error.code, error.message, error.hint]}
            except Exception as error:
                separate = request["what"] in SEPARATE
                fault = causes.explained(error) or PipelineError(_UNEXPECTED, reason(error)[:300])
                goes_on = _GOES_ON if separate else _ENDED
                answer = {"refused": [fault.code, fault.message, f"{fault.hint}; {goes_on}" if fault.hint else goes_on]}
                if not separate:
                    _answer(path, answer)
                    raise
                _log.exception("operation", what=request["what"])
            _answer(path, answer)

    def _waiting(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The requests whose authors still wait; the others are removed."""
        for path in self._folder.glob("*.json"):
            try:
                if path.name.endswith(_ANSWER):
                    _remove_old(path)
                    continue
                request = json.loads(path.read_text())
            except FileNotFoundError:  # withdrawn, or read, just now
                continue
            if _is_waiting(request):
                yield path, request
            else:
                path.unlink(missing_ok=True)


def _answer(request: Path, answer: Mapping[str, Any]) -> None:
    if request.exists():  # else its author has gone meanwhile
        _write(request.with_name(request.stem + _ANSWER), answer)
        request.unlink(missing_ok=True)


def _is_waiting(request: Mapping[str, Any]) -> bool:
    """Whether the author lives; one of another machine or container counts as alive, since it cannot be asked."""
    if any(request.get(name) != value for name, value in _place().items()):
        return True
    try:
        os.kill(request["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _place() -> dict[str, Any]:
    """Where a number of a process means this process: containers may share the name of a host, and no numbers."""
    space = _NAMESPACE.stat().st_ino if _NAMESPACE.exists() else None
    return {"host": socket.gethostname(), "space": space}


def _remove_old(answer: Path) -> None:
    if time.time() - answer.stat().st_mtime > _OLD_SECONDS:
        answer.unlink(missing_ok=True)


def in_turn(
    warehouse: Path,
    request: tuple[str, Sequence[str]],
    directly: Callable[[], Mapping[str, Any]],
    waiting: Callable[[str], None],
) -> Mapping[str, Any]:
    """Do `directly`, which takes the warehouse's lock; or, while a `run` has it, ask that run and wait.

    `waiting` is called once, with the holder of the lock. Raises what the run refused with, and `Refused`
    (`WAREHOUSE_IN_USE`) if anything else holds the lock.
    """
    asked: Path | None = None
    announced = False
    try:
        while True:
            try:
                return directly()
            except Refused as refusal:
                if refusal.code != LOCKED or holder(warehouse).get("purpose") not in TAKERS:
                    raise
            if asked is None:
                asked = _ask(warehouse / _FOLDER, *request)
            if not announced:
                waiting(described(holder(warehouse)))
                announced = True
            time.sleep(_POLL_SECONDS)
            gone = not asked.exists()  # before its answer is looked for, which is there before it goes
            answer = _answered(asked)
            if answer is not None:
                return answer
            if gone:  # the request was removed without an answer: ask again
                asked = None
    finally:
        _withdraw(asked)


def _ask(folder: Path, what: str, names: Sequence[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid.uuid4()}.json"
    me = {"pid": os.getpid(), **_place(), "asked": time.time()}
    _write(path, {"what": what, "names": list(names), **me})
    return path


def _answered(request: Path) -> Mapping[str, Any] | None:
    path = request.with_name(request.stem + _ANSWER)
    if not path.exists():
        return None
    answer: dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    if "refused" in answer:
        raise Refused(*answer["refused"])
    done: dict[str, Any] = answer["done"]
    return done


def _withdraw(request: Path | None) -> None:
    if request is not None:
        for path in (request, request.with_name(request.stem + _ANSWER)):
            path.unlink(missing_ok=True)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content))
    draft.replace(path)
