"""A column with a default, and a type that the table format refuses, into a large table with the next ten rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import feed
import pyarrow.compute as pc
import small
import sums
import workload
from figures import Measured, differences
from machine import watched
from order_line import BASE_MS, order_line
from progress import say

from pipeline.simulate.tables import SimulatedColumn

if TYPE_CHECKING:
    from ground import Ground, Sizes
    from remote import Remote

    from pipeline.simulate.tables import Row, SimulatedTable

ROWS = 10
WARM_UPS = 5
DEFAULT = "none"
SENT = "by hand"
OL_QTY = 7
ADDED = SimulatedColumn("ol_note", "varchar(16)", nullable=False, default=DEFAULT)
FORKED = SimulatedColumn("ol_qty", "varchar(12)", nullable=False)


def run(ground: Ground, sizes: Sizes) -> Measured:
    """At `rows`, and in a full bench at ten times as many."""
    details, mistakes = {}, []
    for rows in (sizes.rows, 10 * sizes.rows) if sizes.full else (sizes.rows,):
        name = f"evolution{rows}"
        with ground.worker("ours", name) as worker:
            found, wrong = _evolve(ground, worker, name, rows)
        details[str(rows)] = found
        mistakes += [f"{rows} rows: {one}" for one in wrong]
    return Measured({}, details, mistakes, sizes.reduced("rows"))


def _evolve(ground: Ground, worker: Remote, name: str, rows: int) -> tuple[dict[str, Any], list[str]]:
    stack, table = ground.stack, order_line("bench", "t000")
    workload.many_tables(stack.bootstrap_servers, stack.registry_url, 1, ROWS, key_range=rows, prefix=name)
    small.prepare(ground, worker, name, ["t000"], rows)
    wide = replace(table, columns=(*table.columns, ADDED), version=2)
    forked = replace(wide, columns=tuple(FORKED if c.name == "ol_qty" else c for c in wide.columns), version=3)
    for number in range(WARM_UPS):
        _round(ground, worker, name, table, number)
    steps = {"no_change": table, "add_column": wide, "fork": forked, "no_change_after": forked}
    measured = {
        what: _round(ground, worker, name, version, number)
        for number, (what, version) in enumerate(steps.items(), WARM_UPS)
    }
    worker.ask("close")
    for what, facts in measured.items():
        say(f"evolution: {rows:,} rows, {what}: {facts['seconds']} s")
    return measured, differences("current", _expected(rows), _found(ground, name))


def _round(ground: Ground, worker: Remote, name: str, table: SimulatedTable, number: int) -> dict[str, Any]:
    """Ten rows, of keys that the table has, as this version of the source sends them."""
    first = 1 + number * ROWS
    feed.rows_of(
        ground.stack, name, table, [_row(table, key) for key in range(first, first + ROWS)], _commit_ts(number)
    )
    with watched() as around:
        facts = worker.ask("run")
    return {**facts, "seconds": round(facts["seconds"], 3), **around}


def _commit_ts(number: int) -> int:
    return (BASE_MS + 10_000_000 + number) << 18


def _row(table: SimulatedTable, key: int) -> Row:
    row = {
        "ol_id": key,
        "ol_w_id": 1,
        "ol_d_id": 1,
        "ol_i_id": 1,
        "ol_amount": Decimal("400.00"),
        "ol_discount": Decimal("0.1000"),
        "ol_qty": str(OL_QTY) if table.column("ol_qty").type == FORKED.type else OL_QTY,
        "ol_status": "new",
        "ol_dist_info": "x" * 24,
        "ol_meta": "{}",
        "ol_created": datetime(2024, 6, 1),  # noqa: DTZ001 - DATETIME has no zone
        "ol_delivery_d": datetime(2024, 6, 1, tzinfo=UTC),
        "ol_rate": 0.5,
        ADDED.name: SENT,
    }
    return {column.name: row[column.name] for column in table.columns}


def _expected(rows: int) -> dict[str, int]:
    """Every row there was shows the default and its old number as text; those sent since show what was sent."""
    return {
        "rows": rows,
        "default": rows - 3 * ROWS,
        "sent": 3 * ROWS,
        "converted": rows - 2 * ROWS,
        "sent as text": 2 * ROWS,
    }


def _found(ground: Ground, name: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    columns = ("ol_note", "ol_qty", "ol_qty__v1")
    for batch in sums.scanned(ground.warehouse(name), "bench.t000", columns):
        old = batch["ol_qty__v1"]
        converted = pc.equal(batch["ol_qty"], old.cast(batch["ol_qty"].type))
        text = pc.and_(pc.is_null(old), pc.equal(batch["ol_qty"], str(OL_QTY)))
        found.update(rows=batch.num_rows)
        for what, where in {
            "default": pc.equal(batch["ol_note"], DEFAULT),
            "sent": pc.equal(batch["ol_note"], SENT),
            "converted": converted,
            "sent as text": text,
        }.items():
            found[what] += pc.sum(pc.fill_null(where, fill_value=False)).as_py() or 0
    return dict(found)
