"""Publishing: the current table after changes to keys of one and of several columns, few rows and many."""

import datetime as dt
import random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from pipeline.model import change, types
from pipeline.model.columns import SourceColumn, TableVersion
from pipeline.model.names import TableName, quoted
from pipeline.settings.sections import Maintenance
from pipeline.warehouse import changes, current, maintenance
from pipeline.warehouse.evolution import Policy, meet
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.locations import as_path
from pipeline.warehouse.maintenance import Maintainer
from pipeline.warehouse.state import BY_CLONE

pytestmark = pytest.mark.spark

FEW, MANY = 5, 500
KEYS = {
    "bigint": ("BIGINT", types.BIGINT, lambda n: n),
    "text": ("TEXT", types.STRING, lambda n: f"'{n}"),
    "binary": ("BLOB", types.BINARY, lambda n: bytearray(n.to_bytes(4, "big"))),
    "unsigned": ("BIGINT UNSIGNED", types.UNSIGNED_BIGINT, lambda n: 2**64 - 1 - n),
    "torn": ("TEXT", types.STRING, lambda n: f"{0x8000 + n:04X}"),  # the bytes, which are no UTF-8
    "date": ("DATE", types.DATE, lambda n: dt.date(2024, 1, 1) + dt.timedelta(n)),
    "narrow": ("DECIMAL(12,2)", types.decimal(5, 2), lambda n: f"{n + 1}0.00"),  # from 99 on it does not hold them
    "whole": ("TEXT", types.INT, lambda n: f"{n}" if n < 100 else f"n{n}"),  # nor does this one
}
LOSING = ("narrow", "whole")
"""Types of the user's, which do not hold every key: these are text on their way here."""


class Stream:
    """Appends changes to one table, batch by batch, and publishes them."""

    def __init__(self, warehouse, kinds):
        self.spark, tables, _ = warehouse
        self.columns = {f"k{n}": KEYS[kind] for n, kind in enumerate(kinds)}
        self.torn = {f"k{n}" for n, kind in enumerate(kinds) if kind == "torn"}
        self.losing = {f"k{n}" for n, kind in enumerate(kinds) if kind in LOSING}
        source = (
            *(SourceColumn(name, kind, tidb, nullable=False) for name, (tidb, kind, _) in self.columns.items()),
            SourceColumn("v", types.INT, "INT", nullable=True),
        )
        version = TableVersion(TableName("s", "t"), 1, source, tuple(self.columns))
        layout, _ = meet(Layout(), version, Policy())
        self.table = tables.create(version.table, layout)
        self.offset = self.batch = 0

    def key(self, number):
        return tuple(value(number) for _, _, value in self.columns.values())

    def take(self, *events, step=lambda _name: None, partition=0):
        """Events (op, key number, v), in their order; `step` is told those of the publish."""
        rows = []
        for op, number, v in events:
            rows.append((op, self.offset, *self.key(number), v))
            self.offset += 1
        kinds = {name: "string" if name in self.losing else kind for name, (_, kind, _) in self.columns.items()}
        kinds = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        frame = self.spark.createDataFrame(_exact(rows), f"{change.OP} string, {change.OFFSET} bigint, {kinds}, v int")
        frame = frame.withColumns({name: F.expr(f"CAST(unhex({name}) AS STRING)") for name in self.torn})
        frame = frame.withColumns(self._held()) if self.losing else frame
        constant = {
            change.TOPIC: "'t'", change.PARTITION: f"{partition}", change.INDEX: "0", change.SCHEMA_ID: "1L",
            change.ERROR: "CAST(NULL AS STRING)",
        }  # fmt: skip
        given = (*frame.columns, *constant, change.BATCH_ID, change.INGESTED_AT)
        nulls = {n: f"CAST(NULL AS {kind})" for n, kind in change.ENVELOPE.items() if n not in given}
        frame = frame.selectExpr("*", *(f"{value} AS {quoted(name)}" for name, value in (constant | nulls).items()))
        operation = f"batch{self.batch}"
        changes.append(self.table, frame, changes.Entry(self.batch, {("id", partition): self.offset}, operation))
        current.publish(self.spark, self.table, "UTC", operation, step)
        self.batch += 1

    def rebuild(self):
        current.publish(self.spark, self.table, "UTC", "rebuild", lambda _step: None, afresh=True)

    def _held(self):
        held = {name: F.col(name).try_cast(self.columns[name][1]) for name in self.losing}
        lost = [part for name in held for part in (F.lit(name), F.when(held[name].isNull(), F.col(name)))]
        return {**held, change.UNREPRESENTABLE: F.map_filter(F.create_map(*lost), lambda _, text: text.isNotNull())}

    def rows(self):
        shown = [f"hex({name}) AS {name}" if name in self.torn else name for name in self.columns]
        text = f"coalesce(string({{0}}), {change.UNREPRESENTABLE}['{{0}}']) AS {{0}}"
        shown = [text.format(name) if name in self.losing else name for name in shown]
        found = self.spark.table(self.table.name.sql).selectExpr(*shown, "v").collect()
        return sorted((tuple(row)[:-1], row.v) for row in found)

    def wanted(self, values):
        return sorted((self.key(number), v) for number, v in values.items())


