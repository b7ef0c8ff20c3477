"""Rows of `_pipeline.cuts` that go when snapshots have: whatever is asked of `tables as-of`, the answer stays."""

import random

import pytest
from spark.sessions import settings_in
from unit.test_evolution import met, version

from pipeline.errors import Refused
from pipeline.lake import catalog, table_metadata
from pipeline.lake.consistent_points import whole
from pipeline.model import types
from pipeline.model.names import TableName
from pipeline.service.dispatch import maintained
from pipeline.settings.sections import Maintenance
from pipeline.warehouse import cuts, maintenance
from pipeline.warehouse.maintenance import Maintainer
from pipeline.warehouse.pairs import State
from pipeline.warehouse.records import Records

pytestmark = pytest.mark.spark

FIRST = 450_000_000_000_000_000
ROUNDS = 14


def at(number):
    return FIRST + number * (60_000 << 18)


class Shop:
    """Three tables, of which one is dropped and kept, and cuts of a table that is no more."""

    def __init__(self, warehouse, seed=7):
        self.spark, self.tables, place = warehouse
        self.settings = settings_in(place.parent)
        self.records = Records.open(self.spark, self.tables.catalog, self.settings.warehouse.data, "spark-tests")
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.pairs = [self._made(name) for name in ("orders", "items", "bills")]
        rows = [row for number in range(ROUNDS) for row in self._cut(number)]
        rows += [{**rows[0], "table_uuid": "gone", "cut_ts": at(number), "snapshot_id": 5} for number in range(4)]
        self.tables.set_state(self.pairs[2], State.DROPPED, dropped_at=at(ROUNDS - 3) + 5)
        self.records.write("cuts", 0, [row for row in rows if row["table_uuid"] != self.pairs[2].uuid])
        self.records.write(
            "cuts", 1, [r for r in rows if r["table_uuid"] == self.pairs[2].uuid and r["cut_ts"] < at(11)]
        )
        self.table = self.records.tables["cuts"]

    def _made(self, name):
        return self.tables.create(TableName("shop", name), met(version(1, v=types.INT)))

    def _cut(self, number):
        for pair, often in zip(self.pairs, (1.0, 0.5, 0.8), strict=True):
            if number == 0 or self.random.random() < often:
                pair.current.mark({}, "main")
                yield {
                    "cut_ts": at(number), "cut_time": "2024-01-01T00:00:00Z", "table_uuid": pair.uuid,
                    "schema_name": pair.source.schema, "table_name": pair.source.table,
                    "snapshot_id": pair.current.head(), "level": "exact", "reason": "",
                }  # fmt: skip

    def expire(self, pair, keep):
        """All but the newest so many snapshots, and what is tagged."""
        pair.current._java.expireSnapshots().expireOlderThan(2**62).retainLast(keep).commit()
        pair.current.refresh()

    def tag(self, pair, number):
        """The snapshot of this place in its line."""
        line = sorted(pair.current.snapshots(), key=lambda one: pair.current._java.snapshot(one).sequenceNumber())
        pair.current.tag(f"kept{number}", line[min(number, len(line) - 1)], 10**9)

    def answers(self):
        """What `tables as-of` says of every moment and of those between, and of the newest."""
        reader = catalog.reader(self.settings)
        return [self._answer(reader, at(number) + more) for number in range(-1, ROUNDS + 1) for more in (0, 7)]

    def _answer(self, reader, moment):
        try:
            found = whole(reader, table_metadata.pairs(reader), moment)
        except Refused as refusal:
            return refusal.code, refusal.hint
        return found.ts, found.level, [(cut.uuid, cut.snapshot, cut.ts, cut.note) for cut in found.cuts]

    def rows(self):
        self.table.refresh()
        return self.table.totals()["records"]


@pytest.mark.parametrize("seed", [1, 2])
def test_every_moment_has_the_answer_that_it_had(warehouse, seed):
    shop = Shop(warehouse, seed)
    for pair, keep, tagged in zip(shop.pairs, (3, 2, 1), ((2, 6), (), (1,)), strict=True):
        for number in tagged:
            shop.tag(pair, number)
        shop.expire(pair, keep)
    before, rows = shop.answers(), shop.rows()
    assert {"CUT_EXPIRED", "NO_CUT"} <= {answer[0] for answer in before}
    assert len({answer[0] for answer in before} - {"CUT_EXPIRED", "NO_CUT"}) > 1
    count = cuts.forget(shop.spark, shop.table, shop.pairs)
    assert count > 8
    assert shop.rows() == rows - count
    assert shop.answers() == before
    assert cuts.forget(shop.spark, shop.table, shop.pairs) == 0


def test_as_many_stay_as_can_be_read_and_what_tells_that_others_cannot(warehouse, monkeypatch):
    """In a run when they have become twice as many; on a person's demand at once."""
    shop = Shop(warehouse)
    maintainer = Maintainer(shop.spark, Maintenance(compact_files=99), lambda _step: None)
    rows = shop.rows()
    for pair in shop.pairs:
        shop.expire(pair, 1)
    maintainer.after_batch([], shop.records, shop.pairs)
    assert shop.rows() == rows, "few rows are left alone"
    monkeypatch.setattr(maintenance, "_FEW_CUTS", 4)
    maintainer.after_batch([], shop.records, shop.pairs)
    left = 2 * len(shop.pairs) + 4
    assert shop.rows() == left
    shop.records.write("cuts", 2, [row for number in range(3) for row in shop._cut(ROUNDS + number)])
    for pair in shop.pairs:
        shop.expire(pair, 1)
    rows = shop.rows()
    maintainer.after_batch([], shop.records, shop.pairs)
    assert shop.rows() == rows < 2 * left, "they have not doubled"
    maintained(maintainer, [shop.pairs[0].changes, shop.table], shop.pairs)
    assert shop.rows() == left
