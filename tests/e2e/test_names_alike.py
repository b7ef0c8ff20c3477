"""Names that Avro cannot write: DDL events have the source's names, rows the sanitised ones."""

import json
import uuid

import pytest
from e2e.processes import spark_of
from golden.warehouse import Warehouse

from pipeline.service import Pipeline
from pipeline.settings import load
from pipeline.simulate import SimulatedChangefeed
from pipeline.simulate.avro import ddl_message
from pipeline.simulate.database import RowEvent
from pipeline.simulate.schemas import topic_of
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

CREATE, DROP, ADD_COLUMN, TRUNCATE, MODIFY, RENAME, DROP_DATABASE = 3, 4, 5, 11, 12, 14, 2
ID, V = SimulatedColumn("id", "int", nullable=False), SimulatedColumn("v", "int")


def table(name, *columns, version=1, schema="s"):
    return SimulatedTable(schema, name, columns or (ID, V), primary_key=("id",), version=version)


class Source:
    """Sends what the source's statements and rows would be, by commit ts, and takes it into a warehouse."""

    def __init__(self, stack, folder):
        self.folder, self.prefix, self.ts = folder, f"alike{uuid.uuid4().hex[:6]}", 450_000_000_000_000_000
        self.feed = SimulatedChangefeed(
            stack.bootstrap_servers, stack.registry_url, prefix=self.prefix, watermarks=True
        )
        tree = {
            "name": "alike",
            "source": {
                "kind": "kafka",
                "protocol": "avro",
                "bootstrap_servers": stack.bootstrap_servers,
                "topic_pattern": f"{self.prefix}_.*",
            },
            "registry": {"url": stack.registry_url},
            "warehouse": {"path": "./warehouse"},
            "checkpoint": "./checkpoint",
            "spark": spark_of(),
        }
        self.file = folder / "ticdc-warehouse.yaml"
        self.file.write_text(json.dumps(tree))

    def tick(self):
        self.ts += 1 << 18
        return self.ts

    def say(self, sql, action, name, sent_to="", schema="s"):
        """A statement whose event names a table; `sent_to`: the table whose topic it goes to, if that is another."""
        topic = topic_of(self.prefix, schema, sent_to or name)
        self.feed._channel.broadcast(topic, ddl_message(sql, action, schema, name, self.tick()))

    def rows(self, of, *rows):
        for row in rows:
            image = dict(zip((column.name for column in of.columns), row, strict=True))
            self.feed._sender.row(RowEvent(of, "insert", None, image, 1), self.tick())

    def sent(self):
        self.feed.checkpoint(self.ts)
        self.feed.flush()

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")

    def current(self, name):
        return sorted(tuple(row.values.values()) for row in self.warehouse.current(name).rows)


@pytest.fixture
def source(stack, tmp_path):
    made = Source(stack, tmp_path)
    yield made
    made.feed.close()


