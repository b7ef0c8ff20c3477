"""Checksums of results, read by PyArrow and PyIceberg: no reader shares code with what wrote them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from order_line import MODULUS
from pyiceberg.catalog.sql import SqlCatalog

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from order_line import Truth
    from pyiceberg.table import Table

EVENTS = ("_op", "ol_qty", "ol_amount")
CURRENT = ("ol_id", "ol_qty", "ol_amount")


def iceberg(warehouse: Path, name: str) -> Table:
    """A table of an embedded warehouse."""
    uri = f"sqlite:///{warehouse / 'catalog.db'}"
    return SqlCatalog("warehouse", uri=uri, warehouse=str(warehouse)).load_table(name)


def scanned(warehouse: Path, name: str, columns: Iterable[str]) -> Iterable[pa.RecordBatch]:
    """Columns of an Iceberg table, batch by batch."""
    return iceberg(warehouse, name).scan(selected_fields=tuple(columns)).to_arrow_batch_reader()


def parquet(folder: Path, columns: Iterable[str]) -> Iterable[pa.RecordBatch]:
    """Columns of a folder of Parquet files, batch by batch."""
    return ds.dataset(folder, format="parquet").to_batches(columns=list(columns))


def _cents(amounts: pa.Array) -> int:
    found = pc.sum(pc.multiply(amounts.cast(pa.decimal128(18, 2)), pa.scalar(100))).as_py()
    return int(found or 0)


def of_events(batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Over changes: events by kind, and the sums over the images of all upserts. Deletes may have an image too."""
    events, sums = Counter(insert=0, update=0, delete=0), Counter(qty=0, cents=0)
    for batch in batches:
        events.update({one["values"]: one["counts"] for one in batch["_op"].value_counts().to_pylist()})
        upserts = batch.filter(pc.not_equal(batch["_op"], "delete"))
        sums.update(qty=pc.sum(upserts["ol_qty"]).as_py() or 0, cents=_cents(upserts["ol_amount"]))
    return {"events": dict(events), **sums}


def of_rows(batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Over the rows of a current table, as `Truth` counts them."""
    sums = Counter(rows=0, qty=0, cents=0, ids=0)
    for batch in batches:
        ids = batch["ol_id"].cast(pa.int64()).to_numpy(zero_copy_only=False) % MODULUS
        sums.update(
            rows=batch.num_rows,
            qty=pc.sum(batch["ol_qty"]).as_py() or 0,
            cents=_cents(batch["ol_amount"]),
            ids=int(ids.sum()),
        )
    return dict(sums)


def expected_events(truth: Truth) -> dict[str, Any]:
    """What `of_events` must be."""
    return {"events": truth.events, "qty": truth.all_qty, "cents": truth.all_cents}


def expected_rows(truth: Truth) -> dict[str, int]:
    """What `of_rows` must be."""
    return {"rows": truth.rows, "qty": truth.qty, "cents": truth.cents, "ids": truth.ids}
