"""Types of the user's hold for columns that a statement adds or modifies, as they do for those of rows."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from unit.test_evolution import KEEP, column

from pipeline.ddl import ActionType
from pipeline.ingest.by_commit_ts import timeline
from pipeline.ingest.by_offset import statements
from pipeline.ingest.by_offset.origins import Origins
from pipeline.model import types
from pipeline.model.columns import SchemaId, TableVersion
from pipeline.model.messages import Ddl, Messages
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.settings import parse
from pipeline.settings.column_types import own_types
from pipeline.warehouse.evolution import apply_actions, meet
from pipeline.warehouse.layout import Layout

NAME = TableName("Shop", "orders")
SETTINGS = parse(
    """
name: shop
source: {kind: kafka, protocol: simple, bootstrap_servers: b:1, topics: [t]}
warehouse:
  path: w
  columns: {shop.orders.c: string, shop.orders.total: "decimal(18,4)", shop.orders.e: "enum('a')"}
checkpoint: c
""",
    Path("/here"),
)


def by_cut(context, ddl):
    return timeline.understood(context, ddl)


def by_offset(context, ddl):
    (statement,) = statements.understood(context, Messages(ddl=(ddl,)), Origins())
    return statement


@pytest.mark.parametrize("understood", [by_cut, by_offset])
@pytest.mark.parametrize(
    ("sql", "name", "kind"),
    [
        ("ALTER TABLE orders ADD COLUMN C BIGINT", "C", types.STRING),
        ("ALTER TABLE orders MODIFY COLUMN total DECIMAL(10,2)", "total", "decimal(18,4)"),
        ("ALTER TABLE orders CHANGE COLUMN sum total DECIMAL(10,2)", "total", "decimal(18,4)"),
        ("ALTER TABLE orders ADD COLUMN e ENUM('a')", "e", types.STRING),
        ("ALTER TABLE orders ADD COLUMN d BIGINT", "d", types.BIGINT),
    ],
)
def test_what_a_statement_makes_is_what_its_rows_have_and_nothing_forks(understood, sql, name, kind):
    overrides = own_types(SETTINGS.warehouse.columns)
    context = SimpleNamespace(
        overrides=overrides, settings=SETTINGS, tables=[], protocol=SimpleNamespace(decimals_as_text=False, as_sent=str)
    )
    statement = understood(context, Ddl(9, NAME, ActionType.MULTI_SCHEMA_CHANGE, sql, {Partition("t", 0): 3}))
    total = column("sum" if "CHANGE" in sql else "total", "decimal(18,4)")
    layout, _ = meet(Layout(), TableVersion(NAME, SchemaId(1), (column("id"), total), ("id",)), KEEP)
    layout, _ = apply_actions(layout, statement.actions, 9, KEEP)
    sent = {one.source: column(one.source, one.type) for one in layout.columns if one.live}
    sent[name] = column(name, kind)
    layout, notes = meet(layout, TableVersion(NAME, SchemaId(2), tuple(sent.values()), ("id",)), KEEP)
    assert [note.action for note in notes] == []
    assert layout.live(name).type == kind
    assert not any("__v" in one.name for one in layout.columns)
