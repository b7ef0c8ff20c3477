"""Key changes of every kind: the simulated database sends the messages that TiCDC made of the same SQL."""

import base64
import gzip
import itertools
import json
import os
from decimal import Decimal
from pathlib import Path

import pytest

from pipeline.simulate.avro import TableCodec
from pipeline.simulate.database import Database
from pipeline.simulate.schemas import AvroOptions, topic_of
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

GOLDEN = Path(os.environ.get("TICDC_GOLDEN", Path(__file__).parents[3] / "shared" / "golden"))
ID = SimulatedColumn("id", "int", nullable=False)
V = SimulatedColumn("v", "varchar(20)")
N = SimulatedColumn("v", "int")


def golden_messages(scenario, table, config="avro_ext_precise_long"):
    path = GOLDEN / scenario / f"{config}.jsonl"
    if not GOLDEN.is_dir():
        pytest.skip("the golden data are not beside this checkout")
    text = path.read_text() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes()).decode()
    topic = topic_of("tidb", table.schema, table.name)
    return [m for m in map(json.loads, text.splitlines()) if m["topic"] == topic and m["kind"] == "row"]


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


def assert_sent_as_ticdc_did(table, transactions, scenario="key_updates"):
    """Every key and value, transaction by transaction, under TiCDC's own schema ids and timestamps.

    In order, except among the deletes and among the inserts of a transaction of more than 12 events:
    there TiCDC's order is that of an unstable sort.
    """
    codec = TableCodec(table, AvroOptions())
    messages = iter(golden_messages(scenario, table))
    for transaction in transactions:
        sent = [as_sent(message) for message in itertools.islice(messages, len(transaction.events))]
        stamps = {stamp for _, _, stamp in sent}
        assert len(stamps) == 1
        ours = [encoded(codec, event, sent[0], *stamps) for event in transaction.events]
        theirs = [(key, value) for key, value, _ in sent]
        if len(ours) > 12:
            assert [value is None for _, value in ours] == [value is None for _, value in theirs]
            ours, theirs = (sorted(pairs, key=repr) for pairs in (ours, theirs))
        assert ours == theirs
    assert next(messages, None) is None


def as_sent(message):
    key, value = (None if m is None else base64.b64decode(m) for m in (message["key"], message["value"]))
    return key, value, message["commit_ts"]


def encoded(codec, event, example, commit_ts):
    """The event under TiCDC's ids: a table's value id is its key id + 1 in these data."""
    key_id = int.from_bytes(example[0][1:5], "big")
    key = codec.key(event.image, key_id)
    if event.after is None:
        return key, None
    return key, codec.value(event.after, key_id + 1, {"insert": "c", "update": "u"}[event.op], commit_ts)


def swap_2_and_3(t):
    t.update(2, id=-1)
    t.update(3, id=2)
    t.update(-1, id=3)


def move_3_onto_2(t):
    t.delete(2)
    t.update(3, id=2, v="moved onto 2")


@pytest.mark.parametrize(("name", "clustered"), [("t_pk", True), ("t_nc", False)])
def test_key_changes_and_swaps_of_both_kinds_of_primary_key_are_sent_as_ticdc_does(name, clustered):
    table = SimulatedTable("ku", name, (ID, V), ("id",), clustered=clustered)
    _, transactions = replayed(
        table,
        lambda t: t.insert((1, "one"), (2, "two"), (3, "three")),
        lambda t: t.update(1, id=10),
        swap_2_and_3,
        move_3_onto_2,
    )
    assert_sent_as_ticdc_did(table, transactions)


def test_shifts_rotations_and_mixed_transactions_are_sent_as_ticdc_does():
    table = SimulatedTable("ku", "t_shift_nc", (ID, V), ("id",), clustered=False)

    def rotate(t):
        for old, new in ((1, -1), (3, 1), (2, 3), (-1, 2)):
            t.update(old, id=new)

    def mixed(t):
        t.insert((100, "new"))
        t.update(5, v="plain")
        t.update(6, id=200)
        t.delete(7)
        t.update(8, id=7, v="took 7")

    _, transactions = replayed(
        table,
        lambda t: t.insert(*((n, f"r{n}") for n in range(1, 16))),
        lambda t: [t.update(n, id=n + 1) for n in range(15, 0, -1)],
        lambda t: [t.update(n, id=n - 1) for n in range(2, 17)],
        rotate,
        mixed,
    )
    assert_sent_as_ticdc_did(table, transactions)


