"""Ten records into one, and into each, of a hundred tables of a million rows."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import bulk
import feed
import pyarrow as pa
import pyarrow.compute as pc
import sums
import workload
from figures import Measured, differences
from machine import watched
from progress import say

if TYPE_CHECKING:
    from pathlib import Path

    from ground import Ground, Sizes
    from order_line import Truth
    from remote import Remote

PREFIX = "small"
ROWS = 10
WARM_UPS, ONE_RUNS = 10, 5


def run(ground: Ground, sizes: Sizes) -> Measured:
    """Make the tables, then measure. Every run is one micro-batch."""
    stack, tables = ground.stack, feed.names(sizes.tables)
    truths = workload.many_tables(
        stack.bootstrap_servers, stack.registry_url, sizes.tables, ROWS, key_range=sizes.rows, prefix=PREFIX
    )
    sent = dict(zip(tables, truths.values(), strict=True))
    with ground.worker("ours", PREFIX) as worker:
        prepare(ground, worker, PREFIX, tables, sizes.rows)
        sender = Sender(ground, worker, PREFIX, sizes.rows, sent)
        one = [sender.round(tables[:1], ROWS, seed) for seed in range(WARM_UPS + ONE_RUNS)]
        each = [sender.round(tables, ROWS, 100 + seed) for seed in range(1 + sizes.repeats)]
        worker.ask("close")
    mistakes = mistakes_of(ground.warehouse(PREFIX), sent, sizes.rows)
    one, each = one[WARM_UPS:], each[1:]
    figures = {
        "small.one_seconds": of_the_batch(one),
        "small.all_seconds": of_the_batch(each),
    }
    say(f"small: 10 rows in 1 table {figures['small.one_seconds']} s, in each of {len(tables)}: "
        f"{figures['small.all_seconds']} s")  # fmt: skip
    details = {
        "tables": sizes.tables,
        "rows_per_table": sizes.rows,
        "records_per_table": ROWS,
        "one_run_seconds": median(facts["seconds"] for facts in one),
        "all_run_seconds": median(facts["seconds"] for facts in each),
        "one": one,
        "all": each,
    }
    return Measured(figures, details, mistakes, sizes.reduced("rows", "tables"))


def of_the_batch(runs: list[dict[str, Any]]) -> float:
    """As in a stream that runs: from the moment that Spark hands a batch over until it is committed."""
    return median(facts["batches"][0]["seconds"] for facts in runs)


def prepare(
    ground: Ground, worker: Remote, name: str, tables: list[str], rows: int, *, shuffled: bool = False, **warehouse: Any
) -> None:
    """Have the product make each pair from the records that are there, fill its current table, open anew.

    `shuffled`: see `bulk.rows`. `warehouse`: settings of it.
    """
    config = ground.config(name, {"topic_pattern": f"{name}_.*"}, batch=500_000, **warehouse)
    say(f"{name}: the product makes {len(tables)} tables")
    worker.ask("open", config=config)
    worker.ask("run")
    say(f"{name}: filling them up to {rows:,} rows each")
    worker.ask("grow", tables=[f"warehouse.bench.{table}" for table in tables], rows=rows, shuffled=shuffled)
    worker.ask("close")
    worker.ask("open", config=config)


@dataclass(frozen=True)
class Sender:
    """More records with keys from 1 to `key_range`, and the batch that takes them. `sent`: what each table has got."""

    ground: Ground
    worker: Remote
    prefix: str
    key_range: int
    sent: dict[str, Truth]

    def round(self, tables: list[str], rows: int, seed: int) -> dict[str, Any]:
        """So many rows for each of these tables."""
        fresh = feed.more(self.ground.stack, self.prefix, tables, rows, self.key_range, 1000 + seed)
        for table, truth in zip(tables, fresh, strict=True):
            self.sent[table] += truth
        with watched() as around:
            facts = self.worker.ask("run")
        (batch,) = facts["batches"]
        taken = f"{facts['seconds']:.2f} s, of it the batch {batch['seconds']:.2f} s"
        say(f"{self.prefix}: {batch['tables']} tables: {taken}")
        return {**facts, "seconds": round(facts["seconds"], 3), **around}


def mistakes_of(warehouse: Path, sent: dict[str, Truth], rows: int) -> list[str]:
    found = []
    for table, truth in sent.items():
        changes = f"bench.{table}__changes"
        events = sums.of_events(sums.scanned(warehouse, changes, sums.EVENTS))
        found += differences(f"{table}__changes", sums.expected_events(truth), events)
        last = sums.iceberg(warehouse, changes).scan().to_arrow().sort_by("_offset")
        found += differences(table, _expected(last, rows), _in_current(warehouse, table))
    return found


def _expected(changes: pa.Table, rows: int) -> dict[str, Any]:
    """What the current table must be, by the last change of each key: all else came from `bulk`."""
    last = {row["ol_id"]: row for row in changes.select(["ol_id", "_op", *sums.CURRENT[1:]]).to_pylist()}
    living = [row for row in last.values() if row["_op"] != "delete"]
    return {
        "rows": rows - (len(last) - len(living)),
        "sent": len(living),
        "qty": sum(row["ol_qty"] for row in living),
        "cents": int(100 * sum(row["ol_amount"] for row in living)),
    }


def _in_current(warehouse: Path, table: str) -> dict[str, Any]:
    """The number of all rows; number and sums of those that are not from `bulk`."""
    everything, sent = 0, []
    for batch in sums.scanned(warehouse, f"bench.{table}", ("_commit_ts", *sums.CURRENT)):
        everything += batch.num_rows
        sent.append(batch.filter(pc.not_equal(batch["_commit_ts"], bulk.COMMIT_TS)))
    totals = sums.of_rows(sent)
    return {**totals, "rows": everything, "sent": totals["rows"]}
