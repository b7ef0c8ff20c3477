"""The warehouse as its catalog and metadata files tell it, for commands that only look.

Read with PyIceberg: no Spark, no Kafka, no writer's lock, so looking takes a second and disturbs nobody. The
embedded catalog is asked directly (one query gives all names); any other through PyIceberg, with the
properties that Spark gets.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlsplit

from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, NotInstalledError
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.types import LongType

from pipeline.errors import EnvironmentFault, Refused
from pipeline.model.names import CATALOG, PIPELINE_NAMESPACE, WarehouseName
from pipeline.warehouse.place import check_readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from pipeline.settings import Settings
    from pipeline.settings.sections import Warehouse

NO_WAREHOUSE = "NO_WAREHOUSE"
CATALOG_LOST = "CATALOG_LOST"
CATALOG_UNREADABLE = "CATALOG_UNREADABLE"
_NAMES = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables WHERE catalog_name = ?"
_JDBC = re.compile(r"jdbc:(sqlite|postgresql):(.*)", re.DOTALL)
_JAVA_ONLY = ("io-impl", "jdbc.")
_LOCK_SECONDS = 10.0


class Reader(Protocol):
    """A catalog to look at."""

    def names(self) -> list[WarehouseName]:
        """Give every table."""
        ...

    def metadata(self, name: WarehouseName) -> TableMetadata:
        """Give a table's metadata: schema, snapshots, properties."""
        ...

    def table(self, name: WarehouseName) -> Table:
        """Give a table whose rows can be scanned."""
        ...


def reader(settings: Settings) -> Reader:
    """Open the warehouse of these settings to look at it.

    Raises `Refused` (`NO_WAREHOUSE`) where nothing has been written yet, `EnvironmentFault`
    (`CATALOG_UNREADABLE`) where the catalog does not answer. One whose tables lie elsewhere can be looked at, unless
    nothing is there any more (`WAREHOUSE_ELSEWHERE`).
    """
    if not settings.warehouse.catalog.embedded:
        return _Remote(settings)
    file = settings.warehouse.path / "catalog.db"
    if not file.is_file():
        raise _missing(settings.warehouse)
    check_readable(settings.warehouse)
    return _Embedded(file, settings.warehouse.catalog.properties)


def _missing(warehouse: Warehouse) -> Refused:
    if warehouse.local_data and any(warehouse.local_data.glob("*/metadata/*.metadata.json")):
        return Refused(
            CATALOG_LOST,
            f"tables lie in {warehouse.data}, but their catalog ({warehouse.path / 'catalog.db'}) is not there",
            "to bring them back into the catalog: ticdc-warehouse tables restore",
        )
    return _nothing_yet(f"there is no warehouse in {warehouse.path} yet")


def _nothing_yet(sentence: str) -> Refused:
    return Refused(NO_WAREHOUSE, sentence, "the first run makes it: ticdc-warehouse run --available-now")


def records(reader: Reader, name: str, columns: Sequence[str], where: str = "") -> Any:
    """Read columns of one of the pipeline's own tables; gives an Arrow table.

    Raises `Refused` (`NO_WAREHOUSE`) where the catalog does not have it: nothing was written, or by an older version.
    """
    return _scan(reader, name, columns, where).to_arrow()


def batches(reader: Reader, name: str, columns: Sequence[str], where: str = "") -> Any:
    """As `records`, piece by piece: an Arrow reader of record batches."""
    return _scan(reader, name, columns, where).to_arrow_batch_reader()


def extent(reader: Reader, name: str, pipeline: str) -> tuple[int, int | None]:
    """How many rows one of the pipeline's own tables has of a pipeline, and their greatest `batch_id`.

    The files' own statistics tell it, where each file is of one pipeline. No batch: they do not tell that. Raises as
    `records`.
    """
    scan = _scan(reader, name, ("pipeline",), of_pipeline(pipeline))
    schema = reader.table(WarehouseName(PIPELINE_NAMESPACE, name)).schema()
    owner, batch = (schema.find_field(column).field_id for column in ("pipeline", "batch_id"))
    tasks, said = list(scan.plan_files()), pipeline.encode()
    whole = all(
        not task.delete_files and task.file.lower_bounds.get(owner) == task.file.upper_bounds.get(owner) == said
        for task in tasks
    )
    tops = [task.file.upper_bounds.get(batch) for task in tasks]
    newest = max((int(from_bytes(LongType(), top)) for top in tops if top), default=None) if all(tops) else None
    return sum(task.file.record_count for task in tasks) if whole else scan.count(), newest


def of_pipeline(pipeline: str) -> str:
    """A filter: the rows of a pipeline."""
    text = pipeline.replace("'", "''")
    return f"pipeline = '{text}'"


