"""One record of one file, for people who look: with the schema file that describes its version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.errors import Refused
from pipeline.model.places import POSITION, position_in_files
from pipeline.protocols.described.head import MessageKind
from pipeline.protocols.files.head import DAMAGED, ROWS
from pipeline.sources.storage.frame import raw_frame
from pipeline.sources.storage.lines import lines_of
from pipeline.sources.storage.paths import DataFile, SchemaPath, read_path
from pipeline.sources.storage.plan_log import PlannedFile
from pipeline.sources.storage.schema_files import SchemaFileDamaged, read_schema_file
from pipeline.sources.storage.stores import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.settings import Settings
    from pipeline.sources.storage.store import Store, StoredFile

FILE_UNKNOWN, RECORD_UNKNOWN = "FILE_UNKNOWN", "RECORD_UNKNOWN"


def place_of(text: str) -> tuple[str, int | None]:
    """`PATH[:RECORD]` taken apart."""
    path, colon, number = text.rpartition(":")
    return (path, int(number)) if colon and number.isdecimal() else (text, None)


def record_at(spark: SparkSession, settings: Settings, path: str, number: int | None) -> tuple[DataFrame, int]:
    """The raw frame of a record of a file, with the schema file of its version; and the record's position.

    `number`: counted from 0, as `_offset` has it; None: the last one. Raises `Refused` (`FILE_UNKNOWN`,
    `RECORD_UNKNOWN`).
    """
    store, lines, place = store_of(settings.source), lines_of(settings), settings.source.place
    try:
        entry = store.entry(path)
    except FileNotFoundError:
        raise Refused(FILE_UNKNOWN, f"{settings.source.path} has no file {path}") from None
    match read_path(path):
        case SchemaPath() as schema:
            return raw_frame(spark, store, lines, [_schema(store, entry, schema)], place), position_in_files(1)
        case DataFile() as file:
            described = next(_described(store, file), None)
            if described is None:
                raise Refused(FILE_UNKNOWN, f"no schema file describes {file.readings[0].table}, or its version")
            rows = _planned(entry, ROWS, described.schema_name, described.table_name, described.version, 2)
            frame = raw_frame(spark, store, lines, [described, rows], place)
            return _only(frame, path, number)
    raise Refused(FILE_UNKNOWN, f"{path} is neither a file of rows of a changefeed nor a schema file")


def _only(frame: DataFrame, path: str, number: int | None) -> tuple[DataFrame, int]:
    """The record of this number and the schema file."""
    of_rows = F.col(POSITION) >= position_in_files(2)
    last = frame.where(of_rows).agg(F.max(POSITION)).first()
    if last is None or last[0] is None:
        raise Refused(RECORD_UNKNOWN, f"{path} has no record")
    position = last[0] if number is None else position_in_files(2, number)
    if not frame.where(F.col(POSITION) == position).head(1):
        until = last[0] - position_in_files(2)
        raise Refused(RECORD_UNKNOWN, f"{path} has records up to {until}; its header is not a record")
    return frame.where(~of_rows | (F.col(POSITION) == position)), position


def _described(store: Store, file: DataFile) -> Iterator[PlannedFile]:
    """The schema files of the versions that a file may be of, the likeliest first."""
    for reading in file.readings:
        for folder in (f"{reading.table}/meta", f"{reading.table}/{reading.version}"):
            for entry in store.inside(folder):
                schema = read_path(entry.path)
                if isinstance(schema, SchemaPath) and schema.describes == reading:
                    yield _schema(store, entry, schema)


def _schema(store: Store, entry: StoredFile, path: SchemaPath) -> PlannedFile:
    """The schema file as the first one that is taken."""
    try:
        read = read_schema_file(store.read(entry.path), path.checksum)
    except SchemaFileDamaged:
        schema, _, table = path.describes.table.partition("/")
        return _planned(entry, DAMAGED, schema, table, path.describes.version, 1)
    kind = MessageKind.DDL if read.query else MessageKind.BOOTSTRAP
    return _planned(entry, str(kind), read.schema, read.table, read.version, 1)


def _planned(entry: StoredFile, kind: str, schema: str, table: str, version: int, ordinal: int) -> PlannedFile:
    return PlannedFile(
        ordinal, entry.path, 1, entry.size, entry.etag, entry.modified, kind, schema, table, version
    )  # fmt: skip
