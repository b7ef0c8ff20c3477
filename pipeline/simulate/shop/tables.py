"""The shop's five tables, those of the golden scenario `orders_small`, and a column for later."""

from __future__ import annotations

from pipeline.simulate.tables import Column, Table

SCHEMA = "shop"
CHANNEL = Column("channel", "varchar(20)", nullable=False, default="web")

TABLES = (
    Table(
        SCHEMA,
        "customers",
        (
            Column("id", "bigint unsigned", nullable=False),
            Column("email", "varchar(255)", nullable=False),
            Column("name", "varchar(100)", nullable=False),
            Column("phone", "varchar(20)"),
            Column("tier", "enum('bronze','silver','gold')", nullable=False, default="bronze"),
            Column("balance", "decimal(12,2)", nullable=False, default="0"),
            Column("tags", "set('vip','newsletter','b2b')", nullable=False, default=""),
            Column("profile", "json"),
            Column("loyalty", "bigint unsigned", nullable=False, default="0"),
            Column("created_at", "datetime(3)", nullable=False),
            Column("updated_at", "timestamp(6)", nullable=False),
        ),
        primary_key=("id",),
        unique=(("email",),),
    ),
    Table(
        SCHEMA,
        "products",
        (
            Column("sku", "varchar(32)", nullable=False),
            Column("title", "varchar(200)", nullable=False),
            Column("price", "decimal(10,2)", nullable=False),
            Column("weight", "double"),
            Column("stock", "int unsigned", nullable=False, default="0"),
            Column("attrs", "json"),
            Column("image", "varbinary(64)"),
            Column("active", "tinyint(1)", nullable=False, default="1"),
            Column("released", "date"),
        ),
        primary_key=("sku",),
    ),
    Table(
        SCHEMA,
        "orders",
        (
            Column("order_id", "bigint unsigned", nullable=False),
            Column("customer_id", "bigint unsigned", nullable=False),
            Column(
                "status",
                "enum('new','paid','packed','shipped','delivered','returned')",
                nullable=False,
                default="new",
            ),
            Column("total", "decimal(18,4)", nullable=False),
            Column("currency", "char(3)", nullable=False),
            Column("placed_at", "datetime", nullable=False),
            Column("note", "text"),
        ),
        primary_key=("order_id",),
    ),
    Table(
        SCHEMA,
        "order_items",
        (
            Column("order_id", "bigint unsigned", nullable=False),
            Column("line_no", "int", nullable=False),
            Column("sku", "varchar(32)", nullable=False),
            Column("qty", "smallint unsigned", nullable=False, default="1"),
            Column("price", "decimal(10,2)", nullable=False),
            Column("discount", "float"),
        ),
        primary_key=("order_id", "line_no"),
    ),
    Table(
        SCHEMA,
        "payments",
        (
            Column("payment_id", "char(36)", nullable=False),
            Column("order_id", "bigint unsigned", nullable=False),
            Column("method", "enum('card','sepa','paypal','gift,card')", nullable=False),
            Column("amount", "decimal(20,4)", nullable=False),
            Column("paid_at", "timestamp(3)", nullable=False),
            Column("flags", "bit(8)", nullable=False, default="b'0'"),
            Column("raw", "blob"),
        ),
        primary_key=("payment_id",),
        clustered=False,
    ),
)