def _scan(reader: Reader, name: str, columns: Sequence[str], where: str) -> Any:
    own = WarehouseName(PIPELINE_NAMESPACE, name)
    try:
        table = reader.table(own)
    except (KeyError, NoSuchTableError, NoSuchNamespaceError):
        raise _nothing_yet(f"the warehouse has no table {own} yet") from None
    scan = table.scan(selected_fields=tuple(columns))
    return scan.filter(where) if where else scan


class _Embedded:
    """The SQLite file in the warehouse's folder, opened so that nothing can be written."""

    def __init__(self, file: Path, properties: Mapping[str, str]) -> None:
        self._file = file
        self._properties = {key: value for key, value in properties.items() if not _is_java(key)}
        self._locations = self._read()

    def names(self) -> list[WarehouseName]:
        return list(self._locations)

    def metadata(self, name: WarehouseName) -> TableMetadata:
        try:
            return self._metadata(name)
        except FileNotFoundError:  # a writer has moved on since the catalog was read
            self._locations = self._read()
            return self._metadata(name)

    def table(self, name: WarehouseName) -> Table:
        return StaticTable.from_metadata(self._read()[name], self._properties)

    def _metadata(self, name: WarehouseName) -> TableMetadata:
        location = self._locations[name]
        parts = urlsplit(location)
        if parts.scheme not in {"", "file"}:
            return StaticTable.from_metadata(location, self._properties).metadata
        path = parts.path if parts.scheme else location
        return TableMetadataUtil.parse_raw(Path(path).read_text(encoding="utf-8"))

    def _read(self) -> dict[WarehouseName, str]:
        uri = f"file:{quote(str(self._file))}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, _LOCK_SECONDS, uri=True)) as database:
                found = database.execute(_NAMES, (CATALOG,)).fetchall()
        except sqlite3.Error as error:
            raise _unreadable(str(self._file), str(error)) from error
        return {WarehouseName(namespace, table): location for namespace, table, location in found}


class _Remote:
    """Any other catalog, through PyIceberg."""

    def __init__(self, settings: Settings) -> None:
        self._where = f"{settings.warehouse.catalog.type} catalog"
        properties = pyiceberg_properties(settings)
        try:
            self._catalog = _load(properties)
        except NotInstalledError as error:
            raise _unreadable(self._where, str(error)) from error
        except Exception as error:  # each catalog has errors of its own
            raise _unreadable(self._where, f"{type(error).__name__}: {error}") from error

    def names(self) -> list[WarehouseName]:
        return [
            WarehouseName(".".join(namespace), identifier[-1])
            for namespace in self._catalog.list_namespaces()
            for identifier in self._catalog.list_tables(namespace)
        ]

    def metadata(self, name: WarehouseName) -> TableMetadata:
        return self.table(name).metadata

    def table(self, name: WarehouseName) -> Table:
        return self._catalog.load_table((name.namespace, name.name))


def pyiceberg_properties(settings: Settings) -> dict[str, str]:
    """Say what PyIceberg's `load_catalog` needs to open the warehouse's catalog."""
    catalog = settings.warehouse.catalog
    if catalog.embedded:
        return {"type": "sql", "uri": f"sqlite:///{settings.warehouse.path / 'catalog.db'}"}
    plain = {key: value for key, value in catalog.properties.items() if not _is_java(key)}
    plain["warehouse"] = settings.warehouse.location
    if catalog.type != "jdbc":
        return {**plain, "type": catalog.type}
    return {**plain, "type": "sql", "uri": _sqlalchemy(catalog.properties)}


def _load(properties: Mapping[str, Any]) -> Catalog:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - a second that the embedded catalog need not wait

    return load_catalog(CATALOG, **properties)


def _sqlalchemy(properties: Mapping[str, str]) -> str:
    """Turn a JDBC URL into SQLAlchemy's."""
    found = _JDBC.fullmatch(properties["uri"])
    if found is None:
        raise _unreadable(properties["uri"].split("?")[0], "PyIceberg reads SQLite and PostgreSQL catalogs")
    kind, rest = found[1], found[2].split("?")[0]
    if kind == "sqlite":
        return f"sqlite:///{rest}"
    user, password = properties.get("jdbc.user", ""), properties.get("jdbc.password", "")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    return f"postgresql+psycopg2://{login}{rest.removeprefix('//')}"


def _is_java(key: str) -> bool:
    return key.startswith(_JAVA_ONLY)


def _unreadable(what: str, why: str) -> EnvironmentFault:
    return EnvironmentFault(
        CATALOG_UNREADABLE,
        f"{what} can't be read: {why}",
        "check warehouse.catalog; this command reads it with PyIceberg, `run` with Spark",
    )


def inherited(table: TableMetadata, key: str) -> str | None:
    """A summary entry of the newest snapshot that has it: maintenance commits do not carry ours."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        told = snapshot.summary.additional_properties if snapshot.summary else {}
        if key in told:
            return told[key]
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return None
