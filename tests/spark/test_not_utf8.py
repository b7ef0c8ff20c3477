r"""Text that is no UTF-8: NULL in its column, its bytes in `_unrepresentable`, nowhere a text that no reader takes."""

import pytest
from pyspark.sql import functions as F
from spark.test_simple_hostile import TEXT, TS, Batch, Known, bootstrap, insert, schema

from pipeline.model import change, text
from pipeline.model import types as t
from pipeline.protocols.described.schemas import table_version
from pipeline.protocols.simple.codes import UNREADABLE

pytestmark = pytest.mark.spark

LATIN = b"M\xfcller"
ENUM = {"mysqlType": "enum", "charset": "latin1", "collate": "latin1_bin", "length": 6, "elements": ["ok", "Mueler"]}
SET = {**ENUM, "mysqlType": "set"}


def with_bytes(message, placeholder="Mueler", octets=LATIN):
    """Avro writes the length before a text, and asks nothing else of it."""
    assert len(placeholder) == len(octets)
    assert placeholder.encode() in message
    return message.replace(placeholder.encode(), octets)


def simple(**columns):
    """A BOOTSTRAP of `id` and these columns, as it is sent."""
    kinds = {"id": {**TEXT, "mysqlType": "int"}, **columns}
    return (
        with_bytes(bootstrap("avro", columns=kinds)) if ENUM in columns.values() else bootstrap("avro", columns=kinds)
    )


def test_bytes_of_both_images_of_simple_are_kept(spark):
    row = insert("avro", kind="UPDATE", data={"id": "1", "name": "Mueler"}, old={"id": "1", "name": "Mueler"})
    good = insert("avro", ts=TS + 1, data={"id": "2", "name": "Müller"})
    found, sound = Batch(spark, "avro", bootstrap("avro"), with_bytes(row), good).changes()
    assert (found[change.ERROR], found["name"], found[change.BEFORE]["name"]) == (None, None, None)
    assert found[change.UNREPRESENTABLE] == {"name": r"\x4DFC6C6C6572"}
    assert found[change.BEFORE][change.UNREPRESENTABLE] == {"name": r"\x4DFC6C6C6572"}
    assert (sound["name"], sound[change.UNREPRESENTABLE]) == ("Müller", None)


def test_members_of_simple_keep_the_bytes_of_their_names(spark):
    rows = [insert("avro", ts=TS + n, data={"id": str(n), "e": str(n), "s": str(2 * n - 1)}) for n in (1, 2)]
    first, second = Batch(spark, "avro", simple(e=ENUM, s=SET), *rows).changes()
    assert (first["e"], first["s"], first[change.UNREPRESENTABLE]) == ("ok", "ok", None)
    assert (second["e"], second["s"], second[change.ERROR]) == (None, None, None)
    assert second[change.UNREPRESENTABLE] == {"e": r"\x4DFC6C6C6572", "s": "\\x" + (b"ok," + LATIN).hex().upper()}


@pytest.mark.parametrize("placeholder", ["dbname", "tblnam"])
def test_a_row_of_a_name_that_is_no_text_is_refused(spark, placeholder):
    names = {"database": "dbname", "table": "tblnam"}
    known = Known(table_version(schema(**names), {}))
    message = insert("avro", **names)
    batch = Batch(spark, "avro", with_bytes(message, placeholder, LATIN), message, known=known)
    assert batch.refused == {UNREADABLE: [0]}
    assert [row["name"] for row in batch.changes()] == ["a"]


def test_a_schema_with_a_name_that_is_no_text_is_refused(spark):
    sent = with_bytes(bootstrap("avro", columns={"id": TEXT, "Mueler": TEXT}))
    batch = Batch(spark, "avro", sent, insert("avro"))
    assert batch.messages.described == ()


LOST = {b"\xa5": r"\xA5", b"\xed\xa0\x80": r"\xEDA080", b"\\xA5": r"\x5C784135"}
"""Texts as they are kept: one that looks like bytes is kept by its bytes, too."""


def test_no_two_texts_are_kept_as_one(spark):
    frame = spark.createDataFrame([(bytearray(one),) for one in (*LOST, b"0000-00-00")], "sent binary")
    found = frame.select(text.kept(F.col("sent").cast("string")).alias("kept")).collect()
    assert [row["kept"] for row in found] == [*LOST.values(), "0000-00-00"]


@pytest.mark.parametrize(
    ("own", "kind", "wanted"),
    [
        (t.STRING, t.STRING, (None, r"\xA5")),
        (t.STRING, t.BINARY, (bytearray(b"\xa5"), None)),
        (t.STRING, t.INT, (None, r"\xA5")),
        (t.STRING, t.decimal(9, 2), (None, r"\xA5")),
        (t.BINARY, t.STRING, (None, r"\xA5")),
        (t.DATE, t.DATE, (None, r"\xA5")),
        (t.DATE, t.STRING, (None, r"\xA5")),
        (t.TIMESTAMP_NTZ, t.STRING, (None, r"\xA5")),
        (t.TIMESTAMP, t.TIMESTAMP, (None, r"\xA5")),
    ],
)
def test_under_whatever_type_the_bytes_are_kept(spark, own, kind, wanted):
    sent = F.col("sent").cast("string")
    readers = {
        t.STRING: text.sound, t.BINARY: lambda _: text.Value(F.col("sent")), t.DATE: text.date,
        t.TIMESTAMP_NTZ: text.datetime, t.TIMESTAMP: lambda one: text.timestamp(one, "Asia/Shanghai"),
    }  # fmt: skip
    value = text.under(readers[own](sent), own, kind, exact=kind.startswith("decimal"))
    lost = F.lit(None).cast("string") if value.lost is None else value.lost
    frame = spark.createDataFrame([(bytearray(b"\xa5"),)], "sent binary").select(value.column, lost)
    assert [tuple(row) for row in frame.collect()] == [wanted]
