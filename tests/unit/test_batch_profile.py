"""What a batch teaches of the next one: of one table, it is expected again; of several, nothing is guessed."""

from types import SimpleNamespace

import pytest

from pipeline.ingest.fast_path.batch_profile import BatchProfile
from pipeline.model.messages import Messages, TableMessages
from pipeline.model.names import TableName

A, B = TableName("s", "a"), TableName("s", "b")


def outcome(*tables, kinds=("rows",), dead_letters=0, **more):
    messages = Messages(tables=tuple(TableMessages(table, ()) for table in tables), kinds=frozenset(kinds), **more)
    return SimpleNamespace(messages=messages, dead_letters=dead_letters)


def learnt(*outcomes):
    profile = BatchProfile()
    for one in outcomes:
        profile.learn(one.messages, one.dead_letters)
    return profile


def test_batches_of_one_table_let_it_be_expected_with_the_kinds_that_they_had():
    profile = learnt(outcome(A, kinds=["rows"]), outcome(A, kinds=["rows", "deletes"]))
    assert (profile.table, profile.kinds) == (A, {"rows", "deletes"})


def test_a_second_table_ends_the_guessing():
    assert learnt(outcome(A), outcome(A, B)).table is None
    assert learnt(outcome(A), outcome(A, B), outcome(A)).table == A


@pytest.mark.parametrize(
    "more", [{"dead_letters": 1}, {"pending_events": 1}, {"unknown": ("rows",)}, {"ddl": ("a statement",)}], ids=str
)
def test_a_batch_with_anything_else_teaches_nothing(more):
    assert learnt(outcome(A), outcome(A, **more)).table is None


def test_a_stream_begins_with_statements_and_is_expected_all_the_same():
    assert learnt(outcome(A, ddl=("CREATE TABLE",))).table == A
