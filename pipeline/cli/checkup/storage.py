"""The folder of a changefeed whose sink is storage: whether it is there, how far the changefeed is, what it has."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from pipeline.cli.checkup.findings import fine, note, wrong
from pipeline.cli.wording import counted
from pipeline.model.columns import age_of
from pipeline.settings.durations import written
from pipeline.sources.storage.inventory import UNREADABLE, read_metadata
from pipeline.sources.storage.paths import METADATA, DataFile, Foreign, SchemaPath, read_path
from pipeline.sources.storage.schema_files import SchemaFileDamaged, read_schema_file
from pipeline.sources.storage.store import FolderStore
from pipeline.sources.storage.stores import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.cli.checkup.findings import Finding
    from pipeline.settings import Settings
    from pipeline.sources.storage.store import Store

_OLD_SECONDS = 60.0
"""TiCDC writes `metadata` every two seconds."""
_LISTED = 3


def examined(settings: Settings) -> Iterator[Finding]:
    """One line for the checkpoint, one for the files, one for each kind of file that a run would not take."""
    store, place = store_of(settings.source), settings.source.place
    if isinstance(store, FolderStore) and not store.root.is_dir():
        yield wrong("storage", f"{place} is no folder of this machine", "check source.path")
        return
    yield _checkpoint(store, place)
    kinds: Counter[type] = Counter()
    strange: list[str] = []
    damaged: dict[str, str] = {}
    size = 0
    for entry in store.everything():
        kind = read_path(entry.path)
        kinds[type(kind)] += 1
        match kind:
            case DataFile(protocol=protocol):
                size += entry.size
                if protocol != settings.source.protocol:
                    strange.append(entry.path)
            case Foreign():
                strange.append(entry.path)
            case SchemaPath(checksum=checksum):
                try:
                    read_schema_file(store.read(entry.path), checksum)
                except SchemaFileDamaged as damage:
                    damaged[entry.path] = damage.message
    files, schemas = counted(kinds[DataFile], "file"), counted(kinds[SchemaPath], "schema file")
    yield fine("storage", f"{place}: {files} of rows, {size:,} bytes; {schemas}")
    links = store.passed_over if isinstance(store, FolderStore) else 0
    if strange or links:
        named = ", ".join([*strange[:_LISTED], *(["…"] if len(strange) > _LISTED else [])]) or "links"
        yield note(
            "storage",
            f"a run passes over {counted(len(strange), 'file')} and {counted(links, 'link')}: {named}",
            "nothing, if they are not the changefeed's; rows of another protocol say that source.protocol is wrong",
        )
    for path, why in damaged.items():
        yield wrong("storage", f"SCHEMA_FILE_DAMAGED: {path}: {why}", "restore the file as TiCDC wrote it")


def _checkpoint(store: Store, place: str) -> Finding:
    try:
        commit_ts, modified = read_metadata(store)
    except FileNotFoundError:
        return wrong(
            "storage", f"METADATA_MISSING: {place} has no file `{METADATA}`",
            "check source.path: it is the folder of the sink URI; a new changefeed writes the file after some seconds",
        )  # fmt: skip
    except UNREADABLE as error:
        return wrong("storage", f"METADATA_UNREADABLE: `{METADATA}` has no checkpoint ts ({error})", "look at it")
    now = time.time()
    age = f"the changefeed is complete up to {written(age_of(commit_ts, now))} ago"
    if now - modified < _OLD_SECONDS:
        return fine("storage", age)
    return note(
        "storage", f"{age}; `{METADATA}` was last written {written(now - modified)} ago",
        "does the changefeed run? TiCDC writes the file every two seconds",
    )  # fmt: skip