def test_statements_reach_the_rows_of_a_table_whose_names_are_sanitised(source):
    with Pipeline.open(load(source.file)) as pipeline:

        def now(name, columns, rows):
            source.sent()
            pipeline.run(available_now=True)
            assert source.warehouse.current_names() == [f"s.{name}"]
            assert list(source.warehouse.current(f"s.{name}").types) == columns
            assert source.current(f"s.{name}") == rows

        source.say("CREATE TABLE `s`.`a-b` (`id` INT PRIMARY KEY,`v` INT)", CREATE, "a-b")
        source.rows(table("a-b"), (1, 10), (2, 20))
        now("a_b", ["id", "v"], [(1, 10), (2, 20)])
        source.say("ALTER TABLE `s`.`a-b` ADD COLUMN `w-1` INT NOT NULL DEFAULT 5", ADD_COLUMN, "a-b")
        now("a_b", ["id", "v", "w_1"], [(1, 10, 5), (2, 20, 5)])
        source.say("ALTER TABLE `s`.`a-b` RENAME COLUMN `v` TO `价`", MODIFY, "a-b")
        now("a_b", ["id", "_", "w_1"], [(1, 10, 5), (2, 20, 5)])
        source.say("RENAME TABLE `s`.`a-b` TO `s`.`c d`", RENAME, "c d", sent_to="a-b")
        wider = (ID, SimulatedColumn("价", "int"), SimulatedColumn("w-1", "int", nullable=False, default="5"))
        source.rows(table("c d", *wider, version=2), (3, 30, 6))
        now("c_d", ["id", "_", "w_1"], [(1, 10, 5), (2, 20, 5), (3, 30, 6)])
        source.say("TRUNCATE TABLE `s`.`c d`", TRUNCATE, "c d")
        source.rows(table("c d", *wider, version=2), (4, 40, 6))
        now("c_d", ["id", "_", "w_1"], [(4, 40, 6)])
        source.say("DROP TABLE `s`.`c d`", DROP, "c d")
        source.say("CREATE TABLE `s`.`c d` (`id` INT PRIMARY KEY,`z` TEXT)", CREATE, "c d")
        source.rows(table("c d", ID, SimulatedColumn("z", "text"), version=3), (5, "new"))
        source.sent()
        pipeline.run(available_now=True)
        assert source.current("s.c_d") == [(5, "new")]
        (kept,) = [name for name in source.warehouse.current_names() if name != "s.c_d"]
        assert kept.startswith("s.c_d__dropped_")
    names = {(row["schema_name"], row["table_name"]) for row in source.warehouse.own("ddl_history")}
    assert names == {("s", "a_b"), ("s", "c_d")}
    assert {row["status"] for row in source.warehouse.own("ddl_history")} == {"applied"}


@pytest.mark.slow
def test_tables_of_one_sanitised_name_are_told_apart_by_topic_and_else_held(source):
    hyphen, underscore, blank, plain = (table(name) for name in ("o-i", "o_i", "x y", "x_y"))
    apart = f"o_i@{source.prefix}_s_o-i"
    with Pipeline.open(load(source.file)) as pipeline:

        def now():
            source.sent()
            pipeline.run(available_now=True)

        for one in (hyphen, underscore, blank):
            source.say(f"CREATE TABLE `s`.`{one.name}` (`id` INT PRIMARY KEY,`v` INT)", CREATE, one.name)
        source.rows(hyphen, (1, 10), (2, 20))
        source.rows(underscore, (1, 77))
        source.rows(blank, (1, 5))
        now()
        assert source.current("s.o_i") == [(1, 77)]
        assert source.current(f"s.{apart}") == [(1, 10), (2, 20)]
        source.say("TRUNCATE TABLE `s`.`o-i`", TRUNCATE, "o-i")
        source.rows(hyphen, (3, 30))
        source.say("CREATE TABLE `s`.`x_y` (`id` INT PRIMARY KEY,`v` INT)", CREATE, "x_y")
        source.rows(plain, (1, 6))
        source.say("TRUNCATE TABLE `s`.`x_y`", TRUNCATE, "x_y")
        now()
        assert source.current("s.o_i") == [(1, 77)]
        assert source.current(f"s.{apart}") == [(3, 30)]
        assert source.current("s.x_y") == [(1, 5)]
        states = {row["table_name"]: row for row in source.warehouse.own("tables")}
        assert {name: row["state"] for name, row in states.items()} == {"o_i": "live", apart: "live", "x_y": "held"}
        assert "TiCDC sends both s.x y and s.x_y as s.x_y" in states["x_y"]["held_reason"]
        assert len(source.warehouse.own("held")) > 0
        source.say("DROP TABLE `s`.`o_i`", DROP, "o_i")
        now()
        assert source.current(f"s.{apart}") == [(3, 30)]
        states = {row["table_name"]: row["state"] for row in source.warehouse.own("tables")}
        assert states == {"o_i": "dropped", apart: "live", "x_y": "held"}
