"""A table whose rows come without a key: it is held, says what helps, and never stops the pipeline."""

import io
import json
from types import SimpleNamespace

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from golden.corpus import Record, Registered
from golden.faults import FaultCase

from pipeline.cli.checkup.warehouse import examined
from pipeline.errors import Refused
from pipeline.lake import table_metadata
from pipeline.lake.catalog import reader
from pipeline.model.holding import GET_A_KEY, NAMELESS
from pipeline.model.names import TableName
from pipeline.operations import release
from pipeline.operations.redrive import DEAD_LETTERS, Selection, redrive
from pipeline.service import Pipeline
from pipeline.service.dispatch import REBUILD, RELEASE

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

CASE = FaultCase("a10_no_key")
LOG = TableName("nk", "log")
HELD = f"nk.log is held ({NAMELESS}); to go on: {GET_A_KEY}"


def refused(run, what):
    with pytest.raises(Refused) as caught:
        run.pipeline.operation(what, (LOG.schema, LOG.table))
    return caught.value.code, caught.value.hint


def told(run):
    """What `tables list` says, and `doctor`."""
    found = reader(run.settings)
    diagnosed = [(one.sentence, one.todo) for one in examined(run.settings) if one.sentence.startswith("nk.log")]
    return table_metadata.sentences(table_metadata.pairs(found)), diagnosed


def waiting(run):
    return [row["status"] for row in run.warehouse.own("held")]


def send_with_key(run, line):
    """As TiCDC sends the row once the table has a primary key."""
    loaded = run.loaded
    topic = f"{loaded.prefix}_tidb_pa_nk_log"
    column = {"name": "line", "type": {"type": "string", "connect.parameters": {"tidb_type": "TEXT"}}}
    schema = {"type": "record", "name": "log", "namespace": "default.nk", "fields": [column]}
    with SchemaRegistryClient({"url": loaded.stack.registry_url}) as registry:
        number = registry.register_schema(f"{topic}-key", Schema(json.dumps(schema), "AVRO"))
    last = loaded._rewritten(CASE.records[1], CASE.records[1].value, "value")
    text = line.encode()
    string = bytes([2 * len(text)]) + text
    value = last[:5] + b"\x02" + string + last[5 + 3 :]
    producer = Producer({"bootstrap.servers": loaded.stack.bootstrap_servers})
    producer.produce(topic, key=b"\x00" + number.to_bytes(4, "big") + string, value=value, partition=0)
    assert producer.flush(30) == 0
    loaded.sent.append(CASE.records[0])  # it counts offsets


def test_what_cannot_be_released_says_what_helps_and_nothing_else_breaks(running):
    with running(CASE) as run:
        run.take()
        assert refused(run, RELEASE) == ("NO_HANDLE_KEY", GET_A_KEY)
        assert refused(run, REBUILD) == ("NO_HANDLE_KEY", GET_A_KEY)
        assert told(run) == ([HELD], [(f"nk.log is held: {NAMELESS}", GET_A_KEY)])
        run.restart()
        run.take()
        assert refused(run, RELEASE) == ("NO_HANDLE_KEY", GET_A_KEY)
        assert told(run)[0] == [HELD]
        assert waiting(run) == ["open"] * 4
        assert (run.warehouse.current("nk.log").rows, run.warehouse.changes()["nk.log"]) == ([], [])


def test_a_release_that_an_earlier_version_has_begun_holds_the_table_again(running, monkeypatch):
    with running(CASE) as run:
        run.take()
        context = run.pipeline.context
        monkeypatch.setattr(release, "_named_rows", lambda _, __, rows, ___: (rows, context.protocol.read(rows), ()))
        with pytest.raises(IndexError):
            run.pipeline.operation(RELEASE, (LOG.schema, LOG.table))
        assert len(run.warehouse.changes()["nk.log"]) == 2
        monkeypatch.undo()
        run.restart()
        assert told(run)[0] == [HELD]
        assert (waiting(run), run.warehouse.changes()["nk.log"]) == (["open"] * 2, [])
        run.take()
        assert told(run)[0] == [HELD]


def test_when_its_rows_come_with_a_key_it_is_released_and_the_others_are_dead_letters(running):
    with running(CASE) as run:
        run.take()
        send_with_key(run, "y")
        run.pipeline.run(available_now=True)
        run.pipeline.operation(RELEASE, (LOG.schema, LOG.table))
        assert [row.values for row in run.warehouse.current("nk.log").rows] == [{"line": "y"}]
        letters = [(row["code"], row["status"]) for row in run.warehouse.own("dead_letters")]
        assert sorted(letters) == [("EMPTY_MESSAGE", "open"), *[("NO_HANDLE_KEY", "open")] * 2]
        assert waiting(run) == ["released"] * 3
        send_with_key(run, "z")
        run.pipeline.run(available_now=True)
        redrive(run.pipeline.context, Selection(DEAD_LETTERS))
        assert sorted(row.values["line"] for row in run.warehouse.current("nk.log").rows) == ["y", "z"]
        assert told(run) == ([], [])


