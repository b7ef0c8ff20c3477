"""Canal-JSON has statements in partition 0 alone: rows of other partitions that a batch reads sooner wait for them."""

import json
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from e2e.processes import spark_of
from golden.warehouse import Warehouse
from support.slow import few
from support.steps import watch

from pipeline.service import Pipeline
from pipeline.settings import load

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

TS = 450_000_000_000_000_000
TYPES = {"id": "int", "e": "enum", "d": "decimal", "f": "decimal"}
CREATE = "CREATE TABLE `s`.`t` (`id` INT PRIMARY KEY,`e` ENUM('a','b'),`d` DECIMAL(10,2))"
MEMBERS = "ALTER TABLE `s`.`t` MODIFY COLUMN `e` ENUM('x','a','b')"
RENAMED = "ALTER TABLE `s`.`t` RENAME COLUMN `d` TO `f`"
TABLE = {"id": "int", "e": "string", "f": "decimal(10,2)"}


def message(op, commit_ts, **more):
    nothing = dict.fromkeys(("pkNames", "sqlType", "mysqlType", "old", "data"))
    sent = {"id": 0, "database": "s", "table": "t", "isDdl": False, "type": op, "es": 1, "ts": 1, "sql": "", **nothing}
    whole = sent | {"_tidb": {"commitTs": commit_ts}} | more
    return json.dumps(whole, separators=(",", ":")).encode()  # as TiCDC does


def row(commit_ts, **values):
    types = {"sqlType": dict.fromkeys(values, 4), "mysqlType": {name: TYPES[name] for name in values}}
    return message("INSERT", commit_ts, pkNames=["id"], data=[values], **types)


def statement(commit_ts, sql, op="ALTER"):
    return message(op, commit_ts, isDdl=True, sql=sql)


def watermark(commit_ts):
    return message("TIDB_WATERMARK", commit_ts, database="", table="", _tidb={"watermarkTs": commit_ts})


class Topic:
    """A topic of two partitions, and a pipeline that reads it in batches of few records."""

    def __init__(self, stack, folder):
        self.name, self.folder = f"ahead-{uuid.uuid4().hex[:8]}", folder
        servers = {"bootstrap.servers": stack.bootstrap_servers}
        admin = AdminClient(servers)
        (made,) = admin.create_topics([NewTopic(self.name, 2, 1)]).values()
        made.result(30)
        self.producer = Producer({**servers, "linger.ms": 0})
        tree = {
            "name": "ahead",
            "source": {
                "kind": "kafka", "protocol": "canal-json", "bootstrap_servers": stack.bootstrap_servers,
                "topics": [self.name], "max_offsets_per_trigger": 75,
            },
            "warehouse": {"path": "./warehouse"},
            "checkpoint": "./checkpoint",
            "spark": spark_of(),
        }  # fmt: skip
        self.file = folder / "ticdc-warehouse.yaml"
        self.file.write_text(json.dumps(tree))

    def send(self, partition, *values):
        for value in values:
            self.producer.produce(self.name, value, partition=partition)
        self.producer.flush(30)

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")


class Died(Exception):
    """The process has ended, as far as the warehouse can tell."""


def run_until(topic, step):
    """Run to the end, or until this durable step."""

    def die(name):
        if name == step:
            raise Died

    with Pipeline.open(load(topic.file)) as pipeline:
        watch(pipeline, die)
        pipeline.run(available_now=True)


@pytest.mark.parametrize(
    "deaths",
    few(("changes-appended",), (), ("changes-appended", "read"), ("cuts-appended",), ("dead-letters-appended",)),
    ids=str,
)
def test_rows_of_the_first_batch_come_after_statements_of_the_second(stack, tmp_path, deaths):
    """Spark takes of each partition by its length: of 88 records and 5 it takes 70 and 4."""
    topic = Topic(stack, tmp_path)
    fillers = [row(TS + 10 + number, id=str(-number), e="1", d="0.10") for number in range(1, 81)]
    topic.send(0, statement(TS, CREATE, "CREATE"), watermark(TS + 1), *fillers)
    topic.send(1, watermark(TS + 1), row(TS + 50, id="1", e="2", d="1.50"))
    topic.send(0, statement(TS + 100, MEMBERS), *(row(TS + 101, id=str(-n), e="2", d="0.20") for n in range(90, 93)))
    topic.send(1, row(TS + 110, id="2", e="2", d="2.50"))
    topic.send(0, statement(TS + 120, RENAMED))
    topic.send(1, row(TS + 130, id="3", e="1", f="3.50"))
    for partition in (0, 1):
        topic.send(partition, watermark(TS + 200))
    for step in deaths:
        with pytest.raises(Died):
            run_until(topic, step)
    run_until(topic, None)
    warehouse = topic.warehouse
    first, second = sorted(warehouse.own("batches"), key=lambda one: one["batch_id"])
    assert [json.loads(first["end_offsets"])[topic.name][at] for at in "01"] == [70, 4]
    current = warehouse.current("s.t")
    assert {name: str(kind) for name, kind in current.types.items()} == TABLE
    rows = {one.values["id"]: one.values for one in current.rows}
    assert [(rows[key]["e"], str(rows[key]["f"])) for key in (1, 2, 3)] == [("b", "1.50"), ("a", "2.50"), ("x", "3.50")]
    assert len(rows) == 86
    history = {one["sql"]: one["status"] for one in warehouse.own("ddl_history") if one["sql"]}
    assert history == dict.fromkeys((CREATE, MEMBERS, RENAMED), "applied")
    held = warehouse.own("held")
    assert sorted(one["offset"] for one in held if one["kafka_partition"] == 0) == [82, 86]
    assert sorted(one["offset"] for one in held if one["kafka_partition"] == 1) == [2, 3]
    assert {one["status"] for one in held} == {"released"}
    assert second["level"] == "exact"
