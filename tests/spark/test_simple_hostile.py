"""Simple messages that are damaged, incomplete or nobody's: each is told apart, none ends the JVM."""

import datetime as dt
import io
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import ANY

import fastavro
import pytest
from golden.corpus import GoldenCase
from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.columns import SchemaId
from pipeline.model.messages import EVER, ColumnMapping, Part, Target, Unknown
from pipeline.model.names import TableName
from pipeline.model.places import RAW, Partition
from pipeline.protocols import end_marker
from pipeline.protocols.described.schemas import table_version
from pipeline.protocols.large.codes import CLAIM_CHECK, HANDLE_KEY_ONLY
from pipeline.protocols.simple import simple_protocol
from pipeline.protocols.simple.codes import UNREADABLE, VALUE_UNREADABLE
from pipeline.protocols.simple.union import MESSAGE, SCHEMA

pytestmark = pytest.mark.spark

RAW_TYPES = "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary"
ARRIVED = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - Spark takes it as the session's
AT = Partition("topic", 0)
ENCODINGS = ("json", "avro")

INT = {"mysqlType": "int", "charset": "binary", "collate": "binary", "length": 11}
TEXT = {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 20}
MOMENT = {"mysqlType": "timestamp", "charset": "binary", "collate": "binary", "length": 19}
VERSION, TS = 450000000047120387, 450000000078577668


