"""Which rows of a batch wait, which can be placed, and which nothing will ever describe (by commit ts)."""

from types import SimpleNamespace

import pytest

from pipeline.ddl import DropDatabase, DropTable
from pipeline.model.columns import CommitTs, SchemaId, TableVersion
from pipeline.model.messages import EVER, Ddl, Messages, Part, SeenVersion, TableMessages, Unknown
from pipeline.model.names import TableName
from pipeline.streaming import routing
from pipeline.streaming.ddl_applier import DdlApplier
from pipeline.streaming.epochs import Statement
from pipeline.streaming.name_bindings import GONE, NameBinding, NameHistory
from pipeline.warehouse.pairs import State

A = TableName("s", "a")
FIRST, SECOND = NameBinding(A.key, "first", 0, 10), NameBinding(A.key, "second", 12)
LOST = Unknown(A, SchemaId(3), 2, 5, 6, where=None)
DROP, DROP_DATABASE = DropTable(A), DropDatabase("S")


def statement(ts, *actions):
    return Statement(Ddl(CommitTs(ts), A, 0, f"statement {ts}", {}), actions)


def seen(number, since, until):
    return SeenVersion(TableVersion(A, SchemaId(number), ()), {}, {}, 1, since=since, until=until)


def applier(*bindings, states=(), versions=(), unknown=(LOST,), applied=(), pending=()):
    """A batch with rows of one table name. `states`: of the pairs that are there, by their uuid."""
    pairs = {uuid: SimpleNamespace(state=state, source=A) for uuid, state in dict(states).items()}
    context = SimpleNamespace(tables=SimpleNamespace(by_uuid=pairs.get))
    tables = (TableMessages(A, tuple(versions)),) if versions else ()
    return DdlApplier(context, Messages(tables=tables, unknown=unknown), NameHistory.of(bindings), applied, pending)


def placed(told):
    return {one.table_ref: one.messages.parts for one in routing.placed(told)}


def test_rows_that_nothing_describes_are_in_the_way_of_their_table_and_not_of_the_next_of_its_name():
    versions = seen(1, 3, 8), seen(9, 13, 20)
    told = applier(FIRST, SECOND, states={"first": State.LIVE, "second": State.LIVE}, versions=versions)
    assert list(routing.pending_parts(told)) == [Part(A, 4, 10)]
    assert placed(told) == {"first": (Part(A, 0, 4),), "second": (Part(A, 12, EVER),)}
    assert routing.undescribed(told) == []


def test_rows_of_a_version_stay_together_with_what_they_are_of_when_a_name_comes_back():
    lost = Unknown(A, SchemaId(3), 2, 5, 15, where=None)
    told = applier(FIRST, SECOND, states={"first": State.DROPPED, "second": State.LIVE}, unknown=(lost,))
    assert routing.undescribed(told) == [(lost, Part(A, 4, 10))]
    assert list(routing.pending_parts(told)) == [Part(A, 12, EVER)]


@pytest.mark.parametrize("table_ref", ["first", GONE])
def test_rows_of_a_dropped_table_that_nothing_has_described_are_in_nobodys_way(table_ref):
    versions = seen(1, 3, 8), seen(9, 13, 20)
    told = applier(NameBinding(A.key, table_ref, 0, 10), SECOND, states={"first": State.DROPPED}, versions=versions)
    assert routing.undescribed(told) == [(LOST, Part(A, 4, 10))]
    assert routing.pending_parts(told) == {}
    assert placed(told) == {table_ref: (Part(A, 0, 10),), "second": (Part(A, 12, EVER),)}


@pytest.mark.parametrize("action", [DROP, DROP_DATABASE])
def test_rows_of_a_table_that_was_never_made_end_with_the_statement_that_drops_it(action):
    dropped = statement(10, action)
    ended = applier(NameBinding(A.key, "rows@0:s.a", 0, 10), applied=(dropped,))
    again = applier(SECOND, applied=(dropped,))  # a second try: the first has made the table that comes behind it
    assert routing.undescribed(ended) == [(LOST, Part(A, 4, 10))]
    assert routing.undescribed(again) == [(LOST, Part(A, 4, 12))]
    assert (routing.pending_parts(ended), routing.pending_parts(again)) == ({}, {})


def test_rows_of_a_table_that_was_never_made_and_that_no_statement_drops_wait_on():
    told = applier(SECOND, versions=(seen(9, 13, 20),))
    assert routing.undescribed(told) == []
    assert list(routing.pending_parts(told)) == [Part(A, 4, 12)]
    assert placed(told) == {"second": (Part(A, 12, EVER),)}


MADE = NameBinding(A.key, "made", 12, cause="12:create/0")


def test_rows_from_before_a_table_was_made_are_of_one_that_nobody_misses():
    told = applier(MADE, states={"made": State.LIVE}, versions=(seen(1, 3, 8), seen(9, 13, 20)))
    assert placed(told) == {GONE: (Part(A, 0, 12),), "made": (Part(A, 12, EVER),)}
    assert routing.undescribed(told) == [(LOST, Part(A, 4, 12))]
    assert routing.pending_parts(told) == {}


def test_rows_from_before_a_table_was_made_are_new_where_a_topic_came_late():
    told = applier(MADE, states={"made": State.LIVE}, versions=(seen(1, 3, 8), seen(9, 13, 20)))
    told.late = True
    assert "rows@0:s.a" in placed(told)
    assert list(routing.pending_parts(told)) == [Part(A, 4, 12)]


def test_a_statement_that_waits_is_in_the_way_of_everything_behind_it():
    versions = seen(1, 3, 8), seen(9, 13, 20)
    pending = (statement(15, DROP),)
    told = applier(FIRST, SECOND, states={"first": State.LIVE}, versions=versions, pending=pending)
    assert list(routing.pending_parts(told)) == [Part(A, 15, EVER), Part(A, 4, 10)]
    assert placed(told) == {"first": (Part(A, 0, 4),), "second": (Part(A, 12, 15),)}
    early = applier(FIRST, SECOND, versions=versions, unknown=(), pending=(statement(2, DROP),))
    assert placed(early) == {}
