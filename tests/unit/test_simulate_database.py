"""The simulated database: net changes, timestamps, added columns, and what it refuses."""

from decimal import Decimal

import pytest

from pipeline.simulate.avro import TableCodec
from pipeline.simulate.database import Database, simulated_clock
from pipeline.simulate.schemas import AvroOptions
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable, SimulationError

ID = SimulatedColumn("id", "int", nullable=False)
V = SimulatedColumn("v", "varchar(20)")


def replayed(table, *transactions, clock=None):
    """The events of the transactions; each is a function of a `T`, which writes to the one table."""
    database = Database(clock)
    database.create_schema(table.schema)
    database.create_table(table)
    committed = []
    for statements in transactions:
        writer = database.begin()
        statements(T(writer, table))
        committed.append(database.commit(writer))
    return database, committed


class T:
    def __init__(self, writer, table):
        self.writer, self.name, self.columns = writer, (table.schema, table.name), table.columns

    def insert(self, *rows):
        for row in rows:
            names = [column.name for column in self.columns]
            self.writer.insert(*self.name, dict(zip(names, row, strict=True)))

    def update(self, *key, **changes):
        self.writer.update(*self.name, key, changes)

    def delete(self, *key):
        self.writer.delete(*self.name, key)


TABLE = SimulatedTable("s", "t", (ID, V), ("id",))


def ops(transaction):
    return [event.op for event in transaction.events]


def test_a_row_inserted_and_deleted_in_one_transaction_is_never_seen():
    _, (transaction,) = replayed(TABLE, lambda t: (t.insert((1, "a")), t.delete(1)))
    assert transaction.events == ()


def test_a_row_deleted_and_inserted_in_one_transaction_is_an_update():
    _, (_, transaction) = replayed(TABLE, lambda t: t.insert((1, "a")), lambda t: (t.delete(1), t.insert((1, "b"))))
    assert ops(transaction) == ["update"]
    assert transaction.events[0].before["v"] == "a"


def test_an_update_that_changes_nothing_is_no_event():
    _, (_, transaction) = replayed(TABLE, lambda t: t.insert((1, "a")), lambda t: t.update(1, v="a"))
    assert transaction.events == ()


def test_null_and_the_text_null_count_as_one_in_a_unique_key_as_in_ticdc():
    table = SimulatedTable("s", "t", (ID, V), ("id",), (("v",),))
    _, (_, to_text, to_other) = replayed(
        table, lambda t: t.insert((1, None)), lambda t: t.update(1, v="null"), lambda t: t.update(1, v="x")
    )
    assert (ops(to_text), ops(to_other)) == (["update"], ["delete", "insert"])


def test_commit_timestamps_rise_even_when_the_clock_stands_still():
    _, transactions = replayed(TABLE, *[lambda t: t.insert()] * 3, clock=lambda: 1_716_613_769_000)
    stamps = [transaction.commit_ts for transaction in transactions]
    assert stamps == sorted(set(stamps))
    assert {stamp >> 18 for stamp in stamps} == {1_716_613_769_000}


def test_the_simulated_clock_starts_at_the_base_of_the_golden_data():
    _, (first,) = replayed(TABLE, lambda t: t.insert((1, "a")), clock=simulated_clock())
    assert abs(first.commit_ts - 450_000_000_000_000_000) < 1_000 << 18


def test_an_added_column_shows_its_origin_default_in_older_rows_without_an_event():
    database, _ = replayed(TABLE, lambda t: t.insert((1, "a")))
    added = database.add_column("s", "t", SimulatedColumn("c", "decimal(5,2)", nullable=False, default="1.5"))
    assert added.events == ()
    assert added.ddl.query == "ALTER TABLE `s`.`t` ADD COLUMN `c` DECIMAL(5,2) NOT NULL DEFAULT 1.5"
    assert database.rows("s", "t") == [{"id": 1, "v": "a", "c": Decimal("1.50")}]
    assert database.table("s", "t").version == 2


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (SimulatedColumn("c", "int"), None),
        (SimulatedColumn("c", "int", nullable=False), 0),
        (SimulatedColumn("c", "enum('x','y')", nullable=False), "x"),
        (SimulatedColumn("c", "date", nullable=False), "0000-00-00"),
        (SimulatedColumn("c", "binary(3)", nullable=False), b"\0\0\0"),
        (SimulatedColumn("c", "bit(4)", nullable=False, default="b'101'"), 5),
    ],
)
def test_a_column_without_default_shows_null_or_the_zero_value_of_its_type(column, shown):
    assert column.origin_default() == shown


def test_a_second_row_with_the_same_key_is_refused():
    with pytest.raises(SimulationError, match="DUPLICATE_KEY"):
        replayed(TABLE, lambda t: t.insert((1, "a"), (1, "b")))


def test_a_null_in_a_column_that_refuses_it_is_refused():
    with pytest.raises(SimulationError, match="NULL_REFUSED"):
        replayed(TABLE, lambda t: t.insert((None, "a")))


def test_a_table_without_a_usable_key_is_refused_as_avro_refuses_it():
    table = SimulatedTable("s", "t", (SimulatedColumn("id", "int"), V), unique=(("id",),))
    with pytest.raises(SimulationError, match="NO_HANDLE"):
        TableCodec(table, AvroOptions())
