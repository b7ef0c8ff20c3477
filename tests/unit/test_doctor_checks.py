"""The lines of `doctor` that need neither Spark nor a broker: machine, warehouse, Kafka, what messages hint at."""

import ast
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from filelock import FileLock
from golden.faults import FaultCase
from pyiceberg.catalog.sql import SqlCatalog
from unit.configuration import SMALL
from unit.test_report_cli import schema

from pipeline.cli import doctor
from pipeline.cli.checkup import changefeed, findings, kafka, machine, messages, warehouse, whole
from pipeline.cli.checkup.findings import Mark, guarded
from pipeline.errors import EnvironmentFault, SettingsError
from pipeline.lake import ledger as lake_ledger
from pipeline.model.change import ENVELOPE
from pipeline.model.columns import SourceColumn, TableVersion
from pipeline.model.messages import Messages, Ordering, SeenVersion, TableMessages, Undecodable, Unknown
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.protocols.build import READERS
from pipeline.protocols.compressed import MESSAGE_COMPRESSED, SENTENCES
from pipeline.runtime.jars import ledger
from pipeline.runtime.jars.pins import edition, read_pins
from pipeline.settings import parse
from pipeline.sources.kafka.offsets import KafkaState
from pipeline.sources.source import Committed, Stream
from pipeline.warehouse.clone.aligned import SHARED
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.pairs import State, written_state
from pipeline.warehouse.state import LAYOUT, ROLE, SOURCE_SCHEMA, SOURCE_TABLE
from pipeline.warehouse.state import STATE_FORM as FORM

ORDERS = TableName("shop", "orders")


@pytest.fixture
def settings(tmp_path):
    return parse(SMALL, tmp_path)


def with_source(tmp_path, protocol, more=""):
    source = f'kind: kafka, protocol: {protocol}, bootstrap_servers: "localhost:9", topics: [t]{more}'
    text = SMALL.replace('kind: kafka, protocol: avro, bootstrap_servers: "localhost:9", topics: [t]', source)
    if protocol != "avro":
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("registry"))
    return parse(text, tmp_path)


def told(findings, mark=None):
    return [(one.mark, one.sentence) for one in findings if mark in (None, one.mark)]


