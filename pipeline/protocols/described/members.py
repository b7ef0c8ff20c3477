"""Members of ENUM and SET columns that a description leaves out: the statement has them that defined the column.

Older versions of TiCDC write schema files without members (wire-formats.md, "Storage sink").
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.model.names import folded
from pipeline.protocols.definitions import read_definitions
from pipeline.protocols.overrides import overrides_for

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pipeline.model.columns import SourceColumn, TableVersion
    from pipeline.model.messages import Ddl, KnownVersions
    from pipeline.protocols.described.virtuals import VersionKey


def with_members(
    versions: Mapping[VersionKey, TableVersion], statements: Sequence[Ddl], remembered: KnownVersions
) -> dict[VersionKey, TableVersion]:
    """The versions of a batch; those that lack members have them from statements of this batch and of earlier ones."""
    tables = {version.table.key: version.table for version in versions.values() if version.unnamed}
    if not tables:
        return dict(versions)
    definitions = read_definitions(statements, tables.values(), remembered.of_tables)
    return {
        key: _filled(version, definitions.at(version.table, version.version + 1)) if version.unnamed else version
        for key, version in versions.items()
    }


def _filled(version: TableVersion, defined: Mapping[str, SourceColumn]) -> TableVersion:
    def filled(column: SourceColumn) -> SourceColumn:
        definition = defined.get(folded(column.name))
        if column.members or definition is None or definition.tidb_type != column.tidb_type:
            return column
        return replace(column, members=definition.members)

    return replace(version, columns=tuple(map(filled, version.columns)))


def named_by_user(version: TableVersion, members: Mapping[str, tuple[str, ...]]) -> TableVersion:
    """The version with the members that `warehouse.columns` names (`schema.table.column`), where it lacks them."""
    unnamed: Collection[SourceColumn] = version.unnamed
    of_table = overrides_for(members, version.table.schema, version.table.table) if unnamed and members else {}
    if not of_table:
        return version
    columns = (
        replace(column, members=of_table.get(folded(column.name), ())) if column in unnamed else column
        for column in version.columns
    )
    return replace(version, columns=tuple(columns))
