"""The product's commits without its stream: the worker of `growth`."""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from pipeline.model import change, types
from pipeline.model.columns import SourceColumn, TableVersion, time_of
from pipeline.model.names import TableName
from pipeline.quality.rules import RuleResult
from pipeline.quality.samples import as_row
from pipeline.quality.suites import Severity
from pipeline.runtime.session import session
from pipeline.settings import parse
from pipeline.settings.sections import Maintenance
from pipeline.warehouse import changes, current
from pipeline.warehouse.evolution import Policy, meet
from pipeline.warehouse.iceberg import Catalog
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.maintenance import Maintainer
from pipeline.warehouse.records import Records
from pipeline.warehouse.tables import Tables

ROWS, KEYS = 10, 1000
RULES = ("builtin:key_not_null", "builtin:checksum")
COLUMNS = ("id", "customer", "qty", "amount", "note", "city")
FIRST = 450_000_000_000_000_000
ENDS = '{"tidb_bench_orders":{"0":%d}}'
SETTINGS = """
name: bench
source: {{kind: kafka, protocol: avro, bootstrap_servers: "localhost:1", topics: [none]}}
registry: {{url: "http://localhost:1"}}
warehouse: {{path: {folder}/warehouse}}
checkpoint: {folder}/checkpoint
"""


class Publishes:
    """Two commands of the worker: `begin`, and `publish` as often as one likes."""

    def begin(self, folder: str, keep: int = 0, hour: int = 0) -> None:
        """A warehouse with one table, which keeps so many snapshots, or those of the last so many batches."""
        settings = parse(SETTINGS.format(folder=folder), Path(folder) / "ticdc-warehouse.yaml")
        settings.warehouse.path.mkdir(parents=True)
        self._spark = session(settings)
        self._tables = Tables(Catalog(self._spark), settings.warehouse.data, namespace="{schema}", with_current=True)
        self._tables.load()
        self._records = Records.open(self._spark, self._tables.catalog, settings.warehouse.data, "bench")
        fields = tuple(SourceColumn(name, types.BIGINT, "BIGINT") for name in COLUMNS)
        layout, _ = meet(Layout(), TableVersion(TableName("bench", "orders"), 1, fields, ("id",)), Policy())
        self._table = self._tables.create(TableName("bench", "orders"), layout)
        self._thresholds = {"keep_for": "1 second", "keep_snapshots": keep} if keep else _of_an_hour(hour)
        self._maintainer = Maintainer(self._spark, Maintenance(**self._thresholds), lambda _: None)
        self._ends: deque[float] = deque(maxlen=hour)
        self._done, self._seconds = 0, 0.0

    def publish(self, publishes: int) -> dict[str, Any]:
        """Commit so many batches more and look after the tables; what they weigh then."""
        began = time.monotonic()
        for number in range(self._done, self._done + publishes):
            self._batch(number)
            self._keep_an_hour()
            self._maintainer.after_batch([self._table], self._records, self._tables)
        self._done += publishes
        self._seconds += time.monotonic() - began
        return {"publishes": self._done, "seconds": round(self._seconds, 1), "tables": self._weighed()}

    def _keep_an_hour(self) -> None:
        """What the settings call an hour is here as long as so many batches took: they follow one another."""
        if self._ends.maxlen and len(self._ends) == self._ends.maxlen:
            hour = time.monotonic() - self._ends[0]
            self._maintainer.thresholds = Maintenance(**self._thresholds | {"keep_for": f"{max(1, hour):.0f} seconds"})
        self._ends.append(time.monotonic())

    def _batch(self, number: int) -> None:
        """Ten rows of keys from all over, half of which the table has."""
        offset, operation = number * ROWS, f"batch{number}"
        nulls = {name: f"CAST(NULL AS {kind})" for name, kind in change.ENVELOPE.items()}
        said = {
            change.OP: "'upsert'", change.OFFSET: "id", change.TOPIC: "'tidb_bench_orders'", change.PARTITION: "0",
            change.INDEX: "0", change.SCHEMA_ID: "1L", change.ERROR: "CAST(NULL AS STRING)",
        }  # fmt: skip
        given = {
            name: value
            for name, value in {**nulls, **said}.items()
            if name not in (change.BATCH_ID, change.INGESTED_AT)
        }
        values = {name: f"(id * {7919 + place}) % {KEYS}" for place, name in enumerate(COLUMNS)}
        frame = self._spark.range(offset, offset + ROWS, 1, 1).select(
            *(F.expr(text).alias(name) for name, text in {**given, **values}.items())
        )
        changes.append(self._table, frame, changes.Entry(number, {("id", 0): offset + ROWS}, operation))
        current.publish(self._spark, self._table, "UTC", operation, lambda _step: None)
        results = (RuleResult(rule, Severity.QUARANTINE, ROWS, 0, success=True) for rule in RULES)
        head = self._table.changes.head()
        rows = [as_row(result, self._table.source, "", head, None) for result in results]
        self._records.write("quality_results", number, rows)
        cut_ts = FIRST + number * (10_000 << 18)
        cut = {
            "cut_ts": cut_ts, "cut_time": time_of(cut_ts), "table_uuid": self._table.uuid, "schema_name": "bench",
            "table_name": "orders", "snapshot_id": self._table.current.head(), "level": "bounded",
            "reason": "changes are ordered by offset",
        }  # fmt: skip
        self._records.write("cuts", number, [cut])
        batch = {
            "query_id": f"bench/{number}", "start_offsets": ENDS % offset, "end_offsets": ENDS % (offset + ROWS),
            "rows_in": ROWS, "inserts": 0, "updates": ROWS, "deletes": 0, "quarantined": 0, "dead_letters": 0,
            "seconds": 0.9 + number % 7 / 10, "level": "bounded", "committed": True,
        }  # fmt: skip
        self._records.write("batches", number, [batch], {"ticdc.batch": str(number)})

    def _weighed(self) -> dict[str, dict[str, int]]:
        tables = (self._table.changes, self._table.current, *self._records.tables.values())
        return {table.name.name: _weighed(table) for table in tables}


