"""`ticdc-warehouse simulate`: a shop's changes in Kafka or in files, as a TiCDC changefeed sends them."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.errors import Refused, SettingsError
from pipeline.settings import load
from pipeline.simulate import Shop, SimulatedChangefeed, wall_clock
from pipeline.simulate.places import place_of
from pipeline.simulate.progress import sending
from registry.client import RegistryConfig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    from pipeline.settings import Settings
    from pipeline.simulate import Transaction
    from pipeline.simulate.produce import Counts

_KAFKA_PROPERTY = "kafka."
_AVRO_ONLY = ("registry_url", "watermarks", "extension", "decimal", "bigint_unsigned")
_ALSO_OF_CANAL = ("extension",)

app = typer.Typer(help="Write a shop's changes to Kafka, or into files, as TiCDC would.")


class _Clock(StrEnum):
    now = "now"
    fixed = "fixed"


class _Decimal(StrEnum):
    precise = "precise"
    string = "string"


class _BigintUnsigned(StrEnum):
    long = "long"
    string = "string"


_MOST = 10_000
"""Orders, customers and products that a shop without an end has at once: some 100 MB."""


@dataclass(frozen=True, slots=True)
class _Sent:
    transactions: int
    counts: Counts
    seconds: float
    whole: bool
    """Nobody has interrupted it."""


@app.command()
def simulate(  # noqa: PLR0913 - one parameter per option
    *,
    config: ConfigOption = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="Kafka brokers, host:port.")] = None,
    registry_url: Annotated[str | None, typer.Option(help="The registry's Confluent API.")] = None,
    transactions: Annotated[
        int, typer.Option(min=0, help="How many transactions to send; half way the shop adds a column.")
    ] = 2_000,
    continuous: Annotated[bool, typer.Option(help="Go on until interrupted, with 10,000 orders at most.")] = False,
    rate: Annotated[float | None, typer.Option(min=0.1, help="At most this many row events a second.")] = None,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of each topic that is created.")] = 2,
    prefix: Annotated[
        str | None,
        typer.Option(
            help="The prefix of topics. With Avro they are <prefix>_<schema>_<table>, otherwise "
            "there is one topic <prefix>_cdc."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same rows.")] = 7,
    clock: Annotated[
        _Clock, typer.Option(help="Commit timestamps: now, or fixed so that a run repeats exactly.")
    ] = _Clock.now,
    dirty: Annotated[
        float, typer.Option(min=0, max=1, help="Share of orders with a fault that a check should catch.")
    ] = 0.0,
    watermarks: Annotated[
        bool | None, typer.Option("--watermarks/--no-watermarks", help="Send DDL and watermarks.")
    ] = None,
    extension: Annotated[bool | None, typer.Option("--extension/--no-extension", help="Send op and commit ts.")] = None,
    decimal: Annotated[_Decimal | None, typer.Option(help="avro-decimal-handling-mode")] = None,
    bigint_unsigned: Annotated[_BigintUnsigned | None, typer.Option(help="avro-bigint-unsigned-handling-mode")] = None,
    once: Annotated[bool, typer.Option("--once", help="Send nothing if an earlier call has sent everything.")] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Send a shop's changes as TiCDC would, in the protocol of the configuration; without one, in Avro.

    Each run is a new shop: give a second one its own --prefix.
    """
    given = {
        "prefix": prefix,
        "bootstrap_servers": bootstrap_servers,
        "registry_url": registry_url,
        "watermarks": watermarks,
        "extension": extension,
        "decimal": decimal and decimal.value,
        "bigint_unsigned": bigint_unsigned and bigint_unsigned.value,
    }
    file = None if config is None and bootstrap_servers and registry_url else _file(config)
    changefeed = _changefeed(file, given, partitions=partitions, rate=rate)
    shop = Shop(seed, wall_clock if clock is _Clock.now else None, dirty, _MOST if continuous else None)
    source = _endless(shop, transactions) if continuous else shop.transactions(transactions)
    with opened(output) as out:
        if once and changefeed.has_sent():
            if not (continuous or changefeed.has_sent_all()):
                raise _in_part("the topics exist, but nothing shows that an earlier `--once` sent everything")
            out.result({"transactions": 0, "rows": {}, "seconds": 0.0}, "the topics are there already: nothing sent")
            return
        sent = _send(source, changefeed, None if continuous else transactions)
        if once and not continuous:
            if not sent.whole:
                raise _in_part(f"interrupted after {sent.transactions:,} of {transactions:,} transactions")
            changefeed.say_all_is_sent()
        out.result(_facts(sent), _text(sent))


def _file(config: Path | None) -> Settings:
    try:
        return load(config)
    except SettingsError as error:
        if error.code != "SETTINGS_NOT_FOUND":
            raise
        raise SettingsError(
            error.code,
            "--bootstrap-servers and --registry-url are missing, and so is a configuration file that names them",
            "`ticdc-warehouse devstack up` starts a broker and a registry and prints both",
        ) from None


