"""`ticdc-warehouse simulate`: where its settings come from, and what it prints."""

import json
import signal

import pytest
from typer.testing import CliRunner

from pipeline.cli import simulate as command
from pipeline.errors import SettingsError

FILE = """
name: shop
source:
  kind: kafka
  protocol: avro
  bootstrap_servers: broker:9092
  topic_pattern: "tidb_.*"
  options: {kafka.security.protocol: SASL_SSL}
registry: {url: "http://registry:8081", username: me, password: hush}
changefeed: {enable-tidb-extension: true, avro-decimal-handling-mode: string, timezone: Asia/Tokyo}
warehouse: {path: ./warehouse}
checkpoint: ./checkpoint
"""

SIMPLE = """
name: shop
source: {kind: kafka, protocol: simple, bootstrap_servers: "broker:9092", topics: [tidb_cdc]}
changefeed: {timezone: Asia/Tokyo}
warehouse: {path: ./warehouse}
checkpoint: ./checkpoint
"""


class Feed:
    """Stands in for the changefeed: keeps its settings and counts."""

    def __init__(self, **settings):
        self.settings, self.counts, self.total = settings, {}, 0
        Feed.last = self

    def send(self, transaction):
        for event in transaction.events:
            ops = self.counts.setdefault(event.table.full_name, {})
            ops[event.op] = ops.get(event.op, 0) + 1
            self.total += 1

    def has_sent(self):
        return self.settings.get("prefix") in ("again", "in part")

    def has_sent_all(self):
        return self.settings.get("prefix") == "again"

    def say_all_is_sent(self):
        self.said_all = True

    def close(self):
        pass


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "SimulatedChangefeed", Feed)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TICDC_WAREHOUSE_CONFIG", raising=False)
    return lambda *arguments: CliRunner().invoke(command.app, arguments)


BROKER = ("--bootstrap-servers", "b:1", "--registry-url", "http://r")


def test_the_result_is_one_line_per_table_and_the_total(run):
    result = run(*BROKER, "--transactions", "50")
    assert result.exit_code == 0, result.output
    assert "shop.customers" in result.stdout
    assert "50 transactions" in result.stdout


def test_a_program_gets_json_with_the_counts(run):
    result = run(*BROKER, "--transactions", "50", "--output", "json")
    facts = json.loads(result.stdout)
    assert facts["transactions"] == 50
    assert sum(sum(ops.values()) for ops in facts["rows"].values()) == Feed.last.total


