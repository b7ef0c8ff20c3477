"""The files of Iceberg's tables, and the commit that shows some and deletes rows of others (Iceberg's Java API)."""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.warehouse.clone.keys import CannotClone
from pipeline.warehouse.clone.parquet import ColumnFile
from pipeline.warehouse.locations import as_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pipeline.warehouse.clone.keys import Numbers
    from pipeline.warehouse.iceberg import Table

_PATH_ID, _POSITION_ID = 2147483546, 2147483545
"""Field ids that Iceberg's spec has for files of position deletes."""
_WRITING = {"compression": "zstd", "store_schema": False, "store_decimal_as_integer": True}
"""Decimals are stored as Iceberg's own writer stores them."""
_PARQUET, _POSITIONS = "PARQUET", "POSITION_DELETES"


class AddedFile(NamedTuple):
    """A data file of an append: where it is on this machine, how many rows it has, and Iceberg's own description."""

    path: Path
    rows: int
    java: Any


class ScannedFile(NamedTuple):
    """A data file that a table shows."""

    location: str
    rows: int


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a table shows: data files, and files of position deletes by their locations."""

    files: Sequence[ScannedFile]
    deletes: frozenset[str]


def local(location: str) -> Path:
    """A place on this machine. Raises `CannotClone` for a store's."""
    path = as_path(location)
    if path is None:
        raise CannotClone("the files lie in a store")
    return path


def folder_of(table: Table) -> str:
    """Where a table's data files lie, as its metadata names them."""
    return f"{table.location.rstrip('/')}/data"


def added_by(table: Table, snapshot_id: int) -> Iterator[AddedFile]:
    """The data files that an append has added. Raises `CannotClone` for any that is no plain Parquet file."""
    for file in table.java.snapshot(snapshot_id).addedDataFiles(table.java.io()):
        _check_plain(file)
        if file.sortOrderId():
            raise CannotClone("a file has a sort order of a user's")
        yield AddedFile(local(file.location()), int(file.recordCount()), file)


def scanned(table: Table) -> Scanned:
    """What main shows. Raises `CannotClone` where rows are deleted in another way than by files of positions."""
    files: list[ScannedFile] = []
    deletes: set[str] = set()
    tasks = table.java.newScan().planFiles()
    try:
        iterator = tasks.iterator()
        while iterator.hasNext():
            task = iterator.next()
            file = task.file()
            _check_plain(file)
            files.append(ScannedFile(str(file.location()), int(file.recordCount())))
            for delete in task.deletes():
                if delete.content().toString() != _POSITIONS or delete.format().toString() != _PARQUET:
                    raise CannotClone("rows are deleted in another way")
                deletes.add(str(delete.location()))
    finally:
        tasks.close()
    return Scanned(files, frozenset(deletes))


def check_arrangement(table: Table) -> None:
    """Raises `CannotClone` where a user wants the table's files in partitions, or their rows in an order."""
    if table.is_arranged():
        raise CannotClone("the table has partitions or a sort order of a user's")


def _check_plain(file: Any) -> None:
    if file.format().toString() != _PARQUET or file.specId():
        raise CannotClone("a file is partitioned, or no Parquet")


