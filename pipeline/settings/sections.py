"""The sections of the configuration file as frozen types; every key with its meaning and default.

The descriptions are what `config schema` and docs/reference/configuration.md say. Names follow design.md, 4.1; the keys
of `changefeed` are spelled as in TiCDC's sink URI.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from pipeline.model.protocols import facts_of
from pipeline.model.table_filter import EVERY_TABLE, TableFilter
from pipeline.settings.durations import seconds
from pipeline.settings.fields import (
    Bytes,
    Columns,
    Duration,
    FreeMap,
    Line,
    LineEnd,
    LocalPath,
    LongDuration,
    Namespace,
    Quote,
    Servers,
    StartingOffsets,
    StoragePath,
    TableRule,
    Timezone,
    Topic,
    TopicPattern,
    Url,
)
from pipeline.settings.redaction import redacted
from pipeline.settings.sizes import bytes_of

DATA_FOLDER = "data"
_PLACE = re.compile(r"/|[a-z][a-z0-9+.-]*:/", re.IGNORECASE)
"""How a folder or a URL begins."""


class Section(BaseModel):
    """A mapping of the file: unknown keys are errors, values never change, secrets stay out of its repr."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, redacted(name or "", value)) for name, value in super().__repr_args__()]


class ClaimCheckSettings(Section):
    """The objects of a changefeed whose `large-message-handle-option` is `claim-check`."""

    path: StoragePath | None = Field(
        default=None,
        description="the place of messages that were too large for Kafka: `claim-check-storage-uri` of the sink URI "
        "without its query; a bucket (`s3://bucket/prefix`), or a folder that each executor sees",
    )
    written_as: StoragePath | None = Field(
        default=None,
        description="the path as TiCDC knows it, if a run finds the objects under another path, because they were "
        "moved or a folder is mounted elsewhere",
    )
    options: Annotated[Mapping[str, str], FreeMap(".")] = Field(
        default={}, description="how to reach a bucket (`s3.endpoint`, `s3.region`, …)"
    )


class UpstreamSettings(Section):
    """The TiDB of a changefeed whose `large-message-handle-option` is `handle-key-only`."""

    host: Line | None = Field(
        default=None,
        description="the changefeed's own TiDB: if a message has only the key, an executor reads the row from there, "
        "as it was at its commit ts; each executor connects to it",
    )
    port: int = Field(default=4000, ge=1, le=65535, description="the port of TiDB's MySQL protocol")
    user: Line | None = Field(
        default=None, description="a user who may SELECT from the changefeed's tables, and nothing else"
    )
    password: SecretStr | None = Field(
        default=None, description="the password, best set as TICDC_WAREHOUSE__SOURCE__UPSTREAM__PASSWORD"
    )
    ca_file: LocalPath | None = Field(
        default=None,
        description="the CA that has signed the server's certificate. With it the connection is encrypted and the "
        "server's name is checked; without it the connection is encrypted only if the server can",
    )


