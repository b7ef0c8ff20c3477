"""What is made of TiDB's text protocol is what TiCDC has sent: messages with their keys alone, whole again.

Every row of every type that TiDB has at the end (`expected.json`), against the last message that TiCDC has sent of it.
"""

import base64
import json
import struct
from itertools import pairwise

import fastavro
import pytest
from golden.corpus import GoldenCase
from golden.upstream import cells_of, columns_of

from pipeline.model.large_rows import Images
from pipeline.model.source_values import FLOAT, UpstreamColumn
from pipeline.protocols.canal.by_key import CanalKeyRows
from pipeline.protocols.open import by_key as of_open
from pipeline.protocols.open.by_key import OpenKeyRows, key_of_row
from pipeline.protocols.simple import by_key as of_simple
from pipeline.protocols.simple.by_key import AvroKeyRows, JsonKeyRows

NOT_OF_INDEXES = 1 | 2 | 4 | 64 | 128


class Canal:
    rows = CanalKeyRows()

    @staticmethod
    def with_keys_alone(value, keys):
        message = json.loads(value)
        for side in ("data", "old"):
            message[side] = message[side] and [only(message[side][0], keys)]
        message |= {name: only(message[name], keys) for name in ("sqlType", "mysqlType")}
        message["_tidb"]["onlyHandleKey"] = True
        return json.dumps(message).encode()

    @staticmethod
    def plain(value):
        message = json.loads(value)
        is_update = message["type"] == "UPDATE"
        return {name: one for name, one in message.items() if name != "ts" and not (is_update and name == "old")}


class SimpleJson:
    rows = JsonKeyRows("UTC")

    @staticmethod
    def with_keys_alone(value, keys):
        message = json.loads(value)
        sides = {side: only(message[side], keys) for side in ("data", "old") if side in message}
        return json.dumps({**message, **sides, "handleKeyOnly": True}).encode()

    @staticmethod
    def plain(value):
        message = json.loads(value)
        is_update = message["type"] == "UPDATE"
        return {name: one for name, one in message.items() if name != "buildTs" and not (is_update and name == "old")}


class SimpleAvro:
    rows = AvroKeyRows("UTC")

    @staticmethod
    def with_keys_alone(value, keys):
        message = of_simple._decoded(value)
        row = message["payload"]
        sides = {side: only(row[side], keys, branch) for side in ("data", "old") if row[side]}
        return of_simple._encoded({**message, "payload": ("DML", {**row, **sides, "handleKeyOnly": True})})

    @staticmethod
    def plain(value):
        row = of_simple._decoded(value)["payload"]
        ignored = {"buildTs", "handleKeyOnly", *(["old"] if row["type"] == "UPDATE" else [])}
        return {name: one for name, one in row.items() if name not in ignored}


class Open:
    rows = OpenKeyRows()

    @staticmethod
    def with_keys_alone(value, keys):
        return json.dumps({side: only(row, keys) for side, row in json.loads(value).items()}).encode()

    @staticmethod
    def plain(value):
        sides = {side: row for side, row in json.loads(value).items() if side != "p"}
        return {side: {name: shown(one) for name, one in row.items()} for side, row in sides.items()}


def only(row, keys, written=lambda value: value):
    return {name: written(value) for name, value in row.items() if name in keys}


def branch(value):
    """A value as Avro's writer has to be told."""
    if isinstance(value, dict):
        return ("UnsignedBigint" if "location" not in value else "Timestamp", value)
    return value


def shown(column):
    """A column of Open without flags of indexes, and bytes as bytes."""
    value = column["v"]
    if column["t"] in (15, 254) and column["f"] & 1 and value is not None:
        value = of_open._unquoted(value)
    return {**column, "f": column["f"] & NOT_OF_INDEXES, "v": value}


