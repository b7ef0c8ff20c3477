"""The rows of a cut in the offset regime: which pair a source name means."""

from types import SimpleNamespace

import pytest

from pipeline.model.names import TableName
from pipeline.warehouse.consistent_points import by_name
from pipeline.warehouse.pairs import State


def pair(uuid, state=State.LIVE, dropped_at=0):
    """A pair of `shop.orders`."""
    return SimpleNamespace(source=TableName("shop", "orders"), uuid=uuid, state=state, dropped_at=dropped_at)


def meant(tables):
    return [(table.uuid, snapshot) for table, snapshot in by_name(tables, {"shop.orders": 3})]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_name_means_its_living_pair_not_one_that_was_dropped(turn):
    assert meant([pair("old", State.DROPPED, 7), pair("new")][::turn]) == [("new", 3)]


@pytest.mark.parametrize("turn", [1, -1])
def test_where_all_are_dropped_it_means_the_last(turn):
    assert meant([pair("first", State.DROPPED, 7), pair("last", State.DROPPED, 9)][::turn]) == [("last", 3)]
