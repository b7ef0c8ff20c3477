"""Names are hostile input: whatever a table is called, its files stay in the warehouse and its rows apart."""

import pytest

from pipeline.model import change, types
from pipeline.model.columns import SourceColumn, TableVersion
from pipeline.model.names import TableName, quoted
from pipeline.warehouse import changes, current
from pipeline.warehouse.evolution import Policy, meet
from pipeline.warehouse.iceberg import Catalog
from pipeline.warehouse.layout import Layout

pytestmark = pytest.mark.spark

NAMES = [
    "../x",
    "..",
    "a/b",
    "a",
    "back`quote",
    "'; DROP TABLE a; --",
    "select",
    "Überprüfung 表",
    "x.y",
    " blank ",
    "new\nline",
    "per%2Fcent",
    "n" * 300,
]


def landed(warehouse, source, column):
    """A table with one row whose text is the table's own name, through the product's append and publish."""
    spark, tables, _ = warehouse
    columns = (
        SourceColumn("id", types.BIGINT, "BIGINT", nullable=False),
        SourceColumn(column, types.STRING, "TEXT", nullable=True),
    )
    layout, _ = meet(Layout(), TableVersion(source, 1, columns, ("id",)), Policy())
    table = tables.create(source, layout)
    envelope = {name: f"CAST(NULL AS {kind})" for name, kind in change.ENVELOPE.items()} | {
        change.OP: "'upsert'", change.TOPIC: "'t'", change.PARTITION: "0", change.OFFSET: "0L", change.INDEX: "0",
        change.SCHEMA_ID: "1L", change.ERROR: "CAST(NULL AS STRING)",
    }  # fmt: skip
    own = ", ".join(f"{value} AS {quoted(name)}" for name, value in envelope.items() if name != change.BATCH_ID)
    stored = quoted(table.layout.columns[1].name)
    frame = spark.sql(f"SELECT {own}, 1L AS id, :text AS {stored}", {"text": str(source)})
    changes.append(table, frame, changes.Entry(0, {("topic-id", 0): 1}, "batch0"))
    current.publish(spark, table, "UTC", "batch0", lambda _step: None)
    return table


def test_tables_of_any_name_stay_apart_and_inside(warehouse):
    spark, _, folder = warehouse
    made = {name: landed(warehouse, TableName("s", name), "text") for name in NAMES}
    data = (folder / "data").resolve()
    locations = [table.location for pair in made.values() for table in (pair.changes, pair.current)]
    assert len(set(locations)) == 2 * len(NAMES)
    for location in locations:
        assert location.startswith(f"file://{data}/")
        assert "/" not in location.removeprefix(f"file://{data}/")
        assert ".." not in location
    for name, table in made.items():
        rows = spark.table(table.name.sql).collect()
        assert [(row.id, row.text) for row in rows] == [(1, f"s.{name}")]
    inside = {path.name for path in folder.iterdir()} - {"catalog.db", "catalog.db-shm", "catalog.db-wal"}
    assert inside == {"data"}
    assert {path.name for path in folder.parent.iterdir()} <= {"warehouse", "checkpoint"}


def test_schemas_of_any_name_are_namespaces(warehouse):
    spark, _, folder = warehouse
    for name in ("../x", "a`b", "..", "select", "表"):
        table = landed(warehouse, TableName(name, "t"), "text")
        assert table.current.location.startswith(f"file://{(folder / 'data').resolve()}/")
        assert spark.table(table.name.sql).count() == 1


@pytest.mark.parametrize("column", ["back`quote", "a.b", "select", "表", "'quoted'", "_pos", "_op", "x y"])
def test_columns_of_any_name_have_their_values(warehouse, column):
    spark, _, _ = warehouse
    table = landed(warehouse, TableName("s", "columns"), column)
    stored = f"{column}__src" if column.startswith("_") else column
    (row,) = spark.table(table.name.sql).select(quoted(stored)).collect()
    assert row[0] == "s.columns"


def test_two_sources_never_share_a_warehouse_name(warehouse):
    _, tables, _ = warehouse
    made = landed(warehouse, TableName("s", "orders"), "text")
    assert tables.find(TableName("S", "ORDERS")) is made, "the same table, without case"
    assert tables.obstacle(TableName("s", "orders__changes")) is not None
    assert tables.obstacle(TableName("_pipeline", "batches")) is not None
    assert tables.obstacle(TableName("s", "other")) is None


def test_a_schema_whose_name_has_a_dot_is_known_to_the_next_run(warehouse):
    spark, _, _ = warehouse
    made = landed(warehouse, TableName("Life-2.b", "t-1.x"), "text")
    names = list(Catalog(spark).names())
    assert made.name in names
    assert made.name.changes in names
    assert len(names) == len(set(names))
