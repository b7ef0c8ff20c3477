"""`config spark-submit`: what a driver must be told, without secrets unless they are asked for."""

import json

import pytest
from unit.configuration import SMALL

from pipeline import cli
from pipeline.runtime import session

TRUST = "-Djavax.net.ssl.trustStore=/t.jks -Djavax.net.ssl.trustStorePassword='hush hush' -Xss4m"
SPARK = f"""
spark:
  conf:
    spark.driver.extraJavaOptions: "{TRUST}"
    spark.driver.memory: 3g
    spark.yarn.keytab.password: hush
    spark.files: "https://me:hush@files/x"
"""


@pytest.fixture
def submit(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(session, "jars", lambda _: ["/jars/iceberg.jar"])
    (tmp_path / "shop.yaml").write_text(SMALL + SPARK)

    def call(*words):
        assert cli.main(["config", "spark-submit", "-c", str(tmp_path / "shop.yaml"), *words]) == 0
        return capsys.readouterr()

    return call


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_is_printed_and_each_that_is_left_out_is_named_with_the_way_to_hand_it_over(submit, form):
    said = submit("--output", form)
    assert "hush" not in said.out + said.err
    assert "***" not in said.out
    for name in (
        "-Djavax.net.ssl.trustStorePassword of spark.driver.extraJavaOptions", "spark.yarn.keytab.password",
        "spark.files", "SPARK_SUBMIT_OPTS", "--with-secrets",
    ):  # fmt: skip
        assert name in said.err


def test_what_is_no_secret_stays(submit):
    told = json.loads(submit("--output", "json").out)
    options = told["spark.driver.extraJavaOptions"]
    assert options.endswith("-Djavax.net.ssl.trustStore=/t.jks -Xss4m")
    assert "org.apache.avro.limits.string.maxLength" in options
    assert (told["spark.driver.memory"], told["spark.jars"]) == ("3g", "/jars/iceberg.jar")


def test_with_secrets_everything_is_there_and_nothing_is_said(submit):
    said = submit("--output", "json", "--with-secrets")
    told = json.loads(said.out)
    assert told["spark.driver.extraJavaOptions"].endswith(TRUST)
    assert told["spark.yarn.keytab.password"] == "hush"
    assert said.err == ""