def test_a_key_that_is_gone_holds_its_table_though_the_schema_is_the_same(running):
    with running(CASE) as run:
        send_with_key_first(run)
        assert [row.values for row in run.warehouse.current("nk.log").rows] == [{"line": "y"}]
        run.take()
        assert told(run)[0] == [HELD]
        assert refused(run, RELEASE) == ("NO_HANDLE_KEY", GET_A_KEY)
        assert [row.values for row in run.warehouse.current("nk.log").rows] == [{"line": "y"}]


def send_with_key_first(run):
    run.loaded._create_topics({CASE.records[0].topic})
    send_with_key(run, "y")
    run.pipeline.run(available_now=True)


def test_without_its_topic_the_pipeline_goes_on(running, tmp_path):
    with running(CASE) as run:
        run.take()
        run.pipeline.close()
        rest = {"topic_pattern": f"{run.loaded.prefix}_(?!tidb_pa_nk_log).*"}
        run.settings = run.loaded.settings(tmp_path, source=rest)
        run.pipeline = Pipeline.open(run.settings)
        run.pipeline.run(available_now=True)
        assert told(run)[0] == [HELD]


def column(name, tidb_type, avro_type, *, null=False):
    kind = {"type": avro_type, "connect.parameters": {"tidb_type": tidb_type}}
    return {"name": name, "type": ["null", kind] if null else kind}


COLUMNS = [column("id", "INT", "int"), column("v", "TEXT", "string", null=True)]
EXTENSION = [
    {"name": "_tidb_op", "type": "string"},
    {"name": "_tidb_commit_ts", "type": "long"},
    {"name": "_tidb_commit_physical_time", "type": "long"},
]
OLD = {"name": "_ticdc_before", "type": ["null", {"type": "record", "name": "part_before", "fields": COLUMNS}]}
PLAIN, WITH_OLD = (
    {"type": "record", "name": "part", "namespace": "default.nk", "fields": [*COLUMNS, *more, *EXTENSION]}
    for more in ([], [OLD])
)
TOPIC = "tidb_nk_part"


def sent(number, schema, op, row, before=None):
    """A row without a key, as the new architecture sends it."""
    values = {**row, "_ticdc_before": before, "_tidb_op": op, "_tidb_commit_ts": number << 18}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, {**values, "_tidb_commit_physical_time": number})
    value = b"\x00" + (2 if schema is WITH_OLD else 1).to_bytes(4, "big") + body.getvalue()
    return Record(number, number, TOPIC, 0, None, value, 0, "row", "nk.part")


def part(*records):
    """A changefeed of a table whose only key is a unique one."""
    schemas = [
        Registered(f"{TOPIC}-value", at, at, json.dumps(one)) for at, one in enumerate((PLAIN, WITH_OLD), start=1)
    ]
    return SimpleNamespace(
        records=records, schemas=schemas, protocol="avro", encoding=None, partitions=1, by_cut=False,
        has_extension=True, decimals_as_text=False, has_ddl=False,
    )  # fmt: skip


def parts(run):
    return sorted((row.values["id"], row.values["v"]) for row in run.warehouse.current("nk.part").rows)


OF_BEFORE = (
    sent(3, WITH_OLD, "c", {"id": 1, "v": "a"}),
    sent(4, WITH_OLD, "c", {"id": 2, "v": "x"}),
    sent(5, WITH_OLD, "u", {"id": 1, "v": None}, {"id": 1, "v": "a"}),
    sent(6, WITH_OLD, "u", {"id": 3, "v": "x"}, {"id": 2, "v": "x"}),
    sent(7, WITH_OLD, "d", {"id": 1, "v": None}, {"id": 1, "v": None}),
)


def test_with_old_values_it_is_released_and_read_as_any_other_also_when_it_is_sent_again(running):
    without = sent(2, PLAIN, "c", {"id": 9, "v": "gone since"})
    with running(part(without, *OF_BEFORE)) as run:
        run.take([without])
        with pytest.raises(Refused, match="NO_HANDLE_KEY"):
            run.pipeline.operation(RELEASE, ("nk", "part"))
        run.take(OF_BEFORE[:4])
        run.pipeline.operation(RELEASE, ("nk", "part"))
        assert parts(run) == [(1, None), (3, "x")]
        run.take(OF_BEFORE[4:])
        assert parts(run) == [(3, "x")]
        run.take(OF_BEFORE[2:])
        assert parts(run) == [(3, "x")]
        run.pipeline.operation(REBUILD, ("nk", "part"))
        assert parts(run) == [(3, "x")]
        assert [row["code"] for row in run.warehouse.own("dead_letters")] == ["NO_HANDLE_KEY"]
        changes = {row["_commit_ts"] >> 18: row["_before"] for row in run.warehouse.changes()["nk.part"]}
        assert (changes[3], changes[6]["id"], changes[6]["v"], changes[7]["id"]) == (None, 2, "x", 1)
