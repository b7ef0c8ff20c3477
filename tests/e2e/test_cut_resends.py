"""Rows of a table without a key that are sent again: from wherever, in whatever batches, also behind a rebuild."""

import pytest
from e2e.till import Till
from golden.corpus import EVERY

from pipeline.settings import load
from pipeline.simulate.database import RowEvent
from pipeline.simulate.tables import Column, Table
from pipeline.streaming import Pipeline
from pipeline.streaming.errands import REBUILD

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

LOG = Table("bank", "log", (Column("line", "varchar(20)"),))
TRANSACTIONS = (("a", "a"), ("b",), ("c", "c"))
STORIES = {
    "the last transaction": "0 1 2 W2 2 W2",
    "the last transaction, twice": "0 1 2 W2 2 W2 2 W2",
    "the last transaction, in a batch of its own": "0 1 2 W2 | 2 W2",
    "all": "0 1 2 W2 | 0 1 2 W2",
    "from one before the last watermark to one behind it": "0 1 W1 2 | 1 2 W2",
    "the same, a batch each": "0 1 W1 | 2 | 1 | 2 W2",
    "the same in one batch": "0 1 W1 2 1 2 W2",
    "what no watermark has closed, behind older watermarks": "0 1 W1 2 | W0 2 W2",
    "the same in one batch, and twice": "0 1 W1 2 W0 2 W1 W0 2 W2",
    "without a watermark": "0 1 | 2 0 | 1 2 W2",
}
"""Transactions by their number, `W`: a watermark of that one's commit ts, `|`: what was sent up to there is a batch."""


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


@pytest.mark.parametrize("story", STORIES if EVERY else list(STORIES)[::3])
def test_there_are_as_many_equal_rows_as_the_source_has(till, story):
    stamps = [till.database.commit(till.database.begin()).commit_ts for _ in TRANSACTIONS]
    for step in STORIES[story].split():
        if step == "|":
            take(till)
        elif step.startswith("W"):
            till.feed.checkpoint(stamps[int(step[1:])])
        else:
            for line in TRANSACTIONS[int(step)]:
                till.feed._sender.row(RowEvent(LOG, "insert", None, {"line": line}, 1), stamps[int(step)])
    take(till)
    wanted = sorted(line for lines in TRANSACTIONS for line in lines)
    assert lines(till) == wanted
    with Pipeline.open(load(till.file)) as pipeline:
        pipeline.errand(REBUILD, [LOG.schema, LOG.name])
    assert lines(till) == wanted
