"""What the bench is doing, on stderr: stdout carries the JSON and nothing else."""

import sys
import time

_STARTED = time.monotonic()


def say(what: str) -> None:
    """Print one line, with the minutes and seconds since the bench began."""
    minutes, seconds = divmod(int(time.monotonic() - _STARTED), 60)
    sys.stderr.write(f"{minutes:3d}:{seconds:02d}  {what}\n")
    sys.stderr.flush()
