"""TiCDC's own Simple messages, decoded: replayed by key they are TiDB's own rows, column by column."""

import datetime as dt
from collections import Counter
from itertools import groupby

import pytest
from golden.comparing import assert_none, rows_differ
from golden.corpus import GoldenCase
from golden.expected import tables_at_the_end
from golden.values import Row

from pipeline.model import change
from pipeline.model.messages import ColumnMapping, Ordering, Target
from pipeline.model.places import RAW
from pipeline.protocols.simple import simple_protocol

pytestmark = pytest.mark.spark

CASES = [
    GoldenCase(scenario, config)
    for scenario, configs in {
        "all_types": ("simple_json", "simple_avro"),
        "lifecycle": ("simple_json", "simple_avro", "simple_json_raw", "simple_avro_raw"),
        "key_updates": ("simple_json", "simple_avro", "simple_json_raw", "simple_avro_raw", "simple_json_p3"),
    }.items()
    for config in configs
]
RAW_TYPES = "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary"
ARRIVED = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - Spark takes it as the session's


class NothingKnown:
    def versions(self, wanted):
        del wanted
        return {}

    def of_tables(self, tables):
        del tables
        return ()


def protocol_of(case, overrides=None, known=None):
    encoding = "avro" if "avro" in case.config else "json"
    return simple_protocol(encoding, "UTC", overrides or {}, known or NothingKnown())


def raw_frame(spark, records):
    """Records as the source gives them, numbered by partition."""
    ends = Counter()
    rows = []
    for record in records:
        at = record.topic, record.partition
        key, value = (None if part is None else bytearray(part) for part in (record.key, record.value))
        rows.append((*at, ends[at], ARRIVED, key, value))
        ends[at] += 1
    return spark.createDataFrame(rows, RAW_TYPES).coalesce(1).select(*RAW)


def mapping_of(table, *, before=True):
    """Every column under its own name; of several versions the last decides."""
    targets, fields = {}, {}
    for seen in table.versions:
        for column in seen.version.columns:
            targets[column.name] = Target(column.name, column.type)
        fields[seen.version.version] = {column.name: column.name for column in seen.version.columns}
    return ColumnMapping(tuple(targets.values()), fields, before=before)


def decoded(spark, case):
    """(protocol, prepared, messages) of a whole case."""
    protocol = protocol_of(case)
    prepared = protocol.prepare(raw_frame(spark, case.records)).cache()
    return protocol, prepared, protocol.read(prepared)


def python_values(struct, schema):
    """A row of Spark's as the golden helpers know values."""
    return {field.name: _plain(struct[field.name], field.dataType.simpleString()) for field in schema.fields}


def _plain(value, kind):
    if isinstance(value, bytearray):
        return bytes(value)
    return dt.datetime.fromtimestamp(value.timestamp(), dt.UTC) if kind == "timestamp" and value else value


def replayed(frame, columns):
    """The rows that are left: a multiset. A transaction first takes the rows as they were, then gives new ones."""
    rows = sorted(frame.collect(), key=lambda row: row[change.COMMIT_TS])
    assert {row[change.ERROR] for row in rows} <= {None}
    left = []
    for _, together in groupby(rows, key=lambda row: row[change.COMMIT_TS]):
        transaction = list(together)
        for row in transaction:
            if row[change.BEFORE] is not None:
                was = python_values(row[change.BEFORE], frame.schema[change.BEFORE].dataType)
                left.remove(next(one for one in left if all(one.values[name] == was[name] for name in columns)))
        for row in transaction:
            if row[change.OP] != "delete":
                left.append(Row(python_values(row, frame.schema), dict(row[change.UNREPRESENTABLE] or {})))
            else:
                after = python_values(row, frame.schema)
                was = python_values(row[change.BEFORE], frame.schema[change.BEFORE].dataType)
                assert {name: after[name] for name in was} == was
    return left, len(rows)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_table_is_tidbs_after_all_changes(case, spark):
    protocol, prepared, messages = decoded(spark, case)
    assert protocol.ordering is Ordering.BY_COMMIT_TS
    assert (messages.refused, messages.unknown) == ((), ())
    rows = [record for record in case.records if record.kind == "row"]
    assert messages.events == len(case.records)
    assert messages.control == len(case.records) - len(rows)
    assert sum(table.rows for table in messages.tables) == len(rows)
    tables = {str(table.table): table for table in messages.tables}
    for source, expected in tables_at_the_end(case).items():
        sent = [raw["name"] for raw in case.final[source]["columns"] if raw.get("generated") != "virtual"]
        if source not in tables:
            assert not expected.rows, source
            continue
        mine = tables[source]
        rows = prepared.where(protocol.where(mine))
        compare(protocol.recipe(mine, mapping_of(mine)).of(rows), mine, sent, expected)
    prepared.unpersist()


def compare(frame, table, sent, expected):
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert [types[name] for name in sent] == [column.type for column in expected.columns]
    own = dict(zip((column.name for column in expected.columns), sent, strict=True))
    wanted = [
        Row({own[name]: value for name, value in row.values.items()}, {own[n]: text for n, text in row.lost.items()})
        for row in expected.rows
    ]
    found, rows = replayed(frame, sent)
    assert rows == table.rows
    assert_none(rows_differ(expected.name, sent, (), wanted, found))
