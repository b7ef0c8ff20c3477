"""The golden files as data, not interpreted: what TiCDC sent, what it registered, what TiDB answered."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
DEFAULT_TOPIC = "tidb_cdc"
"""Where DDL and watermarks of no table go."""
BY_CUT = ("simple", "open-protocol", "canal-json")
"""Protocols of the ordering by commit ts."""


@dataclass(frozen=True, slots=True)
class Record:
    """One Kafka record, in the order in which TiCDC sent them."""

    seq: int
    step: int
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    commit_ts: int
    kind: str
    table: str


@dataclass(frozen=True, slots=True)
class Registered:
    """One schema of one subject, with the id that it has in the record's bytes."""

    subject: str
    version: int
    id: int
    schema: str


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One scenario under one configuration of the changefeed."""

    scenario: str
    config: str

    def __str__(self) -> str:
        return f"{self.scenario}-{self.config}"

    @property
    def records(self) -> tuple[Record, ...]:
        """Everything that TiCDC sent."""
        return _records(self.scenario, self.config)

    @property
    def schemas(self) -> tuple[Registered, ...]:
        """Everything that TiCDC registered, in order."""
        if self.protocol != "avro":
            return ()
        text = (FOLDER / self.scenario / f"{self.config}.registry.json").read_text()
        return tuple(Registered(**entry) for entry in json.loads(text))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics in the order of their first record."""
        return tuple(dict.fromkeys(record.topic for record in self.records))

    @property
    def partitions(self) -> int:
        """How many partitions each topic has."""
        return 3 if self.config.endswith("_p3") else 1

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What TiDB did, step by step, with its tables where they were dumped."""
        return _truth(self.scenario)["steps"]

    @property
    def final(self) -> dict[str, Any]:
        """TiDB's tables at the end, by `schema.table`."""
        return _truth(self.scenario)["final"]

    @property
    def protocol(self) -> str:
        """The protocol as the settings name it; the storage sink's files have none here."""
        family = self._settings.partition("_")[0]
        return {"open": "open-protocol", "canal": "canal-json"}.get(family, family)

    @property
    def encoding(self) -> str | None:
        """How Simple's messages are written."""
        if self.protocol != "simple":
            return None
        return "avro" if self._settings.startswith("simple_avro") else "json"

    @property
    def by_cut(self) -> bool:
        """Whether every change has a commit ts and there are watermarks."""
        return self.protocol in BY_CUT and not self.config.endswith("_plain")

    @property
    def has_ddl(self) -> bool:
        """Whether the stream carries DDL and watermarks."""
        return self.protocol != "avro" or "watermark" in self.config

    @property
    def steps_agree(self) -> bool:
        """Whether its changes are those of `expected.json`, step by step.

        TiDB refused multi-schema changes with checksums. Deletes may have their key alone.
        """
        return (self.scenario, self.config) != ("ddl", "simple_json_checksum") and "handle_key" not in self.config

    @property
    def decimals_as_text(self) -> bool:
        """Whether DECIMAL is sent as text, without precision and scale; checksums need that too."""
        return self._settings.startswith(("avro_ext_string", "avro_string", "avro_checksum"))

    @property
    def has_extension(self) -> bool:
        """Whether rows carry `_tidb_op` and `_tidb_commit_ts`."""
        return not self.config.endswith("noext")

    @property
    def new_architecture(self) -> bool:
        """Whether TiCDC's new architecture has sent it."""
        return self.config.startswith("new_")

    @property
    def has_before(self) -> bool:
        """Whether Avro's updates and deletes carry the row as it was."""
        return self._settings.startswith("avro_before")

    @property
    def _settings(self) -> str:
        """The configuration's name without the mark of the new architecture."""
        return self.config.removeprefix("new_")


def manifest() -> list[GoldenCase]:
    """Every case of the golden folder that this repository's copies come from, of every protocol."""
    listed = json.loads((FOLDER / "MANIFEST.json").read_text())
    return [GoldenCase(scenario, config) for scenario, configs in listed.items() for config in configs]


def subject_of(topic: str, part: str) -> str:
    """The subject of a topic's keys (`part` is `key`) or values, as TiCDC names it."""
    return f"{topic.replace('.', '_')}-{part}"


@cache
def _records(scenario: str, config: str) -> tuple[Record, ...]:
    lines = gzip.decompress((FOLDER / scenario / f"{config}.jsonl.gz").read_bytes()).decode().splitlines()
    return tuple(_record(json.loads(line)) for line in lines)


def _record(raw: dict[str, Any]) -> Record:
    key, value = (None if raw[part] is None else base64.b64decode(raw[part]) for part in ("key", "value"))
    return Record(
        seq=raw["seq"],
        step=raw["step"],
        topic=raw["topic"],
        partition=raw["partition"],
        key=key,
        value=value,
        commit_ts=raw["commit_ts"],
        kind=raw["kind"],
        table=raw.get("table", ""),
    )


@cache
def _truth(scenario: str) -> dict[str, Any]:
    return json.loads(gzip.decompress((FOLDER / scenario / "expected.json.gz").read_bytes()))
