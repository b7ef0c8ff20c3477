"""Requests to a process that has the warehouse's lock: taken once, answered, withdrawn when nobody waits."""

import json
import os
import subprocess
import sys
import threading

import pytest

from pipeline.errors import Refused
from pipeline.runtime.lock import LOCKED, WriterLock
from pipeline.service import mailbox
from pipeline.service.dispatch import CHECK, MAINTAIN, ORPHANS, REBUILD, REDRIVE, RELEASE, TAG
from pipeline.service.mailbox import Inbox, in_turn
from registry import RegistryError

ASKED = (REBUILD, ("shop", "orders"))


def locked(folder):
    """What a command does that needs the lock."""

    def directly():
        with WriterLock(folder, "tables rebuild"):
            return {"by": "itself"}

    return directly


@pytest.fixture
def run(tmp_path):
    """A process that has the lock and takes requests: `run(operation)` until the test ends."""
    ends = threading.Event()
    threads = []

    def start(operation, purpose="run"):
        begun = threading.Event()

        def work():
            with WriterLock(tmp_path, purpose):
                begun.set()
                while not ends.wait(0.02):
                    Inbox(tmp_path).take(operation)

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        begun.wait()

    yield start
    ends.set()
    for thread in threads:
        thread.join()


def test_without_a_run_the_command_does_it_itself(tmp_path):
    assert in_turn(tmp_path, ASKED, locked(tmp_path), pytest.fail) == {"by": "itself"}


def test_a_living_run_does_it_and_answers(tmp_path, run):
    asked, told = [], []
    run(lambda what, names: asked.append((what, tuple(names))) or {"keys": 7})
    assert in_turn(tmp_path, ASKED, locked(tmp_path), told.append) == {"keys": 7}
    assert asked == [ASKED]
    assert len(told) == 1
    assert told[0].startswith("`run`, process ")
    assert list((tmp_path / ".requests").iterdir()) == []


def test_what_the_run_refuses_is_raised_where_it_was_asked(tmp_path, run):
    def refuse(_what, _names):
        raise Refused("NOT_HELD", "shop.orders is not held", "look at the list")

    run(refuse)
    with pytest.raises(Refused, match=r"NOT_HELD: shop\.orders is not held\n  look at the list"):
        in_turn(tmp_path, ASKED, locked(tmp_path), lambda _who: None)


def test_another_holder_is_not_asked(tmp_path, run):
    run(lambda *_: pytest.fail("asked"), purpose="tables maintain")
    with pytest.raises(Refused) as refused:
        in_turn(tmp_path, ASKED, locked(tmp_path), pytest.fail)
    assert refused.value.code == LOCKED
    assert not (tmp_path / ".requests").exists()


def test_a_run_that_ends_without_an_answer_leaves_it_to_the_command(tmp_path):
    lock = WriterLock(tmp_path, "run")
    lock.__enter__()
    done = in_turn(tmp_path, ASKED, locked(tmp_path), lambda _who: lock.__exit__())
    assert done == {"by": "itself"}
    assert list((tmp_path / ".requests").iterdir()) == []


def asked(folder, name, **about):
    """A request as a command leaves it."""
    (folder / ".requests").mkdir(exist_ok=True)
    about = {"what": REBUILD, "names": [name], "pid": os.getpid(), **mailbox._place(), **about}
    path = folder / ".requests" / f"{name}.json"
    path.write_text(json.dumps(about))
    return path


def test_one_that_is_withdrawn_while_another_is_done_is_passed_over(tmp_path):
    asked(tmp_path, "first", asked=1)
    second, done = asked(tmp_path, "second", asked=2), []

    def operation(_what, names):
        done.extend(names)
        second.unlink(missing_ok=True)
        return {}

    Inbox(tmp_path).take(operation)
    Inbox(tmp_path).take(operation)
    assert done in (["first"], ["first", "second"])
    assert not second.exists()


