"""A batch that failed is taken again by the same process, as by another one: nothing is lost, and nothing is twice."""

import pytest
from unit.batch_model import batch as model
from unit.test_taken_names_by_offset_in_memory import Till

from pipeline.errors import BatchFailed


@pytest.fixture
def till(monkeypatch):
    for where, name, instead in model.replacements():
        monkeypatch.setattr(where, name, instead)
    return Till()


@pytest.mark.parametrize("stage", ["evolve", "append", "publish"])
def test_a_batch_that_failed_can_be_taken_again_by_the_same_process(till, stage):
    till.put("account", 2)
    till.put("note", 2, 3)
    till.source.damage(till.source.tables["note"], 0, header=True)
    opened = till.opened()
    opened.context.spark.faults = {("s", "account"): stage}
    for _ in range(2):
        with pytest.raises(BatchFailed, match=stage):
            opened.batch(till.ends)
    opened.context.spark.faults = {}
    assert opened.batch(till.ends)
    assert (till.rows("account"), till.rows("note")) == ([1, 2], [1, 2, 3])
    for name in ("account", "note"):
        rows = [row.record.place for row in opened.context.tables.find(till.source.tables[name].name).changes.content()]
        assert len(set(rows)) == len(rows)
    assert len(till.own("dead_letters")) == 1
    assert [row["batch_id"] for row in till.own("batches")] == [0, 1]