def _of_an_hour(batches: int) -> dict[str, Any]:
    """The thresholds that a pipeline has, and as many times smaller as an hour of it has more batches."""
    usual = Maintenance()
    share = batches / 360
    names = ("compact_files", "compact_deletes", "expire_after_commits", "keep_snapshots")
    return {name: max(2, round(share * getattr(usual, name))) for name in names}


def _weighed(table: Any) -> dict[str, int]:
    """Snapshots, the newest metadata file, all files of metadata, files of data: how many and how large.

    `sum_files`: those that Hadoop writes beside each file of a local folder.
    """
    table.refresh()
    place = Path(table.location.removeprefix("file:"))
    (metadata, sums), (data, more) = (_sized(place / name) for name in ("metadata", "data"))
    newest = max((place / "metadata").glob("*.metadata.json"), key=lambda file: file.stat().st_mtime_ns)
    return {
        "rows": table.totals()["records"] if table.head() else 0,
        "snapshots": table.snapshot_count(),
        "newest_bytes": newest.stat().st_size,
        "metadata_files": len(metadata),
        "metadata_bytes": sum(metadata),
        "data_files": len(data),
        "data_bytes": sum(data),
        "sum_files": sums + more,
        "shown_bytes": table.totals()["files-size"],
    }


def _sized(folder: Path) -> tuple[list[int], int]:
    """The sizes of a folder's files, and how many files of sums are beside them; nothing for one that is not there."""
    if not folder.exists():
        return [], 0
    with os.scandir(folder) as found:
        sizes = {entry.name: entry.stat().st_size for entry in found}
    own = [size for name, size in sizes.items() if not name.endswith(".crc")]
    return own, len(sizes) - len(own)