class TestMachine:
    def test_a_java_that_is_not_there_is_wrong(self, monkeypatch, tmp_path):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        python, java = guarded("java", machine.programs())
        assert (python.mark, java.mark) == (Mark.FINE, Mark.WRONG)
        assert java.sentence.startswith("JAVA_MISSING: JAVA_HOME is ")
        assert java.todo

    def test_a_java_that_spark_does_not_run_on_is_wrong(self, monkeypatch, tmp_path):
        executable = tmp_path / "bin" / "java"
        executable.parent.mkdir()
        executable.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
        executable.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        _, java = guarded("java", machine.programs())
        assert java.mark is Mark.WRONG
        assert "is Java 11, and Spark 4.0 runs on Java" in java.sentence

    def test_jars_that_are_not_there_are_named_with_the_command_and_not_fetched(self, monkeypatch, tmp_path):
        monkeypatch.delenv("TICDC_WAREHOUSE_JARS", raising=False)
        monkeypatch.setenv("TICDC_WAREHOUSE_CACHE", str(tmp_path / "cache"))
        (jars,) = guarded("jars", machine.libraries())
        assert (jars.mark, list(tmp_path.iterdir())) == (Mark.WRONG, [])
        assert jars.sentence.startswith(f"{len(read_pins())} files missing in {tmp_path / 'cache'}/artefacts-")
        assert ".jar, " in jars.sentence
        assert jars.todo.startswith("run python -m pipeline.devstack fetch ")

    def test_one_jar_that_has_gone_is_named(self, monkeypatch, tmp_path):
        monkeypatch.delenv("TICDC_WAREHOUSE_JARS", raising=False)
        monkeypatch.setenv("TICDC_WAREHOUSE_CACHE", str(tmp_path))
        home = tmp_path / f"artefacts-{edition(read_pins())}"
        for path in read_pins():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).touch()
        ledger.write(home, edition(read_pins()))
        gone = next(iter(read_pins()))
        (home / gone).unlink()
        (jars,) = guarded("jars", machine.libraries())
        assert (jars.mark, jars.sentence) == (Mark.WRONG, f"1 file missing in {home}: {gone}")

    def test_without_java_nothing_is_asked_that_needs_it(self, monkeypatch, tmp_path):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        monkeypatch.setattr(machine, "lacking", lambda: (tmp_path, ["spark/a.jar"]))
        (tmp_path / "ticdc-warehouse.yaml").write_text(SMALL)
        found = list(doctor.examined(tmp_path / "ticdc-warehouse.yaml"))
        assert {"settings", "java", "jars", "memory", "warehouse"} <= {one.about for one in found}
        assert "nothing in it yet: the first run makes the tables" in [one.sentence for one in found]
        assert not {"kafka", "registry", "messages", "spark"} & {one.about for one in found}

    @pytest.mark.parametrize(("asked", "mark"), [("1m", Mark.FINE), ("900t", Mark.NOTE)])
    def test_more_memory_than_there_is_is_told(self, tmp_path, asked, mark):
        settings = parse(SMALL + f"spark: {{conf: {{spark.driver.memory: {asked}}}}}\n", tmp_path)
        (memory,) = machine.memory(settings)
        assert memory.mark is mark
        assert ("spark.driver.memory" in memory.todo) is (mark is Mark.NOTE)

    @pytest.mark.parametrize(("free", "mark"), [(10**9, Mark.NOTE), (10**12, Mark.FINE)])
    def test_a_disk_that_is_nearly_full_is_told_of_each_folder(self, monkeypatch, settings, free, mark):
        monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=free))
        assert [(one.about, one.mark) for one in machine.folders(settings)] == [
            ("warehouse", mark),
            ("checkpoint", mark),
        ]

    def test_a_folder_that_cannot_be_written_is_wrong(self, settings, tmp_path):
        (tmp_path / "warehouse").touch()  # root may write every folder
        warehouse, checkpoint = machine.folders(settings)
        assert warehouse.mark is Mark.WRONG
        assert warehouse.sentence == f"this user cannot write to {tmp_path / 'warehouse'}: Not a directory"
        assert warehouse.todo == f"let the user that runs the pipeline write to {tmp_path / 'warehouse'}"
        assert checkpoint.mark is Mark.FINE

    def test_a_folder_is_tried_by_a_file_of_which_nothing_is_left(self, monkeypatch, settings):
        made, true = [], tempfile.NamedTemporaryFile

        def watched(**given):
            file = true(**given)
            made.append(Path(file.name))
            return file

        monkeypatch.setattr(tempfile, "NamedTemporaryFile", watched)
        settings.warehouse.path.mkdir()
        first, second = machine.folders(settings)
        assert first.sentence.startswith(f"{settings.warehouse.path}: a file was written there and removed, ")
        assert second.sentence.startswith(f"{settings.checkpoint}: can be made, ")
        assert [file.parent for file in made] == [settings.warehouse.path, settings.checkpoint.parent]
        assert not any(file.exists() for file in made)
        assert not settings.checkpoint.exists()


ARROW = {
    "string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "timestamp": pa.timestamp("us", "UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}  # fmt: skip


class Shelf:
    """A warehouse that PyIceberg writes."""

    def __init__(self, folder):
        self.folder = folder / "warehouse"
        self.folder.mkdir()
        self.catalog = SqlCatalog(
            "warehouse", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=f"file://{self.folder}"
        )
        for namespace in ("_pipeline", "shop"):
            self.catalog.create_namespace(namespace)

    def own(self, name, *rows, **properties):
        table = self.catalog.create_table(f"_pipeline.{name}", schema(name), properties=properties)
        if rows:
            whole = [{**dict.fromkeys(schema(name).names), **row} for row in rows]
            table.append(pa.Table.from_pylist(whole, schema(name)))

    def changes(self, name, state, reason=""):
        about = SOURCE_SCHEMA.entry("shop") | SOURCE_TABLE.entry(name) | ROLE.entry("changes")
        columns = pa.schema([(column, ARROW[kind]) for column, kind in ENVELOPE.items()])
        properties = about | written_state(State(state), reason) | LAYOUT.entry(Layout())
        self.catalog.create_table(f"shop.{name}__changes", columns, properties=properties)

    def current(self, name):
        """With field ids of its own, as earlier versions made it."""
        about = SOURCE_SCHEMA.entry("shop") | SOURCE_TABLE.entry(name) | ROLE.entry("current")
        columns = pa.schema([(column, ARROW[ENVELOPE[column]]) for column in SHARED])
        self.catalog.create_table(f"shop.{name}", columns, properties=about | LAYOUT.entry(Layout()))


@pytest.fixture
def shelf(tmp_path):
    made = Shelf(tmp_path)
    yield made
    made.catalog.close()