FORMS = {"canal": Canal, "simple_json": SimpleJson, "simple_avro": SimpleAvro, "open": Open}
CASES = [
    *(("all_types", config) for config in ("canal_json", "canal_json_content_compatible", "canal_json_raw")),
    *(("all_types", config) for config in ("simple_json", "simple_json_checksum", "simple_avro", "open")),
    *(("orders_small", config) for config in ("simple_avro", "open")),
    ("lifecycle", "canal_json"), ("key_updates", "canal_json_content_compatible"), ("key_updates", "canal_json_raw"),
]  # fmt: skip


def events(case):
    """Table and value of each row."""
    for record in case.records:
        if record.kind != "row":
            continue
        if case.protocol != "open-protocol":
            yield record.table, record.value
            continue
        for key, value in zip(parts(record.key[8:]), parts(record.value), strict=True):
            about = json.loads(key)
            yield f"{about['scm']}.{about['tbl']}", value


def parts(framed):
    ends = [0]
    while ends[-1] < len(framed):
        ends.append(ends[-1] + 8 + int.from_bytes(framed[ends[-1] :][:8]))
    return [framed[start + 8 : end] for start, end in pairwise(ends)]


def rows_at_the_end(table, columns, keys):
    """By their keys; a FLOAT with all its digits, as a SELECT asks for them."""
    rows = {}
    for cells in cells_of(table):
        row = {name: column.sent(cells[name]) for name, column in columns.items()}
        rows[tuple(row[key] for key in keys)] = row
    return rows


@pytest.mark.parametrize(("scenario", "config"), CASES, ids=str)
def test_rows_of_every_type_are_what_ticdc_sends(scenario, config):
    case = GoldenCase(scenario, config)
    form = next(form for name, form in FORMS.items() if config.startswith(name))
    tables, latest = {}, {}
    for name, table in case.final.items():
        columns = {column.name: column for column in columns_of(table)}
        keys = tuple(one["name"] for one in table["columns"] if one.get("key") == "PRI")
        tables[name] = (columns, keys, rows_at_the_end(table, columns, keys) if keys else {})
    for name, value in events(case):
        columns, keys, _ = tables.get(name, ({}, (), {}))
        if not keys:
            continue
        small = form.with_keys_alone(value, keys)
        before, after = form.rows.keys(small, columns)
        for key, sent in ((before, None), (after, (value, small))):
            if key:
                latest[name, tuple(key[one] for one in keys)] = sent
    compared = 0
    for (name, key), sent in latest.items():
        columns, _, rows = tables[name]
        if sent is None or key not in rows or has_few_digits(columns, rows[key]):
            continue
        value, small = sent
        images = form.rows.keys(small, columns)
        whole = form.rows.whole(small, columns, Images(images.before and rows[key], rows[key]))
        assert form.plain(whole) == form.plain(value), name
        compared += 1
    assert compared > 30


def has_few_digits(columns, row):
    """Whether a FLOAT of the row has more digits than `expected.json` has of it."""
    floats = (row[name] for name, column in columns.items() if column.data_type == FLOAT and row[name])
    return any(len(one.strip("-0.").replace(".", "").strip("0")) > 5 for one in floats)


@pytest.mark.parametrize(
    ("number", "sent"),
    [
        ("0.10000000149011612", "0.1"),
        ("3.4028234663852886e38", "340282350000000000000000000000000000000"),
        ("-0", "-0"),
        ("1.1754943508222875e-38", "0.000000000000000000000000000000000000011754944"),
    ],
)
def test_a_float_has_all_its_digits(number, sent):
    column = UpstreamColumn("f%`", "float", "float")
    assert column.sent(number.encode()) == sent
    assert column.asked == "`f%%```+0e0"
    assert struct.pack("<f", column.literal(sent)) == struct.pack("<f", float(number))


