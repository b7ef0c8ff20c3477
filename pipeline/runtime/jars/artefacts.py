"""The jars that Spark, the broker and the registry run on: fetched once, verified, kept.

One folder per edition of the pins, `<cache>/artefacts-<edition>/{spark,broker,registry}`, made beside its
place and moved there whole: a killed fetch leaves nothing that looks finished. `TICDC_WAREHOUSE_CACHE` moves
the cache; `TICDC_WAREHOUSE_JARS` names such a folder baked into an image, used without a network.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock
from rich.console import Console

from pipeline.errors import EnvironmentFault
from pipeline.runtime.jars import ivy, ledger, pins
from pipeline.runtime.jars.progress import fetching

CACHE_ENV = "TICDC_WAREHOUSE_CACHE"
JARS_ENV = "TICDC_WAREHOUSE_JARS"

Conf = Literal["spark", "broker"]


def jars(conf: Conf) -> list[Path]:
    """Jars of one configuration, fetched if need be: `spark` for `spark.jars`, `broker` for a class path."""
    home = _ready_home()
    return [home / path for path in pins.read_pins() if path.startswith(f"{conf}/")]


def registry_home() -> Path:
    """Folder of the unpacked registry (`*-runner.jar`, `lib/`), fetched if need be."""
    return _ready_home() / "registry"


def fetch(console: Console | None = None, *, into: Path | None = None) -> None:
    """Bring every artefact into the cache, or into a folder for an image; milliseconds if it is there.

    Raises `EnvironmentFault`: ARTEFACTS_UNAVAILABLE, ARTEFACT_CHECKSUM, ARTEFACTS_UNPINNED, ARTEFACTS_BAKED,
    JAVA_MISSING, JAVA_VERSION.
    """
    if into is None and JARS_ENV in os.environ:
        _baked(Path(os.environ[JARS_ENV]))
        return
    home = into.absolute() if into else _cached_home()
    if not _complete(home):
        _make(home, console or Console(stderr=True))


def lacking() -> tuple[Path, list[str]]:
    """Where every artefact is to lie, and which are not there (`<conf>/<file>`); nothing is fetched.

    Raises `EnvironmentFault`: ARTEFACT_CHECKSUM, ARTEFACTS_BAKED.
    """
    if JARS_ENV in os.environ:
        home = Path(os.environ[JARS_ENV])
        _baked(home)
        return home, []
    home, recorded = _cached_home(), ledger.read(_cached_home())
    if _complete(home):
        return home, []
    gone = ledger.missing(home, recorded) if recorded else []
    return home, gone or list(pins.read_pins())


def cache_folder() -> Path:
    """Return where artefacts and Ivy's own cache lie; everything in it can be deleted at any time."""
    return Path(os.environ.get(CACHE_ENV) or "~/.cache/ticdc-warehouse").expanduser().absolute()


def _ready_home() -> Path:
    fetch()
    return Path(os.environ[JARS_ENV]) if JARS_ENV in os.environ else _cached_home()


def _cached_home() -> Path:
    return cache_folder() / f"artefacts-{pins.edition(pins.read_pins())}"


def _complete(home: Path) -> bool:
    """Whether a finished folder of this edition is there. Raises `EnvironmentFault` if a file was changed."""
    recorded = ledger.read(home)
    if recorded is None or recorded.edition != pins.edition(pins.read_pins()) or ledger.missing(home, recorded):
        return False
    ledger.recheck(home, recorded)
    return True


def _baked(home: Path) -> None:
    if not _complete(home):
        raise EnvironmentFault(
            "ARTEFACTS_BAKED",
            f"{JARS_ENV} is {home}, which does not hold the jars of this version, whole and verified.",
            f"Make it with `python -m pipeline.devstack fetch --into {home}`, or unset {JARS_ENV}.",
        )


def _make(home: Path, console: Console) -> None:
    cache_folder().mkdir(parents=True, exist_ok=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(cache_folder() / "fetch.lock"):
        if _complete(home):  # another process was faster
            return
        for left in home.parent.glob(f".{home.name}-*"):  # by a fetch that was killed: the lock is ours
            shutil.rmtree(left)
        staging = Path(tempfile.mkdtemp(dir=home.parent, prefix=f".{home.name}-"))
        try:
            _fill(staging, home, console)
            shutil.rmtree(home, ignore_errors=True)
            shutil.rmtree(cache_folder() / "ivy", ignore_errors=True)  # a second copy; of use only until it is whole
            staging.chmod(0o755)  # mkdtemp's 0700 would shut out the user that an image runs as
            staging.rename(home)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _fill(staging: Path, home: Path, console: Console) -> None:
    pinned = pins.read_pins()
    with fetching(console, len(pinned), home) as arrived:
        ivy.retrieve(staging, cache_folder() / "ivy", arrived)
        try:
            pins.check(staging, pinned)
        except EnvironmentFault:
            shutil.rmtree(cache_folder() / "ivy", ignore_errors=True)  # or the next try finds the same file
            raise
        for archive in (staging / "registry").glob("*.tar.gz"):
            _unpack(archive)
    ledger.write(staging, pins.edition(pinned))


def _unpack(archive: Path) -> None:
    careful: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not in Debian 12's Python
    with tarfile.open(archive) as tar:
        tar.extractall(archive.parent, **careful)  # noqa: S202 - its checksum is pinned
    archive.unlink()