def _changefeed(settings: Settings | None, given: dict[str, Any], **more: Any) -> SimulatedChangefeed:
    """Make it: options win over the pipeline's file, the file over the defaults."""
    protocol = "avro" if settings is None else settings.source.protocol
    in_kafka = settings is None or settings.source.kind == "kafka"
    mine = _ALSO_OF_CANAL if protocol == "canal-json" and in_kafka else ()
    for option in _AVRO_ONLY if protocol != "avro" else ():
        if given[option] is not None and option not in mine:
            name = option.replace("_", "-")
            raise SettingsError(
                "SETTINGS_CONTRADICTION", f"`--{name}` is for Avro only", f"leave it out: the protocol is {protocol}"
            )
    chosen = _from_file(settings) | {name: value for name, value in given.items() if value is not None} | more
    if given["registry_url"] is not None:
        chosen.pop("registry", None)  # its credentials are for the file's registry
    if given["prefix"] is not None:
        chosen.pop("topic", None)
    if chosen.get("watermarks") and not chosen.get("extension", True):
        raise SettingsError(
            "SETTINGS_CONTRADICTION", "TiCDC sends watermarks only with the extension", "drop --no-extension"
        )
    return SimulatedChangefeed(**chosen)


def _from_file(settings: Settings | None) -> dict[str, Any]:
    if settings is None:
        return {}
    source = settings.source
    if source.kind == "storage":
        return {
            "protocol": source.protocol,
            "place": place_of(source.place, source.options),
            "timezone": settings.changefeed.timezone,
        }
    client = {
        name.removeprefix(_KAFKA_PROPERTY): value
        for name, value in source.options.items()
        if name.startswith(_KAFKA_PROPERTY)
    }
    options = {
        "bootstrap_servers": source.bootstrap_servers,
        "client": client,
        "timezone": settings.changefeed.timezone,
        **(_avro(settings) if source.protocol == "avro" else _by_commit_ts(settings)),
    }
    return {name: value for name, value in options.items() if value is not None}


def _avro(settings: Settings) -> dict[str, Any]:
    changefeed = settings.changefeed
    return {
        "registry_url": settings.registry.url,
        "registry": _registry(settings),
        "extension": changefeed.enable_tidb_extension,
        "watermarks": changefeed.avro_enable_watermark,
        "decimal": changefeed.avro_decimal_handling_mode,
        "bigint_unsigned": changefeed.avro_bigint_unsigned_handling_mode,
    }


def _by_commit_ts(settings: Settings) -> dict[str, Any]:
    """One topic: the one that the file reads, if it names one."""
    source = settings.source
    if source.encoding == "avro":
        raise SettingsError(
            "SETTINGS_CONTRADICTION", "the simulator writes Simple in JSON only", "set source.encoding to json"
        )
    extension = settings.changefeed.enable_tidb_extension if source.protocol == "canal-json" else None
    topic = source.topics[0] if len(source.topics) == 1 else None
    return {"protocol": source.protocol, "topic": topic, "extension": extension}


def _registry(settings: Settings) -> RegistryConfig:
    registry = settings.registry
    files = (registry.ca_file, registry.cert_file, registry.key_file)
    ca_file, cert_file, key_file = (None if file is None else str(file) for file in files)
    password = None if registry.password is None else registry.password.get_secret_value()
    return RegistryConfig(
        registry.url,
        registry.username,
        password,
        ca_file,
        cert_file,
        key_file,
        registry.headers,
        registry.timeout_seconds,
    )


def _endless(shop: Shop, first: int) -> Iterator[Transaction]:
    yield from shop.transactions(first)
    for _ in itertools.count():
        yield from shop.transactions(max(first, 1))


def _send(transactions: Iterator[Transaction], changefeed: SimulatedChangefeed, total: int | None) -> _Sent:
    """Send all; Ctrl-C or SIGTERM ends it after the transaction that is being sent."""
    started, done, whole, asked = time.monotonic(), 0, False, threading.Event()
    with sending(Console(stderr=True), total) as show, _asking(asked):
        for transaction in transactions:
            changefeed.send(transaction)
            done += transaction.ddl is None
            show(done, changefeed.total)
            if asked.is_set():
                break
        else:
            whole = True
        changefeed.close()
    return _Sent(done, changefeed.counts, time.monotonic() - started, whole)


@contextmanager
def _asking(asked: threading.Event) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C set `asked`; a second time they end the process."""

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_part(fact: str) -> Refused:
    return Refused(
        "SENT_IN_PART", fact,
        "the simulator cannot complete a shop that was sent in part: begin with topics of another --prefix, or delete "
        "these topics (the compose demo: docker compose -f docker/compose.yaml down --volumes)",
    )  # fmt: skip


def _facts(sent: _Sent) -> dict[str, Any]:
    return {"transactions": sent.transactions, "rows": sent.counts, "seconds": round(sent.seconds, 1)}


def _text(sent: _Sent) -> str:
    """One line per table, in the marks of a running pipeline: inserts, updates, deletes."""
    rows = [
        f"{table:<20} +{ops.get('insert', 0)} ~{ops.get('update', 0)} −{ops.get('delete', 0)}"  # noqa: RUF001
        for table, ops in sent.counts.items()
    ]
    events = sum(sum(ops.values()) for ops in sent.counts.values())
    return "\n".join([*rows, f"{sent.transactions} transactions, {events} row events, {sent.seconds:.1f} s"])
