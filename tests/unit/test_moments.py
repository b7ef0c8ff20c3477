"""How far a changefeed has come."""

from pipeline.model.columns import CommitTs
from pipeline.model.messages import Ddl
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.streaming.frontier import NEVER, after_ddl, closed_by_watermark, commit_ts_of, progress, resolved

P0, P1, P2 = (Partition("t", number) for number in range(3))


def ddl(ts, *partitions):
    return Ddl(CommitTs(ts), TableName("s", "t"), 0, "", dict.fromkeys(partitions, 0))


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
    before = progress({}, {P0: 10, P1: 10}, [])
    after = progress(before, {}, [ddl(10, P0)])
    both = {P0, P1}
    assert resolved(before, both) == closed_by_watermark(10) < after_ddl(10)
    assert resolved(after, both) == closed_by_watermark(10)
    assert resolved(progress(after, {P1: 11}, []), both) == after_ddl(10)
    assert resolved(progress(after, {}, [ddl(10, P1)]), both) == after_ddl(10)
    assert commit_ts_of(after_ddl(10)) == 10


def test_it_makes_no_difference_on_which_side_of_a_ddl_its_watermark_stands():
    first = progress(progress({}, {P0: 10}, []), {}, [ddl(10, P0)])
    assert first == progress(progress({}, {}, [ddl(10, P0)]), {P0: 10}, [])


def test_a_resend_does_not_go_back():
    assert progress({P0: closed_by_watermark(10)}, {P0: 5}, [ddl(4, P0)]) == {P0: closed_by_watermark(10)}
