r"""Text that is no UTF-8: the column is NULL, its bytes are kept, and every reader can read the tables."""

import io
import json
import random
import struct
from dataclasses import dataclass, replace
from datetime import date, datetime

import duckdb
import fastavro
import polars as pl
import pyarrow.parquet as pq
import pytest
from golden.corpus import Record, Registered
from golden.faults import FaultCase

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

LATIN = b"M\xfcller"
KINDS = ("TEXT", "JSON", "TIME", "ENUM", "DATE", "DATETIME", "TIMESTAMP")
"""What Avro sends as a string."""
SOUND = {"DATE": b"2024-02-29", "DATETIME": b"2024-02-29 01:02:03", "TIMESTAMP": b"2024-02-29 01:02:03"}
VALUE_ID, KEY_ID = 9001, 9002


def shown(octets):
    """What `_unrepresentable` has of a text that is no UTF-8."""
    return "\\x" + octets.hex().upper()


def is_text(octets):
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def assert_read_by_all(table):
    """PyIceberg (with Arrow's reader), DuckDB and Polars read the table's files, each text of them."""
    rows = table.scan().to_arrow()
    rows.validate(full=True)  # looks into every text
    files = [task.file.file_path.removeprefix("file:") for task in table.scan().plan_files()]
    stored = sum(pq.read_metadata(file).num_rows for file in files)  # with those that are deleted
    assert len(duckdb.read_parquet(files).fetchall()) == stored
    assert len(pl.read_parquet(files).to_dicts()) == stored


def test_a_latin1_columns_bytes_leave_the_tables_readable(running):
    with running(FaultCase("a15_not_utf8")) as run:
        run.take()
        current = run.warehouse.current("l1.t")
        assert [(row.values, row.lost) for row in sorted(current.rows, key=lambda row: row.values["id"])] == [
            ({"id": 1, "v": None}, {"v": shown(b"\xa5 price")}),
            ({"id": 2, "v": "fine é"}, {}),
        ]
        changes = run.warehouse.changes()["l1.t"]
        assert [dict(row["_unrepresentable"] or ()) for row in sorted(changes, key=lambda row: row["_offset"])] == [
            {"v": shown(b"\xa5 price")},
            {},
        ]
        for name in ("t", "t__changes"):
            assert_read_by_all(run.warehouse.catalog.load_table(("l1", name)))


def octets_of(kind, dice):
    """Bytes for a column, of which half are no UTF-8."""
    if dice.random() < 0.5:
        return SOUND.get(kind, "é\\x41 ☃".encode())
    return dice.choice([LATIN, b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", dice.randbytes(5) + b"\xff"])


NAMES = ("a", "b", *(f"c_{kind.lower()}" for kind in KINDS))
OF_KEY = 2
TYPES = ("TEXT", "TEXT", *KINDS)
"""A key of two texts, and a column of each type."""


@dataclass(frozen=True)
class SmallCase(FaultCase):
    """Records and schemas of our own."""

    sent: tuple[Record, ...] = ()
    registered: tuple[Registered, ...] = ()

    @property
    def records(self):
        return self.sent

    @property
    def schemas(self):
        return self.registered


def avro_field(name, kind):
    described = {"tidb_type": kind, **({"allowed": "x,M\ufffdller"} if kind == "ENUM" else {})}
    return {"name": name, "type": {"type": "string", "connect.parameters": described}}


def registered(part, number, size):
    fields = [avro_field(name, kind) for name, kind in zip(NAMES[:size], TYPES, strict=False)]
    record = {"type": "record", "name": "t", "namespace": "default.bytes", "fields": fields}
    return Registered(f"tidb_bytes_t-{part}", 1, number, json.dumps(record))


def encoded(number, row):
    """A record of strings; Avro writes bytes alike."""
    out = io.BytesIO()
    types = [{"name": f"f{place}", "type": "bytes"} for place in range(len(row))]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": types})
    fastavro.schemaless_writer(out, schema, {f"f{place}": octets for place, octets in enumerate(row)})
    return b"\0" + struct.pack(">I", number) + out.getvalue()


def rows_of_bytes(dice):
    """Messages (key, row or None for a delete), and the rows that are there at the end, by key."""
    messages, rows = [], {}
    for _ in range(120):
        fresh = not messages or dice.random() < 0.6
        key = (octets_of("TEXT", dice), octets_of("TEXT", dice)) if fresh else dice.choice(messages)[0]
        row = None if key in rows and dice.random() < 0.3 else (*key, *(octets_of(kind, dice) for kind in KINDS))
        messages.append((key, row))
        if row is None:
            del rows[key]
        else:
            rows[key] = row
    return messages, rows


def told(octets):
    """A text as it is shown, and what is kept of it."""
    return (octets.decode(), None) if is_text(octets) else (None, shown(octets))


def as_text(value):
    """A value of a date or time as it was sent."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return value.isoformat() if isinstance(value, date) else value


def accounted(warehouse, records):
    """Whether every record is somewhere, once."""
    changes = sum(len(rows) for rows in warehouse.changes().values())
    aside = sum(len(warehouse.own(name)) for name in ("dead_letters", "quarantine", "held"))
    return changes + aside == records


def test_any_bytes_in_any_text_of_avro_are_kept_in_keys_too_and_every_reader_reads_them(running):
    messages, rows = rows_of_bytes(random.Random(15))  # noqa: S311 - no secret
    like = replace(FaultCase("a15_not_utf8").records[0], topic="tidb_bytes_t")
    records = tuple(
        replace(like, key=encoded(KEY_ID, key), value=row and encoded(VALUE_ID, row)) for key, row in messages
    )
    schemas = (registered("value", VALUE_ID, len(NAMES)), registered("key", KEY_ID, OF_KEY))
    with running(SmallCase("bytes", has_extension=False, has_ddl=False, sent=records, registered=schemas)) as run:
        run.take()
        warehouse = run.warehouse
        assert accounted(warehouse, len(records))
        assert len(warehouse.changes()["bytes.t"]) == len(records)
        found = [
            tuple((as_text(row.values[name]), row.lost.get(name)) for name in NAMES)
            for row in warehouse.current("bytes.t").rows
        ]
        assert sorted(found, key=repr) == sorted((tuple(map(told, row)) for row in rows.values()), key=repr)
        for name in warehouse.names():
            assert_read_by_all(warehouse.catalog.load_table(tuple(name.split("."))))
