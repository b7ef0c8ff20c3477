"""What an older version must not write: a warehouse says in which form it is."""

import pytest

from pipeline.errors import Refused
from pipeline.warehouse.iceberg import Catalog
from pipeline.warehouse.records import DEFINITIONS, Records
from pipeline.warehouse.state import STATE_FORM as FORM

pytestmark = pytest.mark.spark


def opened(warehouse):
    spark, _, folder = warehouse
    return Records.open(spark, Catalog(spark), f"{folder}/data", "shop")


def test_a_new_warehouse_says_its_form_and_is_opened_again(warehouse):
    made = opened(warehouse)
    assert {FORM.required(table.properties) for table in made.tables.values()} == {1}
    assert opened(warehouse).tables.keys() == DEFINITIONS.keys()


def test_a_warehouse_of_a_newer_form_is_refused(warehouse):
    opened(warehouse).tables["batches"].set_properties(FORM.entry(2))
    with pytest.raises(Refused, match="its form is 2, and this version knows 1") as refused:
        opened(warehouse)
    assert refused.value.code == "WAREHOUSE_NEWER"
    assert "install that version again" in refused.value.hint
