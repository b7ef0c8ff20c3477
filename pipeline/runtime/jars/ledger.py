"""What was verified in a folder, so that a start looks at sizes and times instead of hashing 240 MB again."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import EnvironmentFault
from pipeline.runtime.jars import pins

if TYPE_CHECKING:
    from pathlib import Path

NAME = "verified.json"


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """A file as it was verified. Whole seconds: image layers keep no finer time."""

    size: int
    seconds: int
    sha256: str


@dataclass(frozen=True, slots=True)
class VerifiedFiles:
    """The edition of the pins that a folder was made for, and each of its files."""

    edition: str
    files: dict[str, VerifiedFile]


def write(folder: Path, edition: str) -> None:
    """Record every file of `folder` as it is now."""
    seen = {path: _seen(folder / path) for path in pins.files(folder) if path != NAME}
    _save(folder, VerifiedFiles(edition, seen))


def read(folder: Path) -> VerifiedFiles | None:
    """Return the ledger; None if the folder has none that can be read."""
    try:
        raw = json.loads((folder / NAME).read_text())
        return VerifiedFiles(raw["edition"], {path: VerifiedFile(*row) for path, row in raw["files"].items()})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def missing(folder: Path, ledger: VerifiedFiles) -> list[str]:
    """Files that the ledger has and the folder lacks."""
    return [path for path in ledger.files if not (folder / path).exists()]


def recheck(folder: Path, ledger: VerifiedFiles) -> None:
    """Hash again what no longer looks as verified. Raises `EnvironmentFault` ARTEFACT_CHECKSUM."""
    touched = [path for path, seen in ledger.files.items() if not _looks_like(folder / path, seen)]
    for path in touched:
        checksum = pins.sha256(folder / path)
        if checksum != ledger.files[path].sha256:
            raise EnvironmentFault(
                "ARTEFACT_CHECKSUM",
                f"{folder / path} was changed after it was verified: its SHA-256 is {checksum}, "
                f"verified was {ledger.files[path].sha256}.",
                f"Remove {folder} and run `make setup`, or whatever needs the jars, to fetch it anew.",
            )
    if touched:
        with contextlib.suppress(OSError):  # a read-only image: hashed again next time
            write(folder, ledger.edition)


def _seen(path: Path) -> VerifiedFile:
    stat = path.stat()
    return VerifiedFile(stat.st_size, int(stat.st_mtime), pins.sha256(path))


def _looks_like(path: Path, seen: VerifiedFile) -> bool:
    stat = path.stat()
    return (stat.st_size, int(stat.st_mtime)) == (seen.size, seen.seconds)


def _save(folder: Path, ledger: VerifiedFiles) -> None:
    rows = {path: [seen.size, seen.seconds, seen.sha256] for path, seen in ledger.files.items()}
    draft = folder / f".{NAME}"
    draft.write_text(json.dumps({"edition": ledger.edition, "files": rows}, indent=0))
    draft.replace(folder / NAME)
