"""`doctor` and `inspect` against a real broker and a real registry: what is wrong, and what one record is."""

import json
import shutil
import sqlite3
import uuid
from contextlib import closing

import pytest
import requests
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from e2e.bank import ACCOUNT, SCHEMA, Bank
from e2e.processes import spark_of

from pipeline.cli import main
from pipeline.devstack import Broker, ports
from pipeline.protocols.avro.protocol import SENTENCES as AVRO
from pipeline.protocols.canal.protocol import SENTENCES as CANAL
from pipeline.protocols.open.protocol import SENTENCES as OPEN
from pipeline.protocols.simple.codes import CODES
from pipeline.service import Pipeline
from pipeline.settings import load
from pipeline.simulate import SimulatedChangefeed
from pipeline.simulate.database import Database

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


class Desk:
    """A bank's changefeed in Avro, and the commands called on its configuration."""

    def __init__(self, stack, folder, capsys):
        self.stack, self.folder, self.capsys = stack, folder, capsys
        self.bank = Bank(stack, 3, (ACCOUNT,))
        self.file = self.bank.settings(folder)
        self.topic = self.bank.topic(ACCOUNT)

    def said(self, *words, file=None):
        self.capsys.readouterr()
        code = main([*words, "-c", str(file or self.file), "--output", "json"])
        return code, json.loads(self.capsys.readouterr().out)

    def findings(self, file=None):
        code, told = self.said("doctor", file=file)
        marks = {finding["mark"] for finding in told["findings"]}
        assert code == (1 if "wrong" in marks else 0)
        return told["findings"]

    def without_watermarks(self):
        """Another changefeed of the bank."""
        self.bank.close()
        self.bank = Bank(self.stack, 3, (ACCOUNT,), watermarks=False)
        self.topic = self.bank.topic(ACCOUNT)

    def fill(self):
        self.bank.open()
        self.bank.rounds(2)

    def other(self, **changes):
        return self.bank.settings(self.folder / "other", **changes)


@pytest.fixture
def desk(stack, tmp_path, capsys):
    made = Desk(stack, tmp_path, capsys)
    yield made
    made.bank.close()


def about(findings, part):
    return [(finding["mark"], finding["said"], finding["todo"]) for finding in findings if finding["about"] == part]


DEAD = {
    "simple": (
        b"",
        b'{"version":1,"database":"bank","type":"INS',
        f"SIMPLE_UNREADABLE: {CODES.sentences['SIMPLE_UNREADABLE']}",
        "JSON that is cut off or damaged",
    ),
    "open-protocol": (
        bytes(7) + b"\x01" + bytes(7) + b"\x63{",
        b"no event",
        f"OPEN_UNREADABLE: {OPEN['OPEN_UNREADABLE']}",
        "the key begins with the Open protocol's version",
    ),
    "canal-json": (
        b"",
        b'{"id":0,"database":"bank","isDdl":false,"typ',
        f"CANAL_UNREADABLE: {CANAL['CANAL_UNREADABLE']}",
        "JSON that is cut off or damaged",
    ),
}
"""By protocol: a record's key and value, why it is a dead letter, and what it looks like."""


def told_by(stack, folder, protocol, prefix="", *, extension=True):
    """One account that is inserted and updated, told by cut: the changefeed, and the configuration of a warehouse."""
    prefix = prefix or f"look{uuid.uuid4().hex[:6]}"
    feed = SimulatedChangefeed(
        stack.bootstrap_servers, prefix=prefix, protocol=protocol, partitions=1, extension=extension
    )
    database = Database()
    feed.send(database.create_schema(SCHEMA))
    feed.send(database.create_table(ACCOUNT))
    writer = database.begin()
    writer.insert(SCHEMA, "account", {"id": 1, "owner": "Ada", "balance": 5})
    feed.send(database.commit(writer))
    writer = database.begin()
    writer.update(SCHEMA, "account", (1,), {"balance": 6})
    feed.send(database.commit(writer))
    feed.flush()
    file = folder / "look.yaml"
    source = {"kind": "kafka", "protocol": protocol, "bootstrap_servers": stack.bootstrap_servers}
    tree = {"name": "look", "source": {**source, "topics": [f"{prefix}_cdc"]}, "spark": spark_of()}
    file.write_text(json.dumps({**tree, "warehouse": {"path": "./wh"}, "checkpoint": "./cp"}))
    return feed, file


