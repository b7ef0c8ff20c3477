"""Every append that the driver makes is made by Spark, too, and compared: rows, counts, verdicts."""

from collections import Counter

from pipeline.ingest.table_rows import TableRows
from pipeline.model import change
from pipeline.warehouse import changes
from pipeline.warehouse.iceberg import MAIN
from pipeline.warehouse.state import IN_DRIVER

OF_THE_BATCH = {change.BATCH_ID, change.INGESTED_AT}


def shown(rows):
    """Rows as texts, each as often as it is there; the order of columns says nothing."""
    plain = ({name: value for name, value in row.asDict(True).items() if name not in OF_THE_BATCH} for row in rows)
    return Counter(repr(sorted((name, _ordered(value)) for name, value in row.items())) for row in plain)


def _ordered(value):
    return sorted((name, _ordered(inner)) for name, inner in value.items()) if isinstance(value, dict) else value


def compared(monkeypatch):
    """From here on; gives the list to which each table is added that was compared."""
    original, tables = TableRows.append, []

    def append(self, ranges, entry, branch=None):
        before = self.table.changes.head(branch or MAIN)
        appended = original(self, ranges, entry, branch)
        head = self.table.changes.head(branch or MAIN)
        if not IN_DRIVER.read(self.table.changes.summary(head)):
            return appended
        by_spark = changes.judged(self.table, self.frame(ranges), entry)
        counted = by_spark.frame.agg(*by_spark.counters).collect()[0].asDict()
        assert appended == changes.appended_by(counted, entry.rules)
        reader = self.context.spark.read
        if before is None:
            written = reader.option("snapshot-id", str(head)).table(self.table.name.changes.sql)
        else:
            steps = {"start-snapshot-id": str(before), "end-snapshot-id": str(head)}
            written = reader.options(**steps).table(self.table.name.changes.sql)
        rows = by_spark.rows(by_spark.frame.withColumns({changes.STAMP: changes.stamp(0)}))
        assert shown(written.collect()) == shown(rows.collect())
        tables.append(str(self.table.source))
        return appended

    monkeypatch.setattr(TableRows, "append", append)
    return tables
