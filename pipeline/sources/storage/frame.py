"""The raw frame of files: their bytes are cut into records here, and the rest is Spark's.

A few bytes are read by the driver. More are read by executors, a task a core, a block at a time.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.model.places import (
    FILE,
    FILE_FIELDS,
    FILE_TYPE,
    FILES,
    PARTITION,
    POSITION,
    STREAM,
    position_in_files,
)
from pipeline.protocols.recognise import compressed_elsewhere
from pipeline.runtime.python_tasks import forget_archives
from pipeline.sources.storage.cutting import records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.sources.storage.lines import Lines
    from pipeline.sources.storage.plan_log import PlannedFile
    from pipeline.sources.storage.store import Store

FEW_BYTES = 4 << 20
"""So much is read by the driver, which is sooner than any task."""
_ARROW = {"string": pa.string(), "bigint": pa.int64()}
_FILE = pa.struct([pa.field(name, _ARROW[kind]) for name, kind in FILE_FIELDS.items()])
_SCHEMA = pa.schema(
    [
        (STREAM, pa.string()), (PARTITION, pa.int32()), (POSITION, pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")), ("key", pa.binary()), ("value", pa.binary()), (FILE, _FILE),
    ]
)  # fmt: skip
_SPARK = (
    f"{STREAM} STRING, {PARTITION} INT, {POSITION} BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    f"{FILE} {FILE_TYPE}"
)


def raw_frame(spark: SparkSession, store: Store, lines: Lines, files: Sequence[PlannedFile]) -> DataFrame:
    """The records of these files, with the columns of files (`protocols.files.head`)."""
    read = [file for file in files if file.is_there]
    if sum(file.size for file in read) > FEW_BYTES:
        return _by_executors(spark, store, lines, read)
    sent = [batch for file in read for batch in batches(store, lines, file)]
    sent = sent or [pa.RecordBatch.from_pylist([], schema=_SCHEMA)]
    return spark.createDataFrame(pa.Table.from_batches(sent, schema=_SCHEMA))


def _by_executors(spark: SparkSession, store: Store, lines: Lines, files: Sequence[PlannedFile]) -> DataFrame:
    shares = _shares(files, spark.sparkContext.defaultParallelism)

    def read(given: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in given:
            for number in batch.column(0).to_pylist():
                for file in shares[number]:
                    yield from batches(store, lines, file)
        forget_archives()

    numbers = spark.range(len(shares), numPartitions=len(shares))
    return numbers.mapInArrow(read, _SPARK)


def _shares(files: Sequence[PlannedFile], most: int) -> list[list[PlannedFile]]:
    """The files in at most so many shares of about the same bytes: the largest first, each to the least share."""
    shares: list[list[PlannedFile]] = [[] for _ in range(min(most, len(files)))]
    sizes = [0] * len(shares)
    for file in sorted(files, key=lambda file: -file.size):
        least = sizes.index(min(sizes))
        shares[least].append(file)
        sizes[least] += file.size + 1
    return shares


def batches(store: Store, lines: Lines, file: PlannedFile) -> Iterator[pa.RecordBatch]:
    """The records of one file, some at a time."""
    if not file.has_rows:
        yield _batch(file, file.kind, pa.array([store.read(file.path)], pa.binary()), 0, None)
        return
    number, header, kind = 0, None, file.kind
    for block in records(lambda start, size: store.read(file.path, start, size), file.size, lines.cut):
        skipped = 0
        if number == 0:
            first = block.values[0].as_py()
            header = lines.header(first)
            skipped = int(header is not None)
            kind = lines.compressed if compressed_elsewhere(first) else kind
        fault = block.fault if kind == file.kind else ""
        yield _batch(file, fault or kind, block.values[skipped:], number + skipped, header)
        number += len(block.values)


def _batch(file: PlannedFile, kind: str, values: pa.Array, first: int, header: str | None) -> pa.RecordBatch:
    """`first`: the number of the first of these records in the file."""
    count, begin = len(values), position_in_files(file.ordinal, first)
    arrived = dt.datetime.fromtimestamp(file.modified, dt.UTC)
    facts = [file.shown_path, file.ordinal, kind, file.schema_name, file.table_name, file.version, header]
    columns: list[Iterable[object]] = [
        _repeated(FILES, pa.string(), count),
        _repeated(0, pa.int32(), count),
        pa.array(np.arange(begin, begin + count)),
        _repeated(arrived, _SCHEMA.field("timestamp").type, count),
        pa.nulls(count, pa.binary()),
        values,
        pa.StructArray.from_arrays(
            [_repeated(fact, field.type, count) for fact, field in zip(facts, _FILE, strict=True)], fields=list(_FILE)
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _repeated(value: object, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)
