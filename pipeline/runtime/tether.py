"""Run a command that dies with the process that asked for it: `python -I -S tether.py PARENT_PID COMMAND…`.

A program of its own, not a `preexec_fn`, which may deadlock in a process with threads (librdkafka, py4j).
Linux kills the command when its parent is gone (PR_SET_PDEATHSIG survives exec); elsewhere it just runs.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent went before prctl
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - no shell wanted


if __name__ == "__main__":
    main()