class SourceSection(Section):
    """Where the changes come from."""

    kind: Literal["kafka", "storage"] = Field(
        description="`kafka`, or `storage`: the files of a changefeed whose sink is a bucket or a folder"
    )
    protocol: Literal["avro", "simple", "open-protocol", "canal-json", "csv"] = Field(
        description="the changefeed's protocol: `csv` comes in files only, `canal-json` in files or in Kafka"
    )
    path: StoragePath | None = Field(
        default=None,
        description="with `kind: storage`: the folder of the changefeed, which is its sink URI without the query: "
        "`s3://bucket/prefix`, or a folder of this machine",
    )
    tables: tuple[TableRule, ...] = Field(
        default=(EVERY_TABLE,),
        description="the source's tables to read, as in TiCDC's `filter.rules`: `shop.*`, `!shop.log_*`; the last rule "
        "that fits a table decides",
    )
    max_bytes_per_trigger: Bytes = Field(
        default="512 MiB",
        description="with `kind: storage`: the most bytes of files in one micro-batch; a larger "
        "file is a batch of its own",
    )
    full_listing: Duration = Field(
        default="1 hour",
        description="with `kind: storage`: how often a run lists all files; in between it lists only the places where "
        "new files should come",
    )
    encoding: Literal["json", "avro"] | None = Field(
        default=None, description="with `protocol: simple` only: `encoding-format` of the sink URI; `json` unless given"
    )
    bootstrap_servers: Servers = Field(
        default="", description="with `kind: kafka`: brokers, `host:port[,host:port]`; required there"
    )
    topics: tuple[Topic, ...] = Field(default=(), description="the topics to read; this or `topic_pattern`")
    topic_pattern: TopicPattern | None = Field(
        default=None,
        description="a Java regular expression that the whole name of a topic must match; a run finds topics that "
        "appear later, but never those that begin with `__`",
    )
    starting_offsets: StartingOffsets = Field(
        default="earliest",
        description="where the first batch of a pipeline begins; offsets as `{topic: {partition: offset}}`",
    )
    max_offsets_per_trigger: int = Field(
        default=500_000, ge=1, le=2**63 - 1, description="the most records in one micro-batch"
    )
    cleanup: Literal["keep", "delete"] = Field(
        default="keep",
        description="with `kind: storage`: whether a run deletes files that a batch has taken, if they are older than "
        "`warehouse.maintenance.keep_for` and the tables show their rows",
    )
    claim_check: ClaimCheckSettings = Field(
        default=ClaimCheckSettings(),
        description="with `kind: kafka`: the place of rows that were too large for a message",
    )
    upstream: UpstreamSettings = Field(
        default=UpstreamSettings(),
        description="with `kind: kafka`: where a run reads a row if its message has only the key",
    )
    options: Annotated[Mapping[str, str], FreeMap(".")] = Field(
        default={},
        description="with `kind: kafka`: any Kafka client property, as `kafka.<property>`, and Spark's own Kafka "
        "source options; with `kind: storage`: how to reach a bucket (`s3.endpoint`, `s3.region`, …)",
    )

    @model_validator(mode="before")
    @classmethod
    def _encoding_in_effect(cls, data: Any) -> Any:
        """A protocol with encodings has one, said or not."""
        facts = facts_of(data.get("protocol")) if isinstance(data, Mapping) else None
        if facts is None or not facts.encodings or data.get("encoding") is not None:
            return data
        return {**data, "encoding": facts.encodings[0]}

    @property
    def table_filter(self) -> TableFilter:
        """`tables` as a filter."""
        return TableFilter.of(self.tables)

    @property
    def place(self) -> str:
        """`path`, which a storage changefeed has."""
        if self.path is None:
            raise AssertionError("source.path is required with `kind: storage`")
        return self.path

    @property
    def most_bytes(self) -> int:
        """`max_bytes_per_trigger` as a number."""
        return bytes_of(self.max_bytes_per_trigger)

    @property
    def full_listing_seconds(self) -> float:
        """`full_listing` in seconds."""
        return seconds(self.full_listing)


class RegistrySettings(Section):
    """The schema registry (Confluent API) of an Avro changefeed."""

    url: Url = Field(default="", description="the registry's URL, required for avro; user:password@ can be in it")
    username: Line | None = Field(default=None, description="basic authentication, with `password`")
    password: SecretStr | None = Field(
        default=None, description="the password, best set as TICDC_WAREHOUSE__REGISTRY__PASSWORD"
    )
    ca_file: LocalPath | None = Field(
        default=None, description="PEM file of the authority that signed the registry's certificate"
    )
    cert_file: LocalPath | None = Field(default=None, description="PEM file of the client's certificate (mutual TLS)")
    key_file: LocalPath | None = Field(default=None, description="PEM file of the client's key, with `cert_file`")
    headers: Annotated[Mapping[str, Line], FreeMap("-")] = Field(default={}, description="HTTP headers of each request")
    timeout_seconds: float = Field(default=10.0, gt=0, le=600, description="how long one request may take")
    retries: int = Field(default=5, ge=0, le=100, description="further attempts when the registry does not answer")