def assert_dumped(shown, told, *parts):
    """All bytes, for people and for programs."""
    lines = told["hex"]
    assert [line for line in lines if line not in shown] == []
    dumped = "".join(line[8:55].replace(" ", "") for line in lines if line[:6].isalnum() and line[6:8] == "  ")
    assert dumped == "".join(part.hex() for part in parts)


class TestDoctor:
    def test_a_set_up_in_order_has_nothing_wrong_and_is_left_as_it_is(self, desk):
        desk.fill()
        found = desk.findings()
        assert [finding for finding in found if finding["mark"] == "wrong"] == []
        ((mark, said, _),) = about(found, "messages")
        assert (mark, "can be read: rows of 1 table, " in said) == ("fine", True)
        ((mark, said, _),) = about(found, "ticdc")
        assert (mark, said.startswith("v7.1 or newer")) == ("fine", True)
        assert not (desk.folder / "warehouse").exists()
        assert not (desk.folder / "checkpoint").exists()
        with Pipeline.open(load(desk.file)) as pipeline:
            pipeline.run(available_now=True)
            ((_, at_work, _),) = about(desk.findings(), "writer")
            assert "a process writes the warehouse: `run`" in at_work
        found = desk.findings()
        assert about(found, "offsets") == [("fine", "0 records to be read", "")]
        assert about(found, "checkpoint")[-1] == ("fine", "agrees with the tables", "")

    def test_another_protocol_than_the_messages_is_named(self, desk):
        desk.fill()
        source = {"protocol": "simple", "topics": [desk.topic]}
        tree = json.loads(desk.file.read_text())
        del tree["registry"], tree["changefeed"], tree["source"]["topic_pattern"]
        tree["source"] |= source
        file = desk.folder / "simple.yaml"
        file.write_text(json.dumps(tree))
        ((mark, said, todo),) = about(desk.findings(file), "messages")
        assert (mark, todo) == ("wrong", "set source.protocol: avro")
        assert about(desk.findings(file), "ticdc") == []
        assert said.startswith("SIMPLE_UNREADABLE")

    def test_settings_that_the_messages_deny_and_a_registry_that_would_stop_ticdc_are_told(self, desk):
        desk.fill()
        rule = f"{desk.stack.registry_url}/config/{desk.topic}-value"
        assert requests.put(rule, json={"compatibility": "BACKWARD"}, timeout=10).ok
        file = desk.other(changefeed={"avro-decimal-handling-mode": "string"})
        found = desk.findings(file)
        (first, (mark, said, todo)) = about(found, "compatibility")
        assert f"1 has BACKWARD: {desk.topic}-value" in first[1]
        assert (mark, "stops the changefeed itself" in said, "NONE" in todo) == ("note", True, True)
        assert said.startswith(f"BACKWARD (level of {desk.topic}-value) refuses ADD COLUMN")
        ((mark, said, _),) = about(found, "changefeed")
        assert mark == "note"
        assert said.startswith("changefeed.avro-decimal-handling-mode is string, but the messages say precise")

    def test_watermarks_that_the_settings_promise_or_leave_open_and_that_do_not_come_are_told(self, desk):
        desk.without_watermarks()
        desk.fill()
        for said, wanted in (
            (True, ["changefeed.avro-enable-watermark is true, but there is no watermark among the newest"]),
            (None, ["no watermark among the newest"]),
            (False, []),
        ):
            found = about(desk.findings(desk.other(changefeed={"avro-enable-watermark": said})), "changefeed")
            assert [mark for mark, _, _ in found] == ["note"] * len(wanted)
            assert all(one.startswith(begin) for (_, one, _), begin in zip(found, wanted, strict=True))
            assert all("TRUNCATE, DROP and RENAME" in one for _, one, _ in found)

    def test_watermarks_that_the_settings_deny_and_that_come_are_told(self, desk):
        desk.fill()
        found = about(desk.findings(desk.other(changefeed={"avro-enable-watermark": False})), "changefeed")
        ((mark, said, _),) = found
        assert (mark, said.partition(",")[0]) == ("note", "changefeed.avro-enable-watermark is false")

    def test_records_that_nobody_can_read_point_to_inspect(self, desk):
        desk.fill()
        desk.bank.rubbish(ACCOUNT)
        found = [one for one in about(desk.findings(), "messages") if one[0] == "note"]
        ((_, said, todo),) = found
        assert said.startswith("NOT_CONFLUENT: 2 of the newest messages")
        assert todo.startswith(f"ticdc-warehouse inspect {desk.topic} --partition ")

    def test_a_topic_that_was_made_again_is_wrong_before_a_run_says_so(self, desk):
        desk.fill()
        with Pipeline.open(load(desk.file)) as pipeline:
            pipeline.run(available_now=True)
        admin = AdminClient({"bootstrap.servers": desk.stack.bootstrap_servers})
        admin.delete_topics([desk.topic])[desk.topic].result(30)
        admin.create_topics([NewTopic(desk.topic, 2, config={"cleanup.policy": "compact"})])[desk.topic].result(30)
        found = desk.findings()
        ((mark, said, todo),) = about(found, "offsets")
        assert (mark, said.partition(":")[0]) == ("wrong", "TOPIC_RECREATED")
        assert todo.endswith("--accept TOPIC_RECREATED")
        assert any("cleanup.policy is compact" in said for mark, said, _ in about(found, "kafka") if mark == "wrong")

    def test_what_does_not_answer_is_wrong_and_the_rest_is_looked_at(self, desk):
        file = desk.other(registry={"url": "http://127.0.0.1:9/apis/ccompat/v7", "retries": 0}, source={})
        desk.fill()
        found = desk.findings(file)
        ((mark, said, todo),) = about(found, "registry")
        assert (mark, bool(todo)) == ("wrong", True)
        assert "127.0.0.1:9" in said

    def test_topics_without_schemas_and_a_folder_that_cannot_be_are_told(self, desk):
        desk.bank.open()
        desk.bank.checkpoint()
        (desk.folder / "file").touch()
        found = desk.findings(desk.other(warehouse={"path": str(desk.folder / "file" / "warehouse")}))
        ((_, said, todo),) = [one for one in about(found, "registry") if one[1].startswith("no subject ")]
        assert f"{desk.topic}-value" in said
        assert "schema-registry" in todo
        assert [said for mark, said, _ in about(found, "warehouse") if mark == "wrong"] == [
            f"this user cannot write to {desk.folder / 'file'}: Not a directory"
        ]

    def test_subjects_of_a_topic_that_is_gone_are_told(self, desk):
        desk.fill()
        gone = f"{desk.topic}_gone-value"
        schema = {"schema": json.dumps({"type": "record", "name": "gone", "fields": []})}
        assert requests.post(f"{desk.stack.registry_url}/subjects/{gone}/versions", json=schema, timeout=10).ok
        found = desk.findings()
        ((mark, said, todo),) = [one for one in about(found, "registry") if "without a topic" in one[1]]
        assert (mark, "DELETE <registry>/subjects/" in todo) == ("note", True)
        assert gone in said or " more" in said
        assert f"{desk.topic}-value" not in said

    def test_a_checkpoint_of_another_moment_and_tables_that_the_catalog_has_lost_are_told(self, desk):
        desk.fill()
        self.run(desk)
        shutil.copytree(desk.folder / "checkpoint", desk.folder / "older")
        desk.bank.rounds(1)
        self.run(desk)
        shutil.rmtree(desk.folder / "checkpoint")
        (desk.folder / "older").rename(desk.folder / "checkpoint")
        with closing(sqlite3.connect(desk.folder / "warehouse" / "catalog.db")) as catalog, catalog:
            catalog.execute("DELETE FROM iceberg_tables WHERE table_name = 'account'")
        found = desk.findings()
        ((mark, said, _),) = about(found, "checkpoint")[-1:]
        assert (mark, "does not match the tables" in said) == ("note", True)
        ((_, said, todo),) = [one for one in about(found, "warehouse") if one[0] == "wrong"]
        assert "bank.account" in said
        assert todo == "ticdc-warehouse tables restore"

    def run(self, desk):
        with Pipeline.open(load(desk.file)) as pipeline:
            pipeline.run(available_now=True)

    def test_settings_that_make_no_sense_do_not_hide_the_machine(self, desk):
        file = desk.folder / "bad.yaml"
        file.write_text("name: shop\nsauce: {}\n")
        found = desk.findings(file)
        assert about(found, "settings")[0][0] == "wrong"
        assert about(found, "java")[0][0] == "fine"


