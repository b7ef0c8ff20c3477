"""Settings as people write them on the first day: what is taken, and what a refusal tells them."""

from pathlib import Path

import pytest

from pipeline.errors import SettingsError
from pipeline.settings import parse
from pipeline.settings.durations import seconds

GOOD = """\
name: shop
source: {kind: kafka, protocol: avro, bootstrap_servers: "localhost:9092", topics: [a]}
registry: {url: "http://localhost:8081"}
warehouse: {path: ./warehouse}
checkpoint: ./checkpoint
"""


def refusal(text, environ=None):
    with pytest.raises(SettingsError) as caught:
        parse(text, Path("/etc/shop"), environ)
    return caught.value.message


def but(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("7d", 604_800), ("5m", 300), ("10s", 10), ("1h30m", 5400), ("1h 30m", 5400), ("500ms", 0.5), ("1.5s", 1.5),
        ("2w", 1_209_600), ("250 us", 0.00025), ("1 hour 5m", 3900), ("INTERVAL 5 Minutes", 300),
    ],
)  # fmt: skip
def test_a_short_duration_is_taken(text, said):
    assert seconds(text) == pytest.approx(said)


@pytest.mark.parametrize("text", ["5M", "7D", "1.5m", "m", "5mm", "5", "1y", "3 months", "5m x", "5 mon"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(ValueError, match="expected a duration"):
        seconds(text)


def test_durations_of_settings_may_be_short():
    written = GOOD.replace("{path: ./warehouse}", "{path: ./w, maintenance: {keep_for: 7d, orphans_after: 2d}}")
    settings = parse(written + "trigger: 5m\nquality: {gx_interval: 1h}\n", Path("/etc/shop"))
    assert settings.trigger_seconds == 300
    assert settings.warehouse.maintenance.keep_for_seconds == 604_800
    assert settings.warehouse.maintenance.orphans_after_seconds == 172_800
    assert settings.quality.gx_interval_seconds == 3600


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("./checkpoint", "s3://lake/checkpoint", "checkpoint: expected a path of this machine, not a URL; the check"),
        ("./warehouse", "s3://lake/shop", "warehouse.path: expected a path of this machine, not a URL; set"),
        ("checkpoint:", "quality: {suites: 's3://lake/checks'}\ncheckpoint:", "quality.suites: expected a path of"),
    ],
)  # fmt: skip
def test_a_url_is_refused_with_what_is_true_of_that_setting(old, new, said):
    message = refusal(but(old, new))
    assert said in message
    assert message.count("warehouse.catalog.warehouse") == (old == "./warehouse")


@pytest.mark.parametrize(
    ("old", "new", "variable"),
    [
        ("name: shop", "name:", "TICDC_WAREHOUSE__NAME"),
        ('bootstrap_servers: "localhost:9092"', "bootstrap_servers: ", "TICDC_WAREHOUSE__SOURCE__BOOTSTRAP_SERVERS"),
        (
            "{path: ./warehouse}", "{path: ./w, catalog: {type: jdbc, uri: 'jdbc:postgresql://h/d', jdbc.password: }}",
            "TICDC_WAREHOUSE__WAREHOUSE__CATALOG__JDBC_PASSWORD",
        ),
        ("topics: [a]", "topics: [a], options: {kafka.sasl.jaas.config: }",
         "TICDC_WAREHOUSE__SOURCE__OPTIONS__KAFKA_SASL_JAAS_CONFIG"),
        ('8081"}', '8081", headers: {X-Api-Key: }}', "TICDC_WAREHOUSE__REGISTRY__HEADERS__X_API_KEY"),
        ('8081"}', '8081", username: u, password: }', "TICDC_WAREHOUSE__REGISTRY__PASSWORD"),
    ],
)  # fmt: skip
def test_a_key_without_a_value_names_the_variable_that_would_give_it(old, new, variable):
    text = but(old, new)
    assert variable in refusal(text)
    parse(text, Path("/etc/shop"), {variable: '"localhost:1"'})  # and that variable is the right one


def test_a_key_with_a_wrong_value_names_no_variable():
    assert "TICDC_WAREHOUSE__" not in refusal(but("name: shop", "name: [a]"))


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("warehouse: {path: ./w, exclude_columns: [a.b.c]}", "column-selectors"),
        ("warehouse: {path: ./w, exclude-tables: [a.b]}", "filter rules"),
        ("warehouse: {path: ./w, ignore_columns: [a.b.c]}", "column-selectors"),
    ],
)
def test_the_opposite_of_a_setting_is_not_taken_for_a_misspelling_of_it(extra, said):
    message = refusal(but("warehouse: {path: ./warehouse}", extra))
    assert "unknown key" in message
    assert said in message
    assert "did you mean" not in message


def test_a_wish_to_leave_topics_out_is_shown_how():
    message = refusal(but("topics: [a]", "topics: [a], exclude_topics: [b]"))
    assert "topic_pattern" in message
    assert "did you mean" not in message


def test_drop_column_is_a_setting_and_its_misspelling_still_gets_a_hint():
    assert "did you mean `drop_column`" in refusal(but("{path: ./warehouse}", "{path: ./w, dropcolumn: keep}"))


@pytest.mark.parametrize(
    "uri",
    ["postgresql://me:hunter2@db/iceberg", "postgres://db/x", "postgresql+psycopg2://me:hunter2@db/x", "db.sqlite"],
)
def test_a_catalog_url_that_java_does_not_know_is_refused_at_once(uri):
    message = refusal(but("{path: ./warehouse}", f"{{path: ./w, catalog: {{type: jdbc, uri: '{uri}'}}}}"))
    assert "warehouse.catalog.uri: expected" in message
    assert "jdbc:postgresql://" in message
    assert "hunter2" not in message


def test_a_url_of_another_kind_of_catalog_is_its_own_matter():
    for catalog in ("{type: rest, uri: 'http://h/x'}", "{type: hive, uri: 'thrift://h:1'}"):
        parse(but("{path: ./warehouse}", f"{{path: ./w, catalog: {catalog}}}"), Path("/etc/shop"))
