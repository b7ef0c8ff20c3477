"""What reads each protocol: one entry a protocol, under the names of `pipeline.model.protocols`.

docs/contributing/add-a-protocol.md lists what a new one brings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.model.protocols import PROTOCOLS
from pipeline.protocols import images
from pipeline.protocols.avro import AvroProtocol
from pipeline.protocols.avro.assertions import Asserted
from pipeline.protocols.canal import canal_protocol
from pipeline.protocols.canal.protocol import CanalProtocol, newest_ordering
from pipeline.protocols.csv import csv_protocol
from pipeline.protocols.csv.form import form_of
from pipeline.protocols.open import OpenProtocol
from pipeline.protocols.simple import simple_protocol
from pipeline.settings.column_types import members_of, own_types
from registry import RegistryClient, RegistryConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from pyspark.sql import DataFrame

    from pipeline.model.messages import KnownVersions, Messages, Ordering, SourceProtocol, TableMessages
    from pipeline.protocols.images import OldImages
    from pipeline.settings import Settings


@dataclass(frozen=True, slots=True)
class ProtocolReader:
    """How messages of a protocol are read, and what doctor says of them."""

    bind: Callable[[Settings, RegistryClient | None, KnownVersions], SourceProtocol]
    """Binds it to the settings; the registry is for protocols that need one (`ProtocolFacts.needs_registry`)."""
    sent_by: Callable[[Messages], str]
    """Which versions of TiCDC can have sent these messages, as a sentence."""
    old_images: Callable[[DataFrame, Sequence[TableMessages], str | None], OldImages | None]
    """Which of the rows of a prepared frame carry the row as it was; None where the frame does not say. The last
    argument is `source.encoding`."""
    newest_ordering: Callable[[DataFrame], Ordering | None] = lambda _: None
    """The ordering that a new warehouse would have by the newest messages of a raw frame; None if none tells it."""


def _avro(settings: Settings, registry: RegistryClient | None, versions: KnownVersions) -> SourceProtocol:
    del versions
    if registry is None:
        raise AssertionError("Avro needs a registry")
    changefeed = settings.changefeed
    asserted = Asserted(
        changefeed.enable_tidb_extension,
        changefeed.avro_decimal_handling_mode,
        changefeed.avro_bigint_unsigned_handling_mode,
    )
    return AvroProtocol(registry, changefeed.timezone, own_types(settings.warehouse.columns), asserted)


def _avro_sent_by(messages: Messages) -> str:
    """Source: docs/reference/protocols/avro.md."""
    if messages.watermarks or messages.ddl:
        return "v7.1 or newer: it sends watermarks. Updates of keys are right from v7.1.2 and v7.4 on"
    return "the messages do not show its version. Updates of keys are right from v6.5.5, v7.1.2 and v7.4 on"


def _simple(settings: Settings, registry: RegistryClient | None, versions: KnownVersions) -> SourceProtocol:
    del registry
    overrides = own_types(settings.warehouse.columns)
    return simple_protocol(settings.source.encoding or "json", settings.changefeed.timezone, overrides, versions)


def _open(settings: Settings, registry: RegistryClient | None, versions: KnownVersions) -> SourceProtocol:
    del registry
    changefeed, columns = settings.changefeed, settings.warehouse.columns
    old_values = changefeed.enable_old_value is not False
    return OpenProtocol(changefeed.timezone, own_types(columns), versions, _members(columns), tells_op=old_values)


def _csv(settings: Settings, registry: RegistryClient | None, versions: KnownVersions) -> SourceProtocol:
    del registry
    changefeed = settings.changefeed
    return csv_protocol(form_of(changefeed.csv), changefeed.timezone, own_types(settings.warehouse.columns), versions)


def _canal(settings: Settings, registry: RegistryClient | None, versions: KnownVersions) -> SourceProtocol:
    del registry
    columns = settings.warehouse.columns
    read = canal_protocol if settings.source.kind == "storage" else CanalProtocol
    return read(settings.changefeed.timezone, own_types(columns), versions, _members(columns))


def _members(columns: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """What ENUM and SET columns may hold, by the names of `warehouse.columns`."""
    return {name: members_of(kind) for name, kind in columns.items() if members_of(kind)}


READERS: Mapping[str, ProtocolReader] = {
    "avro": ProtocolReader(_avro, _avro_sent_by, lambda _frame, _tables, _encoding: None),
    "simple": ProtocolReader(
        _simple,
        lambda _: "v8.0 or newer: v8.0 is the first with the Simple protocol",  # TiDB 8.0 release notes
        lambda frame, _tables, encoding: None if encoding == "avro" else images.of_simple(frame),
    ),
    "open-protocol": ProtocolReader(
        _open,
        lambda _: "any version: a run reads updates of keys whole or split",
        lambda frame, tables, _encoding: images.of_open(frame, tables),
    ),
    "canal-json": ProtocolReader(
        _canal,
        lambda _: "any version",
        lambda _frame, _tables, _encoding: None,
        newest_ordering,
    ),
    "csv": ProtocolReader(
        _csv,
        lambda _: "any version that writes schema files: v6.5 and later",
        lambda _frame, _tables, _encoding: None,
    ),
}
"""By `source.protocol`."""


def protocol_of(settings: Settings, registry: RegistryClient | None, versions: KnownVersions) -> SourceProtocol:
    """The protocol that the settings name, bound to them; `versions`: what earlier messages have said of versions."""
    return READERS[settings.source.protocol].bind(settings, registry, versions)


def registry_of(settings: Settings, resources: ExitStack, cache_file: Path | None = None) -> RegistryClient | None:
    """The registry that the settings name, to be closed with `resources`; None where the protocol needs none.

    `cache_file` remembers its schemas from run to run.
    """
    if not PROTOCOLS[settings.source.protocol].needs_registry:
        return None
    given = settings.registry
    config = RegistryConfig(
        given.url,
        username=given.username,
        password=given.password.get_secret_value() if given.password else None,
        ca_file=str(given.ca_file) if given.ca_file else None,
        cert_file=str(given.cert_file) if given.cert_file else None,
        key_file=str(given.key_file) if given.key_file else None,
        headers=given.headers,
        timeout_seconds=given.timeout_seconds,
        retries=given.retries,
    )
    return resources.enter_context(RegistryClient(config, cache_file))
