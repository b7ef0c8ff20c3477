"""With what a command that only looks starts Spark, which a run beside it must not feel."""

import pytest
from unit.configuration import SMALL

from pipeline.cli import checks, inspection
from pipeline.cli.checkup import whole
from pipeline.runtime import session
from pipeline.service import client
from pipeline.settings import parse

CLUSTER = """
spark:
  master: spark://cluster:7077
  conf: {spark.driver.memory: 8g, spark.driver.extraJavaOptions: "-Xms8g -Xss4m", spark.sql.shuffle.partitions: 64}
"""


class Launched(Exception):
    """Before there is a JVM."""


@pytest.fixture
def told(monkeypatch):
    """What Spark would be started with, by property; nothing is."""
    found = {}

    def launch(conf):
        found.update(conf)
        raise Launched

    monkeypatch.setattr(session.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "jars", lambda _: ["/jars/iceberg.jar"])
    monkeypatch.setattr(session, "_launch", launch)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "python")  # so that it is put back
    return found


@pytest.fixture
def settings(tmp_path):
    return parse(SMALL + CLUSTER, tmp_path / "shop.yaml")


LOOKS = {
    "doctor": lambda settings: list(whole._with_spark(settings)),
    "inspect": lambda settings: inspection.inspected(settings, "tidb_shop_orders", 0, None),
    "checks validate": lambda settings: checks._spark(settings)(),
    "orphans": lambda settings: client.orphans(settings, [], really=False),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_what_only_looks_takes_no_core_of_a_cluster_and_little_memory(told, settings, look, monkeypatch):
    monkeypatch.setattr(checks, "fetch", lambda: None)
    with pytest.raises(Launched):
        look(settings)
    assert (told["spark.master"], told["spark.driver.memory"]) == ("local[1]", "1g")
    assert "-Xms" not in told["spark.driver.extraJavaOptions"]  # no JVM starts with less than it is to begin with
    assert "-Xss4m" in told["spark.driver.extraJavaOptions"]
    assert told["spark.sql.shuffle.partitions"] == "64"


def test_what_writes_has_what_the_settings_say(told, settings):
    with pytest.raises(Launched):
        session.session(settings)
    assert (told["spark.master"], told["spark.driver.memory"]) == ("spark://cluster:7077", "8g")
    assert "-Xms8g" in told["spark.driver.extraJavaOptions"]


def test_under_spark_submit_what_that_was_told_counts(told, settings, monkeypatch):
    monkeypatch.setenv(session._GATEWAY, "1")
    monkeypatch.setattr(session, "_submitted", lambda: {"spark.master": "yarn", "spark.driver.memory": "3g"})
    with pytest.raises(Launched):
        session.looking(settings)
    assert (told["spark.master"], told["spark.driver.memory"]) == ("yarn", "3g")
