"""What others ask of a `run` that lives: files in the warehouse, which it takes between two batches (DESIGN rule 9).

A request is `<id>.json`, its answer `<id>.answer.json`; both appear whole, by a rename. A request that nobody has
begun is withdrawn when its author goes away, and one whose taker died is done by its author, who has the lock then.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any

from pipeline.errors import PipelineError, Refused
from pipeline.streaming.lock import LOCKED, described, holder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_FOLDER = ".requests"
_POLL_SECONDS = 0.2
_ANSWER = ".answer.json"
TAKERS = frozenset({"run"})
"""Purposes whose processes take requests; any other holder of the lock is refused to wait for."""


class Inbox:
    """The requests of one warehouse, as the process that holds its lock sees them."""

    def __init__(self, warehouse: Path) -> None:
        self._folder = warehouse / _FOLDER

    def take(self, errand: Callable[[str, Sequence[str]], Mapping[str, Any]]) -> None:
        """Do what is asked, in the order of asking, and answer. An error is an answer too."""
        for path in sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns):
            if path.name.endswith(_ANSWER):
                continue
            request = json.loads(path.read_text())
            answer: dict[str, Any]
            try:
                answer = {"done": dict(errand(request["what"], request["names"]))}
            except PipelineError as error:
                answer = {"refused": [error.code, error.message, error.hint]}
            if path.exists():  # else its author has gone meanwhile
                _write(path.with_name(path.stem + _ANSWER), answer)
                path.unlink(missing_ok=True)


def in_turn(
    warehouse: Path,
    request: tuple[str, Sequence[str]],
    directly: Callable[[], Mapping[str, Any]],
    waiting: Callable[[str], None],
) -> Mapping[str, Any]:
    """Do `directly`, which takes the warehouse's lock; or, while a `run` has it, ask that run and wait.

    `waiting` is told once for whom. Raises what the run refused with, and `Refused` (`WAREHOUSE_IN_USE`) where
    the lock is held by anything else.
    """
    asked: Path | None = None
    try:
        while True:
            try:
                return directly()
            except Refused as refusal:
                if refusal.code != LOCKED or holder(warehouse).get("purpose") not in TAKERS:
                    raise
            if asked is None:
                asked = _ask(warehouse / _FOLDER, *request)
                waiting(described(holder(warehouse)))
            time.sleep(_POLL_SECONDS)
            answer = _answered(asked)
            if answer is not None:
                return answer
    finally:
        _withdraw(asked)


def _ask(folder: Path, what: str, names: Sequence[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid.uuid4()}.json"
    _write(path, {"what": what, "names": list(names)})
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
