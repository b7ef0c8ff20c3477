"""The objects of the golden scenario `large_rows` in a folder, as TiCDC had left them in its storage."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

from golden.corpus import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

    from golden.corpus import GoldenCase

WRITTEN_AS = "/tmp/claim-check"  # noqa: S108 - where TiCDC wrote them; nothing of this machine's
"""What their locations begin with in the messages, before the name of the configuration."""


def unpacked(case: GoldenCase, folder: Path) -> Path:
    """The folder with the objects of a case."""
    with tarfile.open(FOLDER / case.scenario / f"{case.config}.claim-check.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / case.config


def written_as(case: GoldenCase) -> str:
    """The folder as the messages name it."""
    return f"{WRITTEN_AS}/{case.config}"
