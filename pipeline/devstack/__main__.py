"""`python -m pipeline.devstack`: `fetch` the jars (for `make setup` and for images), or `pin` them anew."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.runtime.jars import artefacts, ivy, pins


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.devstack", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="bring the jars into the cache, verified")
    fetch.add_argument("--into", type=Path, help="a folder for TICDC_WAREHOUSE_JARS instead of the cache")
    commands.add_parser("pin", help="write artefacts.sha256 for what ivy.xml now names")
    given = parser.parse_args()
    try:
        _pin() if given.command == "pin" else artefacts.fetch(into=given.into)
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _pin() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ivy.retrieve(Path(folder), artefacts.cache_folder() / "ivy", print)
        pins.write_pins(Path(folder))


if __name__ == "__main__":
    sys.exit(main())
