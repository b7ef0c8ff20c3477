"""What of a batch's messages is taken on."""

from types import SimpleNamespace

from pipeline.ddl import ActionType
from pipeline.model import types
from pipeline.model.columns import CommitTs, SchemaId, SourceColumn, TableVersion
from pipeline.model.messages import Ddl, Messages, SeenVersion, TableMessages, Unknown
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.model.table_filter import TableFilter
from pipeline.protocols.sifted import selected

AT = {Partition("t", 0): 1}


def rows(name, count):
    table = TableName("s", name)
    version = TableVersion(table, SchemaId(1), (SourceColumn("id", types.INT, "INT"),), ("id",))
    return TableMessages(table, (SeenVersion(version, AT, AT, count),))


def statement(kind, sql, table, old=None):
    return Ddl(CommitTs(5), TableName("s", table), kind, sql, AT, old=TableName("s", old) if old else None)


def test_rows_and_statements_of_tables_that_are_left_out_are_passed_over():
    log, orders = rows("log", 5), rows("orders", 3)
    statements = [
        statement(ActionType.ADD_COLUMN, "ALTER TABLE `s`.`log` ADD COLUMN `x` INT", "log"),
        statement(ActionType.ADD_COLUMN, "ALTER TABLE `s`.`orders` ADD COLUMN `x` INT", "orders"),
        statement(ActionType.RENAME_TABLE, "RENAME TABLE `s`.`orders` TO `s`.`log_orders`", "log_orders", "orders"),
        statement(ActionType.RENAME_TABLE, "RENAME TABLE `s`.`log` TO `s`.`lines`", "lines", "log"),
        statement(ActionType.RENAME_TABLE, "RENAME TABLE `s`.`log` TO `s`.`log2`", "log2", "log"),
        statement(ActionType.DROP_SCHEMA, "DROP DATABASE `s`", ""),
        statement(ActionType.EXCHANGE_TABLE_PARTITION,
                  "ALTER TABLE `s`.`log` EXCHANGE PARTITION `p` WITH TABLE `s`.`orders`", "log"),
    ]  # fmt: skip
    unknown = Unknown(TableName("s", "log_old"), SchemaId(1), 2, 1, 9, SimpleNamespace())
    messages = Messages(tables=(log, orders), ddl=tuple(statements), events=17, control=7, unknown=(unknown,))
    taken = selected(messages, TableFilter.of(["s.*", "!s.log*"]))
    assert taken.tables == (orders,)
    assert (taken.events, taken.control, taken.passed_over, taken.unknown) == (17, 7, 7, ())
    assert [statements.index(ddl) for ddl in taken.ddl] == [1, 2, 3, 5, 6]


def test_with_every_table_nothing_changes():
    messages = Messages(tables=(rows("t", 2),), events=2)
    assert selected(messages, TableFilter.of(["*.*"])) == messages
