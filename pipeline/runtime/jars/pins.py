"""What an artefact must be: the SHA-256 of every file that Ivy brings, committed beside ivy.xml."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import EnvironmentFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PINS_FILE = Path(__file__).with_name("artefacts.sha256")


def read_pins() -> dict[str, str]:
    """`<conf>/<file>` → SHA-256, in the format of `sha256sum`."""
    rows = (line.split("  ", 1) for line in PINS_FILE.read_text().splitlines())
    return {path: sha for sha, path in rows}


def write_pins(folder: Path) -> None:
    """Pin what lies in `folder`; for whoever moves a version and reviews the difference."""
    rows = [f"{sha256(folder / path)}  {path}\n" for path in files(folder)]
    PINS_FILE.write_text("".join(rows))


def edition(pins: Mapping[str, str]) -> str:
    """Name a set of pins: 12 hexadecimal digits."""
    text = "".join(f"{sha}  {path}\n" for path, sha in sorted(pins.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def check(folder: Path, pins: Mapping[str, str]) -> None:
    """Compare every file with its pin. Raises `EnvironmentFault` for a file that differs, is missing or has no pin."""
    there = set(files(folder))
    for path in sorted(there & pins.keys()):
        _compare(path, sha256(folder / path), pins[path])
    if there != pins.keys():
        raise EnvironmentFault(
            "ARTEFACTS_UNPINNED",
            f"Ivy brought {_listed(there - pins.keys())} without a pin, and left out {_listed(pins.keys() - there)}.",
            "After a change of ivy.xml run `python -m pipeline.devstack pin` and review the difference.",
        )


def sha256(path: Path) -> str:
    """Digest of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files(folder: Path) -> list[str]:
    """Every file below `folder`, relative, sorted."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _compare(path: str, checksum: str, pinned: str) -> None:
    if checksum != pinned:
        raise EnvironmentFault(
            "ARTEFACT_CHECKSUM",
            f"{path} is not the file that this version was built with: its SHA-256 is {checksum}, pinned is {pinned}.",
            "It was dropped: run the command again. The same sum again means that a mirror or proxy serves "
            "another file: name another one (TICDC_WAREHOUSE_IVY_SETTINGS), and tell whoever runs it.",
        )


def _listed(paths: Iterable[str]) -> str:
    return ", ".join(sorted(paths)) or "nothing"
