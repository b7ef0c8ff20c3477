"""The configuration file as types: what is accepted, what it becomes, what is never shown."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from pipeline.errors import SettingsError
from pipeline.settings import Settings, json_schema, load, parse
from pipeline.settings.column_types import members_of
from pipeline.settings.redaction import HIDDEN

SMALLEST = """\
name: shop
source:
  kind: kafka
  protocol: avro
  bootstrap_servers: localhost:9092
  topics: [tidb_shop_orders]
registry:
  url: http://localhost:8081/apis/ccompat/v7
warehouse:
  path: ./warehouse
checkpoint: ./checkpoint
"""
EVERYTHING = """\
name: shop                              # identifies checkpoint, ledger rows, metrics, lineage
source:
  kind: kafka
  protocol: avro
  bootstrap_servers: localhost:9092
  topics: [tidb_shop_orders]
  starting_offsets: {tidb_shop_orders: {0: 12, 1: -2}}
  max_offsets_per_trigger: 500_000
  options: {kafka.security.protocol: SASL_SSL}
registry:
  url: http://localhost:8081/apis/ccompat/v7
  username: user
  password: 0123
  ca_file: ca.pem
  headers: {X-Tenant: seven}
changefeed:
  enable-tidb-extension: true
  avro-decimal-handling-mode: precise
  avro-bigint-unsigned-handling-mode: long
  timezone: Europe/Berlin
warehouse:
  path: ./warehouse
  catalog: {type: rest, uri: "http://catalog:8181", warehouse: "s3://bucket/shop"}
  namespace: "lake_{schema}"
  current: false
  columns: {shop.orders.total: "DECIMAL(18, 4)", shop.orders.state: "enum('a','it''s')"}
quality:
  suites: ./checks
checkpoint: ./checkpoint
trigger: 1 minute 30 seconds
spark: {master: "local[*]", conf: {spark.sql.shuffle.partitions: 4}}
"""


def settings_of(text: str, environ: dict[str, str] | None = None) -> Settings:
    return parse(text, Path("/etc/shop"), environ)


def refusal_of(text: str, environ: dict[str, str] | None = None) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        settings_of(text, environ)
    return caught.value


def test_the_required_keys_are_enough():
    settings = settings_of(SMALLEST)
    assert settings.name == "shop"
    assert settings.source.topics == ("tidb_shop_orders",)
    assert settings.source.starting_offsets == "earliest"
    assert settings.changefeed.timezone == "UTC"
    assert settings.warehouse.catalog.embedded
    assert settings.trigger_seconds == 10
    assert settings.quality.suites is None


def test_every_key_of_the_contract_is_read():
    settings = settings_of(EVERYTHING)
    assert settings.source.starting_offsets == {"tidb_shop_orders": {0: 12, 1: -2}}
    assert settings.source.max_offsets_per_trigger == 500_000
    assert settings.source.options == {"kafka.security.protocol": "SASL_SSL"}
    assert settings.changefeed.enable_tidb_extension is True
    assert settings.changefeed.avro_decimal_handling_mode == "precise"
    assert settings.changefeed.avro_enable_watermark is None
    assert settings.warehouse.catalog.properties == {
        "uri": "http://catalog:8181",
        "warehouse": "s3://bucket/shop",
    }
    assert not settings.warehouse.catalog.embedded
    assert settings.warehouse.namespace_of("shop") == "lake_shop"
    assert settings.warehouse.columns["shop.orders.total"] == "decimal(18,4)"
    assert settings.warehouse.columns["shop.orders.state"] == "enum('a','it''s')"
    assert [members_of(kind) for kind in settings.warehouse.columns.values()] == [(), ("a", "it's")]
    assert settings.trigger_seconds == 90
    assert settings.spark.conf == {"spark.sql.shuffle.partitions": "4"}


def test_relative_paths_are_relative_to_the_file(tmp_path, monkeypatch):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "shop.yaml").write_text(EVERYTHING.replace("./warehouse", "../warehouse"))
    monkeypatch.chdir(tmp_path)
    settings = load(Path("conf/shop.yaml"), {})
    assert settings.warehouse.path == tmp_path / "warehouse"
    assert settings.quality.suites == tmp_path / "conf" / "checks"
    assert settings.registry.ca_file == tmp_path / "conf" / "ca.pem"


def test_the_data_lies_where_the_catalog_says_else_in_the_path():
    assert settings_of(EVERYTHING).warehouse.location == "s3://bucket/shop"
    assert settings_of(SMALLEST).warehouse.location == "/etc/shop/warehouse"


def test_a_number_that_was_meant_as_text_keeps_its_spelling():
    password = settings_of(EVERYTHING).registry.password
    assert password is not None
    assert password.get_secret_value() == "0123"


def test_a_key_without_a_value_means_its_default():
    settings = settings_of(SMALLEST + "trigger:\nspark:\nhold:\n  max_records:\n")
    assert settings == settings_of(SMALLEST)


def test_settings_do_not_change_and_survive_pickling():
    settings = settings_of(EVERYTHING)
    with pytest.raises(ValueError, match="frozen"):
        settings.name = "other"
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("trigger", "seconds"),
    [
        ("500 milliseconds", 0.5),
        ("1 minute", 60),
        ("interval 2 Hours", 7200),
        ("1.5 seconds", 1.5),
        ("0 seconds", 0),
    ],
)
def test_triggers_are_read_as_spark_reads_them(trigger, seconds):
    assert settings_of(f"{SMALLEST}trigger: {trigger}\n").trigger_seconds == seconds


@pytest.mark.parametrize("trigger", ["10", "10S", "soon", "1 month", "-1 seconds", "1.5 minutes", "1 minute 5", "''"])
def test_what_spark_would_not_take_as_a_trigger_is_refused(trigger):
    assert "expected a duration" in refusal_of(f"{SMALLEST}trigger: {trigger}\n").message


SECRETIVE = """\
name: shop
source:
  kind: kafka
  protocol: avro
  bootstrap_servers: localhost:9092
  topics: [t]
  options:
    kafka.sasl.jaas.config: "x required password='hunter-jaas';"
    kafka.ssl.key.password: hunter-keystore
    kafka.ssl.keystore.key: hunter-pem
    kafka.ssl.truststore.location: /visible/truststore.jks
    kafka.client.id: visible-client
