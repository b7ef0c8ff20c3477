"""A process with one Spark session, told what to do line by line: `{"do": "run", …}` → `{"result": …}`.

    python worker.py ceiling | ours | publishes

Each Spark side of the bench lives in a process of its own and stays warm between its runs, as a stream does.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

from ceiling import Ceiling
from ours import Ours
from publishes import Publishes

SIDES = {"ceiling": Ceiling, "ours": Ours, "publishes": Publishes}


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints, prints into the log
    side = SIDES[sys.argv[1]]()
    for line in sys.stdin:
        told = json.loads(line)
        try:
            reply = {"result": getattr(side, told.pop("do"))(**told)}
        except Exception as error:  # noqa: BLE001 - the one place: it ends the case, in the process that asked
            traceback.print_exc()
            reply = {"error": "".join(traceback.format_exception_only(error))[:2000]}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
