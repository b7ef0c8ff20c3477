"""Fixtures of every kind of test. What tests share is found from `tests/`: `from golden.corpus import …`."""

import hypothesis
import pytest
from pyspark.sql import SparkSession
from spark.sessions import settings_in

from pipeline.devstack import Devstack
from pipeline.runtime.session import DEFAULTS, session

pytest_plugins = ("support.schedule",)

DEFAULTS["spark.driver.memory"] = "4g"  # one JVM serves all tests here: it keeps the compiled code of all their tables

hypothesis.settings.register_profile("suite", deadline=None)  # two workers and a broker share two cores
hypothesis.settings.load_profile("suite")


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One Spark session for all tests of a process, with the product's own settings."""
    return session(settings_in(tmp_path_factory.mktemp("spark")))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Start the JVM of a process for all tests that will be here: the first may want it small for itself."""
    if item.get_closest_marker("spark") and SparkSession.getActiveSession() is None:
        session(settings_in(item.config._tmp_path_factory.mktemp("spark")))


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    """One real broker and one real registry for the whole session: a test makes topics of its own."""
    with Devstack.start(tmp_path_factory.mktemp("devstack")) as stack:
        yield stack