class Guarded(Broker):
    """A broker with ACLs: what none is about is allowed."""

    def _properties(self):
        authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        return super()._properties() | {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"}

    def acl(self, kind, name, operation, permission):
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        said = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:*", "*", operation, permission)
        (done,) = admin.create_acls([said]).values()
        done.result(30)


@pytest.mark.parametrize("extended_first", [False, True], ids=["gets-the-extension", "loses-the-extension"])
def test_an_extension_that_comes_or_goes_is_told_by_the_order_that_the_warehouse_has(
    stack, tmp_path, capsys, extended_first
):
    def told():
        capsys.readouterr()
        code = main(["doctor", "-c", str(file), "--output", "json"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        return code, " ".join(said for mark, said, _ in about(findings, "changefeed") if mark != "fine")

    feed, file = told_by(stack, tmp_path, "canal-json", extension=extended_first)
    feed.close()
    told_before = told()
    with Pipeline.open(load(file)) as pipeline:
        pipeline.run(available_now=True)
    assert told() == told_before
    feed, _ = told_by(stack, tmp_path, "canal-json", feed.prefix, extension=not extended_first)
    feed.close()
    code, said = told()
    assert main(["inspect", f"{feed.prefix}_cdc", "-c", str(file)]) == int(extended_first)
    if extended_first:
        assert told_before == (0, "")
        assert code == 1
        assert said.count("dead letter (COMMIT_TS_MISSING)") == 1
    else:
        assert told_before[0] == code == 0
        assert "a run applies changes by offset" in told_before[1]
        assert "the warehouse applies changes by offset, as it has begun" in said


def test_a_user_that_may_not_read_or_see_a_topic_is_told_which_acl_is_missing(tmp_path, capsys):
    broker = Guarded(tmp_path / "broker", ports.free_port())
    broker.start()
    try:
        feed, file = told_by(broker, tmp_path, "simple")
        feed.close()
        topic = json.loads(file.read_text())["source"]["topics"][0]

        def findings():
            capsys.readouterr()
            code = main(["doctor", "-c", str(file), "--output", "json"])
            return code, json.loads(capsys.readouterr().out)["findings"]

        broker.acl(ResourceType.GROUP, "*", AclOperation.ALL, AclPermissionType.DENY)  # no group is asked for
        code, found = findings()
        assert (code, about(found, "permissions")) == (0, [("fine", "1 topic may be described and read", "")])
        assert about(found, "messages")[0][0] == "fine"
        with Pipeline.open(load(file)) as pipeline:
            pipeline.run(available_now=True)
        broker.acl(ResourceType.TOPIC, topic, AclOperation.DESCRIBE, AclPermissionType.ALLOW)  # and nothing else
        code, found = findings()
        ((mark, said, todo),) = about(found, "permissions")
        assert (code, mark) == (1, "wrong")
        assert said == f"this user may not read {topic}: the ACL for READ on them is missing"
        assert "--operation Read --topic" in todo
        assert about(found, "messages") == []
        broker.acl(ResourceType.TOPIC, topic, AclOperation.DESCRIBE, AclPermissionType.DENY)
        code, found = findings()
        assert code == 1
        assert [said for _, said, _ in about(found, "permissions")] == [
            f"this user may not see {topic}: the ACL for DESCRIBE on them is missing"
        ]
    finally:
        broker.stop()


class TestInspect:
    def test_a_row_is_shown_with_its_schema_its_values_and_verdicts(self, desk):
        desk.fill()
        told = self._of(desk, "row")
        assert "looks_like" in told
        assert f"({desk.topic}-value)" in told["value"]
        (change,) = told["changes"]
        assert f"of {SCHEMA}.account" in change["change"]
        assert [column["column"] for column in change["columns"]] == ["id", "owner", "balance"]
        assert change["verdicts"][-1].startswith("✓")

    def test_statements_and_watermarks_say_what_they_are(self, desk):
        desk.fill()
        assert "everything up to commit ts" in self._of(desk, "watermark")["watermark"]
        desk.bank.truncate(ACCOUNT)
        desk.bank.feed.flush()
        code, told = desk.said("inspect", desk.topic)
        assert (code, told["statement"].startswith("TRUNCATE TABLE")) == (0, True)

    def test_what_would_be_a_dead_letter_is_shown_in_bytes(self, desk, capsys):
        desk.fill()
        desk.bank.rubbish(ACCOUNT)
        code, told = desk.said("inspect", desk.topic)
        assert (code, told["refusals"][0]["code"], told["changes"]) == (1, "NOT_CONFLUENT", [])
        assert main(["inspect", desk.topic, "-c", str(desk.file)]) == 1
        shown = capsys.readouterr().out
        assert f"would become a dead letter: NOT_CONFLUENT: {AVRO['NOT_CONFLUENT']}" in shown
        assert "looks like  no form that TiCDC writes" in shown
        assert_dumped(shown, told, b"who", b"no Avro at all")

    @pytest.mark.parametrize("protocol", DEAD)
    def test_what_would_be_a_dead_letter_by_cut_is_shown_in_bytes(self, stack, tmp_path, capsys, protocol):
        key, value, why, like = DEAD[protocol]
        feed, file = told_by(stack, tmp_path, protocol)
        topic = json.loads(file.read_text())["source"]["topics"][0]
        feed._channel.send(topic, 0, key, value)
        feed.flush()
        capsys.readouterr()
        assert main(["inspect", topic, "-c", str(file), "--output", "json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert main(["inspect", topic, "-c", str(file)]) == 1
        shown = capsys.readouterr().out
        assert f"would become a dead letter: {why}" in shown
        assert f"looks like  {like}" in shown
        assert_dumped(shown, told, key, value)
        feed.close()

    def test_a_rule_that_a_row_breaks_is_named_with_its_severity(self, desk):
        desk.fill()
        check = {"expect_column_values_to_be_between": {"column": "id", "max_value": 0}, "name": "nobody"}
        checks = desk.folder / "checks"
        checks.mkdir()
        suite = {"table": f"{SCHEMA}.account", "checks": [{**check, "severity": "quarantine"}]}
        (checks / "account.yaml").write_text(json.dumps(suite))
        file = desk.other(quality={"suites": str(checks)})
        (change,) = self._of(desk, "row", file)["changes"]
        assert "✗ nobody (quarantine)" in change["verdicts"]
        assert "  it would be set aside" in change["verdicts"]

    def test_a_place_where_nothing_is_is_refused_with_what_there_is(self, desk, capsys):
        desk.fill()
        for words, code in (
            (("inspect", desk.topic, "--offset", "100000"), "OFFSET_UNKNOWN"),
            (("inspect", desk.topic, "--partition", "9"), "OFFSET_UNKNOWN"),
            (("inspect", "no_such_topic"), "TOPIC_UNKNOWN"),
        ):
            capsys.readouterr()
            assert main([*words, "-c", str(desk.file)]) == 1
            assert code in capsys.readouterr().err

    @pytest.mark.parametrize("protocol", ["simple", "open-protocol", "canal-json"])
    def test_what_changed_is_shown_beside_what_was(self, stack, tmp_path, capsys, protocol):
        feed, file = told_by(stack, tmp_path, protocol)
        topic = json.loads(file.read_text())["source"]["topics"][0]
        capsys.readouterr()
        with Pipeline.open(load(file)) as pipeline:  # which learns the schema
            pipeline.run(available_now=True)
        assert main(["inspect", topic, "-c", str(file), "--output", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        change = told["changes"][-1]
        assert change["change"].startswith("update of bank.account, commit ts")
        (balance,) = [column for column in change["columns"] if column["column"] == "balance"]
        assert (balance["value"], balance["before"]) == ("6.00", "5.00")
        feed.close()

    def _of(self, desk, kind, file=None):
        """The newest record of a kind."""
        wanted = {
            "row": lambda key, value: key and value and value[0] == 0,
            "watermark": lambda _, value: value and value[0] == 2,
        }
        found = [m for m in desk.bank._consumed([desk.topic]) if wanted[kind](m.key(), m.value())]
        at = ("--partition", str(found[-1].partition()), "--offset", str(found[-1].offset()))
        code, told = desk.said("inspect", desk.topic, *at, file=file)
        assert code == 0
        return told