class TestWarehouse:
    def test_one_that_a_newer_version_has_written_is_wrong(self, shelf, settings):
        shelf.own("batches", **FORM.entry(99))
        ((_, said),) = told(warehouse.examined(settings), Mark.WRONG)
        assert said.startswith("WAREHOUSE_NEWER: ")
        assert "its form is 99" in said

    def test_a_held_table_is_told_with_the_way_to_release_it(self, shelf, settings):
        shelf.changes("orders", "held", "DDL_NOT_UNDERSTOOD: EXCHANGE PARTITION")
        shelf.changes("items", "live")
        (held,) = [one for one in warehouse.examined(settings) if one.about == "tables"]
        assert held.sentence == "shop.orders is held: DDL_NOT_UNDERSTOOD: EXCHANGE PARTITION"
        assert held.mark is Mark.NOTE
        assert held.todo.startswith("repair its rows where they differ from the source")
        assert held.todo.endswith(", then ticdc-warehouse tables release shop.orders")

    def test_where_nothing_waits_that_is_one_line(self, shelf, settings):
        shelf.changes("items", "live")
        assert [one.sentence for one in warehouse.examined(settings) if one.about == "tables"] == ["no table is held"]

    def test_pairs_of_an_earlier_version_are_told(self, shelf, settings):
        for name in ("items", "orders"):
            shelf.changes(name, "live")
            shelf.current(name)
        (merged, _) = [one for one in warehouse.examined(settings) if one.about == "tables"]
        assert merged.mark is Mark.NOTE
        assert merged.sentence.endswith("2 tables of an earlier version by merging: shop.items, shop.orders")
        assert "docs/decisions/011" in merged.todo

    def test_what_waits_and_what_is_set_aside_is_told_with_the_command_that_shows_it(self, shelf, settings):
        now = schema("held").field("recorded_at").type
        moment = pa.scalar(1_700_000_000_000_000, now).as_py()
        row = {"recorded_at": moment, "schema_name": "shop", "table_name": "orders", "status": "open"}
        shelf.own("held", {**row, "reason": "SCHEMA_PENDING: version 7"})
        shelf.own("quarantine", row, row, {**row, "status": "redriven"})
        shelf.own("dead_letters", row)
        notes = [one for one in warehouse.examined(settings) if one.about == "tables"]
        assert [one.mark for one in notes] == [Mark.NOTE] * 3
        assert "shop.orders: 1 record waiting" in notes[0].sentence
        assert notes[0].todo.startswith("nothing to do: a run brings the records in ")
        assert notes[0].todo.endswith("ticdc-warehouse tables release shop.orders")
        assert {one.sentence: one.todo for one in notes[1:]} == {
            "2 rows in quarantine": "ticdc-warehouse quarantine list",
            "1 dead letter not read yet": "ticdc-warehouse quarantine list --dead-letters",
        }

    def test_a_writer_at_work_and_another_pipeline_are_told(self, shelf, settings):
        shelf.own("batches", {"pipeline": "stock"})
        lock = FileLock(shelf.folder / ".writer.lock")
        with lock:
            found = list(warehouse.examined(settings))
        assert any(
            one.about == "writer" and one.sentence.startswith("a process writes the warehouse: ") for one in found
        )
        assert "the pipeline stock wrote it, and the settings name shop" in [said for _, said in told(found)]
        assert "no process writes the warehouse now" in [said for _, said in told(warehouse.examined(settings))]


class Cluster:
    """Kafka, by the policy of its topics, and by what its user may not do."""

    def __init__(self, policies=(), unseen=(), may=("READ", "DESCRIBE", "DESCRIBE_CONFIGS"), nameless=()):
        self.policies, self.unseen, self.may = dict(policies), unseen, frozenset(may)
        self.nameless = nameless

    def cleanup_policies(self, topics):
        seen = "DESCRIBE_CONFIGS" in self.may
        return {topic: self.policies.get(topic, "delete") for topic in topics} if seen else {}

    def hidden(self, topics):
        return [topic for topic in topics if topic in self.unseen]

    def operations(self, topics):
        return dict.fromkeys(topics, self.may)

    def without_ids(self):
        return self.nameless

    def wanted(self, names):
        return frozenset(names)


def state(**ends):
    """Topics of one partition, by where they end."""
    places = {Partition(name, 0): end for name, end in ends.items()}
    topics = {name: Stream(name, f"id-{name}", (0,)) for name in ends}
    return KafkaState(topics, dict.fromkeys(places, 0), places)


