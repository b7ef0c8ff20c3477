"""The warehouse as its catalog and metadata files describe it, for commands that only look.

PyIceberg reads it, without Spark, without the source and without the writer's lock: looking takes a second and
disturbs no run. The embedded catalog is asked directly (one query gives all names). Any other catalog is asked
through PyIceberg, with the properties that Spark gets.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote

from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.types import LongType

from pipeline import causes
from pipeline.errors import EnvironmentFault, PipelineError, Refused, reason
from pipeline.model.names import CATALOG, PIPELINE_NAMESPACE, WarehouseName
from pipeline.settings.redaction import clean
from pipeline.warehouse.locations import as_path
from pipeline.warehouse.place import check_readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from pipeline.settings import Settings
    from pipeline.settings.sections import Warehouse
    from pipeline.warehouse.state import StateKey

T = TypeVar("T")

NO_WAREHOUSE = "NO_WAREHOUSE"
CATALOG_LOST = "CATALOG_LOST"
CATALOG_UNREADABLE = "CATALOG_UNREADABLE"
_NAMES = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables WHERE catalog_name = ?"
_JDBC = re.compile(r"jdbc:(sqlite|postgresql):(.*)", re.DOTALL)
_JAVA_ONLY = ("io-impl", "jdbc.")
_LOCK_SECONDS = 10.0
_POSTGRES_DRIVER = "psycopg2"


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

    def metadata_file(self, name: WarehouseName) -> str:
        """Give a table's newest metadata file, for engines that are given a file and no catalog."""
        ...


