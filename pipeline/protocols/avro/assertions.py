"""What the settings say of the changefeed, against what its messages show.

The message's own schema always decides how it is read (design.md, 4.1). The run still warns where the two disagree: the
changefeed is then not the one that its user takes it for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry import AvroColumn, TicdcSchema


@dataclass(frozen=True, slots=True)
class Asserted:
    """Settings of `changefeed` that a schema can confirm or deny; None: the setting is not given."""

    extension: bool | None = None
    decimal: str | None = None
    unsigned: str | None = None

    def denied(self, schema: TicdcSchema) -> Iterator[str]:
        """A sentence for each setting that a value schema disagrees with."""
        sent: list[tuple[str, object, object]] = [("enable-tidb-extension", self.extension, schema.extension)]
        for column in schema.columns:
            match column.tidb_type.upper():
                case "DECIMAL":
                    sent.append(("avro-decimal-handling-mode", self.decimal, _decimal(column)))
                case "BIGINT UNSIGNED":
                    sent.append(("avro-bigint-unsigned-handling-mode", self.unsigned, _unsigned(column)))
        for name, setting, actual in dict.fromkeys(sent):
            if setting is not None and setting != actual:
                yield (
                    f"changefeed.{name} is {_text(setting)}, but the messages say {_text(actual)}; "
                    "they are read as sent"
                )


def _decimal(column: AvroColumn) -> str:
    return "string" if column.precision is None else "precise"


def _unsigned(column: AvroColumn) -> str:
    return "string" if column.avro_type == "string" else "long"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
