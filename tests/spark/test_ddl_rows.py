"""More DDL messages in a batch than the driver reads."""

import pytest

from pipeline.errors import BatchFailed
from pipeline.protocols import ddl

pytestmark = pytest.mark.spark


def test_all_are_read_or_none(spark, monkeypatch):
    monkeypatch.setattr(ddl, "MOST", 3)
    assert [row.id for row in ddl.collected(spark.range(3).orderBy("id"))] == [0, 1, 2]
    with pytest.raises(BatchFailed, match="more than 3 DDL messages") as failed:
        ddl.collected(spark.range(4))
    assert failed.value.code == "DDL_TOO_MANY"
