"""The model of the ordering by commit ts does what Spark and Iceberg do: the same history, the same tables."""

import pytest
from spark.recorded_histories import record
from spark.replayed_histories import agrees
from unit.commit_ts_model.history import MODES, rule

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", MODES)
def test_same(mode, seed, tmp_path):
    steps = [("the_world_is", {"shared": seed % 2 == 0, "policy": "keep"}), *rule.drawn(seed, mode)][:10]
    agrees(record(steps), tmp_path)
