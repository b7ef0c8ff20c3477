"""The raw frame of files: Python finds where records are, and the rest is Spark's.

A few bytes are read by the driver. More are read by executors, a task a core, some bytes at a time. What goes to the
JVM is a piece of a file with the places of its records; a function of Java takes the piece apart (`Records.java`).
"""

from __future__ import annotations

import datetime as dt
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

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
from pipeline.model.projection import Projection, once, through
from pipeline.protocols.recognise import compressed_elsewhere
from pipeline.runtime.python_tasks import forget_archives
from pipeline.runtime.shipped import called
from pipeline.sources.storage.cutting import Piece, pieces
from pipeline.sources.storage.stores import faults_told

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
_FIRST, _CONTENT, _BOUNDS, _RECORDS, _NUMBER = "first", "content", "bounds", "records", "number"
_SCHEMA = pa.schema(
    [
        ("timestamp", pa.timestamp("us", tz="UTC")), (FILE, _FILE), (_FIRST, pa.int64()), (_CONTENT, pa.binary()),
        (_BOUNDS, pa.binary()),
    ]
)  # fmt: skip
"""Of a piece: `first` is the position of its first record."""
_SPARK = f"timestamp TIMESTAMP, {FILE} {FILE_TYPE}, {_FIRST} BIGINT, {_CONTENT} BINARY, {_BOUNDS} BINARY"
_SOURCE = Path(__file__).with_name("Records.java")


def raw_frame(spark: SparkSession, store: Store, lines: Lines, files: Sequence[PlannedFile], place: str) -> DataFrame:
    """The records of these files, with the columns of files (`protocols.files.head`). `place`: `source.path`.

    Executors raise `EnvironmentFault`: `FILE_MISSING`, `STORE_FORBIDDEN`, `STORE_UNREACHABLE`.
    """
    read = [file for file in files if file.is_there]
    if sum(file.size for file in read) > FEW_BYTES:
        return through(_taken_apart(), _by_executors(spark, store, lines, read, place))
    sent = [batch for file in read for batch in batches(store, lines, file)]
    sent = sent or [pa.RecordBatch.from_pylist([], schema=_SCHEMA)]
    return through(_taken_apart(), spark.createDataFrame(pa.Table.from_batches(sent, schema=_SCHEMA)))


@cache
def _taken_apart() -> tuple[Projection, ...]:
    """From pieces to records."""
    of_file = [F.col(name) for name in ("timestamp", FILE, _FIRST)]
    content = F.when(once(), F.col(_CONTENT))
    records = called(_SOURCE, "array<binary>", content, F.col(_BOUNDS)).alias(_RECORDS)
    place = {STREAM: F.lit(FILES), PARTITION: F.lit(0), POSITION: F.col(_FIRST) + F.col(_NUMBER)}
    return (
        Projection([*of_file, records]),
        Projection([*of_file, F.posexplode(_RECORDS).alias(_NUMBER, "value")]),
        Projection(
            [
                *(column.alias(name) for name, column in place.items()),
                F.col("timestamp"), F.lit(None).cast("binary").alias("key"), F.col("value"), F.col(FILE),
            ]
        ),
    )  # fmt: skip


def _by_executors(
    spark: SparkSession, store: Store, lines: Lines, files: Sequence[PlannedFile], place: str
) -> DataFrame:
    shares = _shares(files, spark.sparkContext.defaultParallelism)

    def read(given: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in given:
            for number in batch.column(0).to_pylist():
                for file in shares[number]:
                    with faults_told(place):
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
    """The pieces of one file, one at a time."""
    if not file.has_rows:
        yield _batch(file, file.kind, Piece.whole(store.read(file.path)), 0, None)
        return
    number, header, kind = 0, None, file.kind
    for piece in pieces(lambda start, size: store.read(file.path, start, size), file.size, lines.cut):
        skipped = 0
        if number == 0:
            first = piece.content[piece.starts[0] : piece.ends[0]]
            header = lines.header(first)
            skipped = int(header is not None)
            kind = lines.compressed if compressed_elsewhere(first) else kind
        fault = piece.fault if kind == file.kind else ""
        yield _batch(file, fault or kind, piece.without_first(skipped), number + skipped, header)
        number += len(piece.starts)


def _batch(file: PlannedFile, kind: str, piece: Piece, first: int, header: str | None) -> pa.RecordBatch:
    """`first`: the number of the first of these records in the file."""
    facts = [file.shown_path, file.ordinal, kind, file.schema_name, file.table_name, file.version, header]
    row = {
        "timestamp": dt.datetime.fromtimestamp(file.modified, dt.UTC),
        FILE: dict(zip(FILE_FIELDS, facts, strict=True)),
        _FIRST: position_in_files(file.ordinal, first),
        _CONTENT: piece.content,
        _BOUNDS: np.column_stack([piece.starts, piece.ends]).astype("<i4").tobytes(),
    }
    return pa.RecordBatch.from_pylist([row], schema=_SCHEMA)