def _exact(rows):
    """Integers beyond Java's as the decimals that they are."""
    from decimal import Decimal  # noqa: PLC0415

    return [[Decimal(v) if isinstance(v, int) and v > 2**63 else v for v in row] for row in rows]


@pytest.mark.parametrize(
    "kinds",
    [
        ["bigint"],
        ["text"],
        ["binary"],
        ["unsigned"],
        ["date"],
        ["torn"],
        ["bigint", "text"],
        ["unsigned", "binary"],
        ["narrow"],
        ["bigint", "whole"],
    ],
)
def test_the_last_change_of_a_key_is_its_row(warehouse, kinds):
    stream = Stream(warehouse, kinds)
    truth = {n: n for n in range(MANY)}
    stream.take(*(("insert", n, v) for n, v in truth.items()))
    stream.take(("update", 1, -1), ("delete", 2, None), ("update", 1, -2), ("delete", 3, None), ("insert", 3, -3))
    truth |= {1: -2, 3: -3}
    del truth[2]
    assert stream.rows() == stream.wanted(truth)
    stream.take(*(("delete", n, None) for n in range(4, MANY // 2)), ("insert", 2, 22))
    truth = {n: v for n, v in truth.items() if not 4 <= n < MANY // 2} | {2: 22}
    assert stream.rows() == stream.wanted(truth)


@pytest.mark.parametrize("kinds", [["bigint"], ["torn", "unsigned"], ["date", "binary"]])
def test_of_a_file_of_which_few_rows_show_these_rows_alone_are_in_the_current_table(warehouse, kinds):
    stream = Stream(warehouse, kinds)
    stream.take(*(("upsert", n % 3, n) for n in range(200)), ("delete", 2, None))
    totals = stream.table.current.totals()
    assert (totals["records"], totals["position-deletes"]) == (2, 0)
    assert stream.rows() == stream.wanted({0: 198, 1: 199})
    stream.take(("upsert", 0, -1), ("upsert", 2, -2))
    columns = stream.table.current.schema()
    stream.spark.sql("ALTER TABLE warehouse.s.t DROP COLUMN v")  # behind the look that a batch begins with
    stream.take(*(("upsert", 3, n) for n in range(9)))
    stream.table.current.set_schema(columns)  # as a release does
    stream.spark.catalog.refreshTable("warehouse.s.t")
    assert stream.rows() == stream.wanted({0: -1, 1: 199, 2: -2, 3: 8})
    stream.table.live_files = None  # another process looks at the files anew
    stream.take(("upsert", 1, -3))
    assert stream.rows() == stream.wanted({0: -1, 1: -3, 2: -2, 3: 8})


def commits(table):
    """How many times a table's metadata were committed."""
    return len(list((as_path(table.location) / "metadata").glob("*.metadata.json")))


def test_a_batch_is_one_commit_of_each_table_which_says_that_files_were_shown(warehouse):
    stream = Stream(warehouse, ["bigint"])
    pair = stream.table
    stream.take(("upsert", 1, 1), ("upsert", 2, 2))
    before = commits(pair.changes), commits(pair.current)
    stream.take(("upsert", 1, -1), ("delete", 2, None))
    assert (commits(pair.changes), commits(pair.current)) == (before[0] + 1, before[1] + 1)
    assert BY_CLONE.read(pair.current.summary(pair.current.head())) is True


@pytest.mark.parametrize("setting", [None, "SET TBLPROPERTIES ('write.parquet.row-group-size-bytes'='1000000')"])
def test_a_large_table_is_compacted_in_the_order_of_its_key_and_goes_on(warehouse, monkeypatch, setting):
    monkeypatch.setattr(maintenance, "_SORTED_FROM", MANY)
    monkeypatch.setattr(maintenance, "_ROW_GROUP_BYTES", "4096")
    stream = Stream(warehouse, ["text", "bigint"])
    numbers = random.Random(31).sample(range(MANY), MANY)  # noqa: S311 - no secret
    for part in (numbers[:200], numbers[200:]):
        stream.take(*(("insert", n, n) for n in part))
    if setting:
        stream.spark.sql(f"ALTER TABLE warehouse.s.t {setting}")
    compact(stream)
    (name,) = (row.file_path for row in stream.spark.sql("SELECT file_path FROM warehouse.s.t.data_files").collect())
    file = pq.ParquetFile(as_path(name))
    keys = list(zip(*(file.read([column])[column].to_pylist() for column in ("k0", "k1")), strict=True))
    assert keys == sorted(stream.key(n) for n in numbers)
    assert (file.num_row_groups == 1) == bool(setting)
    stream.take(("update", 1, -1), ("delete", 2, None))
    assert BY_CLONE.read(stream.table.current.summary(stream.table.current.head())) is True
    assert stream.rows() == stream.wanted({**{n: n for n in numbers if n != 2}, 1: -1})


def test_a_smaller_table_and_one_with_a_users_order_are_compacted_as_they_are(warehouse, monkeypatch):
    stream = Stream(warehouse, ["bigint"])
    for part in (range(50, 100), range(50)):
        stream.take(*(("insert", n, -n) for n in part))
    compact(stream)
    assert "write.parquet.row-group-size-bytes" not in stream.table.current.properties
    monkeypatch.setattr(maintenance, "_SORTED_FROM", 1)
    stream.spark.sql("ALTER TABLE warehouse.s.t WRITE ORDERED BY v")
    compact(stream)
    stream.take(("insert", 100, -100))
    assert "write.parquet.row-group-size-bytes" not in stream.table.current.properties
    assert stream.rows() == stream.wanted({n: -n for n in range(101)})


def test_a_table_that_was_ordered_by_its_key_once_is_sorted_and_shows_links_again(warehouse, monkeypatch):
    monkeypatch.setattr(maintenance, "_SORTED_FROM", 1)
    stream = Stream(warehouse, ["bigint"])
    for order in ("ORDERED BY k0", "UNORDERED"):
        stream.take(*(("upsert", n, n) for n in range(50)))
        stream.spark.sql(f"ALTER TABLE warehouse.s.t WRITE {order}")
    stream.take(*(("upsert", n, n) for n in range(50)))
    compact(stream)
    stream.take(("upsert", 1, -1))
    assert BY_CLONE.read(stream.table.current.summary(stream.table.current.head())) is True
    assert stream.rows() == stream.wanted({n: n if n != 1 else -1 for n in range(50)})


def test_a_held_table_whose_key_a_user_has_renamed_is_compacted_as_it_is(warehouse, monkeypatch):
    monkeypatch.setattr(maintenance, "_SORTED_FROM", 1)
    stream = Stream(warehouse, ["bigint"])
    for part in (range(5), range(5, 9)):
        stream.take(*(("insert", n, n) for n in part))
    stream.spark.sql("ALTER TABLE warehouse.s.t RENAME COLUMN k0 TO mine")
    compact(stream)
    assert stream.table.current.totals()["data-files"] == 1


def compact(stream):
    """What `tables maintain` does to the current table."""
    Maintainer(stream.spark, Maintenance(), lambda _step: None).compact(stream.table.current)
    stream.spark.catalog.refreshTable("warehouse.s.t")


@pytest.mark.parametrize("setting", ["ADD PARTITION FIELD bucket(4, k0)", "WRITE ORDERED BY v"])
def test_a_current_table_that_a_user_has_partitioned_or_sorted_goes_on(warehouse, setting):
    stream = Stream(warehouse, ["bigint"])
    stream.take(*(("upsert", n, n) for n in range(10)))
    stream.spark.sql(f"ALTER TABLE warehouse.s.t {setting}")
    stream.take(("upsert", 1, -1), ("delete", 2, None))
    assert stream.rows() == stream.wanted({n: n for n in range(10) if n not in (1, 2)} | {1: -1})


@pytest.mark.parametrize("kinds", [["narrow"], ["whole", "bigint"]])
def test_keys_that_their_column_cannot_hold_are_told_apart_in_one_batch_and_in_several(warehouse, kinds):
    stream = Stream(warehouse, kinds)
    stream.take(("insert", 5, 5), ("insert", 101, 1), ("insert", 102, 2))
    stream.take(("insert", 103, 3))
    assert stream.rows() == stream.wanted({5: 5, 101: 1, 102: 2, 103: 3})
    stream.take(("update", 101, -1))
    stream.take(("delete", 102, None), ("update", 5, -5))
    assert stream.rows() == stream.wanted({5: -5, 101: -1, 103: 3})
    stream.take(("delete", 5, None), ("insert", 6, 6))
    assert stream.rows() == stream.wanted({6: 6, 101: -1, 103: 3})


@pytest.mark.parametrize("size", [FEW, MANY])
def test_a_key_that_went_to_another_partition_is_what_its_last_batch_says_also_when_it_is_built_again(warehouse, size):
    stream = Stream(warehouse, ["bigint"])
    stream.take(*(("upsert", number, number) for number in range(size)), partition=1)
    stream.take(("delete", 1, None), ("upsert", 2, 20), partition=0)
    stream.take(("upsert", 3, 30), partition=2)
    want = stream.wanted({number: number for number in range(size) if number != 1} | {2: 20, 3: 30})
    assert stream.rows() == want
    stream.rebuild()
    assert stream.rows() == want