class Delta:
    """What one commit is to show and to delete.

    Links get the name of their file and `suffix`, so that a second try finds them again. A file that is linked twice,
    for rows whose time comes later, needs another suffix. Other files get random names, since a second try may show
    other rows.
    """

    def __init__(self, table: Table, suffix: str) -> None:
        self._table = table
        self._folder, self._suffix = folder_of(table), suffix
        self._added: list[Any] = []
        self._deleted: dict[str, Numbers] = {}

    def link(self, file: AddedFile) -> str:
        """Let the file be one of the table, too, under another path; gives the location."""
        location = f"{self._folder}/{file.path.stem}{self._suffix}{file.path.suffix}"
        _link(file.path, local(location))
        jvm, java = self._table.jvm, self._table.java
        builder = jvm.org.apache.iceberg.DataFiles.builder(java.spec()).copy(file.java)
        self._added.append(builder.withPath(location).build())
        return location

    def excerpt(self, file: AddedFile, rows: Numbers, columns: Iterable[int]) -> str:
        """Let these rows of the file, with columns by their field ids, be a file of the table; gives the location.

        Raises `CannotClone` for values that Arrow cannot hold (2 GiB in one column of nested values).
        """
        jvm, java = self._table.jvm, self._table.java
        location = f"{self._folder}/{uuid.uuid4()}-excerpt.parquet"
        try:
            _write(local(location), ColumnFile.at(str(file.path)).excerpt(columns, rows))
        except pa.ArrowException as why:
            raise CannotClone(f"its rows cannot be written: {why}") from why
        builder = jvm.org.apache.iceberg.DataFiles.builder(java.spec())
        self._added.append(self._described(builder, location, jvm.org.apache.iceberg.MetricsConfig.forTable(java)))
        return location

    def delete(self, location: str, rows: Numbers) -> None:
        """Delete these rows of a data file."""
        if len(rows):
            self._deleted[location] = rows

    def commit(self, summary: Mapping[str, str], head: int | None) -> None:
        """Commit as the child of the snapshot `head` of main.

        Raises `BatchFailed` (`MAIN_MOVED`) where main has gone on, be it with an empty commit: Iceberg by itself would
        commit on top of anything that touches none of these files.
        """
        delta = self._table.in_this_thread(self._table.java.newRowDelta())
        for data_file in self._added:
            delta = delta.addRows(data_file)
        if self._deleted:
            delta = delta.addDeletes(self._delete_file())
        for key, value in summary.items():
            delta = delta.set(key, value)
        self._table.show(delta.apply(), head)

    def _delete_file(self) -> Any:
        """A file of position deletes, with the metrics that readers look at."""
        jvm, java = self._table.jvm, self._table.java
        location = f"{self._folder}/{uuid.uuid4()}-deletes.parquet"
        _write(local(location), [_positions(self._deleted)])
        builder = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(java.spec()).ofPositionDeletes()
        return self._described(builder, location, jvm.org.apache.iceberg.MetricsConfig.forPositionDelete(java))

    def _described(self, builder: Any, location: str, metrics_config: Any) -> Any:
        """Iceberg's own description of a file that was written here."""
        jvm, java = self._table.jvm, self._table.java
        input_file = java.io().newInputFile(location)
        metrics = jvm.org.apache.iceberg.parquet.ParquetUtil.fileMetrics(input_file, metrics_config)
        builder = builder.withPath(location).withFormat(jvm.org.apache.iceberg.FileFormat.PARQUET)
        return builder.withFileSizeInBytes(input_file.getLength()).withMetrics(metrics).build()


def _link(file: Path, path: Path) -> None:
    """A second name of a file; a copy where the disk knows no such thing. A try that died may have made it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, path)
    except FileExistsError:
        return
    except OSError:  # two disks, or one without links
        half_done = path.with_name(f".{path.name}.{uuid.uuid4()}")
        shutil.copyfile(file, half_done)
        half_done.replace(path)


def _positions(deleted: Mapping[str, Numbers]) -> pa.Table:
    """Position deletes in the order that the spec asks for: by data file, then by row."""
    locations = sorted(deleted)
    rows = [np.sort(deleted[location]) for location in locations]
    codes = np.repeat(np.arange(len(locations), dtype=np.int32), [len(of_file) for of_file in rows])
    names = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(locations, pa.string()))
    schema = pa.schema([_required("file_path", pa.string(), _PATH_ID), _required("pos", pa.int64(), _POSITION_ID)])
    return pa.table([names.cast(pa.string()), pa.array(np.concatenate(rows))], schema=schema)


def _write(path: Path, tables: Iterable[pa.Table]) -> None:
    """One file with a row group for each table; field ids are in the metadata of the schema's fields."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = iter(tables)
    first = next(tables)
    with pq.ParquetWriter(path, first.schema, **_WRITING) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _required(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(field_id)})
