"""What the files of a changefeed leave in doubt about tables, as schema files and paths show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.sources.storage.layout import FileLayout
    from pipeline.sources.storage.paths import VersionPath
    from pipeline.sources.storage.schema_files import SchemaFile

_MEMBERS = ("ENUM", "SET")


@dataclass(frozen=True, slots=True)
class Doubt:
    """One thing that is not told. `sentence` has `{}` where tables stand; `loses`: whether rows may be lost by it."""

    sentence: str
    remedy: str
    loses: bool = True


SHARED = Doubt(
    "the partitions of {} share their folders: then TiCDC itself loses rows (tiflow#11979)",
    "set enable-partition-separator = true in the changefeed's [sink], then let the changefeed begin again in another "
    "folder",
)
SEVERAL_WRITERS = Doubt(
    "several writers (enable-table-across-nodes) share {}, without a primary key: of equal rows in one transaction, a "
    "run counts only as many as one file has",
    "set enable-table-across-nodes = false in the changefeed's [scheduler], or give the table a primary key",
)
KEYLESS = Doubt(
    "no primary key in {}: a run counts equal rows there, because schema files name no other key",
    "nothing to do, if no reader takes a unique key of the source for a key of the table",
    loses=False,
)
NO_MEMBERS = Doubt(
    "no members of ENUM or SET in the schema files of {}: values stay numbers, unless a statement of the changefeed "
    "names the members",
    "name them under warehouse.columns",
    loses=False,
)


class SchemaFacts(NamedTuple):
    """What the newest schema file of a table says."""

    version: int
    keyless: bool
    nameless: bool


@dataclass(slots=True)
class TableDoubts:
    """Learns of schema files, and gives the doubts about tables, which it names by their folders.

    `names_members`: see `Lines`.
    """

    names_members: bool = True
    _facts: dict[str, SchemaFacts] = field(default_factory=dict)
    _partitioned: set[str] = field(default_factory=set)

    def learn(self, folder: str, schema: SchemaFile) -> None:
        """Take note of a schema file of the table in a folder."""
        if schema.partitions:
            self._partitioned.add(folder)
        nameless = any(column.type.startswith(_MEMBERS) and not column.members for column in schema.columns)
        keyless = not any(column.in_primary_key for column in schema.columns)
        facts = SchemaFacts(schema.version, keyless, nameless and not self.names_members)
        if schema.columns:
            self._facts[folder] = max(facts, self._facts.get(folder, facts))

    def doubts(self, layouts: Iterable[tuple[FileLayout, VersionPath]]) -> Iterator[tuple[Doubt, tuple[str, ...]]]:
        """Each doubt, with its tables. `layouts`: of files, one of each folder at least."""
        shared: set[str] = set()
        several: set[str] = set()
        for layout, version in layouts:
            if version.table in self._partitioned and not layout.partition:
                shared.add(version.table)
            facts = self._facts.get(version.table)
            if layout.dispatcher and facts is not None and facts.keyless:
                several.add(version.table)
        keyless = [table for table, facts in self._facts.items() if facts.keyless]
        nameless = [table for table, facts in self._facts.items() if facts.nameless]
        for doubt, tables in ((SHARED, shared), (SEVERAL_WRITERS, several), (KEYLESS, keyless), (NO_MEMBERS, nameless)):
            if tables:
                yield doubt, tuple(sorted(tables))