class CsvSettings(Section):
    """`[sink.csv]` of the changefeed: how its lines are written."""

    delimiter: str = Field(
        default=",", min_length=1, max_length=3, description="between fields; one to three characters"
    )
    quote: Quote = Field(default='"', max_length=1, description="around texts; empty for none")
    null: str = Field(default=r"\N", description="the text that means NULL")
    terminator: LineEnd = Field(default="\r\n", description=r'the end of a line, `"\r\n"` or `"\n"`')
    binary_encoding_method: Literal["base64", "hex"] = Field(
        default="base64", alias="binary-encoding-method", description="how binary values are written"
    )
    include_commit_ts: bool | None = Field(
        default=None, alias="include-commit-ts", description="lines have a commit ts; a run refuses lines without one"
    )
    output_old_value: bool | None = Field(
        default=None, alias="output-old-value", description="updates carry old values"
    )


class ChangefeedSettings(Section):
    """The changefeed's own settings.

    `timezone`, `enable-old-value`, and the characters and the binary encoding of `csv` steer decoding; the rest is only
    compared.
    """

    protocol: Literal["avro", "simple", "open-protocol", "canal-json", "csv"] | None = Field(
        default=None, description="as in the sink URI; must equal `source.protocol`"
    )
    enable_tidb_extension: bool | None = Field(
        default=None,
        alias="enable-tidb-extension",
        description="the `_tidb_op`, `_tidb_commit_ts` fields are sent",
    )
    avro_decimal_handling_mode: Literal["precise", "string"] | None = Field(
        default=None, alias="avro-decimal-handling-mode", description="how DECIMAL is sent"
    )
    avro_bigint_unsigned_handling_mode: Literal["long", "string"] | None = Field(
        default=None, alias="avro-bigint-unsigned-handling-mode", description="how BIGINT UNSIGNED is sent"
    )
    avro_enable_watermark: bool | None = Field(
        default=None,
        alias="avro-enable-watermark",
        description="watermarks and DDL are sent; needs enable-tidb-extension",
    )
    enable_old_value: bool | None = Field(
        default=None,
        alias="enable-old-value",
        description="with `protocol: open-protocol` only: false if updates do not carry old values (today "
        "`output-old-value`)",
    )
    date_separator: Literal["none", "year", "month", "day"] | None = Field(
        default=None, alias="date-separator", description="with `kind: storage`: which date folders there are"
    )
    csv: CsvSettings = Field(default=CsvSettings(), description="with `protocol: csv` only: `[sink.csv]`")
    timezone: Timezone = Field(
        default="UTC", description="TiCDC's time zone, in which TIMESTAMP values are written (IANA name)"
    )


class CatalogSettings(Section):
    """The Iceberg catalog; further keys are its properties."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str] = Field(init=False)

    type: Literal["jdbc", "rest", "hive", "glue"] = Field(
        default="jdbc",
        description="`jdbc` without `uri` is the embedded one, `catalog.db` in warehouse.path",
    )

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties given beside `type`, as Iceberg names them (`uri`, `io-impl`)."""
        return self.__pydantic_extra__

    @property
    def embedded(self) -> bool:
        """Whether the catalog is this product's own SQLite file inside the warehouse."""
        return self.type == "jdbc" and "uri" not in self.properties


class Maintenance(Section):
    """When a table is compacted between two batches, and which snapshots stay."""

    compact_files: int = Field(default=32, ge=1, description="compact a table after so many new data files")
    compact_deletes: int = Field(default=16, ge=1, description="compact a table after so many new delete files")
    expire_after_commits: int = Field(default=50, ge=1, description="expire snapshots after so many commits to a table")
    keep_snapshots: int = Field(default=20, ge=1, description="the newest snapshots that always stay")
    keep_for: Duration = Field(
        default="1 hour", description="younger snapshots stay too; this must be longer than a replay reaches back"
    )

    orphans_after: LongDuration = Field(
        default="3 days",
        description="`tables maintain --orphans` removes files that no snapshot names, once they are this old",
    )

    @property
    def keep_for_seconds(self) -> float:
        """`keep_for` in seconds."""
        return seconds(self.keep_for)

    @property
    def orphans_after_seconds(self) -> float:
        """`orphans_after` in seconds."""
        return seconds(self.orphans_after)


_WAITING = 16
"""Threads that wait for commits."""


