"""What Spark's event log and web page show of properties: no secret that the settings hide, and what is none."""

import re

import pytest
from unit.configuration import SMALL

from pipeline.runtime import session
from pipeline.settings import parse
from pipeline.settings.redaction import FOR_SPARK, clean, is_secret

JARS = "/jars/iceberg-spark-runtime-4.0_2.13-1.10.0.jar,/jars/spark-token-provider-kafka-0-10_2.13-4.0.0.jar"
SECRET = [
    "spark.sql.catalog.warehouse.credential",
    "spark.sql.catalog.warehouse.header.Authorization",
    "spark.sql.catalog.warehouse.header.X-Api-Key",
    "spark.sql.catalog.warehouse.adls.sas-token.shop",
    "spark.sql.catalog.warehouse.adls.auth.shared-key.account.key",
    "spark.sql.catalog.warehouse.s3.secret-access-key",
    "spark.sql.catalog.warehouse.s3.access-key-id",
    "spark.sql.catalog.warehouse.jdbc.password",
    "spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net",
    "spark.hadoop.fs.azure.sas.fixed.shop",
    "spark.hadoop.accountKey",
    "spark.kafka.clusters.shop.sasl.jaas.config",
    "spark.io.encryption.keygen.passphrase",
    "javax.net.ssl.trustStorePassword",
]
TEXTS = [
    "https://me:hush@files/x",
    "jdbc:postgresql://me:a@b/c@catalog/db",
    "jdbc:mysql://catalog/db?user=me&password=hush",
    "-Xss4m -Djavax.net.ssl.trustStorePassword='hush hush'",
    'PlainLoginModule required username="me" password="hush";',
    "org.apache.spark.deploy.SparkSubmit --conf spark.hadoop.fs.s3a.access.key=hush main.py",
    "org.apache.spark.deploy.SparkSubmit main.py --api-token hush",
    '{"credential": "hush"}',
]
ORDINARY = {
    "spark.jars": JARS,
    "spark.app.initial.jar.urls": "spark://10.0.0.7:37041/jars/spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    "java.class.path": JARS.replace(",", ":"),
    "/jars/spark-token-provider-kafka-0-10_2.13-4.0.0.jar": "System Classpath",
    "sun.java.command": f"org.apache.spark.deploy.SparkSubmit --conf spark.jars={JARS} pyspark-shell",
    "spark.sql.catalog.warehouse.type": "rest",
    "spark.sql.catalog.warehouse.oauth2-server-uri": "https://catalog/v1/oauth/tokens",
    "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "javax.net.ssl.trustStore": "/etc/secrets/store.jks",
    "spark.job.description": "batch 7: shop.access_tokens: publish current",
    "spark.monkey.keyboard": "passing",
}


def hidden(key, value):
    """As Spark does it: found in either of them."""
    return any(re.search(FOR_SPARK, text) for text in (key, value))


@pytest.mark.parametrize("key", SECRET)
def test_a_property_that_the_settings_would_hide_is_hidden(key):
    assert is_secret(key)
    assert hidden(key, "hush")


@pytest.mark.parametrize("text", TEXTS)
def test_a_secret_inside_a_value_hides_it(text):
    assert hidden("spark.some.text", text)


@pytest.mark.parametrize("text", TEXTS[:5])
def test_so_it_does_where_the_settings_are_shown(text):
    assert clean(text) != text


@pytest.mark.parametrize(("key", "value"), ORDINARY.items())
def test_what_is_no_secret_stays_to_be_read(key, value):
    assert not hidden(key, value)


def test_all_that_a_session_is_told_without_secrets_stays_to_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "jars", lambda _: JARS.split(","))
    told = session._configured(parse(SMALL, tmp_path / "shop.yaml"))
    assert told.pop("spark.redaction.regex") == FOR_SPARK
    assert [key for key, value in told.items() if hidden(key, value)] == []


def test_what_a_user_says_counts_more(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "jars", lambda _: [])
    text = SMALL + "\nspark: {conf: {spark.redaction.regex: hush}}\n"
    assert session._configured(parse(text, tmp_path / "shop.yaml"))["spark.redaction.regex"] == "hush"
