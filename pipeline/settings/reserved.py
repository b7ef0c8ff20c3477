"""Free keys that would do nothing, or undo what this product relies on, each with the way to go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model.names import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Spark's own Kafka source options ("Structured Streaming + Kafka Integration Guide"); names have no case.
SPARK_OPTIONS = (
    "groupIdPrefix",
    "minPartitions",
    "maxRecordsPerPartition",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
_TAKEN_OPTIONS = {
    "kafka.bootstrap.servers": "use source.bootstrap_servers",
    "subscribe": "use source.topics",
    "assign": "use source.topics",
    "subscribepattern": "use source.topic_pattern",
    "startingoffsets": "use source.starting_offsets",
    "maxoffsetspertrigger": "use source.max_offsets_per_trigger",
    "endingoffsets": "a stream has no end",
    "failondataloss": "a run always refuses to start if records are lost",
    "includeheaders": "no protocol reads headers",
    "kafka.key.deserializer": "keys and values are read as bytes",
    "kafka.value.deserializer": "keys and values are read as bytes",
    "kafka.auto.offset.reset": "use source.starting_offsets",
    "kafka.enable.auto.commit": "the tables hold the progress",
    "kafka.interceptor.classes": "Spark allows none",
}
_OPTIONS = f"expected `kafka.<Kafka client property>` or one of {', '.join(SPARK_OPTIONS)}; Spark ignores others"
STORE_OPTIONS = (
    "s3.endpoint",
    "s3.region",
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    "s3.path-style-access",
)
"""How to reach a bucket, as PyIceberg and `warehouse.catalog` call it."""
_TAKEN_CONF = {
    "spark.master": "use the key `master` of `spark`",
    "spark.jars.packages": "the jars are pinned; name your own repository in TICDC_WAREHOUSE_IVY_SETTINGS",
}
_TAKEN_PROPERTIES = {
    "catalog-impl": "use warehouse.catalog.type",
    "cache-enabled": "it is always false: with a cache the threads of a batch would read old snapshots",
}
# TiCDC "Replicate Data to Kafka": keys of the sink URI that leave no mark in the messages, by topic.
_SINK_ONLY = (
    "kafka-",
    "partition-num",
    "max-",
    "replication-",
    "compression",
    "auto-create-",
    "required-acks",
)
_SINK_TIMES = ("dial-timeout", "write-timeout", "read-timeout")
_SINK_ACCESS = ("sasl-", "enable-tls", "insecure-skip-verify")
_SINK_FILES = ("ca", "cert", "key")
_UNCHECKED = "remove it: this key of TiCDC's sink URI does not show in the messages, so a run cannot check it"
_ACCESS = "this is how TiCDC reaches Kafka; set a run's own access in source.options (`kafka.sasl.…`, `kafka.ssl.…`)"


def refused_options(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of `source.options` that have a setting of their own, or that Spark would ignore."""
    options = {option.lower() for option in SPARK_OPTIONS}
    for key in keys:
        if reason := _TAKEN_OPTIONS.get(key.lower()):
            yield key, reason
        elif key.lower() not in options and not (key.startswith("kafka.") and key != "kafka."):
            yield key, _OPTIONS


def refused_store_options(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of `source.options` that say nothing of a bucket."""
    yield from ((key, f"expected one of {', '.join(STORE_OPTIONS)}") for key in keys if key not in STORE_OPTIONS)


def refused_conf(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of `spark.conf` that have a setting of their own, or that are no Spark property."""
    for key in keys:
        if reason := _TAKEN_CONF.get(key):
            yield key, reason
        elif key.startswith("spark.sql.catalog.warehouse"):
            yield key, "use warehouse.catalog"
        elif not key.startswith("spark.") or key == "spark.":
            yield key, "expected `spark.<property>`; Spark ignores others"


def refused_properties(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of `warehouse.catalog` that this product decides."""
    yield from ((key, _TAKEN_PROPERTIES[key]) for key in keys if key in _TAKEN_PROPERTIES)


def refused_columns(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of `warehouse.columns` that are not `schema.table.column`, or that come twice."""
    seen: dict[str, str] = {}
    for key in keys:
        parts = key.split(".")
        if len(parts) != 3 or not all(part.strip() for part in parts):  # noqa: PLR2004 - schema, table, column
            yield key, "expected the key as schema.table.column"
        elif (first := seen.setdefault(folded(key), key)) != key:
            yield key, f"the same column as `{first}`: tables and columns match without case"


def sink_key(key: str) -> str:
    """Say why a TiCDC sink-URI key has no place under `changefeed`; empty for any other word."""
    if key.startswith(_SINK_ONLY) or key in _SINK_TIMES:
        return _UNCHECKED
    if key.startswith(_SINK_ACCESS) or key in _SINK_FILES:
        return _ACCESS
    return "the registry is given as registry.url" if key == "schema-registry" else ""
