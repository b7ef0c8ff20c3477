"""The model of the ordering by commit ts does what Spark and Iceberg do: the same history, the same tables.

A handful of histories by default, three dozen with TICDC_WAREHOUSE_GOLDEN=all.
"""

import pytest
from spark.recorded_histories import MATTERS, chosen
from spark.replayed_histories import agrees
from support.slow import EVERY

pytestmark = pytest.mark.spark

FEW = 5
HISTORIES = 36 if EVERY else FEW


@pytest.mark.parametrize("number", range(HISTORIES))
def test_the_same_history_gives_the_same_tables(number, tmp_path):
    agrees(chosen(HISTORIES)[number], tmp_path)


def test_everything_that_matters_happens_in_a_few_histories():
    happens = set().union(*(history.tags for history in chosen(FEW)))
    assert happens >= MATTERS, f"not in them: {sorted(MATTERS - happens)}"
