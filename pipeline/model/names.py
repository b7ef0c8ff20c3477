"""Names of tables and columns, which are hostile input until proven otherwise.

A name is never a path and never SQL text: paths come from `slug` plus a uuid, SQL identifiers from `quoted`.
Tables and columns match without case, as they do in TiDB (design.md, 4.3).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

CATALOG = "warehouse"
PIPELINE_NAMESPACE = "_pipeline"
CHANGES_SUFFIX = "__changes"

CHANGE_COLUMNS = (
    "_op",
    "_commit_ts",
    "_commit_time",
    "_topic",
    "_kafka_partition",
    "_offset",
    "_index",
    "_schema_id",
    "_batch_id",
    "_ingested_at",
    "_unrepresentable",
    "_before",
)
"""Our own columns of a changes table; `_commit_ts` and `_unrepresentable` also stand in the current table."""

ICEBERG_COLUMNS = (
    "_file",
    "_pos",
    "_deleted",
    "_spec_id",
    "_partition",
    "_row_id",
    "_last_updated_sequence_number",
)
"""Iceberg's metadata columns: a data column of such a name breaks `SELECT *`, MERGE and compaction."""

RESERVED_COLUMNS = frozenset(CHANGE_COLUMNS) | frozenset(ICEBERG_COLUMNS)

_SLUG_LENGTH = 48

Name = tuple[str, str]
"""Schema and table in lower case (`TableName.key`)."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A source table as the changefeed names it: schema (database) and table."""

    schema: str
    table: str

    @property
    def key(self) -> Name:
        """What two spellings of one table have in common."""
        return folded(self.schema), folded(self.table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class WarehouseName:
    """Where a table lies in the catalog: one namespace level and a name."""

    namespace: str
    name: str

    @property
    def sql(self) -> str:
        """The table as a Spark SQL identifier, quoted."""
        return quoted(CATALOG, self.namespace, self.name)

    @property
    def changes(self) -> WarehouseName:
        """The append-only companion of a current table."""
        return WarehouseName(self.namespace, self.name + CHANGES_SUFFIX)

    def branch(self, branch: str) -> str:
        """One branch of the table as a Spark SQL identifier."""
        return quoted(CATALOG, self.namespace, self.name, f"branch_{branch}")

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


def folded(name: str) -> str:
    """What two spellings of a source name have in common: lower case, as in TiDB (`CIStr`) and in Spark's `lower`.

    TiDB differs in one letter and one place: to it a capital i with a dot is i, and no sigma ends a word.

    >>> folded("ORDERS") == folded("orders"), folded("Maß") == folded("MASS")
    (True, False)
    """
    return name.lower()


@lru_cache(maxsize=16_384)
def confusable(name: str) -> str:
    """What warehouse names have in common that Java may take for one, by `equalsIgnoreCase` or by lower case.

    >>> confusable("s\u0131ra") == confusable("SIRA"), confusable("Maß") == confusable("MASS")
    (True, False)
    """
    if name.isascii():
        return name.lower()
    undotted = name.replace("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "i").replace("i\N{COMBINING DOT ABOVE}", "i")
    return "".join(_upper(letter).lower() for letter in undotted)


def _upper(letter: str) -> str:
    """As Java's `Character.toUpperCase`: a letter that would become several stays."""
    upper = letter.upper()
    return upper if len(upper) == 1 else letter


def quoted(*parts: str) -> str:
    """Spark SQL identifier of these parts, each in back quotes."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def slug(name: str) -> str:
    """A short ASCII hint of `name` for a folder; it need not be unique, a uuid follows it.

    >>> slug("../Orders 2024")
    'orders_2024'
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:_SLUG_LENGTH] or "table"


def stored_column(name: str) -> str:
    """The warehouse column of a source column: itself, or `<name>__src` where the name is taken by ours."""
    return f"{name}__src" if confusable(name) in RESERVED_COLUMNS else name


def stored_table(table: TableName, namespace_template: str) -> WarehouseName:
    """Where a source table lands (`warehouse.namespace` with `{schema}` filled in)."""
    return WarehouseName(namespace_template.replace("{schema}", table.schema), table.table)
