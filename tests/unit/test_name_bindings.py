"""Names over commit ts: which table a row belongs to, wherever it lies in the stream."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.ddl import CreateTable, DropDatabase, DropTable, RenameTable
from pipeline.ddl.name_history import NameBinding, NameHistory
from pipeline.ddl.statement import Statement
from pipeline.ddl.table_ref import CreatedTable, UnseenTable
from pipeline.model.columns import CommitTs
from pipeline.model.messages import EVER, Ddl
from pipeline.model.names import TableName

A, B, C = (TableName("s", name) for name in "abc")


def statement(ts, *actions):
    return Statement(Ddl(CommitTs(ts), A, 0, f"statement {ts}", {}), actions)


def apply(known, said):
    """Clause by clause, as the chronicle does."""
    for action in said.actions if said.cause not in known.causes else ():
        known.act(action, said.ddl.commit_ts, said.cause)
    known.causes.add(said.cause)


def names(*bindings):
    return NameHistory.of(NameBinding(*span) for span in bindings)


def test_a_name_means_what_it_meant_at_that_time():
    known = names((A.key, "u"))
    apply(known, statement(10, RenameTable(A, B)))
    apply(known, statement(20, CreateTable(A)))
    assert [known.at(A.key, ts).table_ref for ts in (5, 10)] == ["u", "u"]
    assert known.at(B.key, 11).table_ref == "u"
    assert known.at(A.key, 21).table_ref == CreatedTable(20, A.key)


def test_names_can_be_swapped():
    known = names((A.key, "u"), (B.key, "v"))
    for number, action in enumerate((RenameTable(A, C), RenameTable(B, A), RenameTable(C, B))):
        apply(known, Statement(Ddl(CommitTs(10), A, 0, f"statement {number}", {}), (action,)))
    assert [known.at(name.key, 11).table_ref for name in (A, B)] == ["v", "u"]
    assert [known.at(name.key, 10).table_ref for name in (A, B)] == ["u", "v"]


def test_a_table_that_is_dropped_and_made_again_is_another():
    known = names((A.key, "u"))
    apply(known, statement(10, DropTable(A)))
    apply(known, statement(12, CreateTable(A)))
    assert [known.at(A.key, ts).table_ref for ts in (10, 13)] == ["u", CreatedTable(12, A.key)]


def test_a_statement_that_comes_again_changes_nothing():
    known = names((A.key, "u"))
    statements = [statement(10, DropTable(A)), statement(12, CreateTable(A)), statement(14, RenameTable(A, B))]
    for one in statements:
        apply(known, one)
    before = {name: list(bindings) for name, bindings in known.bindings.items()}
    apply(known, statements[-1])
    assert known.bindings == before


def test_rows_of_a_name_that_nobody_knows_make_a_table():
    known = NameHistory()
    span = known.bind(A.key, 5)
    assert (span.since, span.until) == (0, EVER)
    apply(known, statement(10, DropTable(A)))
    assert known.at(A.key, 7).table_ref == span.table_ref
    assert known.at(A.key, 11).table_ref != span.table_ref


def test_a_name_that_is_dropped_before_its_rows_are_known_still_had_a_table():
    known = NameHistory()
    apply(known, statement(10, DropTable(A)))
    apply(known, statement(11, CreateTable(A)))
    assert known.at(A.key, 3).table_ref == UnseenTable(0, A.key)
    assert known.at(A.key, 12).table_ref == CreatedTable(11, A.key)


def test_a_database_takes_its_tables_along():
    known = names((A.key, "u"), (("other", "a"), "v"))
    apply(known, statement(10, DropDatabase("S")))
    assert known.open(A.key) is None
    assert known.open(("other", "a")).table_ref == "v"


ACTIONS = st.sampled_from([
    CreateTable(A), CreateTable(B), DropTable(A), DropTable(B), RenameTable(A, B), RenameTable(B, A),
])  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 3), ACTIONS), max_size=8))
def test_the_spans_of_a_name_never_overlap_and_a_table_never_has_two_names(drawn):
    """Of all statements only a RENAME of several tables has clauses of one commit ts."""
    known, now, last = names((A.key, "u")), 0, None
    for number, (step, action) in enumerate(drawn):
        together = isinstance(action, RenameTable) and isinstance(last, RenameTable)
        now, last = now + (step if together else max(step, 1)), action
        apply(known, Statement(Ddl(CommitTs(now), A, 0, f"statement {number}", {}), (action,)))
    for ts in range(1, now + 3):
        held = [name for name, bindings in known.bindings.items() for span in bindings if span.has(ts)]
        assert len(held) == len(set(held))
        meanings = [known.at(name, ts).table_ref for name in held]
        assert len(meanings) == len(set(meanings))
