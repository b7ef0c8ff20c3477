"""The few things asked of Iceberg's Java API: tables, schemas, branches and snapshot summaries.

Spark SQL could do most of it, but each statement costs a parse, a plan and a quoted name; the API costs
milliseconds and takes any name as it is.
"""

from __future__ import annotations

import json
import time
import uuid
from base64 import b64decode
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql.types import DataType, StructType

from pipeline.errors import BatchFailed
from pipeline.model.names import CATALOG, PIPELINE_NAMESPACE, WarehouseName, quoted
from pipeline.runtime.driver.compiled import compiled
from pipeline.warehouse.locations import as_path, as_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.warehouse.retention import Retention
    from pipeline.warehouse.state import StateKey

T = TypeVar("T")
_NOTHING: Mapping[str, str] = MappingProxyType({})

_REMEMBERED = 200
"""Snapshots of a table that are remembered."""
_LOADED_AT_ONCE = 8
MAIN = "main"
MAIN_MOVED = "MAIN_MOVED"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """Schema and property changes that one commit carries. Types are Spark SQL type strings."""

    add: tuple[tuple[str, str], ...] = ()
    widen: tuple[tuple[str, str], ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    drop: tuple[str, ...] = ()
    also_in: str = ""
    """A struct column that has the same columns, and changes with them."""


class SnapshotFacts(NamedTuple):
    """A snapshot as metadata have it. It never changes."""

    id: int
    parent: int | None
    summary: dict[str, str]


class LoadedFacts(NamedTuple):
    """What a table's metadata say, brought over as one text. `schema` and `head` (main's snapshot) are JSON."""

    uuid: str
    location: str
    properties: dict[str, str]
    schema_id: int
    schema: str
    refs: dict[str, int]
    branches: list[str]
    head: str | None


class Catalog:
    """The warehouse's Iceberg catalog, as Spark has loaded it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = cast("Any", spark)._jvm
        self._session: Any = spark._jsparkSession
        self._making = Lock()
        self._namespaces = self._jvm.org.apache.iceberg.catalog.Namespace
        self._identifiers = self._jvm.org.apache.iceberg.catalog.TableIdentifier
        self._snapshots = self._jvm.org.apache.iceberg.SnapshotParser
        self._schemas = self._jvm.org.apache.iceberg.SchemaParser
        self._lines = self._jvm.org.apache.iceberg.util.SnapshotUtil
        self._string = self._jvm.java.lang.String
        self._json = self._jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._conversions = self._jvm.org.apache.iceberg.types.Conversions
        executors = self._jvm.org.apache.iceberg.relocated.com.google.common.util.concurrent.MoreExecutors
        self.this_thread = executors.newDirectExecutorService()
        self._long = self._jvm.org.apache.iceberg.types.Types.LongType.get()
        self._java = self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(self._session, CATALOG)

    def table(self, name: WarehouseName) -> Table | None:
        """The table of this name, None if there is none."""
        identifier = self._identifier(name)
        if not self._java.tableExists(identifier):
            return None
        return Table(name, self._java.loadTable(identifier), self)

    def tables(self, names: Sequence[WarehouseName]) -> dict[WarehouseName, Table]:
        """Those of these tables that there are, loaded side by side; see `Table.may_change`."""
        wanted = json.dumps([(name.namespace, name.name) for name in names])
        tables, texts = self._reader.loaded(self._java, wanted, _LOADED_AT_ONCE)
        facts = [None if read is None else LoadedFacts(**read) for read in json.loads(b64decode(texts))]
        return {
            name: Table(name, java, self, read) for name, java, read in zip(names, tables, facts, strict=True) if read
        }

    @cached_property
    def _reader(self) -> Any:
        return compiled(self._jvm, Path(__file__).with_name("TableReader.java"))

    def names(self) -> Iterator[WarehouseName]:
        """Every table of every namespace of ours, which have one level."""
        for namespace in self._found(self._java.listNamespaces()):
            name = namespace.toString()
            yield from (WarehouseName(name, table) for table in json.loads(self._reader.names(self._java, namespace)))

    def _found(self, namespaces: Any) -> Iterator[Any]:
        """Of these and below them, those of ours. The JDBC catalog lists a name with a dot as one below another."""
        for namespace in namespaces:
            if namespace.length() == 1 or self._java.namespaceExists(self._namespace(namespace.toString())):
                yield namespace
            yield from self._found(self._java.listNamespaces(namespace))

    def create(
        self,
        name: WarehouseName,
        columns: Sequence[tuple[str, str]],
        location: str,
        properties: Mapping[str, str],
    ) -> Table:
        """A new table at a location of its own; its namespace is made where it is missing."""
        self._ensure(name.namespace)
        builder = self._java.buildTable(self._identifier(name), self._schema(columns))
        builder = builder.withLocation(as_url(location)).withProperties(self._map(properties))
        return Table(name, builder.create(), self)

    def create_like(
        self,
        name: WarehouseName,
        columns: Sequence[tuple[str, str]],
        kept: Sequence[str],
        location: str,
        properties: Mapping[str, str],
    ) -> Table:
        """A new table of the columns `kept`, in this order, with the field ids that one of all `columns` would have."""
        self._ensure(name.namespace)
        builder = self._java.buildTable(self._identifier(name), self._schema(columns))
        transaction = builder.withLocation(as_url(location)).withProperties(self._map(properties)).createTransaction()
        update = transaction.updateSchema()
        for column, _ in columns:
            if column not in kept:
                update = update.deleteColumn(column)
        for column in reversed(kept):
            update = update.moveFirst(column)
        update.commit()
        transaction.commitTransaction()
        return Table(name, self._java.loadTable(self._identifier(name)), self)

    def rename(self, name: WarehouseName, to: WarehouseName) -> None:
        """Give a table another name; its files stay where they are."""
        self._ensure(to.namespace)
        self._java.renameTable(self._identifier(name), self._identifier(to))

    def drop(self, name: WarehouseName) -> None:
        """Drop a table and its files."""
        self._java.dropTable(self._identifier(name), True)

    def register(self, name: WarehouseName, metadata_file: str) -> None:
        """Make a table known again from its metadata file."""
        self._ensure(name.namespace)
        self._java.registerTable(self._identifier(name), as_url(metadata_file))

    def file_io(self, location: str) -> Any:
        """Iceberg's FileIO (Java) of a table that would be made at this place; none is made."""
        name = self._identifier(WarehouseName(PIPELINE_NAMESPACE, f"trial_{uuid.uuid4().hex}"))
        uncommitted = self._java.buildTable(name, self._schema([("n", "int")])).withLocation(location)
        return uncommitted.createTransaction().table().io()

    def _ensure(self, namespace: str) -> None:
        with self._making:  # tables are made side by side
            if not self._java.namespaceExists(self._namespace(namespace)):
                self._java.createNamespace(self._namespace(namespace))

    def actions(self) -> Any:
        """Iceberg's maintenance actions on this session."""
        return self._jvm.org.apache.iceberg.spark.actions.SparkActions.get(self._session)

    def facts(self, snapshot: Any) -> SnapshotFacts:
        """What a snapshot is, brought over as one text: each entry of a Java map would be a call."""
        return _facts_in(self._snapshots.toJson(snapshot))

    def entries(self, java_map: Any) -> dict[str, str]:
        """The entries of a Java map of texts, brought over as one text."""
        parsed: dict[str, str] = json.loads(self._json.writeValueAsString(java_map))
        return parsed

    def as_json(self, schema: Any) -> Mapping[str, Any]:
        """A schema as the spec writes it."""
        parsed: dict[str, Any] = json.loads(self._schemas.toJson(schema))
        return parsed

    def commit_schema(
        self, operations: Any, schema: str, last_column_id: int = 0, properties: Mapping[str, str] = _NOTHING
    ) -> None:
        """Make a schema (JSON) the current one of the table that these TableOperations (Java) are of.

        `last_column_id`: field ids up to here count as given. `properties` are set in the same commit.
        """
        base = operations.current()
        builder = self._jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
        last = max(last_column_id, base.lastColumnId())
        builder = builder.setCurrentSchema(self._schemas.fromJson(schema), last)
        if properties:
            builder = builder.setProperties(self._map(properties))
        operations.commit(base, builder.build())

    def with_main(self, base: Any, snapshot: Any) -> Any:
        """Metadata of a table (Java) whose main shows a snapshot that these have not got."""
        return self._jvm.org.apache.iceberg.TableMetadata.buildFrom(base).setBranchSnapshot(snapshot, MAIN).build()

    def snapshots_of_main(self, java_table: Any) -> Any:
        """The ids of main's snapshots, newest first, as far as they are there: a list of Java's."""
        return self._lines.currentAncestorIds(java_table)

    def lists_by_prefix(self, java_table: Any) -> bool:
        """Whether the store of a table's files lists them by itself (S3FileIO and its like)."""
        gateway = cast("Any", self._spark.sparkContext)._gateway
        return bool(is_instance_of(gateway, java_table.io(), "org.apache.iceberg.io.SupportsPrefixOperations"))

    @property
    def jvm(self) -> Any:
        """The JVM that it lives in."""
        return self._jvm

    def is_refusal(self, error: Py4JJavaError) -> bool:
        """Whether an error says that a commit was not made, since another one came before it."""
        gateway = cast("Any", self._spark.sparkContext)._gateway
        refused = "org.apache.iceberg.exceptions.CommitFailedException"
        return bool(is_instance_of(gateway, error.java_exception, refused))

    def sql(self, statement: str) -> DataFrame:
        """Run one of Iceberg's procedures."""
        return self._spark.sql(statement)

    def long_of(self, bound: Any) -> int:
        """A bound of a BIGINT column, as manifests keep it."""
        return int(self._conversions.fromByteBuffer(self._long, bound))

    def iceberg_type(self, spark_type: str) -> Any:
        """Iceberg's type of a Spark SQL type string."""
        return self._schema([("column", spark_type)]).findField("column").type()

    def _schema(self, columns: Sequence[tuple[str, str]]) -> Any:
        struct = StructType()
        for name, kind in columns:
            struct.add(name, DataType.fromDDL(kind), nullable=True)
        java = self._session.parseDataType(struct.json())
        return self._jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(java)

    def _namespace(self, name: str) -> Any:
        levels = cast("Any", self._spark.sparkContext)._gateway.new_array(self._string, 1)
        levels[0] = name
        return self._namespaces.of(levels)

    def _identifier(self, name: WarehouseName) -> Any:
        return self._identifiers.of(self._namespace(name.namespace), name.name)

    def _map(self, entries: Mapping[str, str]) -> Any:
        java = self._jvm.java.util.HashMap()
        for key, value in entries.items():
            java.put(key, value)
        return java


def _facts_in(text: str) -> SnapshotFacts:
    """A snapshot as Iceberg writes it in JSON."""
    parsed: dict[str, Any] = json.loads(text)
    return SnapshotFacts(parsed["snapshot-id"], parsed.get("parent-snapshot-id"), parsed["summary"])


class Table:
    """One Iceberg table, loaded; `refresh` before reading what Spark has committed since."""

    def __init__(self, name: WarehouseName, java: Any, catalog: Catalog, facts: LoadedFacts | None = None) -> None:
        self.name = name
        self._loaded = java
        self._catalog = catalog
        self._as_loaded = facts
        """What it says, as long as nobody can have changed it; None: it is asked."""
        self._schema: Mapping[str, Any] = {}
        self._snapshots: dict[int, SnapshotFacts] = {}
        if facts is not None and facts.head is not None:
            head = _facts_in(facts.head)
            self._snapshots[head.id] = head

    def may_change(self) -> None:
        """Ask it from now on, as Spark may write it. Until then it says what it said when it was loaded."""
        self._as_loaded = None

    @property
    def _java(self) -> Any:
        """Iceberg's own object. Who asks for it may change it."""
        self.may_change()
        return self._loaded

    @property
    def java(self) -> Any:
        """Iceberg's own object, for those who work with its files (`clone`)."""
        return self._java

    @property
    def jvm(self) -> Any:
        """The JVM that it lives in."""
        return self._catalog.jvm

    @property
    def last_column_id(self) -> int:
        """The greatest field id that it has given."""
        return int(self._java.operations().current().lastColumnId())

    @property
    def location(self) -> str:
        """Where its files lie."""
        return self._as_loaded.location if self._as_loaded else str(self._java.location())

    @cached_property
    def _is_local(self) -> bool:
        return as_path(self.location) is not None

    def in_this_thread(self, update: Any) -> Any:
        """A change of the table's files (Java) that reads and writes manifests in this thread, if they lie here.

        Iceberg gives them to a pool, and looks every ten milliseconds whether they are done: four times a commit.
        Those of a store are worth the pool.
        """
        return update.scanManifestsWith(self._catalog.this_thread) if self._is_local else update

    @cached_property
    def uuid(self) -> str:
        """Iceberg's identity of the table, unchanged by renames."""
        return self._as_loaded.uuid if self._as_loaded else str(self._java.uuid())

    @property
    def properties(self) -> dict[str, str]:
        """Its table properties."""
        return {**self._as_loaded.properties} if self._as_loaded else self._catalog.entries(self._java.properties())

    def property_of(self, key: StateKey[T]) -> T | None:
        """The value of one of them; a call, where all take one for each."""
        properties = self._as_loaded.properties if self._as_loaded else self._java.properties()
        text = properties.get(key.name)
        return None if text is None else key.decode(str(text))

    @property
    def schema_id(self) -> int:
        """The number of its schema, which each change of columns changes."""
        return self._as_loaded.schema_id if self._as_loaded else int(self._java.schema().schemaId())

    def schema(self) -> Mapping[str, Any]:
        """Its schema as Iceberg's spec writes it in JSON."""
        if self._schema.get("schema-id") != self.schema_id:
            facts = self._as_loaded
            self._schema = json.loads(facts.schema) if facts else self._catalog.as_json(self._java.schema())
        return self._schema

    def former_schemas(self) -> list[Mapping[str, Any]]:
        """The schemas that it has had, oldest first; an expiry may have removed some."""
        now = self.schema_id
        former = [schema for schema in self._java.schemas().values() if schema.schemaId() != now]
        return [self._catalog.as_json(schema) for schema in sorted(former, key=lambda schema: int(schema.schemaId()))]

    def set_schema(self, schema: Mapping[str, Any]) -> None:
        """Let it have exactly this schema, field ids included: what no statement can do."""
        self.refresh()
        operations = self._java.operations()
        self._catalog.commit_schema(operations, json.dumps(schema))
        self.refresh()

    def columns(self) -> list[str]:
        """Its column names, in order."""
        return [field.name() for field in self._java.schema().columns()]

    def refresh(self) -> None:
        """See what others have committed."""
        self._java.refresh()

    def head(self, branch: str = MAIN) -> int | None:
        """The snapshot id of a branch or tag; None where there is none."""
        if self._as_loaded:
            return self._as_loaded.refs.get(branch)
        snapshot = self._java.snapshot(branch)
        return None if snapshot is None else int(snapshot.snapshotId())

    def shows_its_columns(self) -> bool:
        """Whether main has a snapshot, and that was made with the columns of now: by it readers know them."""
        snapshot = self._java.currentSnapshot()
        return snapshot is not None and snapshot.schemaId() == self._java.schema().schemaId()

    def head_sequence(self) -> int:
        """Iceberg's sequence number of the newest snapshot on main; 0 for an empty table."""
        snapshot = self._java.currentSnapshot()
        return 0 if snapshot is None else int(snapshot.sequenceNumber())

    def is_first(self, snapshot_id: int) -> bool:
        """Whether nothing was before this snapshot, rather than something that has expired."""
        return self._java.snapshot(snapshot_id).parentId() is None

    def summary(self, snapshot_id: int) -> dict[str, str]:
        """The summary of one snapshot."""
        return self._facts(snapshot_id).summary

    def _facts(self, snapshot_id: int) -> SnapshotFacts:
        """One snapshot, remembered. Raises `LookupError` where it is gone."""
        if snapshot_id not in self._snapshots:
            snapshot = self._java.snapshot(snapshot_id)
            if snapshot is None:
                raise LookupError(f"{self.name} has no snapshot {snapshot_id}")
            if len(self._snapshots) >= _REMEMBERED:
                self._snapshots.clear()
            self._snapshots[snapshot_id] = self._catalog.facts(snapshot)
        return self._snapshots[snapshot_id]

    def _line(self, branch: str) -> Iterator[SnapshotFacts]:
        """The snapshots of a branch, newest first, as far as they have not expired."""
        number = self.head(branch)
        while number is not None:
            try:
                facts = self._facts(number)
            except LookupError:
                return
            yield facts
            number = facts.parent

    def said_at(self, key: StateKey[Any]) -> float | None:
        """When the newest snapshot of main was made that has a summary entry, in seconds since the epoch."""
        snapshot = self._java.currentSnapshot()
        while snapshot is not None and not snapshot.summary().containsKey(key.name):
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._java.snapshot(parent)
        return None if snapshot is None else snapshot.timestampMillis() / 1000

    def inherited(self, key: StateKey[T], branch: str = MAIN) -> T | None:
        """What the newest snapshot that has a summary entry says in it: maintenance commits do not carry ours."""
        return key.read(self.inherited_all(key, branch=branch))

    def inherited_all(self, *keys: StateKey[Any], branch: str = MAIN) -> Mapping[str, str]:
        """The same of several entries, as they are written; the head is asked for once."""
        wanted, texts = {key.name for key in keys}, dict[str, str]()
        for facts in self._line(branch):
            texts = {name: facts.summary[name] for name in wanted & facts.summary.keys()} | texts
            if len(texts) == len(wanted):
                break
        return texts

    def appends_since(self, snapshot_id: int | None) -> list[tuple[int | None, int]]:
        """(parent, snapshot) of every append on main after a snapshot, oldest first; None: of all.

        Where the snapshot has been expired, everything is one append: the table as it stands.
        """
        appends: list[tuple[int | None, int]] = []
        snapshot = self._java.currentSnapshot()
        while snapshot is not None and snapshot.snapshotId() != snapshot_id:
            parent = snapshot.parentId()
            before = None if parent is None else self._java.snapshot(parent)
            if snapshot.operation() == "append" or before is None:  # the oldest that is left shows all before it
                appends.append((None if before is None else int(parent), int(snapshot.snapshotId())))
            snapshot = before
        if snapshot is None and snapshot_id is not None:
            return [(None, int(self._java.currentSnapshot().snapshotId()))]
        return list(reversed(appends))

    def is_append(self, parent: int | None, snapshot_id: int) -> bool:
        """Whether what `appends_since` gives is one append, rather than all that is left of what has expired."""
        return parent is not None or self.is_first(snapshot_id)

    def added_between(self, snapshot_id: int, column: str) -> tuple[int, int] | None:
        """The least and the greatest of a BIGINT column among the rows that a snapshot added, by its files.

        None where a file does not say.
        """
        return self._between(self._java.snapshot(snapshot_id).addedDataFiles(self._java.io()), column)

    def shown_between(self, snapshot_id: int, column: str) -> tuple[int, int] | None:
        """The same among all rows that a snapshot shows."""
        tasks = self._java.newScan().useSnapshot(snapshot_id).includeColumnStats().planFiles()
        try:
            iterator = tasks.iterator()  # what it gives is no iterable to Py4J
            files = (iterator.next().file() for _ in iter(iterator.hasNext, False))
            return self._between(files, column)
        finally:
            tasks.close()

    def _between(self, files: Iterable[Any], column: str) -> tuple[int, int] | None:
        number = self._java.schema().findField(column).fieldId()
        bounds: list[int] = []
        for file in files:
            for by_column in (file.lowerBounds(), file.upperBounds()):
                bound = None if by_column is None else by_column.get(number)
                if bound is None:
                    return None
                bounds.append(self._catalog.long_of(bound))
        return (min(bounds), max(bounds)) if bounds else None

    def added_rows(self, snapshot_id: int) -> int:
        """How many rows a snapshot added, by its summary."""
        return int(self.summary(snapshot_id).get("added-records", 0))

    def added_by(self, key: StateKey[str], text: str, branch: str = MAIN) -> int:
        """How many rows the newest commit on a branch added that says this of itself."""
        summary = next((facts.summary for facts in self._line(branch) if facts.summary.get(key.name) == text), None)
        if summary is None:
            raise AssertionError(f"no commit of {self.name} says {key.name} = {text}")
        return int(summary.get("added-records") or 0)

    def added_bytes(self, snapshot_id: int) -> int:
        """How large the data files are that a snapshot added, by its summary."""
        return int(self.summary(snapshot_id).get("added-files-size", 0))

    def is_empty(self, branch: str) -> bool:
        """Whether a branch has no rows at all; one whose rows are all deleted may count as not empty."""
        self.refresh()
        head = self.head(branch)
        return head is None or self.summary(head).get("total-records") == "0"

    def snapshots(self) -> set[int]:
        """The snapshots of main that have not expired, and those that a tag or a branch names."""
        if self._java.currentSnapshot() is None:
            return set()
        line: list[int] = json.loads(self._catalog.snapshots_of_main(self._java).toString())
        return {*line, *(int(ref.snapshotId()) for ref in self._java.refs().values())}

    def snapshot_count(self) -> int:
        """How many snapshots the metadata lists."""
        return int(self._java.operations().current().snapshots().size())

    def evolve(self, change: SchemaChange, properties: Mapping[str, str]) -> None:
        """Change the schema and set properties, in one commit."""
        transaction = self._java.newTransaction()
        places = [(None, ""), (change.also_in, f"{change.also_in}.")] if change.also_in else [(None, "")]
        update = transaction.updateSchema().caseSensitive(False)
        for _, prefix in places:
            for column, name in change.rename:
                update = update.renameColumn(prefix + column, name)
            for column in change.drop:
                update = update.deleteColumn(prefix + column)
        update.commit()
        update = transaction.updateSchema()
        for parent, prefix in places:
            for column, kind in change.widen:
                update = update.updateColumn(prefix + column, self._catalog.iceberg_type(kind).asPrimitiveType())
            for column, kind in change.add:
                update = update.addColumn(parent, column, self._catalog.iceberg_type(kind))
        update.commit()
        setting = transaction.updateProperties()
        for key, value in properties.items():
            setting = setting.set(key, value)
        setting.commit()
        transaction.commitTransaction()

    def evolve_as(
        self, change: SchemaChange, ids: Mapping[str, int], last_column_id: int, properties: Mapping[str, str]
    ) -> None:
        """As `evolve`, and the columns that come get these field ids."""
        renamed, widened = dict(change.rename), dict(change.widen)
        fields = [dict(field) for field in self.schema()["fields"] if field["name"] not in change.drop]
        for field in fields:
            field["name"] = renamed.get(field["name"], field["name"])
            if field["name"] in widened:
                field["type"] = str(self._catalog.iceberg_type(widened[field["name"]]))
        added = [
            {"id": ids[name], "name": name, "required": False, "type": str(self._catalog.iceberg_type(kind))}
            for name, kind in change.add
        ]
        schema = {**self.schema(), "fields": [*fields, *added]}
        self.refresh()
        self._catalog.commit_schema(self._java.operations(), json.dumps(schema), last_column_id, properties)
        self.refresh()

    def ensure(self, parent: str, column: str, kind: str) -> None:
        """Add a column to a struct column that has not got it, or to the table; not where the struct column is gone."""
        kinds = {field["name"]: field["type"] for field in self.schema()["fields"]}
        struct = kinds.get(parent)
        if isinstance(struct, dict):
            kinds = {field["name"]: field["type"] for field in struct["fields"]}
        there = not parent or isinstance(struct, dict)
        if there and column not in kinds:
            self._java.updateSchema().addColumn(parent or None, column, self._catalog.iceberg_type(kind)).commit()

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set table properties, in one commit."""
        update = self._java.updateProperties()
        for key, value in properties.items():
            update = update.set(key, value)
        update.commit()

    def stage(self, branch: str) -> None:
        """A branch that begins at main; one of the same name is replaced."""
        self.refresh()
        head = self._java.currentSnapshot()
        if head is None:
            self.mark({}, MAIN)
            head = self._java.currentSnapshot()
        manage = self._java.manageSnapshots()
        if self._java.snapshot(branch) is not None:
            manage.replaceBranch(branch, head.snapshotId()).commit()
        else:
            manage.createBranch(branch, head.snapshotId()).commit()

    def publish(self, branch: str) -> None:
        """Let main show what the branch has, and drop the branch.

        Raises `BatchFailed` (`MAIN_MOVED`) where main has gone on since the branch was made.
        """
        self.refresh()
        try:
            self._java.manageSnapshots().fastForwardBranch(MAIN, branch).removeBranch(branch).commit()
        except IllegalArgumentException as error:  # not after main any more: PySpark has made it out of Java's
            raise self._moved(str(error)) from error
        except Py4JJavaError as error:  # of another kind: the commit may have been made, or not
            raise self._refused(error) or error from error

    def show(self, snapshot: Any, head: int | None) -> None:
        """Let main show a snapshot that was made and not committed, as the child of the snapshot `head`.

        Raises `BatchFailed` (`MAIN_MOVED`) where it is another one's child, or where main has gone on.
        """
        parent = snapshot.parentId()
        if (None if parent is None else int(parent)) != head:
            raise self._moved("another commit came first")
        operations = self._java.operations()
        base = operations.current()
        try:
            operations.commit(base, self._catalog.with_main(base, snapshot))
        except Py4JJavaError as error:  # of another kind: the commit may have been made, or not
            raise self._refused(error) or error from error
        self.refresh()

    def _refused(self, error: Py4JJavaError) -> BatchFailed | None:
        """What an error of a commit means that was not made; None where it may have been made."""
        if not self._catalog.is_refusal(error):
            return None
        return self._moved(str(error.java_exception.getMessage()))

    def _moved(self, why: str) -> BatchFailed:
        hint = "another writer is at work: let nothing else write the tables while a run lives"
        return BatchFailed(MAIN_MOVED, f"{self.name}: {why}", hint)

    def drop_branch(self, branch: str) -> None:
        """Let a branch go; what only it shows is removed when snapshots expire."""
        self.refresh()
        self._java.manageSnapshots().removeBranch(branch).commit()

    def branches(self) -> list[str]:
        """Its branches, main among them."""
        if self._as_loaded:
            return self._as_loaded.branches or [MAIN]
        refs = self._java.refs()
        return [str(name) for name, ref in refs.items() if ref.isBranch()] if refs.size() > 1 else [MAIN]

    def has(self, snapshot_id: int) -> bool:
        """Whether a snapshot is still there."""
        return self._java.snapshot(snapshot_id) is not None

    def tag(self, name: str, snapshot_id: int, keep_ms: int) -> None:
        """Give a snapshot a name that an expiry leaves for so long; Iceberg counts from the snapshot's birth."""
        age = max(0, int(time.time() * 1000) - int(self._java.snapshot(snapshot_id).timestampMillis()))
        self._java.manageSnapshots().createTag(name, snapshot_id).setMaxRefAgeMs(name, age + keep_ms).commit()

    def mark(self, summary: Mapping[str, str], branch: str) -> None:
        """An empty commit that only carries summary entries."""
        self.refresh()
        self._commit(self._java.newFastAppend(), summary, branch)

    def append_files(self, files: Iterable[Any], summary: Mapping[str, str], branch: str = MAIN) -> None:
        """Append data files (Java), in one commit with these summary entries."""
        append = self._java.newAppend()
        for file in files:
            append = append.appendFile(file)
        self._commit(append, summary, branch)

    def _commit(self, append: Any, summary: Mapping[str, str], branch: str) -> None:
        append = self.in_this_thread(append).toBranch(branch)
        for key, value in summary.items():
            append = append.set(key, value)
        append.commit()

    def expire(self, retention: Retention) -> None:
        """Expire the snapshots that need not stay."""
        self.refresh()
        expiry = self._java.expireSnapshots().expireOlderThan(retention.older_than_ms)
        expiry.retainLast(retention.depth(self._summaries())).cleanExpiredFiles(True).commit()

    def _summaries(self) -> Iterator[Any]:
        """The summaries of main's snapshots, newest first."""
        snapshot = self._java.currentSnapshot()
        while snapshot is not None:
            yield snapshot.summary()
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._java.snapshot(parent)

    def orphans(self, older_than_seconds: float, *, remove: bool) -> list[str]:
        """Files in the table's folders that no snapshot names, and that are older; removed if wanted.

        Iceberg's procedure refuses less than a day: a younger file may belong to a commit that is under way. It lists
        with Hadoop's FileSystem unless told otherwise, which knows folders of this machine and nothing of `s3:`.
        """
        before = datetime.fromtimestamp(time.time() - older_than_seconds, UTC)
        name = quoted(self.name.namespace, self.name.name).replace("\\", "\\\\").replace("'", "\\'")
        in_store = as_path(self.location) is None and self._catalog.lists_by_prefix(self._java)
        rows = self._catalog.sql(
            f"CALL {CATALOG}.system.remove_orphan_files(table => '{name}', dry_run => {str(not remove).lower()}, "
            f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S.%f}+00:00'"
            f"{', prefix_listing => true' if in_store else ''})"
        )
        return sorted(str(row[0]) for row in rows.collect())

    def is_arranged(self) -> bool:
        """Whether a user wants its files in partitions, or their rows in an order."""
        return bool(self._java.spec().specId() or self._java.sortOrder().orderId())

    def rewrite(self, options: Mapping[str, str], by: Sequence[str] = ()) -> None:
        """Rewrite data files (Iceberg's rewrite_data_files action); the rows stay the same. `by`: sorted by these."""
        action = self._catalog.actions().rewriteDataFiles(self._java)
        if by:
            order = self.jvm.org.apache.iceberg.SortOrder.builderFor(self._java.schema())
            for column in by:
                order = order.asc(column)
            action = action.sort(order.build())
        for key, value in options.items():
            action = action.option(key, value)
        action.execute()

    def rewrite_deletes(self) -> None:
        """Rewrite the files of deletes; what they say of data files that are gone goes with it."""
        self._catalog.actions().rewritePositionDeletes(self._java).option("min-input-files", "2").execute()

    def totals(self) -> dict[str, int]:
        """What main's snapshot has in all, from its summary: files, records and deleted ones among them, bytes."""
        head = self.head()
        summary = {} if head is None else self.summary(head)
        names = ("data-files", "delete-files", "records", "position-deletes", "files-size")
        return {name: int(summary.get(f"total-{name}", 0)) for name in names}
