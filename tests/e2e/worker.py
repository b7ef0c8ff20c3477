"""A process of the product that has started Spark before it is told what to do: `worker.py FILE`.

It reads commands from its standard input, one JSON object a line: `{"words": [...], "environment": {...}}`. What it
does then is what `python -m pipeline WORDS -c FILE` does. It says each durable step (`step NAME`), so that a test
knows where a batch is, and `ended CODE` behind each command.
"""

import json
import os
import sys
from pathlib import Path

from pipeline.cli import main, run
from pipeline.runtime import failpoints
from pipeline.runtime.session import session
from pipeline.service import client
from pipeline.settings import load


class SayingFailPoints(failpoints.FailPoints):
    """Fail-points that say which step was passed, before the process ends there."""

    def __call__(self, step):
        say("step", step)
        super().__call__(step)


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # in one piece, whatever other threads write


assert run, client  # imported before there is something to do
failpoints.FailPoints = SayingFailPoints
file = sys.argv[1]
session(load(Path(file))).range(1).count()
say("ready")
for line in sys.stdin:
    command = json.loads(line)
    os.environ.update(command["environment"])
    say("ended", main([*command["words"], "-c", file]))
    for name in command["environment"]:
        del os.environ[name]
