"""The shop's five tables, those of the golden scenario `orders_small`, and a column for later."""

from __future__ import annotations

from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

SCHEMA = "shop"
CHANNEL = SimulatedColumn("channel", "varchar(20)", nullable=False, default="web")

TABLES = (
    SimulatedTable(
        SCHEMA,
        "customers",
        (
            SimulatedColumn("id", "bigint unsigned", nullable=False),
            SimulatedColumn("email", "varchar(255)", nullable=False),
            SimulatedColumn("name", "varchar(100)", nullable=False),
            SimulatedColumn("phone", "varchar(20)"),
            SimulatedColumn("tier", "enum('bronze','silver','gold')", nullable=False, default="bronze"),
            SimulatedColumn("balance", "decimal(12,2)", nullable=False, default="0"),
            SimulatedColumn("tags", "set('vip','newsletter','b2b')", nullable=False, default=""),
            SimulatedColumn("profile", "json"),
            SimulatedColumn("loyalty", "bigint unsigned", nullable=False, default="0"),
            SimulatedColumn("created_at", "datetime(3)", nullable=False),
            SimulatedColumn("updated_at", "timestamp(6)", nullable=False),
        ),
        primary_key=("id",),
        unique=(("email",),),
    ),
    SimulatedTable(
        SCHEMA,
        "products",
        (
            SimulatedColumn("sku", "varchar(32)", nullable=False),
            SimulatedColumn("title", "varchar(200)", nullable=False),
            SimulatedColumn("price", "decimal(10,2)", nullable=False),
            SimulatedColumn("weight", "double"),
            SimulatedColumn("stock", "int unsigned", nullable=False, default="0"),
            SimulatedColumn("attrs", "json"),
            SimulatedColumn("image", "varbinary(64)"),
            SimulatedColumn("active", "tinyint(1)", nullable=False, default="1"),
            SimulatedColumn("released", "date"),
        ),
        primary_key=("sku",),
    ),
    SimulatedTable(
        SCHEMA,
        "orders",
        (
            SimulatedColumn("order_id", "bigint unsigned", nullable=False),
            SimulatedColumn("customer_id", "bigint unsigned", nullable=False),
            SimulatedColumn(
                "status",
                "enum('new','paid','packed','shipped','delivered','returned')",
                nullable=False,
                default="new",
            ),
            SimulatedColumn("total", "decimal(18,4)", nullable=False),
            SimulatedColumn("currency", "char(3)", nullable=False),
            SimulatedColumn("placed_at", "datetime", nullable=False),
            SimulatedColumn("note", "text"),
        ),
        primary_key=("order_id",),
    ),
    SimulatedTable(
        SCHEMA,
        "order_items",
        (
            SimulatedColumn("order_id", "bigint unsigned", nullable=False),
            SimulatedColumn("line_no", "int", nullable=False),
            SimulatedColumn("sku", "varchar(32)", nullable=False),
            SimulatedColumn("qty", "smallint unsigned", nullable=False, default="1"),
            SimulatedColumn("price", "decimal(10,2)", nullable=False),
            SimulatedColumn("discount", "float"),
        ),
        primary_key=("order_id", "line_no"),
    ),
    SimulatedTable(
        SCHEMA,
        "payments",
        (
            SimulatedColumn("payment_id", "char(36)", nullable=False),
            SimulatedColumn("order_id", "bigint unsigned", nullable=False),
            SimulatedColumn("method", "enum('card','sepa','paypal','gift,card')", nullable=False),
            SimulatedColumn("amount", "decimal(20,4)", nullable=False),
            SimulatedColumn("paid_at", "timestamp(3)", nullable=False),
            SimulatedColumn("flags", "bit(8)", nullable=False, default="b'0'"),
            SimulatedColumn("raw", "blob"),
        ),
        primary_key=("payment_id",),
        clustered=False,
    ),
)
