"""Conditions of many parts."""

import pytest
from pyspark.sql import functions as F

from pipeline.model.conditions import any_of

pytestmark = pytest.mark.spark


def told(spark, *conditions):
    return spark.range(1).select(any_of(conditions)).collect()[0][0]


@pytest.mark.parametrize("count", range(6))
def test_one_is_enough_wherever_it_stands_and_none_is_none(spark, count):
    assert told(spark, *[F.lit(False)] * count) is False
    for place in range(count):
        assert told(spark, *(F.lit(at == place) for at in range(count))) is True


def test_what_is_not_known_decides_where_nothing_else_does(spark):
    unknown = F.lit(None).cast("boolean")
    assert told(spark, F.lit(False), unknown, None) is None
    assert told(spark, unknown, None, F.lit(False), F.lit(True)) is True


def test_thousands_need_no_deep_stack(spark):
    """As a wide table of many versions has them, or a batch of many statements."""
    found = spark.range(3).where(any_of(F.col("id") == place for place in range(1, 4000)))
    assert [row.id for row in found.collect()] == [1, 2]