class TestKafka:
    def test_a_broker_that_does_not_answer_is_wrong_and_nothing_else_is_asked(self, settings, monkeypatch):
        class Silent:
            def __init__(self, _spark, _settings):
                pass

            def within(self, _seconds):
                return self

            def recall(self, topics):
                assert topics == {}

            def topics(self):
                raise EnvironmentFault("KAFKA_UNREACHABLE", "localhost:9 does not answer", "is it up?")

            def close(self):
                pass

        monkeypatch.setattr(whole, "Cluster", Silent)
        with ExitStack() as resources:
            (one,) = guarded("kafka", whole._sources(settings, None, resources))
        assert (one.mark, one.about, one.todo) == (Mark.WRONG, "kafka", "is it up?")
        assert one.sentence == "KAFKA_UNREACHABLE: localhost:9 does not answer"

    def test_with_the_catalog_down_kafka_is_looked_at_all_the_same(self, settings, monkeypatch):
        def down(_settings):
            raise EnvironmentFault("CATALOG_UNREADABLE", "the rest catalog can't be read", "is it up?")

        class Answering(Cluster):
            def __init__(self, _spark, _settings):
                super().__init__()

            def names(self):
                return frozenset({"t"})

            def recall(self, topics):
                assert topics == {}

            def close(self):
                pass

        monkeypatch.setattr(warehouse, "reader", down)
        monkeypatch.setattr(lake_ledger, "reader", down)
        monkeypatch.setattr(whole, "Cluster", Answering)
        monkeypatch.setattr(whole, "state_of", lambda _cluster: state(t=3))
        with ExitStack() as resources:
            found = list(guarded("kafka", whole._sources(settings, None, resources)))
        lines = {one.about: one for one in reversed(found)}
        assert lines["kafka"].mark is Mark.FINE
        assert lines["permissions"].mark is Mark.FINE
        assert lines["offsets"].sentence.startswith("doctor does not know how far the tables are (CATALOG_UNREADABLE)")
        assert [one.about for one in guarded("warehouse", warehouse.examined(settings))] == ["warehouse"]

    def test_a_pattern_that_java_refuses_is_a_line_about_the_settings(self, settings, monkeypatch):
        def refusing(_spark, _settings):
            raise SettingsError("SETTINGS_INVALID", "source.topic_pattern: Java does not take it", "write another")

        monkeypatch.setattr(whole, "Cluster", refusing)
        with ExitStack() as resources:
            (one,) = guarded("kafka", whole._sources(settings, None, resources))
        assert (one.mark, one.about) == (Mark.WRONG, "settings")

    def test_without_java_a_pattern_is_said_not_to_have_been_judged(self, tmp_path):
        pattern = r"pr_\p{Alpha}{2}"
        settings = parse(SMALL.replace("topics: [t]", f"topic_pattern: '{pattern}'"), tmp_path)
        (one,) = (one for one in whole.examined(settings, able=False) if one.about == "settings")
        assert one.mark is Mark.NOTE
        assert pattern in one.sentence

    def test_topics_that_are_not_there_yet_are_no_mistake(self, settings):
        (one,) = kafka.examined(settings, Cluster(), state(), Committed())
        assert (one.mark, one.sentence) == (Mark.NOTE, "localhost:9 answers, but has none of: t")

    def test_a_topic_that_this_user_may_not_see_is_not_taken_for_one_that_is_not_there(self, settings):
        first, second = kafka.examined(settings, Cluster(unseen=["t"]), state(), Committed())
        assert (first.mark, first.about) == (Mark.WRONG, "permissions")
        assert first.sentence == "this user may not see t: the ACL for DESCRIBE on them is missing"
        assert "kafka-acls" in first.todo
        assert second.sentence == "localhost:9 answers, but has none of: t"

    def test_a_topic_that_this_user_may_not_read_is_wrong_with_the_acl_that_is_missing(self, settings):
        cluster, both = Cluster(may=["DESCRIBE", "DESCRIBE_CONFIGS"]), state(t=5, u=7)
        barred = kafka.barred(cluster, both)
        (one,) = told(kafka.examined(settings, cluster, both, Committed(), barred), Mark.WRONG)
        assert one[1] == "this user may not read t, u: the ACL for READ on them is missing"
        assert kafka.readable(both, barred) == state()
        assert kafka.readable(both, {"u"}) == state(t=5)

    def test_a_user_that_may_read_and_not_describe_settings_is_told_what_was_not_looked_at(self, settings):
        cluster = Cluster(may=["DESCRIBE", "READ"])
        assert kafka.barred(cluster, state(t=5)) == frozenset()
        found = list(kafka.examined(settings, cluster, state(t=5), Committed()))
        assert (Mark.FINE, "1 topic may be described and read") in told(found)
        ((_, said),) = told(found, Mark.NOTE)
        assert "the ACL for DESCRIBE_CONFIGS on them is missing" in said

    def test_topics_without_ids_are_worth_knowing_with_what_that_costs(self, settings):
        found = kafka.examined(settings, Cluster(nameless=["t"]), state(t=5), Committed())
        ((_, said),) = told(found, Mark.NOTE)
        assert said.startswith("the broker gives no topic id to t: a run notices a topic that was deleted and created")

    def test_progress_under_a_name_is_that_of_the_id_that_the_topic_has_got(self, settings):
        known = Committed({("name:t", 0): 3}, {"name:t": "t"})
        offsets = [
            one.sentence for one in kafka.examined(settings, Cluster(), state(t=5), known) if one.about == "offsets"
        ]
        assert offsets == ["2 records to be read"]

    def test_a_compacted_topic_is_wrong(self, settings):
        found = kafka.examined(settings, Cluster({"t": "compact,delete"}), state(t=5), Committed())
        ((_, said),) = told(found, Mark.WRONG)
        assert said.startswith("t: cleanup.policy is compact")

    def test_what_is_to_be_read_is_counted_from_where_the_tables_end(self, settings):
        known = Committed({("id-t", 0): 3}, {"id-t": "t"})
        offsets = [
            one.sentence for one in kafka.examined(settings, Cluster(), state(t=5), known) if one.about == "offsets"
        ]
        assert offsets == ["2 records to be read"]

    def test_offsets_that_would_refuse_a_run_are_wrong_with_what_accepts_them(self, settings):
        known = Committed({("id-t", 0): 9}, {"id-t": "t"})
        (one,) = [one for one in kafka.examined(settings, Cluster(), state(t=5), known) if one.about == "offsets"]
        assert (one.mark, one.sentence.partition(":")[0]) == (Mark.WRONG, "OFFSETS_SHRUNK")
        assert one.todo.endswith("--accept OFFSETS_SHRUNK")


