"""The warehouse as it lies there: the catalog, who writes it, what waits for a person. Reads metadata, no Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from pipeline.cli.checkup.findings import explained, fine, note, wrong
from pipeline.cli.wording import counted
from pipeline.errors import Refused
from pipeline.lake import pending, table_metadata
from pipeline.lake.catalog import NO_WAREHOUSE, inherited, reader, records
from pipeline.lake.ledger import ledger
from pipeline.model.holding import way_on
from pipeline.model.names import PIPELINE_NAMESPACE, WarehouseName
from pipeline.runtime.lock import described, holder
from pipeline.sources.source import Committed
from pipeline.warehouse.alterations import COLUMNS_CHANGED, reason
from pipeline.warehouse.orphans import lost_tables
from pipeline.warehouse.pairs import State
from pipeline.warehouse.place import check_catalog, check_copied, check_place
from pipeline.warehouse.records import check_form, check_owner
from pipeline.warehouse.state import ENDS, OWNER, STREAM_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pipeline.cli.checkup.findings import Finding
    from pipeline.lake.catalog import Reader
    from pipeline.settings import Settings

_LISTED = 5
_SET_ASIDE = {
    "quarantine": ("row", "in quarantine", "ticdc-warehouse quarantine list"),
    "dead_letters": ("dead letter", "not read yet", "ticdc-warehouse quarantine list --dead-letters"),
}


def examined(settings: Settings) -> Iterator[Finding]:
    """What the catalog has, what it should have, and what is not in order with the tables."""
    try:
        catalog = reader(settings)
    except Refused as refusal:
        if refusal.code != NO_WAREHOUSE:
            raise
        yield fine("warehouse", "nothing in it yet: the first run makes the tables")
        return
    pairs = table_metadata.pairs(catalog)
    yield fine("warehouse", f"{settings.warehouse.catalog.type} catalog answers; {counted(len(pairs), 'source table')}")
    yield from _form(catalog)
    yield from _place(settings, catalog, pairs)
    yield from _lost(settings, catalog)
    yield from _writer(settings)
    yield from _owner(settings, catalog)
    held = [pair for pair in pairs if pair.state is State.HELD]
    for pair in held:
        release = way_on(pair.source, pair.held_reason)
        todo = f"run these statements in Spark SQL, then: {release}" if _is_altered(pair) else release
        yield note("tables", f"{pair.source} is held: {pair.held_reason}", todo)
    yield from _columns(pairs)
    yield from _merged(pairs)
    waiting = pending.found(catalog, table_metadata.held(pairs))
    for wait in waiting:
        yield note("tables", wait.sentence, _release(wait))
    yield from _set_aside_groups(catalog)
    if not held and not waiting:
        yield fine("tables", "no table is held")


def _is_altered(pair: table_metadata.Pair) -> bool:
    return pair.held_reason.startswith(f"{COLUMNS_CHANGED}:")


def _columns(pairs: Iterable[table_metadata.Pair]) -> Iterator[Finding]:
    """Columns of users, and what users have changed that no run has met yet."""
    for pair in pairs:
        altered = table_metadata.alterations(pair)
        names = [f"{table}.{column}" for table, alteration in altered.items() for column in alteration.not_ours]
        if names:
            sentence = f"{pair.source} has {counted(len(names), 'column')} that the pipeline did not make"
            yield note(
                "tables", f"{sentence}: {', '.join(names)}",
                "they stay; a run leaves them NULL in new rows (docs/reference/tables.md: What you may alter)",
            )  # fmt: skip
        why = reason([fault for alteration in altered.values() for fault in alteration.faults])
        if why and pair.state is State.LIVE:
            yield note(
                "tables", f"the next run will hold {pair.source}: {why}",
                "before that, run these statements in Spark SQL",
            )  # fmt: skip


def _merged(pairs: Iterable[table_metadata.Pair]) -> Iterator[Finding]:
    """Tables of an earlier version, whose current table cannot show the files of its changes table."""
    names = [str(pair.source) for pair in pairs if not pair.is_aligned and pair.state is not State.DROPPED]
    if names:
        listed = ", ".join(names[:_LISTED]) + (" …" if len(names) > _LISTED else "")
        yield note(
            "tables", f"a run publishes {counted(len(names), 'table')} of an earlier version by merging: {listed}",
            "nothing is wrong; linking is faster, and only a new warehouse has it for them "
            "(docs/decisions/011-publishing-by-links.md)",
        )  # fmt: skip


def _release(wait: pending.PendingRecords) -> str:
    """What to do about pending records of a table that is not held."""
    command = f"ticdc-warehouse tables release {wait.table}"
    if wait.by_itself:
        return (
            f"nothing to do: a run brings the records in as soon as it can. To give up what can never come: {command}"
        )
    return f"free its name (the reason says who has it), then: {command}"


def committed(settings: Settings) -> Committed:
    """How far the warehouse has come, by the newest commit of `_pipeline.batches`."""
    metadata = ledger(settings)
    if metadata is None:
        return Committed()
    ends, streams = inherited(metadata, ENDS), inherited(metadata, STREAM_NAMES)
    return Committed(ends or {}, streams or {})


def topics_read(settings: Settings) -> set[str]:
    """The topics of which batches have read something."""
    offsets = records(reader(settings), "batches", ("end_offsets",)).column("end_offsets").to_pylist()
    return {topic for text in offsets if text for topic in json.loads(text)}


def _form(catalog: Reader) -> Iterator[Finding]:
    try:
        check_form(_properties(catalog), f"{PIPELINE_NAMESPACE}.batches")
    except Refused as refusal:
        yield explained("warehouse", refusal)


def _properties(catalog: Reader) -> Mapping[str, str]:
    """The properties of `_pipeline.batches`; none if there is no such table."""
    name = WarehouseName(PIPELINE_NAMESPACE, "batches")
    return catalog.metadata(name).properties if name in catalog.names() else {}


def _place(settings: Settings, catalog: Reader, pairs: Sequence[table_metadata.Pair]) -> Iterator[Finding]:
    try:
        check_catalog(settings.warehouse)
        check_place(table_metadata.locations(pairs), settings.warehouse)
        check_copied(_properties(catalog), settings.warehouse)
    except Refused as refusal:
        yield explained("warehouse", refusal)


def _lost(settings: Settings, catalog: Reader) -> Iterator[Finding]:
    lost = lost_tables(catalog, settings.warehouse.local_data)
    if lost:
        names = ", ".join(sorted(lost)[:_LISTED])
        yield wrong(
            "warehouse", f"the warehouse's folder has {len(lost)} tables that the catalog does not know: {names}",
            "ticdc-warehouse tables restore",
        )  # fmt: skip


def _writer(settings: Settings) -> Iterator[Finding]:
    file = settings.warehouse.path / ".writer.lock"
    if not file.is_file():
        return
    lock = FileLock(file, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        yield fine("writer", f"a process writes the warehouse: {described(holder(settings.warehouse.path))}")
        return
    except OSError as error:
        yield wrong(
            "writer",
            f"{file} cannot be locked: {error.strerror}",
            "let the user that runs the pipeline write to the warehouse",
        )
        return
    lock.release()
    yield fine("writer", "no process writes the warehouse now")


def _owner(settings: Settings, catalog: Reader) -> Iterator[Finding]:
    name = WarehouseName(PIPELINE_NAMESPACE, "batches")
    if name not in catalog.names() or catalog.metadata(name).current_snapshot() is None:
        return
    properties = catalog.metadata(name).properties
    try:
        check_owner(properties, settings.name, settings.warehouse.data)
    except Refused as refusal:
        yield explained("warehouse", refusal)
    if OWNER.is_in(properties):
        return
    names = set(records(catalog, "batches", ("pipeline",)).column("pipeline").to_pylist())
    if names - {settings.name}:
        others = ", ".join(sorted(names - {settings.name}))
        yield note(
            "warehouse", f"the pipeline {others} wrote it, and the settings name {settings.name}",
            f"if you did not rename the pipeline, set `name` to {others}: two pipelines on one warehouse lose changes",
        )  # fmt: skip


def _set_aside_groups(catalog: Reader) -> Iterator[Finding]:
    for name, (noun, where, command) in _SET_ASIDE.items():
        table = WarehouseName(PIPELINE_NAMESPACE, name)
        if table not in catalog.names() or catalog.metadata(table).current_snapshot() is None:
            continue
        count = records(catalog, name, ("status",), "status = 'open'").num_rows
        if count:
            yield note("tables", f"{counted(count, noun)} {where}", command)