def test_a_shift_of_a_clustered_key_is_sent_as_ticdc_does():
    table = SimulatedTable("ku", "t_shift", (ID, V), ("id",))
    _, transactions = replayed(
        table,
        lambda t: t.insert(*((n, f"r{n}") for n in range(1, 11))),
        lambda t: [t.update(n, id=n + 1) for n in range(10, 0, -1)],
    )
    assert_sent_as_ticdc_did(table, transactions)


def test_changes_of_unique_keys_are_sent_as_ticdc_does():
    columns = (ID, SimulatedColumn("u", "varchar(10)", nullable=False), SimulatedColumn("n", "int"))
    table = SimulatedTable("ku", "t_uk", columns, ("id",), (("u",), ("n",)))

    def swap(t):
        t.update(1, u="tmp")
        t.update(2, u="aa")
        t.update(1, u="b")

    def replaced(key, row):
        def statements(t):
            for old in key:
                t.delete(old)
            t.insert(row)

        return statements

    _, transactions = replayed(
        table,
        lambda t: t.insert((1, "a", 1), (2, "b", 2), (3, "c", None)),
        lambda t: t.update(1, u="aa"),
        swap,
        lambda t: t.update(3, n=3),
        lambda t: t.update(1, n=None),
        lambda t: t.update(3, id=9),
        replaced((1,), (1, "zz", 50)),
        replaced((1, 2), (2, "zz", 51)),
        lambda t: t.update(2, id=78, u="zzz"),
    )
    assert_sent_as_ticdc_did(table, transactions)


def test_a_table_with_only_a_unique_key_is_sent_as_ticdc_does():
    columns = (
        SimulatedColumn("a", "int", nullable=False),
        SimulatedColumn("b", "int", nullable=False),
        SimulatedColumn("v", "varchar(10)"),
    )
    table = SimulatedTable("ku", "t_uk_only", columns, unique=(("a", "b"),))

    def rotate(t):
        t.update(1, 2, a=-1)
        t.update(2, 2, a=1, b=2)
        t.update(-1, 2, a=2)

    _, transactions = replayed(
        table,
        lambda t: t.insert((1, 1, "x"), (1, 2, "y"), (2, 2, "z")),
        lambda t: t.update(1, 1, b=9),
        rotate,
    )
    assert_sent_as_ticdc_did(table, transactions)


def test_parts_of_composite_keys_and_keys_of_other_types_are_sent_as_ticdc_does():
    a, b = SimulatedColumn("a", "int", nullable=False), SimulatedColumn("b", "varchar(10)", nullable=False)
    composite = SimulatedTable("ku", "t_comp", (a, b, N), ("a", "b"))
    _, transactions = replayed(
        composite,
        lambda t: t.insert((1, "x", 1), (1, "y", 2), (2, "x", 3)),
        lambda t: t.update(1, "x", b="z"),
        lambda t: [t.update(a, b, a=a + 10, v=v + 1) for a, b, v in ((1, "y", 2), (1, "z", 1), (2, "x", 3))],
    )
    assert_sent_as_ticdc_did(composite, transactions)
    decimals = SimulatedTable(
        "ku", "t_dec", (SimulatedColumn("k", "decimal(10,2)", nullable=False), N), ("k",), clustered=False
    )
    _, transactions = replayed(
        decimals,
        lambda t: t.insert((Decimal("1.50"), 1), (Decimal("2.00"), 2)),
        lambda t: [t.update(Decimal(k), k=Decimal(k) + 1) for k in ("2.00", "1.50")],
    )
    assert_sent_as_ticdc_did(decimals, transactions)
    binary = SimulatedTable(
        "ku", "t_bin", (SimulatedColumn("k", "varbinary(10)", nullable=False), N), ("k",), clustered=False
    )
    _, transactions = replayed(
        binary,
        lambda t: t.insert((b"\x00\xff", 1), (b"\x01", 2)),
        lambda t: t.update(b"\x00\xff", k=b"\x00\xfe"),
    )
    assert_sent_as_ticdc_did(binary, transactions)


def test_net_changes_within_a_transaction_are_sent_as_ticdc_does():
    table = SimulatedTable("life", "t_nc", (ID, V), ("id",), clustered=False)
    _, transactions = replayed(
        table,
        lambda t: t.insert((1, "a"), (2, "b")),
        lambda t: t.update(2, v="bb"),
        lambda t: t.delete(1),
        lambda t: t.insert((1, "again")),
        lambda t: t.insert((50, "multi")),
    )
    assert_sent_as_ticdc_did(table, transactions, "lifecycle")
