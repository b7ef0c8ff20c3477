"""The raw frame of files: their bytes are read and cut here, and the rest is Spark's."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.model.places import FILE, FILE_FIELDS, FILES, PARTITION, POSITION, RAW, STREAM, position_in_files
from pipeline.protocols.files.head import FILE_TRUNCATED
from pipeline.sources.storage.cutting import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.sources.storage.cutting import Cutter
    from pipeline.sources.storage.plan_log import PlannedFile
    from pipeline.sources.storage.store import Store

_ARROW = {"string": pa.string(), "bigint": pa.int64()}
_FILE = pa.struct([pa.field(name, _ARROW[kind]) for name, kind in FILE_FIELDS.items()])
_SCHEMA = pa.schema(
    [
        (STREAM, pa.string()), (PARTITION, pa.int32()), (POSITION, pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")), ("key", pa.binary()), ("value", pa.binary()), (FILE, _FILE),
    ]
)  # fmt: skip


def raw_frame(spark: SparkSession, store: Store, cut: Cutter, files: Sequence[PlannedFile]) -> DataFrame:
    """The records of these files, with the columns of `RAW` and `FILE`."""
    batches = [batch for file in files for batch in _batches(store, cut, file)]
    batches = batches or [pa.RecordBatch.from_pylist([], schema=_SCHEMA)]
    return spark.createDataFrame(pa.Table.from_batches(batches, schema=_SCHEMA)).select(*RAW, FILE)


def _batches(store: Store, cut: Cutter, file: PlannedFile) -> Iterator[pa.RecordBatch]:
    content = store.read(file.path)
    if not file.has_rows:
        yield _batch(file, [content], 0)
        return
    records, tail = cut(content)
    first = 1 if records and records[0].startswith(HEADER) else 0
    yield _batch(file, records[first:], first)
    if tail:
        yield _batch(replace(file, kind=FILE_TRUNCATED), [tail], len(records))


def _batch(file: PlannedFile, records: Sequence[bytes], first: int) -> pa.RecordBatch:
    """`first`: the number of the first of these records in the file."""
    count, begin = len(records), position_in_files(file.ordinal, first)
    arrived = dt.datetime.fromtimestamp(file.modified, dt.UTC)
    facts = [file.shown_path, file.ordinal, file.kind, file.schema_name, file.table_name, file.version]
    columns: list[Iterable[object]] = [
        _repeated(FILES, pa.string(), count),
        _repeated(0, pa.int32(), count),
        pa.array(range(begin, begin + count), pa.int64()),
        _repeated(arrived, _SCHEMA.field("timestamp").type, count),
        pa.nulls(count, pa.binary()),
        pa.array(records, pa.binary()),
        pa.StructArray.from_arrays(
            [_repeated(fact, field.type, count) for fact, field in zip(facts, _FILE, strict=True)], fields=list(_FILE)
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _repeated(value: object, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)
