"""TiCDC's CSV, as a storage changefeed writes it (wire-formats.md, "Storage sink")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.protocols.csv.encoding import CsvEncoding
from pipeline.protocols.csv.form import CsvForm
from pipeline.protocols.described.protocol import DescribedProtocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.model.messages import KnownVersions
    from pipeline.model.types import WarehouseType

__all__ = ["CsvForm", "csv_protocol"]


def csv_protocol(
    form: CsvForm, timezone: str, overrides: Mapping[str, WarehouseType], remembered: KnownVersions
) -> DescribedProtocol:
    """CSV with these characters; for the others see `DescribedProtocol`."""
    return DescribedProtocol(CsvEncoding(form), timezone, overrides, remembered)
