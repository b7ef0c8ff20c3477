"""A whole pipeline runs on a source in memory: it is opened, takes what is there, is closed, and goes on."""

import pytest
from golden.warehouse import Warehouse
from spark.simple_source import SimpleSource, reading, settings_in
from unit.batch_model.upstream import Broker
from unit.commit_ts_model.upstream import Tidb

from pipeline.service.pipeline import Pipeline

pytestmark = pytest.mark.spark


class Till:
    """TiDB with one table, and a warehouse in a folder."""

    def __init__(self, folder):
        self.source = SimpleSource()
        self.tidb = Tidb(Broker(self.source), shared=True)
        self.tidb.create("account")
        self.settings = settings_in(folder)
        self.warehouse = Warehouse.at(self.settings.warehouse.path)

    def put(self, *keys):
        """Insert or change rows, and send the watermark that closes them."""
        for key in keys:
            self.tidb.transaction([(self.tidb.tables["account"], key, "put")])
        self.tidb.watermark()

    def assert_right(self, batches):
        """The table is TiDB's after so many batches, and all that was sent has been read."""
        rows = self.warehouse.current("s.account").rows
        assert sorted(row.values["id"] for row in rows) == sorted(self.tidb.tables["account"].rows)
        assert [row.values for row in rows if row.values not in self.tidb.tables["account"].rows.values()] == []
        with Pipeline.open(self.settings) as pipeline:
            ledger = pipeline.context.run.ledger
        assert ledger.batch_id == batches - 1
        assert ledger.committed.of(self.source.known) == self.source.ends


def test_a_pipeline_takes_what_is_there_is_closed_and_goes_on(tmp_path):
    till = Till(tmp_path)
    with reading(till.source):
        till.put(1, 2)
        with Pipeline.open(till.settings) as pipeline:
            pipeline.run(available_now=True)
        till.assert_right(batches=1)

        till.tidb.add_column(till.tidb.tables["account"])
        till.put(2, 3)
        with Pipeline.open(till.settings, listener=lambda *_: pipeline.stop()) as pipeline:
            pipeline.run()  # until the listener stops it
        till.assert_right(batches=2)

        with Pipeline.open(till.settings) as pipeline:
            pipeline.run(available_now=True)  # nothing is new
        till.assert_right(batches=2)
