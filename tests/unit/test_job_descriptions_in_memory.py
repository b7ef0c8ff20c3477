"""What Spark's page calls the jobs of a release and of a redrive: the operation, and the table."""

from types import SimpleNamespace

import pytest
from unit.till_in_memory import SCHEMA, Suite, Till, replaced

from pipeline.ddl import ActionType
from pipeline.model.names import TableName
from pipeline.operations.redrive import Selection, redrive


@pytest.fixture
def till(monkeypatch):
    replaced(monkeypatch)
    return Till()


def described(opened):
    """Lets the descriptions be seen that Spark is given from now on."""
    said = []
    opened.context.spark.sparkContext = SimpleNamespace(setJobDescription=said.append)
    return said


def test_jobs_of_a_release_say_so(till):
    till.put("account", 1)
    till.run()
    till.say(ActionType.RECOVER_TABLE, "RECOVER TABLE `s`.`account`", "account")
    till.put("account", 2)
    till.run()
    with till.process() as opened:
        said = described(opened)
        opened.release(TableName(SCHEMA, "account"))
        number = opened.context.run.ledger.batch_id
    assert (said[0], said[-1]) == ("release: s.account", "release: s.account")
    assert {f"batch {number}: s.account: append changes", f"batch {number}: s.account: publish current"} <= {*said}


def test_jobs_of_a_redrive_say_so(till):
    suite = Suite(till)
    suite.forbids("quarantine")
    till.put("account", 1)
    suite.bad.add(till.value("account", 1))
    till.run()
    suite.forbids("")
    with till.process() as opened:
        said = described(opened)
        assert redrive(opened.context, Selection()).redriven == 1
    assert {*said} == {"redrive quarantine", "redrive s.account"}