def seen(handle=("id",), *, key_only=False, keys_vary=False):
    columns = (SourceColumn("id", "INT", "int"),)
    version = TableVersion(ORDERS, 1, columns, handle, keys_vary=keys_vary)
    return SeenVersion(version, {}, {}, 1, key_only=key_only)


def said(found, ordering=Ordering.BY_COMMIT_TS):
    return [one.sentence for one in messages._remarks(SimpleNamespace(ordering=ordering), found)]


WATERMARK = {Partition("t", 0): 1}


class TestMessages:
    @pytest.mark.parametrize(
        ("protocol", "found", "wanted"),
        [
            ("simple", Messages(), "v8.0 or newer"),
            ("open-protocol", Messages(), "any version"),
            ("avro", Messages(watermarks=WATERMARK), "v7.1 or newer"),
            ("avro", Messages(), "the messages do not show its version"),
        ],
    )
    def test_which_ticdc_can_have_sent_them_is_said_by_protocol(self, protocol, found, wanted):
        assert READERS[protocol].sent_by(found).startswith(wanted)

    @pytest.mark.parametrize(
        ("ordering", "marks", "events", "is_told"),
        [
            (Ordering.BY_COMMIT_TS, {}, 3, True),
            (Ordering.BY_COMMIT_TS, WATERMARK, 3, False),
            (Ordering.BY_COMMIT_TS, {}, 2, False),
            (Ordering.BY_OFFSET, {}, 3, False),
        ],
    )
    def test_by_cut_a_changefeed_without_watermarks_shows_nothing(self, ordering, marks, events, is_told):
        junk = Undecodable("X", "x", None, 2, None)
        found = said(Messages(watermarks=marks, events=events, refused=(junk,)), ordering)
        assert found == (["no watermark among the newest messages"] if is_told else [])

    @pytest.mark.parametrize(
        ("earlier", "first", "newest", "words"),
        [
            (None, Ordering.BY_COMMIT_TS, Ordering.BY_COMMIT_TS, None),
            (Ordering.BY_COMMIT_TS, Ordering.BY_COMMIT_TS, Ordering.BY_COMMIT_TS, None),
            (None, Ordering.BY_OFFSET, Ordering.BY_OFFSET, "a run applies changes by offset"),
            (Ordering.BY_OFFSET, Ordering.BY_OFFSET, Ordering.BY_OFFSET, "a run applies changes by offset"),
            (None, Ordering.BY_OFFSET, Ordering.BY_COMMIT_TS, "some rows have a commit ts and some have none"),
            (None, Ordering.BY_COMMIT_TS, Ordering.BY_OFFSET, "some rows have a commit ts and some have none"),
            (Ordering.BY_OFFSET, Ordering.BY_OFFSET, Ordering.BY_COMMIT_TS, "as it has begun"),
            (Ordering.BY_COMMIT_TS, Ordering.BY_COMMIT_TS, Ordering.BY_OFFSET, "(COMMIT_TS_MISSING)"),
        ],
    )
    def test_an_extension_that_comes_or_goes_is_told_by_the_order_of_the_warehouse(self, earlier, first, newest, words):
        sentences = [one.sentence for one in changefeed.extension(earlier, first, newest)]
        assert [words in sentence for sentence in sentences] == ([True] if words else [])

    def test_rows_that_nothing_describes_are_told(self):
        unknown = Unknown(ORDERS, 7, 3, 1, 2, where=None)
        assert said(Messages(unknown=(unknown,), watermarks=WATERMARK)) == [
            "shop.orders: no message among the newest describes the schema of its rows"
        ]

    def test_what_is_warned_of_several_tables_is_one_line(self):
        found = said(Messages(warnings=("a.b: x is y", "a.c: x is y", "a.d: z"), watermarks=WATERMARK))
        assert found == ["x is y (a.b, a.c)", "z (a.d)"]

    @pytest.mark.parametrize(
        ("version", "hint"),
        [
            (seen(()), "shop.orders has no handle key: "),
            (seen(keys_vary=True), "shop.orders: TiCDC has sent keys in several forms"),
            (seen((), key_only=True), ""),
            (seen(), ""),
        ],
    )
    def test_keys_that_tell_rows_apart_badly_are_hinted_at(self, version, hint):
        found = said(Messages(tables=(TableMessages(ORDERS, (version,)),), watermarks=WATERMARK))
        assert len(found) == bool(hint)
        assert all(one.startswith(hint) for one in found)

    @pytest.mark.parametrize(
        "warning",
        [
            "a.b: changefeed.x is string, but the messages say precise; they are read as sent",
            "a.b.c: no DDL that the changefeed has sent defines this ENUM; …numbers (MEMBERS_UNKNOWN)",
            "a.b has no key, and the changefeed sends no old values: …; set output-old-value = true in [sink.open]",
            "a.b: rows came before their schema; they are pending in _pipeline.held until a BOOTSTRAP or DDL …",
        ],
    )
    def test_each_warning_of_a_protocol_has_a_next_step_of_its_own(self, warning):
        (one,) = messages._warned([warning])
        assert one.todo in dict(messages._STEPS).values()


