"""When a batch of files begins: `trigger` after the one before it, and with `--available-now` at once."""

import threading
import time

import pytest

from pipeline.errors import EnvironmentFault
from pipeline.sources.source import Committed
from pipeline.sources.storage import feed as feeding
from pipeline.sources.storage.feed import Batch, StorageFeed

feeding_waits = feeding._SETTLING


class Batches:
    """Gives batches that only move the tables: so many, then nothing new."""

    def __init__(self, count):
        self.left, self.asked, self.settled, self.reached = count, [], True, False

    def next_batch(self, ordinal):  # noqa: ARG002 - files have none here
        self.asked.append(time.monotonic())
        self.left -= 1
        return Batch((), moved=self.left >= 0, settled=self.settled, reached=self.reached)

    def stop(self):
        self.stopped = True

    def taken(self, batch, number):  # noqa: ARG002 - all are alike
        return number


def fed(batches, taken, trigger, **how):
    feed = StorageFeed(batches, taken.append, Committed(), trigger, **how)
    feed.start()
    return feed


@pytest.mark.parametrize("slow", [0.0, 0.15])
def test_a_batch_begins_a_trigger_after_the_one_before(slow):
    batches, taken = Batches(100), []

    def take(number):
        time.sleep(slow)
        taken.append(number)

    feed = StorageFeed(batches, take, Committed(), 0.2, available_now=False)
    feed.start()
    feed.wait(1.0)
    feed.stop()
    between = [later - sooner for sooner, later in zip(batches.asked, batches.asked[1:], strict=False)]
    assert 3 <= len(taken) <= 6
    assert min(between) >= 0.19


def test_what_is_there_now_is_taken_at_once():
    batches, taken = Batches(50), []
    feed = fed(batches, taken, 60.0, available_now=True)
    feed.wait(10)
    assert (taken, feed.runs, feed.error()) == (list(range(50)), False, None)
    assert batches.asked[-1] - batches.asked[0] < 1


def test_who_stops_a_feed_that_asks_a_store_in_vain_does_not_wait_for_the_store():
    batches = Batches(1)
    asked, batches.stopped = threading.Event(), False

    def next_batch(_ordinal):
        asked.set()
        while not batches.stopped:
            time.sleep(0.01)
        raise EnvironmentFault("STORE_UNREACHABLE", "as the test says")

    batches.next_batch = next_batch
    feed = fed(batches, [], 60.0, available_now=False)
    assert asked.wait(5)
    began = time.monotonic()
    feed.stop()
    assert not feed.runs
    assert time.monotonic() - began < 5


def test_what_may_still_come_at_the_last_commit_ts_is_waited_for_but_not_for_long(monkeypatch):
    monkeypatch.setattr(feeding, "_SOON", 0.05)
    monkeypatch.setattr(feeding, "_SETTLING", 0.4)
    batches, begun = Batches(1), time.monotonic()
    batches.settled = False
    feed = fed(batches, taken := [], 60.0, available_now=True)
    feed.wait(10)
    assert (taken, feed.runs) == ([0], False)
    assert 0.4 <= time.monotonic() - begun < 3
    assert feeding_waits == 15.0


@pytest.mark.parametrize("reached", [True, False])
def test_a_changefeed_that_never_rests_does_not_keep_a_run_that_has_what_was_there(monkeypatch, reached):
    monkeypatch.setattr(feeding, "_SETTLING", 0.2)
    batches = Batches(10**9)
    batches.reached = reached
    feed = fed(batches, [], 60.0, available_now=True)
    feed.wait(1.0)
    assert feed.runs is not reached
    feed.stop()


def test_a_feed_that_waits_is_stopped_at_once():
    taken = []
    feed = fed(Batches(1), taken, 60.0, available_now=False)
    feed.wait(0.2)
    begun = time.monotonic()
    feed.stop()
    assert (taken, feed.runs) == ([0], False)
    assert time.monotonic() - begun < 1
