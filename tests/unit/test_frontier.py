"""How far a changefeed has come."""

from types import MappingProxyType

from pipeline.ingest.by_commit_ts.frontier import (
    NEVER,
    EarlierTry,
    Recorded,
    after_ddl,
    closed_by_watermark,
    commit_ts_of,
    reached,
    resolved,
)
from pipeline.ingest.by_commit_ts.frontier import progress as progress_after
from pipeline.model.columns import CommitTs
from pipeline.model.messages import Ddl
from pipeline.model.names import TableName
from pipeline.model.places import Partition

P0, P1, P2 = (Partition("t", number) for number in range(3))


def ddl(ts, *partitions):
    return Ddl(CommitTs(ts), TableName("s", "t"), 0, "", dict.fromkeys(partitions, 0))


def progress(before, announced, statements):
    """With partitions that have been read beyond each statement."""
    return progress_after(before, announced, statements, dict.fromkeys((P0, P1, P2), 1))


def marks(**partitions):
    return {{"p0": P0, "p1": P1, "p2": P2}[name]: closed_by_watermark(ts) for name, ts in partitions.items()}


def test_the_slowest_live_partition_decides():
    assert resolved(marks(p0=10, p1=8, p2=9), {P0, P1, P2}) == closed_by_watermark(8)


def test_a_partition_that_was_read_to_its_end_is_left_out():
    assert resolved(marks(p0=10, p1=8), {P0}) == closed_by_watermark(10)


def test_a_partition_that_has_no_watermark_yet_holds_all_back_while_there_is_something_to_read():
    assert resolved(marks(p0=10), {P1}) == NEVER
    assert resolved(marks(p0=10), {}) == closed_by_watermark(10)


def test_there_is_no_cut_without_watermarks():
    assert resolved({}, {P0}) == NEVER


def test_a_ddl_closes_what_a_watermark_of_its_ts_closes_and_itself():
    before = progress({}, marks(p0=10, p1=10), [])
    after = progress(before, {}, [ddl(10, P0)])
    both = {P0, P1}
    assert resolved(before, both) == closed_by_watermark(10) < after_ddl(10)
    assert resolved(after, both) == closed_by_watermark(10)
    assert resolved(progress(after, marks(p1=11), []), both) == after_ddl(10)
    assert resolved(progress(after, {}, [ddl(10, P1)]), both) == after_ddl(10)
    assert commit_ts_of(after_ddl(10)) == 10


def test_it_makes_no_difference_on_which_side_of_a_ddl_its_watermark_stands():
    first = progress(progress({}, marks(p0=10), []), {}, [ddl(10, P0)])
    assert first == progress(progress({}, {}, [ddl(10, P0)]), marks(p0=10), [])


def test_a_resend_does_not_go_back():
    assert progress({P0: closed_by_watermark(10)}, marks(p0=5), [ddl(4, P0)]) == {P0: closed_by_watermark(10)}


def test_a_ddl_from_beyond_what_was_read_closes_nothing_yet():
    """A try that died had read it, and left it pending."""
    assert progress_after(marks(p0=5), {}, [ddl(10, P0, P1)], {P0: 0, P1: 1}) == {
        **marks(p0=5),
        P1: after_ddl(10),
    }


