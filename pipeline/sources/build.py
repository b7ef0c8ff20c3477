"""The sources that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.sources import kafka
from pipeline.sources.storage import losses
from pipeline.sources.storage.source import StorageSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from pipeline.settings import Settings
    from pipeline.sources.source import Source

SOURCES: Mapping[str, Callable[[SparkSession, Settings], Source]] = {
    "kafka": kafka.KafkaSource,
    "storage": StorageSource,
}
"""By `source.kind`."""
OWN_TABLES: Mapping[str, tuple[str, ...]] = {"kafka": (), "storage": ("files",)}
"""Tables of `warehouse._pipeline` that only one kind of source has."""
REFUSALS = (*kafka.REFUSALS, *losses.REFUSALS)
"""Codes of refusals of any source that `run --accept` passes over."""


def source_of(spark: SparkSession, settings: Settings) -> Source:
    """The source that the settings name. It is not asked for anything yet. Raises `PipelineError`."""
    return SOURCES[settings.source.kind](spark, settings)