class Warehouse(Section):
    """The Iceberg tables."""

    path: LocalPath = Field(description="folder of the warehouse: tables, embedded catalog, the writer's lock")
    catalog: Annotated[CatalogSettings, FreeMap()] = Field(
        default=CatalogSettings(), description="the Iceberg catalog: `type` and its properties"
    )
    namespace: Namespace = Field(
        default="{schema}",
        description="the namespace of a source table in the warehouse; `{schema}` is the source's schema",
    )
    current: bool = Field(default=True, description="keep a table with one row per key; false: changes tables only")
    columns: Columns = Field(default={}, description="column types by `schema.table.column`, such as `decimal(18,4)`")
    drop_column: Literal["keep", "drop"] = Field(
        default="keep",
        description="what DROP COLUMN does: `keep` keeps the column, with NULL in new rows; `drop` removes it",
    )
    drop_table: Literal["keep", "drop"] = Field(
        default="keep", description="what DROP TABLE does to the warehouse's table"
    )
    table_threads: int = Field(
        default=4,
        ge=1,
        le=64,
        description="how many tables of one batch a run writes at the same time; for a small batch at least 16, if "
        "the catalog is not the embedded one",
    )
    maintenance: Maintenance = Field(
        default=Maintenance(), description="compaction and snapshot expiry between batches"
    )

    def threads(self, *, small: bool) -> int:
        """How many tables of a batch are worked on at once.

        Those of a small one wait for their commits, and for little else. A catalog on this machine has one writer;
        another one takes many commits at once.
        """
        return max(self.table_threads, _WAITING) if small and not self.catalog.embedded else self.table_threads

    @property
    def location(self) -> str:
        """Where Iceberg keeps the data: the catalog's `warehouse` property if given, else `path`."""
        return self.catalog.properties.get("warehouse", str(self.path))

    @property
    def data(self) -> str:
        """The folder or URL in which each table has a folder of its own (design.md, rule 10).

        In `location`, unless that is a name: a REST catalog may call a warehouse by one.
        """
        place = self.location if _PLACE.match(self.location) else str(self.path)
        return f"{place.rstrip('/')}/{DATA_FOLDER}"

    @property
    def local_data(self) -> Path | None:
        """`data`, where this machine has it."""
        url = urlsplit(self.data)
        return Path(url.path if url.scheme else self.data) if url.scheme in ("", "file") else None

    def namespace_of(self, schema: str) -> str:
        """Give the warehouse namespace of a source schema."""
        return self.namespace.replace("{schema}", schema)


class Quality(Section):
    """The checks on every micro-batch."""

    suites: LocalPath | None = Field(
        default=None, description="folder of YAML suites; without it only the built-in rules are applied"
    )
    built_in: bool = Field(default=True, description="judge by the rules that follow from the source schema")
    quarantine_share: float = Field(
        default=0.5, ge=0, le=1, description="hold a table if more than this share of a batch would be quarantined"
    )
    quarantine_rows: int = Field(
        default=100,
        ge=1,
        description="`quarantine_share` counts only if at least this many rows of a batch would be quarantined",
    )
    fenced: Literal["apply", "hold"] = Field(
        default="apply",
        description="later changes of a quarantined key: `apply` applies them, `hold` sets them aside, too",
    )
    gx_interval: Duration = Field(
        default="10 minutes",
        description="at most once in this time, a run judges a table by the expectations that only Great Expectations "
        "can judge",
    )
    allow_slow_regex: bool = Field(
        default=False,
        description="let suites use back-references and nested quantifiers, with which a match may never end",
    )

    @property
    def gx_interval_seconds(self) -> float:
        """`gx_interval` in seconds."""
        return seconds(self.gx_interval)


class HoldSettings(Section):
    """The records of tables that wait for a person."""

    max_records: int = Field(
        default=1_000_000, ge=1, description="the run stops before it would hold more records than this"
    )


class Spark(Section):
    """The Spark session."""

    master: Line = Field(default="local[*]", description="Spark master URL")
    conf: Annotated[Mapping[str, str], FreeMap(".")] = Field(
        default={}, description="any Spark property, as `spark.<property>`; paths in it must be absolute"
    )


class MetricsSettings(Section):
    """What a run tells Prometheus while it lives."""

    port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="`run` answers at `http://host:port/metrics`; without a port it does not",
    )
    host: Line = Field(
        default="127.0.0.1", description="the address to listen at; `0.0.0.0` for all addresses of the machine"
    )