registry:
  url: https://user:hunter@url@registry:8081/apis
  cert_file: visible.pem
  key_file: visible-key.pem
  headers: {X-Anything: hunter-header}
warehouse:
  path: w
  catalog:
    type: jdbc
    uri: jdbc:postgresql://user:hunter-uri@db/c?password=hunter-query&ssl=visible-ssl
    jdbc.password: hunter-jdbc
    credential: id:hunter-credential
    s3.secret-access-key: hunter-s3
    io-impl: visible.Io
  columns: {shop.users.password: binary}
checkpoint: c
spark:
  conf:
    spark.hadoop.fs.s3a.secretKey: hunter-camel
    spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net: hunter-azure
    spark.driver.extraJavaOptions: -Dtoken=hunter-java -Dvisible-option=1
"""


@pytest.mark.parametrize("show", [lambda s: json.dumps(s.shown()), repr, str], ids=["shown", "repr", "str"])
def test_secrets_are_not_shown_and_the_rest_is(show):
    said = show(settings_of(SECRETIVE, {"TICDC_WAREHOUSE__QUALITY__SUITES": "/visible/suites"}))
    assert "hunter" not in said
    for visible in (
        "truststore.jks",
        "visible-client",
        "visible-key.pem",
        "visible-ssl",
        "visible.Io",
        "visible-option",
    ):
        assert visible in said
    assert "'shop.users.password': 'binary'" in said or '"shop.users.password": "binary"' in said


def test_a_password_beside_a_username_is_a_secret_too():
    said = settings_of(EVERYTHING)
    assert said.shown()["registry"]["password"] == HIDDEN
    assert "0123" not in repr(said)


def test_what_is_shown_is_a_configuration_again():
    settings = settings_of(EVERYTHING)
    again = settings_of(json.dumps(settings.shown()))
    assert again.model_dump(exclude={"registry"}) == settings.model_dump(exclude={"registry"})


def test_the_schema_describes_every_key_and_gives_its_default():
    schema = json_schema()
    sections = [schema, *schema["$defs"].values()]
    for section in sections:
        for key, entry in section["properties"].items():
            assert entry.get("description"), key
            assert ("default" in entry) != (key in section.get("required", ())), key
    assert schema["$defs"]["Warehouse"]["properties"]["table_threads"]["default"] == 4
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("catalog", "small", "threads"), [("jdbc", True, 4), ("jdbc", False, 4), ("rest", True, 16), ("rest", False, 4)]
)
def test_only_tables_of_a_small_batch_wait_side_by_side_for_commits_elsewhere(tmp_path, catalog, small, threads):
    elsewhere = "  path: ./warehouse\n  catalog: {type: rest, uri: 'http://127.0.0.1:1'}\n"
    text = SMALLEST.replace("  path: ./warehouse\n", elsewhere) if catalog == "rest" else SMALLEST
    assert parse(text, tmp_path).warehouse.threads(small=small) == threads
