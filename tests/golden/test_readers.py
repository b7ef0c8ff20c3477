"""Current tables and changes tables by every reader, whichever way the rows were published."""

import pytest
from golden.checking import currents_differ
from golden.comparing import assert_none
from golden.corpus import manifest
from golden.expected import tables_at_the_end
from golden.readers import readers_differ

from pipeline.warehouse import publisher
from pipeline.warehouse.clone import publish
from pipeline.warehouse.clone.keys import CannotClone

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.e2e]


def merged(_table):
    raise CannotClone("as the test wants it")


CASES = [case for case in manifest() if case.protocol != "storage" and case.scenario != "orders_small"]
"""Those of files are published as those of topics by commit ts. `orders_small` has the types that others have."""
WAYS = {
    "links": (publish, "EXCERPT_OF", 1_000_000),
    "excerpts": (publish, "EXCERPT_OF", 1),
    "merges": (publisher, "check", merged),
}


def ways_taken(warehouse):
    """How the current tables were published, each by its newest snapshot."""
    taken = set()
    for name in warehouse.current_names():
        table = warehouse.table(name)
        if table.current_snapshot() is None:
            continue
        paths = table.inspect.files()["file_path"].to_pylist()
        if table.current_snapshot().summary["ticdc.by-clone"] == "false":
            taken.add("merges")
        elif paths:
            taken.add("excerpts" if any(path.endswith("-excerpt.parquet") for path in paths) else "links")
    return taken


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_reader_sees_tidbs_tables_whichever_way_they_were_published(case, way, running, monkeypatch):
    monkeypatch.setattr(*WAYS[way])
    with running(case) as run:
        run.take()
        assert ways_taken(run.warehouse) <= ({way} if way == "merges" else {way, "merges"})
        if case.by_cut:
            assert_none(list(currents_differ(case, run.warehouse, tables_at_the_end(case).values())))
        assert_none(list(readers_differ(run.warehouse, run.pipeline.context.spark)))