def calls():
    """Each `note` and `wrong` of doctor's modules."""
    for file in Path(findings.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("note", "wrong"):
                yield f"{file.name}:{node.lineno}", node.args


def test_messages_that_cannot_be_unpacked_are_to_be_inspected(settings):
    lz4 = FaultCase("d03_lz4_json", "simple", "json").records[1]
    row = {"topic": "t", "partition": 0, "offset": 7, "key": lz4.key, "value": lz4.value}
    frame = SimpleNamespace(where=lambda _: SimpleNamespace(select=lambda *_: SimpleNamespace(first=lambda: row)))
    refused = Undecodable(MESSAGE_COMPRESSED, SENTENCES[MESSAGE_COMPRESSED], None, 5)
    found = messages._refusal(settings, refused, frame, alone=True)
    assert found.mark is Mark.NOTE
    assert "compressed by lz4" in found.sentence
    assert found.todo.startswith("ticdc-warehouse inspect t ")


def test_what_is_not_in_order_is_told_with_a_next_step_everywhere():
    found = dict(calls())
    assert len(found) > 20
    for where, arguments in found.items():
        assert any(isinstance(one, ast.Starred) for one in arguments) or len(arguments) == 3, where
        assert not any(isinstance(one, ast.Constant) and not one.value for one in arguments), where


def test_an_error_without_a_hint_is_told_with_a_next_step():
    def fails():
        raise EnvironmentFault("SO", "it is so")
        yield

    (one,) = guarded("it", fails())
    assert (one.sentence, bool(one.todo)) == ("SO: it is so", True)
