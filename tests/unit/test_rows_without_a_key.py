"""What stands for the key of a table whose rows come without one, and when nothing does."""

from types import SimpleNamespace

import pytest

from pipeline.model.columns import NULL_DEFAULT, UNKNOWN_DEFAULT, SourceColumn, TableVersion, literal
from pipeline.model.holding import GET_A_KEY, NAMELESS, RECEIVE_FIRST, way_on
from pipeline.model.names import TableName
from pipeline.protocols.avro.protocol import AvroProtocol, _AvroGroup
from pipeline.warehouse.evolution import Policy, meet, surely_keyed
from pipeline.warehouse.layout import Layout
from registry import join
from registry.columns import read_schema

TABLE = TableName("nk", "part")
ID = '{"name":"id","type":{"type":"int","connect.parameters":{"tidb_type":"INT"}}}'
TEXT = '{"name":"v","type":["null",{"type":"string","connect.parameters":{"tidb_type":"TEXT"}}]}'
OLD = '{{"name":"_ticdc_before","type":["null",{{"type":"record","name":"part_before","fields":[{}]}}]}}'
OP = '{"name":"_tidb_op","type":"string"}'


def schema(*columns, old):
    fields = [*columns, *([OLD.format(",".join(columns)), OP] if old else [])]
    return read_schema(f'{{"type":"record","name":"part","namespace":"default.nk","fields":[{",".join(fields)}]}}')


def version(*columns, old=True, keys=(None,)):
    """What a protocol says of rows with these key schemas (None: no key)."""
    known = {7: schema(*columns, old=old), 8: schema(ID, old=False)}
    protocol = AvroProtocol(SimpleNamespace(ticdc_schema=known.__getitem__))
    heads = [None if key is None else join(key, b"") for key in keys]
    groups = [_AvroGroup("t", 0, 1, at, at, head, join(7, b""), None) for at, head in enumerate(heads)]
    ((table,), refused) = protocol._resolve(groups)
    assert refused == ()
    return table.versions[0].version


def test_with_old_values_the_columns_that_are_never_null_stand_for_the_key():
    found = version(ID, TEXT)
    assert (found.handle, found.stands_in, found.tells_before) == (("id",), True, True)


@pytest.mark.parametrize("columns", [(TEXT,), (ID, TEXT)], ids=["all may be NULL", "no old values"])
def test_otherwise_nothing_does(columns):
    found = version(*columns, old=len(columns) == 1)
    assert (found.handle, found.stands_in) == ((), found.tells_before)


def test_rows_with_a_key_have_that_and_one_row_without_a_key_among_them_has_none():
    assert version(ID, TEXT, old=False, keys=(8,)).handle == ("id",)
    assert version(ID, TEXT, old=False, keys=(8, None)).handle == ()


@pytest.mark.parametrize(
    ("default", "key"),
    [(UNKNOWN_DEFAULT, ["id"]), (literal("5"), ["id", "n"]), (NULL_DEFAULT, ["id", "n"])],
    ids=lambda one: getattr(one, "kind", ""),
)
def test_a_column_in_which_existing_rows_show_null_is_no_part_of_it(default, key):
    first = [SourceColumn("id", "int", "INT", nullable=False, default=UNKNOWN_DEFAULT)]
    later = [*first, SourceColumn("n", "int", "INT", nullable=False, default=default)]
    layout = Layout()
    for number, columns in enumerate((first, later), start=1):
        names = tuple(column.name for column in columns)
        layout, _ = meet(layout, TableVersion(TABLE, number, tuple(columns), names, stands_in=True), Policy())
        layout = surely_keyed(layout)
    assert [column.name for column in layout.key] == key


def test_what_is_held_for_want_of_a_key_is_not_sent_to_a_release():
    assert way_on(TABLE, NAMELESS) == GET_A_KEY
    release = "ticdc-warehouse tables release nk.part"
    assert way_on(TABLE, "CHECK_FAILED: no_debt") == release
    assert way_on(TABLE, "OLD_VALUES_MISSING: set it") == f"{RECEIVE_FIRST}, then {release}"
