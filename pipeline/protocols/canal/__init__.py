"""TiCDC's Canal-JSON with `enable-tidb-extension`, in files (wire-formats.md, "Storage sink")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.protocols.canal.encoding import CanalEncoding, first_commit_ts, first_commit_ts_at_most
from pipeline.protocols.described.protocol import DescribedProtocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.model.messages import KnownVersions
    from pipeline.model.types import WarehouseType

__all__ = ["canal_protocol", "first_commit_ts", "first_commit_ts_at_most"]


def canal_protocol(
    timezone: str,
    overrides: Mapping[str, WarehouseType],
    remembered: KnownVersions,
    members: Mapping[str, tuple[str, ...]],
) -> DescribedProtocol:
    """Canal-JSON in files, whose tables schema files describe; for what it is given see `DescribedProtocol`."""
    return DescribedProtocol(CanalEncoding(), timezone, overrides, remembered, members)
