# ruff: noqa: T201 - a script: its result goes to stdout
"""Peer b2: what a user would write instead, at its best: confluent-kafka + fastavro + deltalake merges.

One process per core takes its share of the partitions, keeps the last change per key of a batch and decodes
only that, with the column code of peer b; the main process merges batch after batch into one current table
while the next is decoded. The merge deletes, updates or inserts by key, pruned by the batch's key range.
Batches of 250,000 were best (CPU seconds per million: 100,000 15.6, 250,000 12.2, 500,000 11.8 but with less
decoding beside merging); `streamed_exec=False` and a BIGINT key gain nothing.

    python deltalake_merge.py BOOTSTRAP REGISTRY TOPIC FOLDER [--processes 2] [--batch 250000]

Prints one JSON line: rows, seconds (from the moment every process is ready to the last commit), the seconds
of the merges, and the checksum over the rows that live at the end, by reading the table.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, WriterProperties
from fastavro_parquet import SCHEMA, Decoder, consumer_of, cpu_seconds, share, table_of

KEY = pa.field("ol_id", pa.decimal128(20, 0))
MODULUS = 1_000_003
DECODED_AT_ONCE = 10_000


def last_changes(consumer: Any, count: int, decoder: Decoder) -> pa.Table:
    """The last change of each key among the next `count` messages: no other is even decoded."""
    last: dict[bytes, Any] = {}
    while count > 0:
        messages = consumer.consume(min(count, DECODED_AT_ONCE), 1.0)
        count -= len(messages)
        for message in messages:
            last[message.key()] = message
    kept = list(last.values())
    tables = [table_of(kept[at : at + DECODED_AT_ONCE], decoder) for at in range(0, len(kept), DECODED_AT_ONCE)]
    table = pa.concat_tables(tables)
    return table.set_column(table.schema.get_field_index("ol_id"), "ol_id", table["ol_id"].cast(KEY.type))


def decode(given: argparse.Namespace, number: int, ready: Any, batches: Any) -> None:
    """Put (messages, table) per batch, then the CPU seconds and None."""
    consumer, decoder = consumer_of(given.bootstrap), Decoder(given.registry)
    mine, left = share(consumer, given.topic, number, given.processes)
    pa.array(["warm"])
    ready.wait()
    cpu = cpu_seconds()
    gc.disable()
    consumer.assign(mine)
    while left > 0:
        count = min(left, given.batch // given.processes)
        batches.put((count, last_changes(consumer, count, decoder)))
        left -= count
    batches.put((cpu_seconds() - cpu, None))


def merge(table: DeltaTable, source: pa.Table) -> None:
    low, high = pc.min_max(source["ol_id"]).as_py().values()
    columns = {name: f"s.{name}" for name in source.column_names if name != "_op"}
    (
        table.merge(
            source,
            f"t.ol_id = s.ol_id AND t.ol_id BETWEEN {low} AND {high}",
            source_alias="s",
            target_alias="t",
            writer_properties=WriterProperties(compression="ZSTD"),
        )
        .when_matched_delete("s._op = 'delete'")
        .when_matched_update(columns)
        .when_not_matched_insert(columns, "s._op <> 'delete'")
        .execute()
    )


def run(given: argparse.Namespace, queues: list[Any]) -> dict[str, Any]:
    schema = pa.schema([KEY if field.name == "ol_id" else field for field in SCHEMA if field.name != "_op"])
    table = DeltaTable.create(str(given.folder), schema)
    rows, merges, merging, decoding, started, cpu = 0, 0, 0.0, 0.0, time.time(), cpu_seconds()
    while queues:
        found = [queue.get() for queue in queues]
        queues = [queue for queue, (_, part) in zip(queues, found, strict=True) if part is not None]
        decoding += sum(number for number, part in found if part is None)
        parts = [(number, part) for number, part in found if part is not None]
        if parts:
            at = time.time()
            merge(table, pa.concat_tables([part for _, part in parts]))
            merging += time.time() - at
            merges += 1
            rows += sum(number for number, _ in parts)
    return {
        "rows": rows,
        "seconds": round(time.time() - started, 2),
        "cpu_seconds": round(cpu_seconds() - cpu + decoding, 2),
        "merges": merges,
        "merge_seconds": round(merging, 2),
    }


def checksum(folder: Path) -> dict[str, int]:
    table = DeltaTable(str(folder)).to_pyarrow_table(columns=["ol_id", "ol_qty", "ol_amount"])
    cents = pc.sum(pc.multiply(table["ol_amount"].cast(pa.decimal128(18, 2)), pa.scalar(100))).as_py()
    ids = sum(int(key) % MODULUS for key in table["ol_id"].to_pylist())
    return {"rows": table.num_rows, "qty": pc.sum(table["ol_qty"]).as_py(), "cents": int(cents), "ids": ids}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("registry")
    parser.add_argument("topic")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--batch", type=int, default=250_000)
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(given.processes + 1)
    queues = [context.Queue(1) for _ in range(given.processes)]
    workers = [
        context.Process(target=decode, args=(given, number, ready, queue)) for number, queue in enumerate(queues)
    ]
    for worker in workers:
        worker.start()
    ready.wait()
    facts = run(given, queues)
    for worker in workers:
        worker.join()
    print(json.dumps({**facts, "checksum": checksum(given.folder)}))


if __name__ == "__main__":
    main()
