"""The bench's rows as a storage changefeed writes them: the same rows as `order_line`'s Avro, in files.

A file has what all four streams sent in some seconds, in the order of commit ts, as TiCDC writes one table. The bytes
are put together from pieces that the simulator's encoders have made; tests/unit/test_simulate_bench_files.py takes them
apart again.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from by_cut import MADE, CutStream, Members
from order_line import BLOCK, DELETE, INSERT, UPDATE, Truth, order_line

from pipeline.protocols.files.head import ROWS
from pipeline.settings import parse
from pipeline.simulate.ddl import create_table
from pipeline.simulate.files import LINE_END, CanalCodec, CsvCodec, schema_file
from pipeline.simulate.tables import value_of
from pipeline.sources.storage.frame import batches
from pipeline.sources.storage.lines import lines_of
from pipeline.sources.storage.plan_log import PlannedFile
from pipeline.sources.storage.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.simulate.tables import Value

Line = tuple[int, bytes]
"""Commit ts and bytes of a row."""
EXTENSIONS = {"csv": "csv", "canal-json": "json"}
STREAMS = 4
_END = LINE_END.encode()


@cache
def _members(protocol: str) -> Members:
    codec = CsvCodec(order_line()) if protocol == "csv" else CanalCodec(order_line())
    return Members(codec, end=b"")


class FileStream(CutStream):
    """The lines of one stream. The columns stand in the order of the table."""

    def __init__(self, protocol: str, seed: str, first: int, step: int) -> None:
        super().__init__(_members(protocol), seed, first, step)
        self._ts = 0

    def lines(self, count: int) -> Iterator[list[Line]]:
        """Yield the lines of `count` rows, a block at a time; `truth` is complete at the end."""
        for start in range(0, count, BLOCK):
            yield [self._line() for _ in range(min(BLOCK, count - start))]
        self._close()

    def _begin(self, commit_ts: int) -> None:
        self._ts = commit_ts

    def _line(self) -> Line:
        op, _, before, after = self._next()
        return self._ts, self._row(op, before, after)

    def _row(self, op: str, before: bytes, after: bytes) -> bytes:
        raise NotImplementedError


class CsvFileStream(FileStream):
    """With commit ts, is-update and old values."""

    def _image(self, row: int, key: bytes) -> bytes:
        return b",".join(self.in_order(row, key)) + _END

    def _begin(self, commit_ts: int) -> None:
        super()._begin(commit_ts)
        names = b'"order_line","bench",%d' % commit_ts
        self._heads = {
            INSERT: b'"I",' + names + b",false,", DELETE: b'"D",' + names + b",false,",
            "before": b'"D",' + names + b",true,", "after": b'"I",' + names + b",true,",
        }  # fmt: skip

    def _row(self, op: str, before: bytes, after: bytes) -> bytes:
        heads = self._heads
        if op is UPDATE:
            return heads["before"] + before + heads["after"] + after
        return heads[op] + (before or after)


class CanalFileStream(FileStream):
    """With `enable-tidb-extension`."""

    def __init__(self, protocol: str, seed: str, first: int, step: int) -> None:
        super().__init__(protocol, seed, first, step)
        row: dict[str, Any] = dict.fromkeys(column.name for column in order_line().sent_columns)
        line = CanalCodec(order_line()).lines("insert", None, row, 1 << 18).encode()
        self._head, _, rest = line.partition(b'"type":"INSERT"')
        self._kinds = rest[rest.index(b'"sql":""') : rest.index(b'"old":null')]

    def _image(self, row: int, key: bytes) -> bytes:
        return b"{" + b",".join(self.in_order(row, key)) + b"}"

    def _row(self, op: str, before: bytes, after: bytes) -> bytes:
        ms = self._ts >> 18
        old = b"[" + before + b"]" if op is UPDATE else b"null"
        return b'%b"type":"%b","es":%d,"ts":%d,%b"old":%b,"data":[%b],"_tidb":{"commitTs":%d}}%b' % (
            self._head, op.upper().encode(), ms, ms, self._kinds, old, after or before, self._ts, _END,
        )  # fmt: skip


STREAM = {"csv": CsvFileStream, "canal-json": CanalFileStream}


def produce(folder: Path, protocol: str, rows: int, *, seed: int = 7) -> tuple[int, Truth]:
    """Write the very rows of `workload.produce`; how many bytes of files of rows these are, and the truth."""
    ends = [rows * number // STREAMS for number in range(STREAMS + 1)]
    streams = [STREAM[protocol](protocol, f"{seed}/{number}", 1 + number, STREAMS) for number in range(STREAMS)]
    blocks = [stream.lines(ends[number + 1] - ends[number]) for number, stream in enumerate(streams)]
    place = folder / "bench" / "order_line" / str(MADE)
    place.mkdir(parents=True)
    size, last = 0, MADE
    for number, sent in enumerate(zip_longest(*blocks, fillvalue=()), start=1):
        lines = sorted(line for block in sent for line in block)
        content = b"".join(line for _, line in lines)
        (place / f"CDC{number:020}.{EXTENSIONS[protocol]}").write_bytes(content)
        size, last = size + len(content), max(last, lines[-1][0])
    describe(folder, last + (1_000 << 18))
    return size, sum((stream.truth for stream in streams), Truth())


def sample_row() -> dict[str, Value]:
    """An order line, of whose columns all have a value."""
    texts = {
        "ol_id": "1", "ol_w_id": "7", "ol_d_id": "3", "ol_i_id": "12962", "ol_amount": "24343.33",
        "ol_discount": "0.3921", "ol_qty": "7", "ol_status": "shipped", "ol_dist_info": "ew7ce3jdznyapl04vvzjyr6l",
        "ol_meta": '{"batch": 141276, "gift": false, "tags": ["a", "b"]}', "ol_created": "2024-05-25 05:09:29.000",
        "ol_delivery_d": "2024-06-03 20:30:00", "ol_rate": "0.43589676319788284",
    }  # fmt: skip
    return {column.name: value_of(column.parsed, texts[column.name]) for column in order_line().columns}


def describe(folder: Path, checkpoint_ts: int, name: str = "order_line") -> None:
    """Write the schema file, if it is not there, and `metadata`: as if some time ago, so that nothing is waited for."""
    table = order_line("bench", name)
    path, content = schema_file("bench", table, MADE, create_table(table))
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    if not (folder / path).exists():
        (folder / path).write_bytes(content)
    (folder / "metadata").write_text(json.dumps({"checkpoint-ts": checkpoint_ts}))
    then = time.time() - 60
    os.utime(folder / "metadata", (then, then))


def main() -> None:
    """Read a file as a task does, a block at a time, and print the peak of the process's memory in KiB."""
    path = Path(sys.argv[1])
    source = {"kind": "storage", "protocol": "csv", "path": str(path.parent)}
    tree = {"name": "bench", "source": source, "warehouse": {"path": "warehouse"}, "checkpoint": "checkpoint"}
    settings = parse(json.dumps(tree), path.parent)
    file = PlannedFile(1, path.name, 1, path.stat().st_size, "", 0.0, ROWS, "s", "t", MADE)
    for batch in batches(FolderStore(path.parent), lines_of(settings), file):
        del batch
    sys.stdout.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}\n")


if __name__ == "__main__":
    main()
