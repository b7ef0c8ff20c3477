"""Requests to a process that has the warehouse's lock: taken once, answered, withdrawn when nobody waits."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from pipeline.errors import Refused
from pipeline.streaming.lock import LOCKED, WriterLock
from pipeline.streaming.requests import Inbox, in_turn
from registry import RegistryError

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


def asked(folder, name, **about):
    """A request as a command leaves it."""
    (folder / ".requests").mkdir(exist_ok=True)
    about = {"what": "rebuild", "names": [name], "pid": os.getpid(), "host": socket.gethostname(), **about}
    path = folder / ".requests" / f"{name}.json"
    path.write_text(json.dumps(about))
    return path


def test_one_that_is_withdrawn_while_another_is_done_is_passed_over(tmp_path):
    asked(tmp_path, "first", asked=1)
    second, done = asked(tmp_path, "second", asked=2), []

    def errand(_what, names):
        done.extend(names)
        second.unlink(missing_ok=True)
        return {}

    Inbox(tmp_path).take(errand)
    Inbox(tmp_path).take(errand)
    assert done in (["first"], ["first", "second"])
    assert not second.exists()


def test_nobody_does_what_a_process_that_was_killed_had_asked_for(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path = asked(tmp_path, "orders", asked=1, pid=gone.pid)
    Inbox(tmp_path).take(lambda *_: pytest.fail("done"))
    assert not path.exists()


@pytest.mark.parametrize(
    ("error", "code"), [(RegistryError("REGISTRY_UNREACHABLE", "no answer"), "REGISTRY_UNREACHABLE")]
)
def test_what_another_part_refuses_ends_no_run(tmp_path, error, code):
    path = asked(tmp_path, "orders", asked=1)

    def errand(_what, _names):
        raise error

    Inbox(tmp_path).take(errand)
    answer = json.loads(path.with_name("orders.answer.json").read_text())
    assert answer["refused"][0] == code


def test_what_nobody_has_foreseen_is_answered_before_it_ends_the_run(tmp_path):
    path = asked(tmp_path, "orders", asked=1)

    def errand(_what, _names):
        raise ZeroDivisionError("by zero")

    with pytest.raises(ZeroDivisionError):
        Inbox(tmp_path).take(errand)
    answer = json.loads(path.with_name("orders.answer.json").read_text())
    assert answer["refused"][:2] == ["UNEXPECTED", "ZeroDivisionError: by zero"]
    assert not path.exists()


def test_answers_that_nobody_fetches_go(tmp_path):
    path = asked(tmp_path, "orders.answer")
    Inbox(tmp_path).take(lambda *_: pytest.fail("done"))
    assert path.exists()
    os.utime(path, (0, 0))
    Inbox(tmp_path).take(lambda *_: pytest.fail("done"))
    assert not path.exists()
