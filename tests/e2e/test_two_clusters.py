"""The changefeeds of two clusters with a table of one name, each in a topic of its own (ordering by commit ts)."""

import pytest
from e2e.bank import ACCOUNT, NOTE
from e2e.till import NAME, Till
from support.slow import few

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

TRUNCATE_TABLE = 11


@pytest.fixture(params=few("simple", "open-protocol"))
def clusters(request, stack, tmp_path):
    """Two clusters; the pipeline of the first reads both."""
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    one, other = (Till(stack, tmp_path / name, request.param) for name in ("one", "other"))
    one.set("source", topics=[topic_of(one), topic_of(other)])
    one.accounts((1, 500))
    one.note("mine")
    take(one, other)
    assert one.balances() == {1: 500}
    yield one, other
    one.feed.close()
    other.feed.close()


def topic_of(till):
    return f"{till.feed.prefix}_cdc"


def take(one, other):
    """All that both clusters have done is in Kafka, as far as the later of them; the pipeline takes it."""
    one.last_ts = other.last_ts = max(one.last_ts, other.last_ts)
    other.sent()
    one.run()


def catch_up(till, other):
    """Both clusters have one clock."""
    while till.last_ts <= other.last_ts:
        till.last_ts = till.database.commit(till.database.begin()).commit_ts


def held(till):
    return {row["table_name"]: row["held_reason"] for row in till.own("tables") if row["state"] == "held"}


def test_the_rows_of_the_second_are_held_and_nothing_is_mixed(clusters):
    one, other = clusters
    catch_up(other, one)
    other.accounts((1, 7), (2, 8))
    take(one, other)
    assert held(one)["account"].startswith(f"TABLE_NAME_TAKEN: topics {', '.join(sorted(map(topic_of, clusters)))}")
    catch_up(one, other)
    one.accounts((3, 9))
    take(one, other)
    assert one.balances() == {1: 500}

    one.set("source", topics=[topic_of(one)])
    one.release()
    assert one.balances() == {1: 500, 3: 9}
    assert {row["status"] for row in one.own("held", topic=topic_of(other))} == {"dropped"}
    one.accounts((4, 1))
    one.run()
    assert one.balances() == {1: 500, 3: 9, 4: 1}
    one.assert_right()


@pytest.mark.slow
def test_a_table_that_has_moved_is_released_and_lives_on_in_both_topics(clusters):
    one, other = clusters
    catch_up(other, one)
    other.accounts((2, 8))
    take(one, other)
    assert "account" in held(one)
    one.release()
    assert one.balances() == {1: 500, 2: 8}
    other.accounts((3, 9))
    catch_up(one, other)
    one.accounts((4, 1))
    take(one, other)
    assert one.balances() == {1: 500, 2: 8, 3: 9, 4: 1}
    assert held(one) == {}


@pytest.mark.slow
def test_a_ddl_event_of_the_second_holds_the_table_instead_of_changing_it(clusters):
    one, other = clusters
    catch_up(other, one)
    other.say(f"TRUNCATE TABLE `bank`.`{NOTE.name}`", TRUNCATE_TABLE, NOTE)
    take(one, other)
    assert held(one)["note"].startswith("DDL_NOT_UNDERSTOOD: topics ")
    assert [row.values["code"] for row in one.warehouse.current(NOTE.full_name).rows] == ["mine"]
    assert str(NAME) == ACCOUNT.full_name
    assert "account" not in held(one)
