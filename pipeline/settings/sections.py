"""The sections of the configuration file as frozen types; every key with its meaning and default.

The descriptions are what `config schema` and docs/reference/configuration.md say. Names follow design.md, 4.1; the keys of
`changefeed` are spelled as in TiCDC's sink URI.
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
        description="where the messages lie that were too large for Kafka: `claim-check-storage-uri` of the sink URI "
        "without its query; a bucket (`s3://bucket/prefix`), or a folder that each executor sees",
    )
    written_as: StoragePath | None = Field(
        default=None,
        description="the path as TiCDC knows it, where this reader finds the objects under another one: they were "
        "moved, or a folder is mounted elsewhere",
    )
    options: Annotated[Mapping[str, str], FreeMap(".")] = Field(
        default={}, description="how to reach a bucket, as in `warehouse.catalog` (`s3.endpoint`)"
    )


class UpstreamSettings(Section):
    """The TiDB of a changefeed whose `large-message-handle-option` is `handle-key-only`."""

    host: Line | None = Field(
        default=None,
        description="the changefeed's own TiDB, from which rows are read as they were at their commit ts, where a "
        "message has the key alone; each executor asks it",
    )
    port: int = Field(default=4000, ge=1, le=65535, description="of TiDB's MySQL protocol")
    user: Line | None = Field(
        default=None, description="a user who may SELECT from the changefeed's tables, and nothing else"
    )
    password: SecretStr | None = Field(
        default=None, description="best given as TICDC_WAREHOUSE__SOURCE__UPSTREAM__PASSWORD"
    )
    ca_file: LocalPath | None = Field(
        default=None,
        description="the CA that has signed the server's certificate. With it the connection is encrypted and the "
        "server's name is checked; without it the connection is encrypted where the server can",
    )


class SourceSection(Section):
    """Where the changes come from."""

    kind: Literal["kafka", "storage"] = Field(
        description="`kafka`, or `storage`: the files of a changefeed whose sink is a bucket or a folder"
    )
    protocol: Literal["avro", "simple", "open-protocol", "canal-json", "csv"] = Field(
        description="the changefeed's protocol: `csv` is read from files, `canal-json` from either kind"
    )
    path: StoragePath | None = Field(
        default=None,
        description="with `kind: storage`: the folder of the changefeed, `s3://bucket/prefix` or one of this machine: "
        "its sink URI without the query",
    )
    tables: tuple[TableRule, ...] = Field(
        default=(EVERY_TABLE,),
        description="the source's tables to read, as in TiCDC's `filter.rules`: `shop.*`, `!shop.log_*`; the last rule "
        "that fits a table decides",
    )
    max_bytes_per_trigger: Bytes = Field(
        default="512 MiB", description="with `kind: storage`: the most bytes of files in one micro-batch, or one file"
    )
    full_listing: Duration = Field(
        default="1 hour",
        description="with `kind: storage`: how often all files are listed, and not only where new ones should come",
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
        description="a regular expression of Java's that a topic's whole name matches; topics that appear later are "
        "found, those that begin with `__` never",
    )
    starting_offsets: StartingOffsets = Field(
        default="earliest",
        description="where a pipeline without any batch begins; offsets as `{topic: {partition: offset}}`",
    )
    max_offsets_per_trigger: int = Field(
        default=500_000, ge=1, le=2**63 - 1, description="the most records in one micro-batch"
    )
    cleanup: Literal["keep", "delete"] = Field(
        default="keep",
        description="with `kind: storage`: whether files are deleted that a batch has taken, that are older than "
        "`warehouse.maintenance.keep_for`, and whose rows the tables show",
    )
    claim_check: ClaimCheckSettings = Field(
        default=ClaimCheckSettings(),
        description="with `kind: kafka`: where rows lie that were too large for a message",
    )
    upstream: UpstreamSettings = Field(
        default=UpstreamSettings(),
        description="with `kind: kafka`: where rows are read of which a message has the key alone",
    )
    options: Annotated[Mapping[str, str], FreeMap(".")] = Field(
        default={},
        description="with `kind: kafka`: any Kafka client property, as `kafka.<property>`, and Spark's own Kafka "
        "source options; with `kind: storage`: how to reach a bucket, as in `warehouse.catalog` (`s3.endpoint`)",
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

    url: Url = Field(default="", description="required for avro; user:password@ is read too")
    username: Line | None = Field(default=None, description="basic authentication, with `password`")
    password: SecretStr | None = Field(default=None, description="best given as TICDC_WAREHOUSE__REGISTRY__PASSWORD")
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
    quote: str = Field(default='"', max_length=1, description="around texts; empty for none")
    null: str = Field(default=r"\N", description="what stands for NULL")
    terminator: LineEnd = Field(default="\r\n", description=r'the end of a line, `"\r\n"` or `"\n"`')
    binary_encoding_method: Literal["base64", "hex"] = Field(
        default="base64", alias="binary-encoding-method", description="how binary values are written"
    )
    include_commit_ts: bool | None = Field(
        default=None, alias="include-commit-ts", description="lines have a commit ts, without which they are refused"
    )
    output_old_value: bool | None = Field(
        default=None, alias="output-old-value", description="updates carry the row as it was"
    )


class ChangefeedSettings(Section):
    """What TiCDC was told.

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
        description="with `protocol: open-protocol` only: false where updates do not carry the row as it was "
        "(today `output-old-value`)",
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
        default="1 hour", description="younger snapshots stay too; longer than a replay reaches back"
    )

    orphans_after: LongDuration = Field(
        default="3 days", description="`tables maintain --orphans` removes files of no snapshot when they are this old"
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
        default="{schema}", description="where a source table lands; `{schema}` is the source's schema"
    )
    current: bool = Field(default=True, description="keep a table with one row per key; false: changes tables only")
    columns: Columns = Field(default={}, description="column types by `schema.table.column`, such as `decimal(18,4)`")
    drop_column: Literal["keep", "drop"] = Field(
        default="keep",
        description="what DROP COLUMN does: the column stays and new rows have NULL, or it goes",
    )
    drop_table: Literal["keep", "drop"] = Field(
        default="keep", description="what DROP TABLE does to the warehouse's table"
    )
    table_threads: int = Field(
        default=4,
        ge=1,
        le=64,
        description="tables of one batch that are worked on side by side; of a small batch, with a catalog elsewhere, "
        "at least 16",
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
        default=0.5, ge=0, le=1, description="a table is held when more of a batch than this would be quarantined"
    )
    quarantine_rows: int = Field(
        default=100, ge=1, description="with fewer rows to quarantine in a batch that share does not count"
    )
    fenced: Literal["apply", "hold"] = Field(
        default="apply",
        description="later changes of a quarantined key: they apply, or they are set aside behind it",
    )
    gx_interval: Duration = Field(
        default="10 minutes",
        description="expectations that only Great Expectations can judge run at most so often for a table",
    )
    allow_slow_regex: bool = Field(
        default=False, description="let suites use back-references and nested quantifiers, which may never end"
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
        default=None, ge=1, le=65535, description="`run` answers at `http://host:port/metrics`; not without a port"
    )
    host: Line = Field(default="127.0.0.1", description="the address to listen at; `0.0.0.0` for all of the machine")
