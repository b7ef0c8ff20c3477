"""Fixtures of every kind of test. What tests share is found from here: `from golden.corpus import …`."""

import sys
from pathlib import Path

import pytest

from pipeline.devstack import Devstack
from pipeline.streaming.session import DEFAULTS

DEFAULTS["spark.driver.memory"] = "4g"  # one JVM serves all tests here: it keeps the compiled code of all their tables

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    """One real broker and one real registry for the whole session: a test makes topics of its own."""
    with Devstack.start(tmp_path_factory.mktemp("devstack")) as stack:
        yield stack
