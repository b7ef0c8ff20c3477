"""The end of a command that is asked to end: its whole process group, whatever becomes of who asked."""

from __future__ import annotations

import subprocess

_GUARD = """
{
  left=$2
  while kill -s 0 -- "-$1"; do
    if [ "$left" -le 0 ]; then kill -s KILL -- "-$1"; break; fi
    left=$((left - 1))
    sleep 1
  done
  if [ "$3" ]; then docker stop --time "$left" "$3"; fi
} </dev/null >/dev/null 2>&1 &
"""


def end(process: subprocess.Popen[str], grace: int, container: str = "") -> None:
    """Ask the process itself to end, not its JVM; what is left of its group after `grace` seconds is killed.

    So is its `container`, to which `docker run` hands the signal on, and which does not end with `docker run`.

    Returns when the process has ended. A process of its own sees to the rest: Airflow kills a task that was cleared or
    marked as failed after five seconds, and with it whoever waits here.
    """
    process.terminate()
    words = ["sh", "-c", _GUARD, "sh", str(process.pid), str(grace), container]
    subprocess.run(words, start_new_session=True, check=False)  # noqa: S603 - words of our own
    process.wait()
