"""What a pipeline has open from its start to its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.quality.gate import Gate
from pipeline.quality.rulebook import JudgedShape
from pipeline.settings.column_types import own_types
from pipeline.warehouse.evolution import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from pipeline.ingest.run_state import RunState
    from pipeline.model.messages import SourceProtocol, TableMessages
    from pipeline.model.types import WarehouseType
    from pipeline.quality.rulebook import Rulebook
    from pipeline.quality.rules import RuleSet
    from pipeline.settings import Settings
    from pipeline.sources.source import Source
    from pipeline.warehouse.consistent_points import ConsistentPoints
    from pipeline.warehouse.descriptions import Descriptions
    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.records import Records
    from pipeline.warehouse.tables import Tables


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """One open pipeline. `step` is told each durable step, for fail-points and logs."""

    spark: SparkSession
    settings: Settings
    source: Source
    protocol: SourceProtocol
    tables: Tables
    records: Records
    run: RunState
    step: Callable[[str], None]
    rulebook: Rulebook
    descriptions: Descriptions
    """What messages have said of versions."""
    cuts: ConsistentPoints
    gate: Gate = field(default_factory=Gate)

    def rules_of(self, messages: TableMessages, layout: Layout) -> RuleSet:
        """What judges the messages of a table that has this layout."""
        versions = tuple(seen.version for seen in messages.versions if not seen.key_only)
        live = tuple(column.name for column in layout.columns if column.live)
        return self.rulebook.of(JudgedShape(messages.table, versions, layout.mapping, live))

    @property
    def overrides(self) -> Mapping[str, WarehouseType]:
        """See `own_types`."""
        return own_types(self.settings.warehouse.columns)

    @property
    def timezone(self) -> str:
        """The changefeed's time zone."""
        return self.settings.changefeed.timezone

    @property
    def policy(self) -> Policy:
        """What happens to dropped columns."""
        return Policy(keep_dropped_columns=self.settings.warehouse.drop_column == "keep")
