"""Rows of a table without a key that are sent again: from wherever, in whatever batches, also behind a rebuild."""

import pytest
from e2e.till import Till
from support.slow import EVERY

from pipeline.model.names import TableName
from pipeline.service import Pipeline
from pipeline.service.dispatch import REBUILD
from pipeline.settings import load
from pipeline.simulate.database import RowEvent
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

LOG = SimulatedTable("bank", "log", (SimulatedColumn("line", "varchar(20)"),))
RECOVER_TABLE = 25
TRANSACTIONS = (("a", "a"), ("b",), ("c", "c"))
STORIES = {
    "the last transaction": "0 1 2 W2 2 W2",
    "the last transaction, twice": "0 1 2 W2 2 W2 2 W2",
    "the last transaction, in a batch of its own": "0 1 2 W2 | 2 W2",
    "all": "0 1 2 W2 | 0 1 2 W2",
    "from one before the last watermark to one behind it": "0 1 W1 2 | 1 2 W2",
    "the same, as batches": "0 1 W1 | 2 | 1 | 2 W2",
    "the same in one batch": "0 1 W1 2 1 2 W2",
    "what no watermark has closed, behind older watermarks": "0 1 W1 2 | W0 2 W2",
    "the same in one batch, and twice": "0 1 W1 2 W0 2 W1 W0 2 W2",
    "without a watermark": "0 1 | 2 0 | 1 2 W2",
    "past where the first publish ends": "0 1 0 W0 | 1 2 W2",
    "past that, a batch each": "0 1 | 0 W0 | 1 W1 2 W2",
    "half of one, behind watermarks that go on below where they were": "0 1 2.0 W1+ | W0 2.0 | W1 2.1 | W2",
    "behind a watermark that is older, and a batch of its own": "0 1 2 W1 | W0 | 2 W2",
}
"""Transactions by their number (`2.0`: its first row), `W`: a watermark of that one's commit ts (`+`: a bit newer),
`|`: what was sent up to there is a batch.
"""


@pytest.fixture(params=["simple", "open-protocol"] if EVERY else ["simple"])
def till(request, stack, tmp_path):
    made = Till(stack, tmp_path, request.param)
    made._tell(made.database.create_table(LOG))
    yield made
    made.feed.close()


def lines(till):
    return sorted(row.values["line"] for row in till.warehouse.current(LOG.full_name).rows)


def take(till):
    """What is in Kafka, without a watermark that closes it."""
    till.feed.flush()
    with Pipeline.open(load(till.file)) as pipeline:
        pipeline.run(available_now=True)


def say(till, line, moment):
    till.feed._sender.row(RowEvent(LOG, "insert", None, {"line": line}, 1), moment)


@pytest.mark.parametrize("story", STORIES if EVERY else list(STORIES)[::4])
def test_there_are_as_many_equal_rows_as_the_source_has(till, story):
    stamps = [till.database.commit(till.database.begin()).commit_ts for _ in TRANSACTIONS]
    for step in STORIES[story].split():
        if step == "|":
            take(till)
        elif step.startswith("W"):
            till.feed.checkpoint(stamps[int(step[1:].rstrip("+"))] + step.endswith("+"))
        else:
            number, _, row = step.partition(".")
            lines_of = TRANSACTIONS[int(number)]
            for line in (lines_of[int(row)],) if row else lines_of:
                say(till, line, stamps[int(number)])
    take(till)
    wanted = sorted(line for lines in TRANSACTIONS for line in lines)
    assert lines(till) == wanted
    with Pipeline.open(load(till.file)) as pipeline:
        pipeline.operation(REBUILD, [LOG.schema, LOG.name])
    assert lines(till) == wanted


@pytest.mark.slow
def test_rows_that_are_sent_again_while_their_table_is_held_come_in_once(till):
    till.say("RECOVER TABLE `bank`.`log`", RECOVER_TABLE, LOG)
    moment = till.database.commit(till.database.begin()).commit_ts
    for _ in range(2):
        for line in ("c", "c"):
            say(till, line, moment)
        till.feed.checkpoint(moment)
        take(till)
    assert len(till.own("held")) >= 4
    till.release(name=TableName(LOG.schema, LOG.name))
    take(till)
    assert lines(till) == ["c", "c"]


@pytest.mark.slow
def test_rows_that_are_sent_again_before_anything_describes_them_come_in_once(stack, tmp_path):
    till = Till(stack, tmp_path, "simple")
    late = SimulatedTable("bank", "late", (SimulatedColumn("id", "int"),))
    moment = till.undescribed(late, 1)
    till.undescribed(late, 1, sent_at=moment)
    for _ in range(2):
        till.feed.checkpoint(moment)
        take(till)
        till.undescribed(late, 1, sent_at=moment)
    till.bootstrap(late, moment)
    till.run()
    assert [row.values["id"] for row in till.warehouse.current("bank.late").rows] == [1, 1]
    till.feed.close()