def test_nobody_does_what_a_process_that_was_killed_had_asked_for(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path = asked(tmp_path, "orders", asked=1, pid=gone.pid)
    Inbox(tmp_path).take(lambda *_: pytest.fail("done"))
    assert not path.exists()


@pytest.mark.parametrize("elsewhere", [{"host": "another"}, {"space": 1}], ids=["machine", "container"])
def test_whether_a_process_lives_where_numbers_mean_others_nobody_knows(tmp_path, elsewhere):
    """Containers with one name of a host: none of them sees the other's processes."""
    gone, done = subprocess.Popen([sys.executable, "-c", ""]), []
    gone.wait()
    asked(tmp_path, "orders", asked=1, pid=gone.pid, **elsewhere)
    Inbox(tmp_path).take(lambda _, names: done.extend(names) or {})
    assert done == ["orders"]


def test_where_there_is_no_proc_the_name_of_the_host_is_all(tmp_path, monkeypatch):
    monkeypatch.setattr(mailbox, "_NAMESPACE", tmp_path / "nothing")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path = asked(tmp_path, "orders", asked=1, pid=gone.pid)
    Inbox(tmp_path).take(lambda *_: pytest.fail("done"))
    assert not path.exists()


def test_a_request_that_goes_without_an_answer_is_made_again(tmp_path, run):
    told = []

    def waiting(who):
        told.append(who)
        for path in (tmp_path / ".requests").glob("*.json"):
            path.unlink()
        run(lambda *_: {"keys": 7})  # who takes them begins when the first is gone

    about = {"purpose": "run", "pid": 1, "host": "another", "since": "now"}
    (tmp_path / ".writer.json").write_text(json.dumps(about))
    refusal = Refused(LOCKED, "another process writes this warehouse")

    def directly():
        raise refusal

    assert in_turn(tmp_path, ASKED, directly, waiting) == {"keys": 7}
    assert len(told) == 1


@pytest.mark.parametrize(
    ("error", "code"), [(RegistryError("REGISTRY_UNREACHABLE", "no answer"), "REGISTRY_UNREACHABLE")]
)
def test_what_another_part_refuses_ends_no_run(tmp_path, error, code):
    path = asked(tmp_path, "orders", asked=1)

    def operation(_what, _names):
        raise error

    Inbox(tmp_path).take(operation)
    answer = json.loads(path.with_name("orders.answer.json").read_text())
    assert answer["refused"][0] == code


def fails(_what, _names):
    raise ZeroDivisionError("by zero")


def refused(path):
    return json.loads(path.with_name(f"{path.stem}.answer.json").read_text())["refused"]


@pytest.mark.parametrize("what", [REBUILD, RELEASE, REDRIVE])
def test_what_nobody_has_foreseen_is_answered_before_it_ends_the_run(tmp_path, what):
    path = asked(tmp_path, "orders", asked=1, what=what)
    with pytest.raises(ZeroDivisionError):
        Inbox(tmp_path).take(fails)
    assert refused(path)[:2] == ["UNEXPECTED", "ZeroDivisionError: by zero"]
    assert "ended with the error" in refused(path)[2]
    assert not path.exists()


@pytest.mark.parametrize("what", [MAINTAIN, ORPHANS, CHECK, TAG])
def test_what_leaves_nothing_half_done_is_answered_and_logged_and_ends_no_run(tmp_path, what, caplog):
    """As where the store's FileIO lists nothing, and `tables maintain --orphans` is asked for."""
    first, second = (asked(tmp_path, name, asked=at, what=what) for at, name in enumerate(("first", "second")))
    Inbox(tmp_path).take(fails)
    for path in (first, second):
        assert refused(path)[:2] == ["UNEXPECTED", "ZeroDivisionError: by zero"]
        assert "goes on" in refused(path)[2]
        assert not path.exists()
    assert any(record.exc_info for record in caplog.records)


def test_answers_that_nobody_fetches_go(tmp_path):
    path = asked(tmp_path, "orders.answer")
    Inbox(tmp_path).take(lambda *_: pytest.fail("done"))
    assert path.exists()
    os.utime(path, (0, 0))
    Inbox(tmp_path).take(lambda *_: pytest.fail("done"))
    assert not path.exists()