def reader(settings: Settings) -> Reader:
    """Open the warehouse of these settings to look at it.

    Raises `Refused` (`NO_WAREHOUSE`) where nothing has been written yet, and `EnvironmentFault`
    (`CATALOG_UNREADABLE`) where the catalog does not answer. A warehouse whose tables lie elsewhere can be looked at,
    unless nothing is left there (`WAREHOUSE_ELSEWHERE`).
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
            f"tables lie in {warehouse.data}, but their catalog ({warehouse.path / 'catalog.db'}) is missing",
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

    It takes the files' own statistics where each file is of one pipeline. The `batch_id` is None where they do not have
    it. Raises as `records`.
    """
    scan = _scan(reader, name, ("pipeline",), of_pipeline(pipeline))
    schema = reader.table(WarehouseName(PIPELINE_NAMESPACE, name)).schema()
    owner, batch = (schema.find_field(column).field_id for column in ("pipeline", "batch_id"))
    tasks, owner_bound = list(scan.plan_files()), pipeline.encode()
    whole = all(
        not task.delete_files and task.file.lower_bounds.get(owner) == task.file.upper_bounds.get(owner) == owner_bound
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

    def metadata_file(self, name: WarehouseName) -> str:
        return self._read()[name]

    def _metadata(self, name: WarehouseName) -> TableMetadata:
        location = self._locations[name]
        path = as_path(location)
        if path is None:
            return StaticTable.from_metadata(location, self._properties).metadata
        return TableMetadataUtil.parse_raw(path.read_text(encoding="utf-8"))

    def _read(self) -> dict[WarehouseName, str]:
        uri = f"file:{quote(str(self._file))}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, _LOCK_SECONDS, uri=True)) as database:
                rows = database.execute(_NAMES, (CATALOG,)).fetchall()
        except sqlite3.Error as error:
            raise _unreadable(str(self._file), str(error)) from error
        return {WarehouseName(namespace, table): location for namespace, table, location in rows}


class _Remote:
    """Any other catalog, through PyIceberg; nothing is made in it."""

    def __init__(self, settings: Settings) -> None:
        self._where = f"{settings.warehouse.catalog.type} catalog"
        properties = pyiceberg_properties(settings)
        self._refuse_what_lacks(settings, properties)
        with self._answering():
            self._catalog = _load(properties)
        if properties["type"] == "sql":
            self._refuse_an_empty_database()

    def names(self) -> list[WarehouseName]:
        with self._answering():
            return [
                WarehouseName(".".join(namespace), identifier[-1])
                for namespace in self._catalog.list_namespaces()
                for identifier in self._catalog.list_tables(namespace)
            ]

    def metadata(self, name: WarehouseName) -> TableMetadata:
        return self.table(name).metadata

    def table(self, name: WarehouseName) -> Table:
        with self._answering():
            return self._catalog.load_table((name.namespace, name.name))

    def metadata_file(self, name: WarehouseName) -> str:
        return self.table(name).metadata_location

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Explain the errors of a catalog: each library has its own. A missing table is an answer, no error."""
        try:
            yield
        except (NoSuchTableError, NoSuchNamespaceError, PipelineError):
            raise
        except Exception as error:
            raise causes.explained(error) or _unreadable(self._where, clean(reason(error))) from error

    def _refuse_what_lacks(self, settings: Settings, properties: Mapping[str, str]) -> None:
        """Refuse where PyIceberg could not say which package is not there, or would make a file of SQLite's."""
        uri = properties.get("uri", "") if properties["type"] == "sql" else ""
        if uri.startswith("postgresql") and find_spec(_POSTGRES_DRIVER) is None:
            raise EnvironmentFault(
                CATALOG_UNREADABLE,
                f"{self._where} can't be read: Python's driver for PostgreSQL is not installed here",
                f"{sys.executable} -m pip install psycopg2-binary; a run needs Java's beside it (spark.jars)",
            )
        if uri.startswith("sqlite") and not (file := _sqlite_file(settings.warehouse.catalog.properties)).is_file():
            raise _nothing_yet(f"there is no catalog in {file} yet")

    def _refuse_an_empty_database(self) -> None:
        with self._answering():
            engine: Any = getattr(self._catalog, "engine")  # noqa: B009 - of SqlCatalog alone
            with engine.connect() as connection:
                has = engine.dialect.has_table(connection, "iceberg_tables")
        if not has:
            raise _nothing_yet(f"the {self._where} has no tables of Iceberg's yet")


def pyiceberg_properties(settings: Settings) -> dict[str, str]:
    """Say what PyIceberg's `load_catalog` needs to open the warehouse's catalog."""
    catalog = settings.warehouse.catalog
    if catalog.embedded:
        return {"type": "sql", "uri": f"sqlite:///{settings.warehouse.path / 'catalog.db'}"}
    plain = {key: value for key, value in catalog.properties.items() if not _is_java(key)}
    plain["warehouse"] = settings.warehouse.location
    if catalog.type != "jdbc":
        return {**plain, "type": catalog.type}
    return {**plain, "type": "sql", "uri": _sqlalchemy(catalog.properties), "init_catalog_tables": "false"}


def _load(properties: Mapping[str, Any]) -> Catalog:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - a second that the embedded catalog need not wait

    return load_catalog(CATALOG, **properties)


def _sqlalchemy(properties: Mapping[str, str]) -> str:
    """Turn a JDBC URL into SQLAlchemy's."""
    parts = _JDBC.fullmatch(properties["uri"])
    if parts is None:
        raise _unreadable(properties["uri"].split("?")[0], "PyIceberg reads SQLite and PostgreSQL catalogs")
    kind, rest = parts[1], parts[2].split("?")[0]
    if kind == "sqlite":
        return f"sqlite:///{_sqlite_file(properties)}"
    user, password = properties.get("jdbc.user", ""), properties.get("jdbc.password", "")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    return f"postgresql+psycopg2://{login}{rest.removeprefix('//')}"


def _sqlite_file(properties: Mapping[str, str]) -> Path:
    return Path(properties["uri"].removeprefix("jdbc:sqlite:").removeprefix("file:").split("?")[0])


def _is_java(key: str) -> bool:
    return key.startswith(_JAVA_ONLY)


def _unreadable(what: str, why: str) -> EnvironmentFault:
    return EnvironmentFault(
        CATALOG_UNREADABLE,
        f"{what} can't be read: {why}",
        "check warehouse.catalog; this command reads it with PyIceberg, `run` with Spark",
    )


def inherited(table: TableMetadata, key: StateKey[T]) -> T | None:
    """What the newest snapshot that has a summary entry says in it: maintenance commits do not carry ours."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if key.is_in(summary):
            return key.read(summary)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return None
