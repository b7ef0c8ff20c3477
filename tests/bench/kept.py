"""Plan a batch of ten new files in a bucket that keeps so many others: `kept.py COUNT FOLDER` says what it took.

Its last line is JSON: seconds of a start and of planning, requests of planning, and MiB of memory for both.

The bucket is a sorted list of keys that answers listings a thousand keys at a time, as S3 does, and counts them.
Everything else is the product's: what earlier batches took is read from a table, as a run does at its start.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from files import MADE
from order_line import order_line

from pipeline.model.frontier import NEVER
from pipeline.runtime.session import session
from pipeline.settings import parse
from pipeline.simulate.ddl import create_table
from pipeline.simulate.files import schema_file
from pipeline.sources.storage.bucket import BucketStore
from pipeline.sources.storage.inventory import Inventory
from pipeline.sources.storage.lines import lines_of
from pipeline.sources.storage.plan_log import LISTED, PlanLog
from pipeline.sources.storage.planner import plan

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES, NEW, TIMES = 10, 10, 3
_PAGE = 1000
_LINE = b'"I","t","bench",%d,false,1\r\n' % (MADE + (1 << 18))


@dataclass
class Bucket:
    """What `BucketStore` asks of its client."""

    keys: list[str]
    contents: dict[str, bytes]
    requests: int = 0
    modified: Any = field(default_factory=lambda: SimpleNamespace(timestamp=lambda: 1.7e9))

    def list_objects(
        self, _bucket: str, prefix: str | None, *, recursive: bool, start_after: str | None
    ) -> Iterator[Any]:
        """Pages of keys; where not `recursive`, folders in place of what they have."""
        prefix = prefix or ""
        place = bisect_right(self.keys, start_after) if start_after else bisect_left(self.keys, prefix)
        self.requests += 1
        given = 0
        while place < len(self.keys) and self.keys[place].startswith(prefix):
            key = self.keys[place]
            folder, slash, _ = key.removeprefix(prefix).partition("/")
            is_dir = bool(slash) and not recursive
            if is_dir:
                key = f"{prefix}{folder}/"
                place = bisect_left(self.keys, key[:-1] + chr(ord("/") + 1))
            else:
                place += 1
            given += 1
            if given > _PAGE:
                self.requests, given = self.requests + 1, 1
            yield SimpleNamespace(
                object_name=key, is_dir=is_dir, size=len(self._content(key)), etag="e", last_modified=self.modified
            )

    def _content(self, key: str) -> bytes:
        return self.contents.get(key, _LINE)

    def stat_object(self, _bucket: str, key: str) -> Any:
        """Of a key that is there."""
        self.requests += 1
        return SimpleNamespace(size=len(self._content(key)), etag="e", last_modified=self.modified)

    def get_object(self, _bucket: str, key: str, offset: int, length: int) -> Any:
        """Some of its bytes."""
        self.requests += 1
        data = self._content(key)[offset : offset + length if length else None]
        return SimpleNamespace(data=data, close=lambda: None, release_conn=lambda: None)


class Notes:
    """`_pipeline.files` of a pipeline that has taken so many files of each table."""

    def __init__(self, spark: Any, schemas: dict[str, bytes], taken: int) -> None:
        names = ", ".join(f"named_struct('path', '{path}', 'size', {len(of)})" for path, of in schemas.items())
        version = f"'bench' schema_name, 'order_line' table_name, {MADE}L version, {NEVER}L"
        listed = f"timestamp_seconds({int(time.time())})"
        self._files = spark.sql(f"""
            SELECT path, size, id ordinal, 1 incarnation, etag, modified, kind, {version} progress FROM (
                SELECT one.path, one.size, 0L id, 'e' etag, timestamp_seconds(1700000000) modified, 'DDL' kind
                FROM (SELECT explode(array({names})) one)
                UNION ALL
                SELECT format_string('bench/t%02d/{MADE}/CDC%020d.csv', id % {TABLES}, id div {TABLES} + 1),
                    {len(_LINE)}, id + 1, 'e', timestamp_seconds(1700000000), 'ROWS' FROM range({taken})
                UNION ALL SELECT '', 0, {taken} + 1L, '', {listed}, '{LISTED}')""")  # noqa: S608

    def read(self, _table: str) -> Any:
        """The frame."""
        return self._files

    def write(self, _table: str, _rows: Any) -> None:
        """Nothing is planned to be taken."""
        raise AssertionError("nothing is written")


def main() -> None:
    """See above."""
    kept = int(sys.argv[1])
    schemas = {}
    for number in range(TABLES):
        table = order_line("bench", f"t{number:02d}")
        path, content = schema_file("bench", table, MADE, create_table(table))
        schemas[path] = content
    taken = [f"bench/t{n % TABLES:02d}/{MADE}/CDC{n // TABLES + 1:020d}.csv" for n in range(kept + NEW)]
    metadata = json.dumps({"checkpoint-ts": MADE + (1_000 << 18)}).encode()
    bucket = Bucket(sorted([*schemas, *taken, "metadata"]), {**schemas, "metadata": metadata})
    del taken
    source = {"kind": "storage", "protocol": "csv", "path": "s3://b"}
    tree = {"name": "kept", "source": source, "warehouse": {"path": "w"}, "checkpoint": "c"}
    settings = parse(json.dumps(tree), Path(sys.argv[2]))
    spark = session(settings)
    lines = lines_of(settings)
    notes = Notes(spark, schemas, kept)
    PlanLog(Notes(spark, schemas, 10))  # type: ignore[arg-type]  # Spark has warmed up then
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _memory("VmRSS")
    begun = time.monotonic()
    log = PlanLog(notes)  # type: ignore[arg-type]
    start = time.monotonic() - begun
    store = BucketStore("b", "", {})
    store._client = bucket
    inventory = Inventory(store, log, settings.source, lines.is_closed)
    seconds, asked = [], 0
    for _ in range(TIMES):
        bucket.requests, begun = 0, time.monotonic()
        found = inventory.found()
        made = plan(found.new, 1 << 30, lambda entry: lines.first_commit_ts(store.read(entry.path)) or 0, NEVER)
        seconds.append(time.monotonic() - begun)
        asked = bucket.requests
        if len(made.rows) != NEW or found.schemas:
            raise AssertionError(f"{len(made.rows)} files, {len(found.schemas)} schema files")
    facts = {"start": start, "planning": min(seconds), "requests": asked, "mib": (_memory("VmHWM") - before) / 1024}
    sys.stdout.write(f"\n{json.dumps(facts)}\n")


def _memory(of: str) -> int:
    """KiB of this process's memory: `VmRSS` now, `VmHWM` at its peak."""
    return int(re.search(rf"{of}:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