def schema(*, table="t", version=VERSION, columns=None, database="s"):
    kinds = columns or {"id": INT, "name": TEXT}
    return {
        "database": database,
        "table": table,
        "tableID": 1,
        "version": version,
        "columns": [
            {"name": name, "dataType": kind, "nullable": name != "id", "default": None} for name, kind in kinds.items()
        ],
        "indexes": [{"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}],
    }


def in_json(kind, message):
    message = dict(message)
    for name in ("tableSchema", "preTableSchema"):
        if name in message:
            sent = dict(message[name])
            message[name] = {"schema": sent.pop("database"), **sent}
    images = {name: message.pop(name) for name in ("data", "old") if name in message}
    return json.dumps({**message, "type": kind, **images}, separators=(",", ":")).encode()


def plain_schema():
    """TiCDC's own, without the sentinel."""
    return fastavro.parse_schema(
        {**SCHEMA, "fields": [one for one in SCHEMA["fields"] if one["name"] != end_marker.FIELD]}
    )


RECORDS = {"WATERMARK": "Watermark", "BOOTSTRAP": "Bootstrap", "DDL": "DDL", "DML": "DML"}


def in_avro(kind, message):
    outer = kind if kind in ("WATERMARK", "BOOTSTRAP") else "DDL" if "sql" in message else "DML"
    inner = {"type": kind, "tableID": 1, **message}
    for side in ("data", "old"):
        if inner.get(side):
            inner[side] = {name: avro_value(value) for name, value in inner[side].items()}
    out = io.BytesIO(MESSAGE)
    out.seek(len(MESSAGE))
    fastavro.schemaless_writer(out, plain_schema(), {"type": outer, "payload": (RECORDS[outer], inner)})
    return out.getvalue()


def avro_value(value):
    if isinstance(value, dict):
        return ("Timestamp", value)
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value


def encoded(encoding, kind, **message):
    full = {"version": 1, "buildTs": 1, **message}
    return in_json(kind, full) if encoding == "json" else in_avro(kind, full)


def insert(encoding, key="1", ts=TS, table="t", version=VERSION, **more):
    data, kind = more.pop("data", {"id": key, "name": "a"}), more.pop("kind", "INSERT")
    about = {"database": "s", "table": table, "commitTs": ts, "schemaVersion": version, "data": data, **more}
    return encoded(encoding, kind, **about)


def bootstrap(encoding, **about):
    return encoded(encoding, "BOOTSTRAP", commitTs=0, tableSchema=schema(**about))


def ddl(encoding, kind, sql, ts=TS, **schemas):
    return encoded(encoding, kind, sql=sql, commitTs=ts, **schemas)


def watermark(encoding, ts):
    return encoded(encoding, "WATERMARK", commitTs=ts)


class Known:
    def __init__(self, *versions):
        self.found = {(version.table.key, version.version): version for version in versions}
        self.asked = []

    def versions(self, wanted):
        self.asked.append(tuple(wanted))
        keys = [(table.key, version) for table, version in wanted]
        return {key: self.found[key] for key in keys if key in self.found}

    def of_tables(self, tables):
        names = {table.key for table in tables}
        return [version for version in self.found.values() if version.table.key in names]


class Batch:
    """Values in one partition, or (partition, value), prepared and read."""

    def __init__(self, spark, encoding, *values, known=None, overrides=None, timezone="UTC"):
        self.protocol = simple_protocol(encoding, timezone, overrides or {}, known or Known())
        ends = Counter()
        rows = []
        for value in values:
            partition, body = value if isinstance(value, tuple) else (0, value)
            rows.append(
                (AT.stream, partition, ends[partition], ARRIVED, None, None if body is None else bytearray(body))
            )
            ends[partition] += 1
        raw = spark.createDataFrame(rows, RAW_TYPES).coalesce(1).select(*RAW)
        self.prepared = self.protocol.prepare(raw)
        self.messages = self.protocol.read(self.prepared)

    @property
    def table(self):
        (table,) = self.messages.tables
        return table

    def changes(self, table=None, within=None, **targets):
        """The change frame's rows by offset. `within`: which rows are the table's; None: those of its names."""
        table = table or self.table
        mine = self.prepared.where(self.protocol.where(table) if within is None else within)
        columns = {column.name: column.type for seen in table.versions for column in seen.version.columns} | targets
        fields = {seen.version.version: {name: name for name in columns} for seen in table.versions}
        mapping = ColumnMapping(tuple(Target(*one) for one in columns.items()), fields, before=True)
        return self.protocol.recipe(table, mapping).of(mine).orderBy(change.OFFSET).collect()

    @property
    def refused(self):
        """Code → offsets."""
        found = {}
        for one in self.messages.refused:
            rows = self.prepared.where(one.where).collect()
            assert len(rows) == one.rows
            found.setdefault(one.code, []).extend(row.offset for row in rows)
        return {code: sorted(offsets) for code, offsets in found.items()}

    @property
    def set_aside(self):
        """Offsets of all that is refused, or is of a row and cannot be decoded."""
        broken = [
            row[change.OFFSET] for table in self.messages.tables for row in self.changes(table) if row[change.ERROR]
        ]
        return sorted([*broken, *(offset for offsets in self.refused.values() for offset in offsets)])


def flipped(body):
    return [body[:at] + bytes([body[at] ^ 1 << at % 8]) + body[at + 1 :] for at in range(0, len(body), 3)]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_sound_batch_is_all_read(spark, encoding):
    batch = Batch(spark, encoding, bootstrap(encoding), insert(encoding), watermark(encoding, TS))
    (row,) = batch.changes()
    assert (row["_op"], row["id"], row["name"], row["_commit_ts"], row["_schema_id"]) == ("insert", 1, "a", TS, VERSION)
    assert (row[change.BEFORE], row[change.ERROR], row["_index"]) == (None, None, 0)
    found = batch.messages
    assert (found.events, found.control, found.refused, found.watermarks) == (3, 2, (), {AT: TS})
    assert (found.starts, found.ends) == ({AT: 0}, {AT: 3})
    (seen,) = batch.table.versions
    assert (seen.since, seen.until, seen.first, seen.last, seen.rows) == (TS, TS, {AT: 1}, {AT: 1}, 1)
    assert found.described == (seen.version,)


def damaged(body):
    return {
        "truncated": body[:-1],
        "half": body[: len(body) // 2],
        "followed by a byte": body + b"\0",
        "followed by a letter": body + b"x",
        "twice": body + body,
        "two": body + b"," + body,
        "closed too early": body + b"]",
        "empty": b"",
        "nothing": None,
        "garbage": b"\x00\x01\x02\xff" * 20,
        "a list": b"[]",
        "a number": b"17",
        "null": b"null",
        "deep": b"[" * 5000,
        "another branch": b"\x14" + body[1:],
        "a branch alone": MESSAGE,
        "asks for two gigabytes": MESSAGE + b"\x06\x06\x02\xfe\xff\xff\xff\x0f",
        "asks for more than there are": MESSAGE + b"\x04\x04\x02\x00\xfe\xff\xff\xff\xff\xff\xff\xff\x7f",
        "a length below zero": MESSAGE + b"\x06\x06\x02\x01",
    }


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_damaged_message_is_refused_and_its_neighbours_are_read(spark, encoding):
    bodies = list(damaged(insert(encoding)).values())
    if encoding == "json":
        bodies.append(insert(encoding).replace(b"name", b"n\xff\xfee"))
    batch = Batch(spark, encoding, bootstrap(encoding), insert(encoding), *bodies)
    assert batch.set_aside == list(range(2, 2 + len(bodies)))
    assert set(batch.refused) == {UNREADABLE}
    assert [row["id"] for row in batch.changes() if row[change.ERROR] is None] == [1]
    assert batch.messages.events == 2 + len(bodies)
    assert batch.messages.ends == {AT: 2 + len(bodies)}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_flipped_bit_is_another_message_or_is_told_but_never_an_exception(spark, encoding):
    bodies = [
        *flipped(insert(encoding, data={"id": "1", "name": "a"})),
        *flipped(bootstrap(encoding)),
        *flipped(ddl(encoding, "ALTER", "ALTER TABLE `t` ADD COLUMN `x` INT", tableSchema=schema())),
    ]
    batch = Batch(spark, encoding, bootstrap(encoding), *bodies)
    found = batch.messages
    counted = sum(table.rows for table in found.tables) + sum(one.rows for one in (*found.refused, *found.unknown))
    assert counted + found.control == found.events == 1 + len(bodies)
    for table in found.tables:
        assert len(batch.changes(table)) == table.rows
    assert sum(len(offsets) for offsets in batch.refused.values()) == sum(one.rows for one in found.refused)


def test_a_newer_ticdc_sends_a_bit_and_a_large_number_as_text(spark):
    wide, flags = {**INT, "mysqlType": "bigint", "unsigned": True}, {**INT, "mysqlType": "bit", "length": 64}
    columns = {"id": wide, "flags": flags, "few": {**flags, "length": 8}}
    sent = [("18446744073709551615", "9223372036854775808", "5"), ("7", "-1", "5"), ("8", "1", "256"), ("9", "1", "x")]
    rows = [
        insert("avro", data={"id": ("string", a), "flags": ("string", b), "few": ("string", c)}) for a, b, c in sent
    ]
    batch = Batch(spark, "avro", bootstrap("avro", columns=columns), *rows)
    told = {row["id"]: (row["flags"], row["few"]) for row in batch.changes() if row[change.ERROR] is None}
    assert told == {2**64 - 1: (2**63, 5), 8: (1, 256)}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_rows_that_did_not_fit_are_refused_with_the_setting_that_decides(spark, encoding):
    batch = Batch(
        spark, encoding, bootstrap(encoding), insert(encoding, handleKeyOnly=True),
        insert(encoding, claimCheckLocation="s3://bucket/1", handleKeyOnly=True), insert(encoding, handleKeyOnly=False),
    )  # fmt: skip
    assert batch.refused == {HANDLE_KEY_ONLY: [1], CLAIM_CHECK: [2]}
    assert all("large-message-handle-option" in one.message for one in batch.messages.refused)
    assert [row[change.OFFSET] for row in batch.changes()] == [3]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_another_version_of_the_protocol_is_refused(spark, encoding):
    newer = encoded(encoding, "WATERMARK", commitTs=TS) if encoding == "avro" else b""
    newer = newer.replace(b"\x16\x00\x00\x02", b"\x16\x00\x00\x04") or in_json(
        "WATERMARK", {"version": 2, "commitTs": TS}
    )
    batch = Batch(spark, encoding, encoded(encoding, "WATERMARK", commitTs=TS), newer)
    assert batch.refused == {UNREADABLE: [1]}


def test_incomplete_json_is_refused(spark):
    whole = json.loads(insert("json"))
    bodies = [
        json.dumps({key: value for key, value in whole.items() if key != missing}).encode()
        for missing in ("version", "type", "database", "table", "commitTs", "schemaVersion")
    ]
    strange = [json.dumps({**whole, "type": "UPSERT"}).encode(), json.dumps({**whole, "commitTs": "x"}).encode()]
    batch = Batch(spark, "json", *bodies, *strange)
    assert batch.refused == {UNREADABLE: list(range(8))}


def test_values_of_a_wrong_type_are_told(spark):
    columns = {"id": INT, "name": TEXT, "at": MOMENT}
    sound = {"id": "1", "name": "a", "at": {"location": "UTC", "value": "2024-01-01 00:00:00"}}
    zero, nowhere = {"location": "UTC", "value": "0000-00-00 00:00:00"}, {**sound["at"], "location": "No/Where"}
    wrong = [{"id": "x"}, {"id": "99999999999"}, {"at": "2024-01-01 00:00:00"}]
    odd = [{"name": None, "at": None}, {"at": zero}, {"at": nowhere}]
    rows = [insert("json", data=sound | other) for other in ({}, *wrong, *odd)]
    more = [insert("json", data=None), insert("json", kind="UPDATE"), insert("json", kind="DELETE", old=None)]
    batch = Batch(spark, "json", bootstrap("json", columns=columns), *rows, *more)
    found = batch.changes()
    bad = VALUE_UNREADABLE
    assert [row[change.ERROR] for row in found] == [None, bad, bad, bad, None, None, None, bad, bad, bad]
    assert found[5][change.UNREPRESENTABLE] == {"at": "0000-00-00 00:00:00"}
    assert found[6][change.UNREPRESENTABLE] == {"at": "2024-01-01 00:00:00"}


def test_values_of_a_wrong_branch_are_told(spark):
    rows = [
        insert("avro", data=data)
        for data in ({"id": "1", "name": "a"}, {"id": "x", "name": "a"}, {"id": "1", "name": 2.5})
    ]
    batch = Batch(spark, "avro", bootstrap("avro"), *rows)
    assert [row[change.ERROR] for row in batch.changes()] == [None, VALUE_UNREADABLE, VALUE_UNREADABLE]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_timestamps_are_read_in_their_own_zone(spark, encoding):
    columns = {"id": INT, "at": MOMENT}
    clocks = [
        ("UTC", "2024-01-01 00:00:00"), ("Europe/Paris", "2024-01-01 01:00:00"), ("Asia/Tokyo", "2024-01-01 09:00:00"),
        ("Europe/Paris", "2023-10-29 02:30:00"), ("America/New_York", "2023-11-05 01:30:00"),
    ]  # fmt: skip
    rows = [insert(encoding, data={"id": "1", "at": {"location": zone, "value": clock}}) for zone, clock in clocks]
    batch = Batch(spark, encoding, bootstrap(encoding, columns=columns), *rows, timezone="Europe/Paris")
    found = batch.changes()
    assert [row["at"].timestamp() for row in found] == [1704067200] * 3 + [1698539400, 1699162200]
    assert [row[change.UNREPRESENTABLE] for row in found[:3]] == [None] * 3
    assert [row[change.UNREPRESENTABLE] for row in found[3:]] == [{"at": clock} for _, clock in clocks[3:]]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_rows_of_versions_that_nothing_described_are_unknown(spark, encoding):
    described = table_version(schema(version=5), {})
    known = Known(described)
    batch = Batch(
        spark, encoding, bootstrap(encoding), insert(encoding), insert(encoding, version=5),
        insert(encoding, version=6, ts=9), insert(encoding, version=6, ts=8), insert(encoding, table="u", ts=7),
        known=known,
    )  # fmt: skip
    s_t, s_u = TableName("s", "t"), TableName("s", "u")
    assert set(batch.messages.unknown) == {
        Unknown(s_t, SchemaId(6), 2, 8, 9, ANY),
        Unknown(s_u, SchemaId(VERSION), 1, 7, 7, ANY),
    }
    assert [set(asked) for asked in known.asked] == [{(s_t, VERSION), (s_t, 5), (s_t, 6), (s_u, VERSION)}]
    assert [seen.version.version for seen in batch.table.versions] == [5, VERSION]
    assert [row["_schema_id"] for row in batch.changes()] == [VERSION, 5]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_where_takes_rows_of_each_name_within_its_time(spark, encoding):
    batch = Batch(
        spark, encoding, bootstrap(encoding), insert(encoding, ts=10), insert(encoding, ts=11),
        insert(encoding, table="U", ts=11), insert(encoding, table="U", ts=12, version=77),
        insert(encoding, table="v", ts=12), insert(encoding, ts=13, handleKeyOnly=True),
    )  # fmt: skip
    parts = (Part(TableName("S", "T"), 0, 10), Part(TableName("s", "u"), 11, EVER))
    within = batch.protocol.where_named(parts)
    assert [row.offset for row in batch.prepared.where(within).collect()] == [1, 4]
    assert [row.offset for row in batch.prepared.where(batch.protocol.where(batch.table)).collect()] == [1, 2]
    assert [row[change.OFFSET] for row in batch.changes(within=within)] == [1]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_statement_is_one_however_often_it_is_sent(spark, encoding):
    sql = "ALTER TABLE `s`.`t` ADD COLUMN `x` INT"
    wider = schema(version=VERSION + 1, columns={"id": INT, "name": TEXT, "x": INT})
    one = ddl(encoding, "ALTER", sql, tableSchema=wider, preTableSchema=schema())
    batch = Batch(spark, encoding, one, (1, watermark(encoding, 1)), (1, one), one)
    (statement,) = batch.messages.ddl
    assert statement.at == {AT: 0, Partition("topic", 1): 1}
    assert (statement.commit_ts, statement.table, statement.sql) == (TS, TableName("s", "t"), sql)
    assert [column.name for column in statement.version.columns] == ["id", "name", "x"]
    assert {version.version for version in batch.messages.described} == {VERSION, VERSION + 1}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_schemas_that_cannot_be_read_are_refused(spark, encoding):
    odd = {"id": INT, "odd": {**INT, "mysqlType": "hypercube"}}
    batch = Batch(
        spark, encoding, bootstrap(encoding), bootstrap(encoding, columns=odd, table="u"),
        (1, bootstrap(encoding, columns=odd, table="u")),
        ddl(encoding, "CREATE", "CREATE TABLE `u` (`id` INT)", tableSchema=schema(columns=odd)),
    )  # fmt: skip
    assert batch.refused == {UNREADABLE: [0, 1, 2]}
    assert batch.messages.control == 1
    assert [version.table.table for version in batch.messages.described] == ["t"]


def test_types_of_the_users_are_kept_to(spark):
    columns = {"id": INT, "price": {**TEXT, "mysqlType": "decimal", "length": 10, "decimal": 4}, "name": TEXT}
    overrides = {"s.t.price": "decimal(10,2)", "s.t.id": "bigint", "S.T.Name": "int"}
    rows = [{"id": "1", "price": "1.2500", "name": "7"}, {"id": "2", "price": "1.2501", "name": "x"}]
    sent = [insert("json", data=row) for row in rows]
    batch = Batch(spark, "json", bootstrap("json", columns=columns), *sent, overrides=overrides)
    first, second = batch.changes()
    assert (first["id"], str(first["price"]), first["name"], first["_unrepresentable"]) == (1, "1.25", 7, None)
    assert (second["price"], second["name"]) == (None, None)
    assert second["_unrepresentable"] == {"price": "1.2501", "name": "x"}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_dates_and_times_that_are_to_be_text_are_as_they_were_sent_but_instants_that_there_are(spark, encoding):
    kinds = {"day": {**TEXT, "mysqlType": "date"}, "moment": {**TEXT, "mysqlType": "datetime"}, "at": MOMENT}
    clocks = ("2024-02-29 01:02:03.500", "0000-00-00 00:00:00", "2024-10-27 02:30:00")
    sent = [
        {"id": "1", "day": "0000-00-00", "moment": "2024-02-00 00:00:00"},
        {"id": "2", "day": "2024-02-29", "moment": "2024-02-29 01:02:03.500"},
        {"id": "3", "day": None, "moment": None},
    ]
    instants = [{"location": "Europe/Berlin", "value": clock} for clock in clocks]
    batch = Batch(
        spark, encoding, bootstrap(encoding, columns={"id": INT, **kinds}),
        *(insert(encoding, data={**row, "at": at}) for row, at in zip(sent, instants, strict=True)),
        overrides={f"s.t.{name}": "string" for name in kinds}, timezone="Europe/Berlin",
    )  # fmt: skip
    rows = batch.changes()
    assert [row[change.ERROR] for row in rows] == [None] * 3
    assert [(row["day"], row["moment"]) for row in rows] == [(row["day"], row["moment"]) for row in sent]
    assert [(row["at"], row["_unrepresentable"]) for row in rows] == [
        ("2024-02-29 00:02:03.5", None),
        (clocks[1], None),
        ("2024-10-27 00:30:00", {"at": clocks[2]}),
    ]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_its_own_type_cannot_hold_keeps_its_text_under_one_of_the_users(spark, encoding):
    columns = {"id": INT, "day": {**TEXT, "mysqlType": "date"}}
    sent = [{"id": "1", "day": "0000-00-00"}, {"id": "2", "day": "2024-02-29"}, {"id": "3", "day": None}]
    batch = Batch(
        spark, encoding, bootstrap(encoding, columns=columns),
        *(insert(encoding, data=row) for row in sent), overrides={"s.t.day": "timestamp_ntz"},
    )  # fmt: skip
    rows = batch.changes()
    assert [row[change.ERROR] for row in rows] == [None] * 3
    assert [(row["day"], row["_unrepresentable"]) for row in rows] == [
        (None, {"day": "0000-00-00"}),
        (dt.datetime(2024, 2, 29), None),  # noqa: DTZ001 - a wall clock
        (None, None),
    ]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_golden_bytes_cut_short_are_set_aside(spark, encoding):
    records = GoldenCase("all_types", f"simple_{encoding}").records
    sound = [record.value for record in records if record.kind != "row"]
    bodies = [record.value for record in records]
    damaged = [*(body[:-1] for body in bodies), *(body + b"\0" for body in bodies)]
    batch = Batch(spark, encoding, *sound, *damaged)
    assert batch.set_aside == list(range(len(sound), len(sound) + len(damaged)))


@pytest.mark.parametrize("order", ["as sent", "images first", "spaced", "key only behind", "images of these names"])
def test_json_is_read_however_it_is_written(spark, order):
    plain = json.loads(insert("json"))
    if order == "images first":
        body = json.dumps({"data": plain.pop("data"), **plain}, separators=(",", ":"))
    elif order == "spaced":
        body = f" {json.dumps(plain)} \n"
    else:
        body = json.dumps(plain, separators=(",", ":"))
    if order == "key only behind":
        body = body.removesuffix("}") + ',"handleKeyOnly":true}'
    columns = {"id": INT, "data": MOMENT, "old": MOMENT} if order == "images of these names" else None
    if columns:
        moment = {"location": "UTC", "value": "2024-01-02 03:04:05"}
        body = json.dumps({**plain, "data": {"id": "1", "data": moment, "old": moment}}, separators=(",", ":"))
    batch = Batch(spark, "json", bootstrap("json", columns=columns), body.encode())
    if order == "key only behind":
        assert batch.refused == {HANDLE_KEY_ONLY: [1]}
    else:
        assert not batch.refused
        (row,) = batch.changes()
        assert (row["id"], row[change.ERROR]) == (1, None)
        assert columns is None or row["data"] == row["old"] == dt.datetime(2024, 1, 2, 3, 4, 5)  # noqa: DTZ001


@pytest.mark.parametrize("scenario", ["ddl", "ddl_nokey", "lifecycle"])
def test_both_encodings_say_the_same_of_statements_versions_and_rows(spark, scenario):
    said = []
    for encoding in ENCODINGS:
        values = [record.value for record in GoldenCase(scenario, f"simple_{encoding}").records]
        said.append(Batch(spark, encoding, *values).messages)
    in_json, in_avro = said
    assert (in_json.refused, in_avro.refused) == ((), ())
    assert (in_json.unknown, in_avro.unknown) == ((), ())
    assert [(one.commit_ts, one.kind, one.table, one.sql) for one in in_json.ddl] == [
        (one.commit_ts, one.kind, one.table, one.sql) for one in in_avro.ddl
    ]
    assert layouts(in_json) == layouts(in_avro)
    assert [table.table for table in in_json.tables] == [table.table for table in in_avro.tables]


def layouts(messages):
    """Without defaults, which JSON and Avro send differently."""
    return {
        (version.table, version.version): (version.handle, [(one.name, one.type) for one in version.columns])
        for version in messages.described
    }


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_message_is_decoded_once_whatever_is_asked_of_it(spark, encoding):
    """Spark would push a filter below the decoding, with a decoding for each of its conditions."""
    batch = Batch(spark, encoding, bootstrap(encoding), insert(encoding))
    names = {"id": "id", "name": "name"}
    mapping = ColumnMapping((Target("id", "int"), Target("name", "string")), {VERSION: names}, before=True)
    rows = batch.prepared.where(batch.protocol.where(batch.table))
    frame = batch.protocol.recipe(batch.table, mapping).of(rows)
    asked = frame.where((F.col("id") > 0) & F.col(change.ERROR).isNull() & (F.col("_op") != "x"))
    spark.conf.set("spark.sql.maxPlanStringLength", "1000000")
    plan = asked._jdf.queryExecution().executedPlan().toString()
    spark.conf.set("spark.sql.maxPlanStringLength", "0")
    assert plan.count("UDF(") + plan.count("from_avro(") == (2 if encoding == "json" else 1)
    assert [row["id"] for row in asked.collect()] == [1]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_tables_of_one_batch_are_decoded_by_threads(spark, encoding):
    names = [f"t{number}" for number in range(8)]
    sent = [body for name in names for body in (bootstrap(encoding, table=name), insert(encoding, table=name))]
    batch = Batch(spark, encoding, *sent)
    with ThreadPoolExecutor(len(names)) as pool:
        found = list(pool.map(batch.changes, batch.messages.tables))
    assert [[row["id"] for row in rows] for rows in found] == [[1]] * len(names)
