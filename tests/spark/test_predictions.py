"""A batch that is read while it is appended: the same changes as when it is read first, and nothing unknown passes."""

import dataclasses
from functools import cache

import pytest
from golden.corpus import GoldenCase
from pyspark.sql import functions as F
from spark.open_events import Memory, golden_frame
from spark.open_events import protocol as open_protocol
from spark.test_simple_decode import mapping_of, protocol_of, raw_frame
from support.slow import EVERY

from pipeline.model import change
from pipeline.model.messages import INDEX
from pipeline.model.places import RAW
from pipeline.protocols.canal import messages as canal_messages
from pipeline.protocols.canal.protocol import CanalProtocol
from pipeline.protocols.described import frame as simple_frame
from pipeline.protocols.described.head import field_of
from pipeline.protocols.open import events
from pipeline.protocols.open import frame as open_frame
from pipeline.protocols.simple import json_encoding

pytestmark = pytest.mark.spark

CASES = [
    GoldenCase(scenario, config)
    for scenario, few, more in (
        ("all_types", ("open",), ("simple_json", "simple_json_checksum", "simple_avro")),
        (
            "key_updates",
            ("simple_avro", "canal_json"),
            (
                "simple_json_checksum",
                "simple_json_p3",
                "simple_json_raw",
                "open_updated_only",
                "open_raw",
                "canal_json_raw",
            ),
        ),
        ("lifecycle", (), ("simple_json", "simple_avro", "open", "canal_json")),
    )
    for config in (*few, *(more if EVERY else ()))
]


class Told:
    """A whole case that was read once, as the batches before would have been."""

    def __init__(self, spark, case):
        self.known = Memory()
        if case.protocol == "simple":
            self.subject = protocol_of(case, known=self.known)
            self.kind, self.raw = field_of("kind"), raw_frame(spark, case.records)
            self.words = {"row": "DML", "marks": ("WATERMARK", "BOOTSTRAP")}
        elif case.protocol == "canal-json":
            self.subject = CanalProtocol("UTC", {}, self.known)
            self.kind, self.raw = events.head(events.KIND), golden_frame(spark, case.records)
            self.words = {"row": events.ROW, "marks": (events.RESOLVED,)}
        else:
            self.subject = open_protocol(known=self.known)
            self.kind, self.raw = events.head(events.KIND), golden_frame(spark, case.records)
            self.words = {"row": events.ROW, "marks": (events.RESOLVED,)}
        self.prepared = self.subject.prepare(self.raw).cache()
        self.messages = self.subject.read(self.prepared)
        self.known.keep(self.messages)

    def only(self, table):
        """The rows of a table's newest version, each a record of its own, with all watermarks and descriptions."""
        newest = self.newest(table)
        places = self.changes(self.prepared, newest).select(*change.POSITION)
        names = [F.col(at).alias(name) for at, name in zip(change.POSITION, (*RAW[:3], INDEX), strict=True)]
        rows = self.prepared.join(places.select(*names), [*RAW[:3], INDEX], "left_semi")
        marks = self.prepared.where(self.kind.isin(*self.words["marks"]))
        found = rows.select(*RAW).union(marks.select(*RAW)).collect()
        return self.raw.sparkSession.createDataFrame(found, self.raw.schema).coalesce(1)

    def newest(self, table):
        """The table's messages of its newest version, and of deletes that have the key alone."""
        last = max(table.versions, key=lambda seen: (seen.until, seen.version.version))
        return dataclasses.replace(table, versions=(last,))

    def changes(self, prepared, table):
        return self.subject.recipe(table, mapping_of(table)).of(prepared.where(self.subject.where(table)))

    def predicted(self, raw, table):
        """What the protocol says of records, if they are rows of this table alone."""
        read = self.subject.read(self.subject.prepare(raw))
        kinds = {kind for kind in self.messages.kinds if not self.is_row(kind) or kind.name == table.table}
        ranges = {at: (start, read.ends[at]) for at, start in read.starts.items()}
        return read, self.subject.predict(raw, frozenset(kinds), ranges, mapping_of(self.newest(table)))

    def is_row(self, kind):
        return kind.kind == self.words["row"]


@pytest.fixture(scope="module")
def told_of(spark):
    """Each case is read once. What is kept of so many tables goes before: one JVM has the whole suite."""
    forget()
    yield cache(lambda case: Told(spark, case))
    spark.catalog.clearCache()
    forget()


def forget():
    for made in (
        simple_frame.recipe,
        json_encoding._prepared_at_once,
        canal_messages._steps_at_once,
        open_frame.recipe,
    ):
        made.cache_clear()


