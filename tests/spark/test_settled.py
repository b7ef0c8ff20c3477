"""A value that is worked out once says of itself what working it out again would say."""

import pytest
from pyspark.sql import functions as F

from pipeline.model import text
from pipeline.model.text import Value
from pipeline.protocols.materialised import Materialised

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("sent", "read", "wanted"),
    [
        ("2024-02-29", "2024-02-29", (True, None, False)),
        ("0000-00-00", "0000-00-00", (False, "0000-00-00", False)),
        (None, None, (False, None, False)),
        ("of another kind", None, (False, None, True)),  # as a union of Avro may be: nothing is there to be a text
    ],
)
def test_what_was_sent_is_a_value_or_lost_or_unread(spark, sent, read, wanted):
    one = Materialised(text.date(F.col("read")), F.col("sent"), "value")
    frame = spark.createDataFrame([(sent, read)], "sent string, read string").select("*", *one.columns)
    found = frame.select(one.column.isNotNull(), one.lost, one.unread)
    assert [tuple(row) for row in found.collect()] == [wanted]


@pytest.mark.usefixtures("spark")
def test_a_text_that_is_the_value_is_never_unread():
    sent = F.col("sent")
    assert Materialised(Value(sent), sent, "value").unread is None
    assert Materialised(text.date(sent), sent, "value").unread is None
