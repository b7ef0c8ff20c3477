"""Rows of every type, written as the documents say and read again: what comes back is what was written."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spark.open_events import Memory, mapping_of, raw_frame
from support.slow import EVERY

from pipeline.model import change
from pipeline.protocols.canal.protocol import CanalProtocol
from pipeline.simulate import canal
from pipeline.simulate.ddl import create_table
from pipeline.simulate.files import CanalCodec
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

pytestmark = pytest.mark.spark

TS = 450000000000000000
WIDTHS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.text(st.sampled_from("ab.`\"'\\ ä漢"), max_size=3)


def whole(bits, *, unsigned):
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    edges = [number for number in (low, low + 1, high // 2, high // 2 + 1, high - 1, high) if low <= number <= high]
    return st.sampled_from(edges) | st.integers(low, high)


def moments(digits, zone=None):
    step = 10 ** (6 - digits)
    sometime = st.datetimes(datetime(1970, 1, 2), datetime(2037, 12, 31), timezones=st.just(zone))  # noqa: DTZ001
    return sometime.map(lambda moment: moment.replace(microsecond=moment.microsecond // step * step))


VALUES = {
    **{name: whole(bits, unsigned=False) for name, bits in WIDTHS.items()},
    **{f"{name} unsigned": whole(bits, unsigned=True) for name, bits in WIDTHS.items()},
    "bit(1)": whole(1, unsigned=True),
    "bit(64)": whole(64, unsigned=True),
    "year": st.integers(1901, 2155),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "decimal(38,10)": st.decimals(min_value=-(10**27), max_value=10**27, places=10),
    "decimal(65,0)": st.integers(-(10**65) + 1, 10**65 - 1).map(Decimal),
    "date": st.dates(date(1000, 1, 1), date(9999, 12, 31)),
    "datetime(6)": moments(6),
    "timestamp(3)": moments(3, UTC),
    "time": st.sampled_from(["-838:59:59", "00:00:00", "23:59:59", "838:59:59"]),
    "varchar(100)": TEXT,
    "longtext": TEXT,
    "json": st.sampled_from(["{}", '[1, 1.5, "ä", null]', '{"a": {"b\\"": "\\u0000"}}', "true"]),
    "enum('a','b,c','ä')": st.sampled_from(["a", "b,c", "ä"]),
    "set('x','y','z')": st.sampled_from(["", "x", "x,z", "x,y,z"]),
    "varbinary(300)": st.binary(max_size=300) | st.just(bytes(range(256))),
    "longblob": st.binary(max_size=40),
}  # fmt: skip
KEY = "varbinary(300)"


@st.composite
def tables_with_rows(draw):
    """A table with a column of each type, and rows: each NULL now and then, but for the keys."""
    names = {kind: f"{draw(NAMES)}{number}" for number, kind in enumerate(VALUES)}
    columns = tuple(SimulatedColumn(name, kind, nullable=kind != KEY) for kind, name in names.items())
    table = SimulatedTable("s.`1", "t", columns, (names[KEY],))
    row = st.fixed_dictionaries({
        names[kind]: values if kind == KEY else st.none() | values for kind, values in VALUES.items()
    })  # fmt: skip
    first, *others = draw(st.lists(row, min_size=8, max_size=8))
    return table, [{**first, names[KEY]: bytes(range(256))}, *others]


def read(spark, sent):
    """The changes of the only table, in order."""
    raw = raw_frame(spark, [(None, value) for value in sent])
    protocol = CanalProtocol("UTC", {}, Memory())
    protocol.begin(None, raw)
    prepared = protocol.prepare(raw)
    messages = protocol.read(prepared)
    assert messages.refused == ()
    (table,) = messages.tables
    frame = protocol.recipe(table, mapping_of(table)).of(prepared.where(protocol.where(table)))
    return frame.orderBy(*change.POSITION).collect()


def as_written(kind, value, lost):
    """What is in the table, or the text that its column cannot hold, as a value of the source."""
    if lost is not None:
        return Decimal(lost)
    if value is None:
        return None
    if kind.startswith("timestamp"):
        return value.astimezone(UTC)
    if kind.startswith(("decimal", "bit")):
        return Decimal(value)
    return bytes(value) if isinstance(value, bytearray) else value


def image(table, row):
    lost = row[change.UNREPRESENTABLE] or {}
    return {column.name: as_written(column.type, row[column.name], lost.get(column.name)) for column in table.columns}


@settings(max_examples=60 if EVERY else 3, deadline=None, suppress_health_check=list(HealthCheck))
@given(given=tables_with_rows())
def test_what_is_written_comes_back(spark, given):
    table, rows = given
    codec = CanalCodec(table)
    sent = [canal.ddl_message(create_table(table), TS)]
    pairs = list(zip(rows, [*rows[1:], rows[0]], strict=True))
    for number, (before, after) in enumerate(pairs, start=1):
        sent.append(codec.lines("update", before, after, TS + number).rstrip("\r\n").encode())
    found = read(spark, sent)
    assert [row[change.ERROR] for row in found] == [None] * len(pairs)
    for row, (before, after) in zip(found, pairs, strict=True):
        assert image(table, row) == after
        assert image(table, row[change.BEFORE]) == before