def test_broker_registry_and_changefeed_settings_come_from_the_pipelines_file(run, tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(FILE)
    assert run("--config", str(file), "--transactions", "5").exit_code == 0
    settings = Feed.last.settings
    assert settings["bootstrap_servers"] == "broker:9092"
    assert settings["client"] == {"security.protocol": "SASL_SSL"}
    assert (settings["decimal"], settings["timezone"]) == ("string", "Asia/Tokyo")
    assert settings["registry"].credentials() == ("me", "hush")


def test_the_file_in_the_current_folder_is_found_without_being_named(run, tmp_path):
    (tmp_path / "ticdc-warehouse.yaml").write_text(FILE)
    assert run("--transactions", "5").exit_code == 0
    assert Feed.last.settings["bootstrap_servers"] == "broker:9092"


def test_an_option_wins_over_the_file(run, tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(FILE)
    run("--config", str(file), "--transactions", "5", "--decimal", "precise", "--bootstrap-servers", "other:1")
    assert (Feed.last.settings["decimal"], Feed.last.settings["bootstrap_servers"]) == ("precise", "other:1")


def test_another_registry_on_the_command_line_does_not_get_the_files_credentials(run, tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(FILE)
    run("--config", str(file), "--transactions", "5", "--registry-url", "http://other")
    assert Feed.last.settings["registry_url"] == "http://other"
    assert Feed.last.settings.get("registry") is None


def test_without_broker_and_registry_it_says_how_to_get_both(run):
    result = run()
    assert isinstance(result.exception, SettingsError)
    assert "--bootstrap-servers and --registry-url are missing" in str(result.exception)
    assert "devstack up" in str(result.exception)


def test_watermarks_without_the_extension_are_refused_as_ticdc_refuses_them(run):
    result = run(*BROKER, "--watermarks", "--no-extension")
    assert isinstance(result.exception, SettingsError)


def test_the_fixed_clock_and_a_seed_repeat_a_run_exactly(run):
    def counts(*arguments):
        run(*BROKER, "--transactions", "80", *arguments)
        return Feed.last.counts

    assert counts("--clock", "fixed", "--seed", "4") == counts("--clock", "fixed", "--seed", "4")
    assert counts("--clock", "fixed", "--seed", "4") != counts("--clock", "fixed", "--seed", "5")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_continuous_run_ends_behind_the_transaction_that_is_being_sent(run, monkeypatch, number):
    transactions = []

    def send(self, transaction):
        if transaction.ddl is None:
            transactions.append(transaction)
        if len(transactions) == 70:
            signal.raise_signal(number)
        sent(self, transaction)

    sent = Feed.send
    monkeypatch.setattr(Feed, "send", send)
    result = run(*BROKER, "--continuous", "--transactions", "10", "--output", "json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told["transactions"] == len(transactions) == 70
    assert sum(sum(ops.values()) for ops in told["rows"].values()) == sum(len(t.events) for t in transactions)


def test_a_simple_pipelines_file_gives_the_protocol_and_its_topic_and_needs_no_registry(run, tmp_path):
    (tmp_path / "ticdc-warehouse.yaml").write_text(SIMPLE)
    assert run("--transactions", "5").exit_code == 0
    assert Feed.last.settings == {
        "protocol": "simple",
        "topic": "tidb_cdc",
        "bootstrap_servers": "broker:9092",
        "client": {},
        "timezone": "Asia/Tokyo",
        "partitions": 2,
        "rate": None,
    }


def test_a_prefix_on_the_command_line_wins_over_the_topic_of_the_file(run, tmp_path):
    (tmp_path / "ticdc-warehouse.yaml").write_text(SIMPLE)
    run("--transactions", "5", "--prefix", "second")
    assert "topic" not in Feed.last.settings
    assert Feed.last.settings["prefix"] == "second"


@pytest.mark.parametrize("option", [("--no-watermarks",), ("--decimal", "string"), ("--registry-url", "http://r")])
def test_what_is_avros_alone_is_refused_for_simple(run, tmp_path, option):
    (tmp_path / "ticdc-warehouse.yaml").write_text(SIMPLE)
    result = run(*option)
    assert isinstance(result.exception, SettingsError)
    assert option[0].removeprefix("--no-").removeprefix("--") in str(result.exception)


def test_simple_in_avro_is_refused_as_the_simulator_writes_json_only(run, tmp_path):
    (tmp_path / "ticdc-warehouse.yaml").write_text(
        SIMPLE.replace("protocol: simple", "protocol: simple, encoding: avro")
    )
    result = run()
    assert isinstance(result.exception, SettingsError)
    assert "JSON" in str(result.exception)


def test_once_means_that_a_second_call_sends_nothing(run):
    first = run(*BROKER, "--transactions", "3", "--once")
    assert (first.exit_code, Feed.last.total > 0) == (0, True)
    second = run(*BROKER, "--transactions", "3", "--once", "--prefix", "again")
    assert (second.exit_code, Feed.last.total) == (0, 0)
    assert "nothing sent" in second.output


@pytest.mark.parametrize(("words", "says"), [(("--once",), True), ((), False), (("--once", "--continuous"), False)])
def test_that_all_is_sent_is_said_where_a_later_call_would_ask(run, monkeypatch, words, says):
    monkeypatch.setattr(command, "_endless", lambda shop, first: shop.transactions(first))
    assert run(*BROKER, "--transactions", "3", *words).exit_code == 0
    assert getattr(Feed.last, "said_all", False) is says


def test_what_an_earlier_call_has_sent_in_part_is_refused(run):
    result = run(*BROKER, "--transactions", "3", "--once", "--prefix", "in part")
    assert (result.exception.code, Feed.last.total) == ("SENT_IN_PART", 0)
    assert "down --volumes" in result.exception.hint


def test_once_that_is_interrupted_is_no_success_and_leaves_no_sign(run, monkeypatch):
    monkeypatch.setattr(Feed, "send", lambda *_: signal.raise_signal(signal.SIGTERM))
    result = run(*BROKER, "--transactions", "3", "--once")
    assert (result.exception.code, getattr(Feed.last, "said_all", False)) == ("SENT_IN_PART", False)
    assert " of 3 transactions" in result.exception.message
