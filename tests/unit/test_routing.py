"""Which rows of a batch wait, which can be placed, and which nothing will ever describe (by commit ts)."""

from types import SimpleNamespace

import pytest

from pipeline.ddl import DropDatabase, DropTable
from pipeline.ddl.name_history import NameBinding, NameHistory
from pipeline.ddl.statement import Statement
from pipeline.ddl.table_ref import PairRef, RemovedTable, UnseenTable
from pipeline.ingest.by_commit_ts.names import NamesByCommitTs
from pipeline.ingest.by_commit_ts.routing import Router
from pipeline.ingest.by_commit_ts.timeline import DdlTimeline
from pipeline.model.columns import CommitTs, SchemaId, TableVersion
from pipeline.model.messages import EVER, Ddl, Messages, Part, SeenVersion, TableMessages, Unknown
from pipeline.model.names import TableName
from pipeline.warehouse.pairs import State

A = TableName("s", "a")
IS_FIRST, IS_SECOND, GONE = PairRef("first"), PairRef("second"), RemovedTable()
FIRST, SECOND = NameBinding(A.key, IS_FIRST, 0, 10), NameBinding(A.key, IS_SECOND, 12)
LOST = Unknown(A, SchemaId(3), 2, 5, 6, where=None)
DROP, DROP_DATABASE = DropTable(A), DropDatabase("S")


def statement(ts, *actions):
    return Statement(Ddl(CommitTs(ts), A, 0, f"statement {ts}", {}), actions)


def seen(number, since, until):
    return SeenVersion(TableVersion(A, SchemaId(number), ()), {}, {}, 1, since=since, until=until)


def router(*bindings, states=(), versions=(), unknown=(LOST,), applied=(), pending=(), late=False):
    """A batch with rows of one table name. `states`: of the pairs that are there, by their uuid."""
    pairs = {uuid: SimpleNamespace(state=state, source=A) for uuid, state in dict(states).items()}
    context = SimpleNamespace(
        tables=SimpleNamespace(by_uuid=pairs.get), source=SimpleNamespace(stream_noun="topic"),
        records=SimpleNamespace(tables={"ddl_history": SimpleNamespace(properties={})}),
    )  # fmt: skip
    tables = (TableMessages(A, tuple(versions)),) if versions else ()
    timeline = DdlTimeline(tuple(applied), tuple(pending))
    messages = Messages(tables=tables, unknown=unknown)
    return Router(NamesByCommitTs(context, messages, timeline, NameHistory.of(bindings)), late=late)


def placed(told):
    return {one.table_ref: one.parts for one in told.placed(told.pending_parts())}


def test_rows_that_nothing_describes_are_in_the_way_of_their_table_and_not_of_the_next_of_its_name():
    versions = seen(1, 3, 8), seen(9, 13, 20)
    told = router(FIRST, SECOND, states={"first": State.LIVE, "second": State.LIVE}, versions=versions)
    assert list(told.pending_parts()) == [Part(A, 4, 10)]
    assert placed(told) == {IS_FIRST: (Part(A, 0, 4),), IS_SECOND: (Part(A, 12, EVER),)}
    assert told.undescribed() == []


def test_rows_of_a_version_stay_together_with_what_they_are_of_when_a_name_comes_back():
    lost = Unknown(A, SchemaId(3), 2, 5, 15, where=None)
    told = router(FIRST, SECOND, states={"first": State.DROPPED, "second": State.LIVE}, unknown=(lost,))
    assert told.undescribed() == [(lost, Part(A, 4, 10))]
    assert list(told.pending_parts()) == [Part(A, 12, EVER)]


@pytest.mark.parametrize("table_ref", [IS_FIRST, GONE])
def test_rows_of_a_dropped_table_that_nothing_has_described_are_in_nobodys_way(table_ref):
    versions = seen(1, 3, 8), seen(9, 13, 20)
    told = router(NameBinding(A.key, table_ref, 0, 10), SECOND, states={"first": State.DROPPED}, versions=versions)
    assert told.undescribed() == [(LOST, Part(A, 4, 10))]
    assert told.pending_parts() == {}
    assert placed(told) == {table_ref: (Part(A, 0, 10),), IS_SECOND: (Part(A, 12, EVER),)}


@pytest.mark.parametrize("action", [DROP, DROP_DATABASE])
def test_rows_of_a_table_that_was_never_made_end_with_the_statement_that_drops_it(action):
    dropped = statement(10, action)
    ended = router(NameBinding(A.key, UnseenTable(0, A.key), 0, 10), applied=(dropped,))
    again = router(SECOND, applied=(dropped,))  # a second try: the first has made the table that comes behind it
    assert ended.undescribed() == [(LOST, Part(A, 4, 10))]
    assert again.undescribed() == [(LOST, Part(A, 4, 12))]
    assert (ended.pending_parts(), again.pending_parts()) == ({}, {})


def test_rows_of_a_table_that_was_never_made_and_that_no_statement_drops_wait_on():
    told = router(SECOND, versions=(seen(9, 13, 20),))
    assert told.undescribed() == []
    assert list(told.pending_parts()) == [Part(A, 4, 12)]
    assert placed(told) == {IS_SECOND: (Part(A, 12, EVER),)}


MADE = NameBinding(A.key, PairRef("made"), 12, cause="12:create/0")


def test_rows_from_before_a_table_was_made_are_of_one_that_nobody_misses():
    told = router(MADE, states={"made": State.LIVE}, versions=(seen(1, 3, 8), seen(9, 13, 20)))
    assert placed(told) == {GONE: (Part(A, 0, 12),), PairRef("made"): (Part(A, 12, EVER),)}
    assert told.undescribed() == [(LOST, Part(A, 4, 12))]
    assert told.pending_parts() == {}


def test_rows_from_before_a_table_was_made_are_new_where_a_topic_came_late():
    told = router(MADE, states={"made": State.LIVE}, versions=(seen(1, 3, 8), seen(9, 13, 20)), late=True)
    assert UnseenTable(0, A.key) in placed(told)
    assert list(told.pending_parts()) == [Part(A, 4, 12)]


def test_a_statement_that_waits_is_in_the_way_of_everything_behind_it():
    versions = seen(1, 3, 8), seen(9, 13, 20)
    pending = (statement(15, DROP),)
    told = router(FIRST, SECOND, states={"first": State.LIVE}, versions=versions, pending=pending)
    assert list(told.pending_parts()) == [Part(A, 15, EVER), Part(A, 4, 10)]
    assert placed(told) == {IS_FIRST: (Part(A, 0, 4),), IS_SECOND: (Part(A, 12, 15),)}
    early = router(FIRST, SECOND, versions=versions, unknown=(), pending=(statement(2, DROP),))
    assert placed(early) == {}
