"""Requests to a process that has the warehouse's lock: taken once, answered, withdrawn when nobody waits."""

import threading

import pytest

from pipeline.errors import Refused
from pipeline.streaming.lock import LOCKED, WriterLock
from pipeline.streaming.requests import Inbox, in_turn

REBUILD = ("rebuild", ("shop", "orders"))


def locked(folder):
    """What a command does that needs the lock."""

    def directly():
        with WriterLock(folder, "tables rebuild"):
            return {"by": "itself"}

    return directly


@pytest.fixture
def run(tmp_path):
    """A process that has the lock and takes requests: `run(errand)` until the test ends."""
    ends = threading.Event()
    threads = []

    def start(errand, purpose="run"):
        begun = threading.Event()

        def work():
            with WriterLock(tmp_path, purpose):
                begun.set()
                while not ends.wait(0.02):
                    Inbox(tmp_path).take(errand)

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        begun.wait()

    yield start
    ends.set()
    for thread in threads:
        thread.join()


def test_without_a_run_the_command_does_it_itself(tmp_path):
    assert in_turn(tmp_path, REBUILD, locked(tmp_path), pytest.fail) == {"by": "itself"}


def test_a_living_run_does_it_and_answers(tmp_path, run):
    asked, told = [], []
    run(lambda what, names: asked.append((what, tuple(names))) or {"keys": 7})
    assert in_turn(tmp_path, REBUILD, locked(tmp_path), told.append) == {"keys": 7}
    assert asked == [REBUILD]
    assert len(told) == 1
    assert told[0].startswith("`run`, process ")
    assert list((tmp_path / ".requests").iterdir()) == []


def test_what_the_run_refuses_is_raised_where_it_was_asked(tmp_path, run):
    def refuse(_what, _names):
        raise Refused("NOT_HELD", "shop.orders is not held", "look at the list")

    run(refuse)
    with pytest.raises(Refused, match=r"NOT_HELD: shop\.orders is not held\n  look at the list"):
        in_turn(tmp_path, REBUILD, locked(tmp_path), lambda _who: None)


def test_another_holder_is_not_asked(tmp_path, run):
    run(lambda *_: pytest.fail("asked"), purpose="tables maintain")
    with pytest.raises(Refused) as refused:
        in_turn(tmp_path, REBUILD, locked(tmp_path), pytest.fail)
    assert refused.value.code == LOCKED
    assert not (tmp_path / ".requests").exists()


def test_a_run_that_ends_without_an_answer_leaves_it_to_the_command(tmp_path):
    lock = WriterLock(tmp_path, "run")
    lock.__enter__()
    done = in_turn(tmp_path, REBUILD, locked(tmp_path), lambda _who: lock.__exit__())
    assert done == {"by": "itself"}
    assert list((tmp_path / ".requests").iterdir()) == []
