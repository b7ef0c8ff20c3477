"""A publish whose main is moved by another commit while it is staged (design.md, rule 9)."""

import pytest
from spark.test_current import FEW, MANY, Stream

from pipeline.errors import BatchFailed
from pipeline.warehouse.iceberg import MAIN_MOVED, Table
from pipeline.warehouse.state import APPEND, BY_CLONE, OPERATION

pytestmark = pytest.mark.spark


class Meddler:
    """Told of the steps of a publish, it commits to main before each becomes visible, so many times."""

    def __init__(self, stream, times, **summary):
        self.table, self.left, self.summary = stream.table.current, times, summary

    def __call__(self, name):
        if name in ("linked", "staged") and self.left:
            self.left -= 1
            self.table.mark(self.summary, "main")


@pytest.mark.parametrize("rows", [FEW, MANY])
def test_is_staged_once_more_from_the_new_main(warehouse, rows):
    stream = Stream(warehouse, ["bigint"])
    stream.take(*(("insert", n, n) for n in range(rows)))
    stream.take(*(("update", n, -n) for n in range(rows)), step=Meddler(stream, 1, **APPEND.entry("another")))
    assert stream.rows() == stream.wanted({n: -n for n in range(rows)})
    assert stream.table.current.inherited(APPEND) == "another"
    assert stream.table.current.branches() == ["main"]


class Compactor(Meddler):
    """Compacts the table, as a person's `rewrite_data_files` beside a run does."""

    def __call__(self, name):
        if name == "linked" and self.left:
            self.left -= 1
            self.table.rewrite({"rewrite-all": "true"})


def test_rows_that_a_compaction_has_moved_meanwhile_are_found_in_their_new_file(warehouse):
    stream = Stream(warehouse, ["bigint"])
    for start in range(0, 30, 10):
        stream.take(*(("insert", n, n) for n in range(start, start + 10)))
    before = {file.location for file in stream.table.live_files.files.values()}
    stream.take(("update", 3, -3), ("delete", 14, None), step=Compactor(stream, 1))
    assert before.isdisjoint(stream.table.live_files.files)
    assert stream.rows() == stream.wanted({n: n for n in range(30) if n not in (3, 14)} | {3: -3})
    assert BY_CLONE.read(stream.table.current.summary(stream.table.current.head())) is True


def test_what_is_known_of_the_keys_of_a_file_stays_known(warehouse):
    stream = Stream(warehouse, ["bigint"])
    stream.take(*(("insert", n, n) for n in range(10)))
    stream.take(("update", 3, -3))
    (file, *_) = stream.table.live_files.files.values()
    assert file.keys is not None
    stream.table.current.mark({}, "main")  # a commit of another's
    stream.take(("update", 4, -4))
    assert stream.table.live_files.files[file.location].keys is file.keys
    assert stream.rows() == stream.wanted({n: n for n in range(10)} | {3: -3, 4: -4})


def test_fails_where_main_moves_again(warehouse):
    stream = Stream(warehouse, ["bigint"])
    stream.take(("insert", 1, 1))
    with pytest.raises(BatchFailed, match="MAIN_MOVED"):
        stream.take(("insert", 2, 2), step=Meddler(stream, 2))
    assert stream.rows() == stream.wanted({1: 1})


def test_fails_at_once_where_another_pipeline_has_published(warehouse):
    stream = Stream(warehouse, ["bigint"])
    stream.take(("insert", 1, 1))
    meddler = Meddler(stream, 2, **OPERATION.entry("batch1 of another"))
    with pytest.raises(BatchFailed, match="MAIN_MOVED"):
        stream.take(("insert", 2, 2), step=meddler)
    assert meddler.left == 1


@pytest.mark.parametrize(
    "error",
    [TimeoutError("the catalog's answer was lost"), BatchFailed(MAIN_MOVED, "another has gone on behind it", "")],
    ids=["nobody knows", "another came behind it"],
)
@pytest.mark.parametrize(("way", "kind", "number"), [("show", "bigint", 1), ("publish", "narrow", 101)])
def test_what_was_published_is_not_staged_again(warehouse, monkeypatch, error, way, kind, number):
    """By links, and by merging, since a key is one that its column cannot hold."""
    stream = Stream(warehouse, [kind])
    stream.take(("insert", number, 1))
    true, tries = getattr(Table, way), []

    def fails(self, *shown):
        true(self, *shown)
        tries.append(shown)
        raise error

    monkeypatch.setattr(Table, way, fails)
    with pytest.raises(type(error)) as failed:
        stream.take(("insert", number + 1, 2))
    assert failed.value is error
    assert len(tries) == 1
    assert stream.rows() == stream.wanted({number: 1, number + 1: 2})