@pytest.mark.parametrize(
    ("kind", "full", "sent", "literal"),
    [
        ("bit", "bit(64)", str(2**64 - 1), 2**64 - 1),
        ("enum", "enum('a','it''s')", "2", "it's"),
        ("enum", "enum('a')", "0", 0),
        ("set", "set('x','é')", "3", "x,é"),
        ("set", "set('x')", "0", ""),
        ("varbinary", "varbinary(9)", b"\x00", b"\x00"),
        ("decimal", "decimal(65,30)", "1.000000000000000000000000000001", "1.000000000000000000000000000001"),
        ("double", "double", "0.1", 0.1),
        ("datetime", "datetime(3)", "0000-00-00 00:00:00.000", "0000-00-00 00:00:00.000"),
    ],
)
def test_keys_are_compared_as_what_they_are(kind, full, sent, literal):
    value = UpstreamColumn("k", kind, full).literal(sent)
    assert value == literal or str(value) == literal


@pytest.mark.parametrize("sent", [None, "", "1e5", "0x1", "1;--", "NaN"])
def test_what_is_no_number_never_reaches_a_statement(sent):
    with pytest.raises(ValueError, match=r"number|NULL"):
        UpstreamColumn("k", "int", "int(11)").literal(sent)


def test_keys_of_every_kind_are_read_from_each_protocol():
    columns = {
        column.name: column
        for column in (
            UpstreamColumn("b", "varbinary", "varbinary(20)"), UpstreamColumn("u", "bigint", "bigint(20) unsigned"),
            UpstreamColumn("f", "float", "float"), UpstreamColumn("t", "timestamp", "timestamp"),
            UpstreamColumn("x", "text", "text", has_charset=True), UpstreamColumn("s", "set", "set('a','b')"),
            UpstreamColumn("l", "blob", "blob"),
        )
    }  # fmt: skip
    key = {
        "b": b'\x00\xff\xc3\xa9\\"',
        "u": str(2**64 - 1),
        "f": "0.1",
        "t": "2024-01-02 03:04:05",
        "x": "é",
        "s": "3",
        "l": b"\xff",
    }
    encoded = {
        name: base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()
        for name, value in key.items()
    }
    clock = {"location": "UTC", "value": key["t"]}
    as_text = {**key, "b": encoded["b"], "l": encoded["l"], "t": clock}
    by_open = {
        "b": '\\x00\\xffé\\\\\\"', "u": 2**64 - 1, "f": 0.1, "t": key["t"], "x": encoded["x"], "s": 3,
        "l": encoded["l"],
    }  # fmt: skip
    assert JsonKeyRows("UTC").keys(json.dumps({"data": as_text}).encode(), columns) == Images(None, key)
    opened = json.dumps({"d": {name: {"t": 0, "f": 0, "v": value} for name, value in by_open.items()}}).encode()
    assert OpenKeyRows().keys(opened, columns) == Images(key, None)
    typed = {
        "b": ("bytes", key["b"]), "u": ("UnsignedBigint", {"value": -1}), "f": ("float", 0.1),
        "t": ("Timestamp", clock), "x": ("string", "é"), "s": ("long", 3), "l": ("bytes", b"\xff"),
    }  # fmt: skip
    row = {
        "version": 1, "database": "s", "table": "t", "tableID": 1, "type": "INSERT", "commitTs": 1, "buildTs": 1,
        "schemaVersion": 1, "data": typed,
    }  # fmt: skip
    assert AvroKeyRows("UTC").keys(of_simple._encoded({"type": "DML", "payload": ("DML", row)}), columns) == Images(
        None, key
    )


def test_the_key_of_an_event_of_open_is_that_of_a_whole_row():
    assert json.loads(key_of_row(b'{"ts":1,"scm":"s","tbl":"t","rid":7,"t":1,"ohk":true}')) == {
        "ts": 1, "scm": "s", "tbl": "t", "rid": 7, "t": 1
    }  # fmt: skip


def test_the_avro_writer_takes_the_schema_that_spark_reads():
    assert fastavro.parse_schema(of_simple._schema())["name"] == "Message"
