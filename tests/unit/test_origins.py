"""Which table the rows of a name are of, where several tables are sent under one name."""

from types import SimpleNamespace

import pytest

from pipeline.ingest.by_offset.origins import Origins, Owner, identified
from pipeline.model.columns import SchemaId, TableVersion
from pipeline.model.messages import Messages, Origin, SeenVersion, TableMessages
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.warehouse.pairs import State

NAME = TableName("shop", "orders")


def sent(topic, keyspace="default", number=1, partition=0, name=NAME):
    version = TableVersion(name, SchemaId(number), ())
    at = Partition(topic, partition)
    return TableMessages(
        name, (SeenVersion(version, {at: 0}, {at: 9}, 10),), origin=Origin(topic, keyspace)
    )  # fmt: skip


def called(origins, *tables):
    found = identified(Messages(tables=tables), lambda: origins)
    return {str(table.table): sorted({at.stream for at in table.partitions}) for table in found.tables}, found.warnings


def pair(*topics, keyspace="", state=State.LIVE, name=NAME):
    return SimpleNamespace(source=name, keyspace=keyspace, state=state, streams_at=lambda: frozenset(topics))


def test_the_first_has_the_plain_name_and_others_that_of_their_topic():
    origins = Origins()
    found, said = called(origins, sent("c1_orders"), sent("c2_orders"))
    assert found == {"shop.orders": ["c1_orders"], "shop.orders@c2_orders": ["c2_orders"]}
    assert len(said) == 1
    assert said[0].startswith("shop.orders of stream c2_orders, keyspace default is not the table")
    again, said = called(origins, sent("c2_orders"))
    assert (again, said) == ({"shop.orders@c2_orders": ["c2_orders"]}, ())


def test_of_two_new_ones_the_plain_name_is_for_the_topic_that_ends_in_it():
    found, _ = called(Origins(), sent("t_or-ders"), sent("t_orders"))
    assert found == {"shop.orders": ["t_orders"], "shop.orders@t_or-ders": ["t_or-ders"]}


def test_in_one_topic_the_keyspace_tells():
    found, _ = called(Origins(), sent("t", "ks1"), sent("t", "ks2"), sent("u", "ks2"))
    assert found == {"shop.orders": ["t"], "shop.orders@ks2": ["t"], "shop.orders@u": ["u"]}


def test_a_table_in_several_partitions_and_versions_is_one():
    found = identified(Messages(tables=(sent("t", number=2), sent("t", number=1, partition=1))), Origins)
    (table,) = found.tables
    assert [seen.version.version for seen in table.versions] == [1, 2]


@pytest.mark.parametrize(
    ("known", "read", "expected"),
    [
        (pair("id-c1"), ("c1", "c2"), "shop.orders@c2"),
        (pair("id-c1"), ("c2",), "shop.orders"),
        (pair("id-c1", "id-c2"), ("c1", "c2"), "shop.orders"),
        (pair(), ("c1", "c2"), "shop.orders"),
        (pair("id-c1", state=State.DROPPED), ("c1", "c2"), "shop.orders"),
        (pair("id-c2", keyspace="ks1"), ("c2",), "shop.orders@ks2"),
        (pair("id-c2", keyspace="ks2"), ("c2",), "shop.orders"),
    ],
    ids=["another topic", "the old topic is not read", "both", "renamed", "dropped", "keyspace", "same"],
)
def test_what_a_pair_knows_decides(known, read, expected):
    topics = {f"id-{name}": name for name in ("c1", "c2")}
    origins = Origins.of([known], topics, read)
    assert str(origins.name_of(Origin("c2", "ks2"), NAME)) == expected


def test_a_table_keeps_the_name_apart_when_the_plain_one_is_free():
    other = pair("id-c2", name=TableName("shop", "orders@c2"))
    origins = Origins.of([other], {"id-c2": "c2"}, ["c1", "c2"])
    assert str(origins.name_of(Origin("c2"), NAME)) == "shop.orders@c2"
    assert str(origins.claim(Origin("c1"), NAME)) == "shop.orders"


def test_what_no_protocol_tells_apart_is_left_as_it_is():
    messages = Messages(tables=(TableMessages(NAME, ()),))
    assert identified(messages, lambda: Origins({NAME.key: Owner(frozenset({"elsewhere"}))})) is messages
