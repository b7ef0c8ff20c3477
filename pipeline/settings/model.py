"""The whole configuration: `Settings`, which never exists with a contradiction in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, ValidationInfo, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import InitErrorDetails, PydanticCustomError

from pipeline.model.protocols import PROTOCOLS
from pipeline.settings.durations import seconds
from pipeline.settings.faults import SettingFault
from pipeline.settings.fields import FOLDER, REFUSED, Duration, LocalPath, Name
from pipeline.settings.redaction import redacted
from pipeline.settings.rules import contradictions
from pipeline.settings.sections import (
    ChangefeedSettings,
    HoldSettings,
    MetricsSettings,
    Quality,
    RegistrySettings,
    Section,
    SourceSection,
    Spark,
    Warehouse,
)


class Settings(Section):
    """One pipeline: one changefeed into one warehouse."""

    name: Name = Field(description="identifies checkpoint, ledger rows, metrics and lineage")
    source: SourceSection = Field(description="where the changes come from")
    registry: RegistrySettings = Field(default=RegistrySettings(), description="the schema registry; required for avro")
    changefeed: ChangefeedSettings = Field(
        default=ChangefeedSettings(), description="the changefeed's own settings, spelled as in its sink URI"
    )
    warehouse: Warehouse = Field(description="the Iceberg tables")
    quality: Quality = Field(default=Quality(), description="the checks on every micro-batch")
    hold: HoldSettings = Field(default=HoldSettings(), description="the records of held tables")
    checkpoint: LocalPath = Field(description="Spark's checkpoint folder; it is only a cache: the tables are the truth")
    trigger: Duration = Field(
        default="10 seconds", description="time between micro-batches; `run --available-now` ignores it"
    )
    spark: Spark = Field(default=Spark(), description="the Spark session")
    metrics: MetricsSettings = Field(default=MetricsSettings(), description="numbers for Prometheus")

    @property
    def trigger_seconds(self) -> float:
        """`trigger` in seconds."""
        return seconds(self.trigger)

    @property
    def idle(self) -> tuple[str, ...]:
        """Settings that are given and have no meaning with this protocol: a file may serve several changefeeds."""
        facts = PROTOCOLS[self.source.protocol]
        strange = tuple({key for other in PROTOCOLS.values() for key in other.own_keys} - {*facts.own_keys})
        given = ["source.encoding"] if self.source.encoding is not None and not facts.encodings else []
        given += ["registry"] if self.registry.model_fields_set and not facts.needs_registry else []
        fields = type(self.changefeed).model_fields
        aliases = (fields[name].alias or name for name in self.changefeed.model_fields_set)
        given += [f"changefeed.{alias}" for alias in sorted(aliases) if alias.startswith(strange)]
        return tuple(given)

    def shown(self) -> dict[str, Any]:
        """Give the settings as plain data for people: every default filled in, every secret `***`."""
        plain = self.model_dump(by_alias=True, mode="json")
        return {key: redacted(key, value) for key, value in plain.items()}

    @model_validator(mode="wrap")
    @classmethod
    def _all_at_once(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        folder = (info.context or {}).get(FOLDER) or Path.cwd()
        details = [_detail(fault) for fault in contradictions(data, folder)]
        try:
            settings = handler(data)
        except ValidationError as error:
            details = [*_again(error), *details]
        if details:
            raise ValidationError.from_exception_data(cls.__name__, details, hide_input=True)
        return settings


def _detail(fault: SettingFault) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(REFUSED, fault.text), loc=fault.path, input=None)


def _again(error: ValidationError) -> Iterator[InitErrorDetails]:
    for detail in error.errors(include_url=False, include_input=False):
        kind = PydanticCustomError(detail["type"], detail["msg"], detail.get("ctx"))
        yield InitErrorDetails(type=kind, loc=detail["loc"], input=None)
