"""The configuration file as types. `load` is the way in; docs/reference/configuration.md is the reference."""

from pipeline.settings.loading import load, parse
from pipeline.settings.model import Settings
from pipeline.settings.schema import described, json_schema
from pipeline.settings.sections import (
    CatalogSettings,
    ChangefeedSettings,
    HoldSettings,
    Maintenance,
    MetricsSettings,
    Quality,
    RegistrySettings,
    SourceSection,
    Spark,
    Warehouse,
)

__all__ = [
    "CatalogSettings",
    "ChangefeedSettings",
    "HoldSettings",
    "Maintenance",
    "MetricsSettings",
    "Quality",
    "RegistrySettings",
    "Settings",
    "SourceSection",
    "Spark",
    "Warehouse",
    "described",
    "json_schema",
    "load",
    "parse",
]