def rows_of(frame):
    return sorted(frame.collect(), key=lambda row: tuple(row[name] for name in change.POSITION))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_table_has_the_changes_that_it_has_when_it_is_read_first(told_of, case):
    told, guesses = told_of(case), 0
    few = 4 if case.scenario == "all_types" else 2
    for table in told.messages.tables[:: 1 if EVERY else few]:
        raw = told.only(table)
        read, prediction = told.predicted(raw, table)
        if prediction is None:
            continue
        guesses += 1
        mine = next(one for one in read.tables if one.table == table.table)
        want = rows_of(told.changes(told.subject.prepare(raw), mine))
        found = rows_of(prediction.frame)
        assert [row.asDict(recursive=True) for row in found] == [row.asDict(recursive=True) for row in want]
        batch = prediction.messages()
        assert (batch.events, batch.control, batch.watermarks) == (read.events, read.control, read.watermarks)
        assert (batch.starts, batch.ends) == (read.starts, read.ends)
        (seen,) = batch.tables[0].versions
        assert (seen.since, seen.until) == (
            min(one.since for one in mine.versions),
            max(one.until for one in mine.versions),
        )
    assert guesses > 2


def found(told, table, rows):
    """What a guess says of these records, once its frame has been read."""
    _, prediction = told.predicted(told.raw.sparkSession.createDataFrame(rows, told.raw.schema).coalesce(1), table)
    prediction.frame.write.format("noop").mode("overwrite").save()
    return prediction.messages()


@pytest.fixture(scope="module")
def shift_of(told_of):
    """A table of which the guess is right: what was told of it, its rows, and a watermark."""

    @cache
    def shift(encoding):
        told = told_of(GoldenCase("key_updates", encoding))
        table = next(one for one in told.messages.tables if one.table.table == "t_shift_nc")
        raw = told.only(table).collect()
        named = [row for row in raw if b"t_shift_nc" in bytes(row.value or b"") + bytes(row.key or b"")]
        mark = next(row for row in raw if row not in named)
        rows = [row for row in named if b"BOOTSTRAP" not in row.value]
        assert found(told, table, [*rows, mark]).events == len(rows) + 1
        return told, table, rows, mark

    return shift


LAST = b'"data":'


@pytest.mark.parametrize(
    ("spoiled", "encoding"),
    [
        pytest.param(lambda value: value[:-1], "simple_json", id="without its end"),
        pytest.param(lambda value: value[:-1] + b" ", "simple_json", id="with a blank for its end"),
        pytest.param(lambda value: value + value, "simple_json", id="twice"),
        pytest.param(lambda value: value + b"}", "simple_json", id="with an end too many"),
        pytest.param(lambda value: b"[" + value + b"]", "simple_json", id="in an array"),
        pytest.param(lambda value: value.replace(LAST, b'"data":7,"d":', 1), "simple_json", id="without a row"),
        pytest.param(lambda value: value.replace(b'"commitTs":', b'"commitTs":"x', 1), "simple_json", id="no JSON"),
        pytest.param(lambda value: value.replace(b"INSERT", b"DELETE\xff", 1), "simple_json", id="no UTF-8"),
        pytest.param(lambda value: value.replace(b"INSERT", b"CREATE", 1), "simple_json", id="of another kind"),
        pytest.param(lambda value: value.replace(b'"table":"', b'"table":"T', 1), "simple_json", id="another table"),
        pytest.param(
            lambda value: value.replace(b'"schemaVersion":4', b'"schemaVersion":3', 1), "simple_json", id="older"
        ),
        pytest.param(
            lambda value: value.replace(b'"commitTs":', b'"handleKeyOnly":true,"commitTs":', 1), "simple_json", id="key"
        ),
        pytest.param(
            lambda value: value.replace(LAST, b'"checksum":{"version":0,"current":1},"data":', 1), "simple_json",
            id="with a checksum",
        ),
        pytest.param(lambda _: b"", "simple_json", id="empty"),
        pytest.param(lambda _: None, "simple_json", id="null"),
        pytest.param(lambda value: value[:-1], "simple_avro", id="Avro without its end"),
        pytest.param(lambda value: value + b"\0", "simple_avro", id="Avro with more"),
        pytest.param(lambda value: value[:-1], "canal_json", id="Canal-JSON without its end"),
        pytest.param(lambda value: value + value, "canal_json", id="Canal-JSON twice"),
        pytest.param(lambda value: value.replace(LAST, b'"data":7,"d":', 1), "canal_json", id="Canal-JSON, no row"),
        pytest.param(
            lambda value: value.replace(b'"sqlType":{', b'"sqlType":{"more":4,', 1), "canal_json",
            id="Canal-JSON of another layout",
        ),
        pytest.param(lambda value: value.replace(b'"_tidb":', b'"tidb":', 1), "canal_json", id="Canal-JSON, bare"),
        pytest.param(lambda value: value[:-1], "open", id="Open without its end"),
        pytest.param(lambda value: value.replace(b'"t":', b'"t":1', 1), "open", id="Open of another layout"),
    ],
)  # fmt: skip
def test_one_message_of_another_kind_makes_the_guess_wrong(shift_of, spoiled, encoding):
    told, table, rows, mark = shift_of(encoding)
    last = rows[-1]
    value = spoiled(bytes(last.value))
    assert value != bytes(last.value)
    assert found(told, table, [*rows[:-1], (*last[:-1], value and bytearray(value)), mark]) is None
