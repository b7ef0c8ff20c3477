"""Environment variables over the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import SettingsError
from pipeline.settings import Settings, parse

FILE = """\
name: shop
source:
  kind: kafka
  protocol: avro
  bootstrap_servers: localhost:9092
  topics: [a]
  options: {kafka.security.protocol: PLAINTEXT, kafka.sasl.jaas.config: }
registry: {url: "http://registry"}
warehouse:
  path: w
  catalog: {type: jdbc, io-impl: X, jdbc.password: }
  columns: {Shop.Orders.total: int}
checkpoint: c
"""
PREFIX = "TICDC_WAREHOUSE__"


def settings_with(**variables: str) -> Settings:
    filled = {"SOURCE__OPTIONS__KAFKA_SASL_JAAS_CONFIG": "jaas", "WAREHOUSE__CATALOG__JDBC_PASSWORD": "p"}
    return parse(FILE, Path("/etc/shop"), {PREFIX + key: value for key, value in (filled | variables).items()})


def refusal_with(**variables: str) -> str:
    with pytest.raises(SettingsError) as caught:
        settings_with(**variables)
    return caught.value.message


def test_values_are_yaml():
    settings = settings_with(
        SOURCE__TOPICS="[b, c]", CHANGEFEED__ENABLE_TIDB_EXTENSION="true", HOLD__MAX_RECORDS="7", NAME="other"
    )
    assert settings.source.topics == ("b", "c")
    assert settings.changefeed.enable_tidb_extension is True
    assert settings.hold.max_records == 7
    assert settings.name == "other"


def test_a_variable_finds_the_free_key_that_stands_in_the_file():
    settings = settings_with(
        SOURCE__OPTIONS__KAFKA_SECURITY_PROTOCOL="SASL_SSL",
        WAREHOUSE__CATALOG__IO_IMPL="Y",
        WAREHOUSE__COLUMNS__SHOP_ORDERS_TOTAL="bigint",
    )
    assert settings.source.options == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": "jaas",
    }
    assert settings.warehouse.catalog.properties == {"io-impl": "Y", "jdbc.password": "p"}
    assert settings.warehouse.columns == {"Shop.Orders.total": "bigint"}


def test_a_new_free_key_is_spelled_as_its_map_spells_keys():
    settings = settings_with(
        SPARK__CONF__SPARK_SQL_SHUFFLE_PARTITIONS="4",
        SOURCE__OPTIONS__MINPARTITIONS="2",
        REGISTRY__HEADERS__X_TENANT="seven",
        WAREHOUSE__CATALOG__URI="jdbc:x",
    )
    assert settings.spark.conf == {"spark.sql.shuffle.partitions": "4"}
    assert settings.source.options["minpartitions"] == "2"
    assert settings.registry.headers == {"x-tenant": "seven"}
    assert settings.warehouse.catalog.properties["uri"] == "jdbc:x"


def test_where_an_underscore_may_mean_anything_the_key_must_stand_in_the_file():
    assert "write the key without a value in the file" in refusal_with(WAREHOUSE__CATALOG__S3_ENDPOINT="x")


def test_a_whole_map_or_section_is_replaced():
    settings = settings_with(SPARK="{master: 'local[2]'}", WAREHOUSE__COLUMNS="{a.b.c: string}")
    assert settings.spark.master == "local[2]"
    assert settings.warehouse.columns == {"a.b.c": "string"}


def test_one_key_refines_the_map_that_another_variable_gives():
    settings = settings_with(SPARK__CONF="{spark.a: x}", SPARK__CONF__SPARK_A="y")
    assert settings.spark.conf == {"spark.a": "y"}


def test_paths_in_variables_are_relative_to_the_file_too():
    assert settings_with(WAREHOUSE__PATH="elsewhere").warehouse.path == Path("/etc/shop/elsewhere")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("SORCE__KIND", "did you mean `source`?"),
        ("SOURCE__TOPIC", "did you mean `topics`?"),
        ("NAME__MORE", "`name` is one value"),
        ("", "there is no such setting"),
        ("SOURCE__OPTIONS__", "write the key without a value in the file"),
    ],
)
def test_a_variable_that_matches_nothing_is_an_error(name, said):
    message = refusal_with(**{name: "hunter"})
    assert f"environment variable {PREFIX}{name}: " in message
    assert said in message
    assert "hunter" not in message


def test_two_spellings_of_one_setting_are_an_error():
    assert "is set by TICDC_WAREHOUSE__NAME too" in refusal_with(NAME="a", name="b")


@pytest.mark.parametrize("value", ["[", "*hunter", "{a: b: hunter}", "\x00"])
def test_a_value_that_is_no_yaml_is_named_by_its_variable_and_not_quoted(value):
    message = refusal_with(REGISTRY__PASSWORD=value)
    assert "environment variable TICDC_WAREHOUSE__REGISTRY__PASSWORD: registry.password: not YAML" in message
    assert "hunter" not in message


def test_a_wrong_value_is_placed_at_its_variable():
    message = refusal_with(HOLD__MAX_RECORDS="many")
    assert "environment variable TICDC_WAREHOUSE__HOLD__MAX_RECORDS: hold.max_records: expected a whole" in message


@pytest.mark.parametrize("name", ["CACHE", "JARS", "IVY_SETTINGS", "FAILPOINT", "DEBUG", "CONFIG"])
def test_variables_with_one_underscore_are_for_other_uses(name):
    assert (
        parse(
            FILE.replace(", kafka.sasl.jaas.config: ", "").replace(", jdbc.password: ", ""),
            Path("/etc"),
            {f"TICDC_WAREHOUSE_{name}": "x"},
        ).name
        == "shop"
    )


def test_a_place_for_a_secret_that_no_variable_fills_is_an_error():
    expected = r"source\.options\.kafka\.sasl\.jaas\.config: expected text, but there is no value"
    with pytest.raises(SettingsError, match=expected):
        parse(FILE, Path("/etc/shop"), {})