class TestANewStream:
    """`t` has been read to 10; `new` with its partitions appears."""

    N0, N1 = (Partition("new", number) for number in range(2))
    STREAMS = MappingProxyType({"t": [P0, P1], "new": [N0, N1]})
    RECORDED = Recorded(marks(p0=10, p1=10), closed_by_watermark(10), [P0, P1])
    AFTER = marks(p0=20, p1=20)

    def read(self, oldest, unread, recorded=RECORDED, read=AFTER, tried=EarlierTry()):  # noqa: B008 - a value
        return reached(recorded, read, oldest, self.STREAMS, unread, tried)

    def test_nothing_is_resolved_before_its_first_record_is_read(self):
        found = self.read({}, {self.N0})
        assert (found.resolved, found.late) == (closed_by_watermark(10), frozenset())
        assert found.frontiers.keys() == {P0, P1}

    def test_all_of_it_is_in_time_if_it_begins_with_something_newer(self):
        found = self.read({"new": closed_by_watermark(11)}, {self.N0})
        assert (found.resolved, found.late) == (closed_by_watermark(10), frozenset())
        assert found.frontiers == marks(p0=20, p1=20) | dict.fromkeys([self.N0, self.N1], closed_by_watermark(10))
        read_to_its_end = self.read({"new": closed_by_watermark(11)}, {})
        assert read_to_its_end.resolved == closed_by_watermark(20)

    def test_it_is_late_if_it_has_a_history(self):
        found = self.read({"new": closed_by_watermark(10)}, {self.N0, self.N1})
        assert (found.resolved, found.late, found.late_frontier) == (closed_by_watermark(20), {"new"}, NEVER)
        assert found.frontiers[self.N0] == found.frontiers[self.N1] == NEVER

    def test_a_late_one_stays_late_whatever_it_brings_until_its_marks_have_come_so_far(self):
        recorded = self.RECORDED._replace(
            frontiers=self.RECORDED.frontiers | dict.fromkeys([self.N0, self.N1], NEVER), begun=[P0, P1, self.N0]
        )
        some = self.AFTER | {self.N0: 10, self.N1: 8}
        found = self.read({"new": closed_by_watermark(19)}, {self.N0}, recorded, some)
        assert (found.late, found.late_frontier) == ({"new"}, 10)
        assert (found.resolved, found.frontiers[self.N1]) == (closed_by_watermark(20), 8)
        read_to_its_end = self.read({}, {}, recorded, some)
        assert (read_to_its_end.late, read_to_its_end.frontiers[self.N1]) == (frozenset(), closed_by_watermark(20))
        caught_up = self.AFTER | dict.fromkeys([self.N0, self.N1], closed_by_watermark(15))
        found = self.read({}, {self.N0}, recorded, caught_up)
        assert (found.resolved, found.late) == (closed_by_watermark(15), frozenset())

    def test_one_that_brings_nothing_with_a_time_holds_nobody_up_for_long(self):
        recorded = self.RECORDED._replace(begun=[P0, P1, self.N0])
        found = self.read({}, {self.N0}, recorded)
        assert (found.resolved, found.late) == (closed_by_watermark(20), {"new"})

    def test_an_empty_one_holds_nobody_up(self):
        assert self.read({}, {P0}).resolved == closed_by_watermark(20)

    def test_at_the_beginning_none_is_late(self):
        nothing = Recorded({}, NEVER, [])
        found = self.read({"t": 2, "new": 2}, {self.N0}, nothing, marks(p0=20, p1=20))
        assert (found.resolved, found.late) == (NEVER, frozenset())


class TestStreamsThatCome:
    """And go, and whose partitions become more."""

    def test_one_that_is_not_there_any_more_keeps_what_is_recorded(self):
        away = Partition("away", 0)
        recorded = Recorded(marks(p0=10) | {away: closed_by_watermark(90)}, closed_by_watermark(10), [P0, away])
        read = marks(p0=20) | {away: closed_by_watermark(90)}
        found = reached(recorded, read, {}, {"t": [P0]}, [], EarlierTry())
        assert (found.resolved, found.frontiers) == (closed_by_watermark(20), read)

    def test_a_partition_that_is_added_is_in_time(self):
        recorded = Recorded(marks(p0=10), closed_by_watermark(10), [P0])
        found = reached(recorded, marks(p0=20), {}, {"t": [P0, P1]}, {P1}, EarlierTry())
        assert (found.resolved, found.late, found.frontiers[P1]) == (
            closed_by_watermark(10),
            frozenset(),
            closed_by_watermark(10),
        )

    def test_one_that_has_had_records_and_no_mark_is_not(self):
        """As an earlier version has left it."""
        recorded = Recorded(marks(p0=10), closed_by_watermark(10), [P0, P1])
        found = reached(recorded, marks(p0=20), {}, {"t": [P0, P1]}, {P1}, EarlierTry())
        assert (found.late, found.frontiers[P1]) == ({"t"}, NEVER)


class TestATryThatDied:
    """It had been resolved to 20 with all of `t`; now p1 has got more, and nothing of this batch says how far it is."""

    RECORDED = Recorded(marks(p0=10, p1=10), closed_by_watermark(10), [P0, P1])
    STREAMS = MappingProxyType({"t": [P0, P1], "new": [Partition("new", 0)]})
    TRIED = EarlierTry(closed_by_watermark(20), frozenset({P0, P1}))

    def test_its_partitions_are_complete_to_there(self):
        found = reached(self.RECORDED, marks(p0=20, p1=10), {}, self.STREAMS, {P1}, self.TRIED)
        assert (found.resolved, found.late) == (closed_by_watermark(20), frozenset())
        assert found.frontiers == marks(p0=20, p1=20)

    def test_a_stream_that_it_had_not_read_is_compared_with_it(self):
        (new,) = self.STREAMS["new"]
        read = marks(p0=20, p1=20)
        found = reached(self.RECORDED, read, {"new": closed_by_watermark(15)}, self.STREAMS, {new}, self.TRIED)
        assert (found.resolved, found.late) == (closed_by_watermark(20), {"new"})
        found = reached(self.RECORDED, read, {"new": closed_by_watermark(21)}, self.STREAMS, {new}, self.TRIED)
        assert (found.late, found.frontiers[new]) == (frozenset(), closed_by_watermark(20))

    def test_so_is_one_with_what_tables_show_of_a_try_that_noted_nothing(self):
        (new,) = self.STREAMS["new"]
        shown = EarlierTry(shown=closed_by_watermark(20))
        found = reached(
            self.RECORDED, marks(p0=12, p1=12), {"new": closed_by_watermark(15)}, self.STREAMS, {new}, shown
        )
        assert found.late == {"new"}
