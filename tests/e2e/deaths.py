"""Runs that end at a durable step: in this process, as if nothing behind the step had been done.

A process that is killed leaves no more than that: what is durable. It takes a JVM of its own, so only some steps of
`test_kills.py` and `test_cut_kills.py` kill one (`Act.real`).
"""

import os
from unittest.mock import patch

from pipeline.model.names import TableName
from pipeline.operations.release import release
from pipeline.runtime import failpoints
from pipeline.service import Pipeline
from pipeline.settings import load


class Death(BaseException):
    """The end of the process: nothing behind it is done."""


class LeavingFailPoints(failpoints.FailPoints):
    """Fail-points that leave the run instead of killing its process."""

    def _die(self):
        raise Death


def do_here(file, words):
    """Do what `python -m pipeline WORDS -c FILE` does, to its end."""
    assert not die_here(file, words, {}, "")


def die_here(file, words, environment, failpoint):
    """Do what `python -m pipeline WORDS -c FILE` does, up to a step; whether it came that far."""
    settings = {**environment, failpoints.VARIABLE: failpoint}
    with patch.dict(os.environ, settings), patch.object(failpoints, "FailPoints", LeavingFailPoints):
        try:
            with Pipeline.open(load(file)) as pipeline:
                match words:
                    case ("run", "--available-now"):
                        pipeline.run(available_now=True)
                    case ("tables", "release", name):
                        release(pipeline.context, TableName(*name.split(".")))
        except Death:
            return True
    return False
