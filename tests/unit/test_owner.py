"""A warehouse is one pipeline's: another one is refused until it is accepted, and then it is that one's."""

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from unit.configuration import SMALL
from unit.test_report_cli import schema

from pipeline.cli.checkup.findings import Mark
from pipeline.cli.checkup.warehouse import examined
from pipeline.cli.run import ACCEPTABLE
from pipeline.errors import Refused
from pipeline.service.pipeline import refuse_another
from pipeline.settings import parse
from pipeline.warehouse.records import WAREHOUSE_OF_ANOTHER, Records
from pipeline.warehouse.state import OWNER

NOTHING = frozenset()
ACCEPTED = frozenset({WAREHOUSE_OF_ANOTHER})


class Batches:
    """`_pipeline.batches`, as far as it says whose it is."""

    def __init__(self, properties=(), snapshot=None):
        self.properties, self.snapshot, self.commits = dict(properties), snapshot, 0

    def head(self):
        return self.snapshot

    def set_properties(self, properties):
        self.properties |= properties
        self.commits += 1


def opened(batches, name, tables=(), accept=NOTHING):
    """What a run does at its start."""
    records = Records(None, None, "file:/data", name, {"batches": batches})
    refuse_another(records, tables, accept)
    records.claim()


class TestTheStart:
    @pytest.mark.parametrize(("snapshot", "tables"), [(1, ()), (1, ["a pair"]), (None, ["a pair"])])
    def test_another_pipeline_is_refused_with_both_names_and_the_way_on(self, snapshot, tables):
        batches = Batches(OWNER.entry("shop"), snapshot)
        with pytest.raises(Refused) as refusal:
            opened(batches, "shop2", tables)
        assert refusal.value.code == WAREHOUSE_OF_ANOTHER
        assert "the pipeline shop, but these settings are for shop2" in refusal.value.message
        assert refusal.value.hint.endswith(f"run --accept {WAREHOUSE_OF_ANOTHER}")
        assert batches.properties == OWNER.entry("shop")

    def test_what_is_accepted_is_the_new_pipelines_and_no_longer_the_old_ones(self):
        batches = Batches(OWNER.entry("shop"), 1)
        opened(batches, "shop2", accept=ACCEPTED)
        opened(batches, "shop2")
        with pytest.raises(Refused):
            opened(batches, "shop")
        assert WAREHOUSE_OF_ANOTHER in ACCEPTABLE

    @pytest.mark.parametrize("snapshot", [None, 1])
    def test_one_that_does_not_say_whose_it_is_becomes_the_pipelines_that_opens_it(self, snapshot):
        batches = Batches({}, snapshot)
        opened(batches, "shop", ["a pair"])
        assert batches.properties == OWNER.entry("shop")

    def test_a_name_that_has_written_nothing_may_be_mended(self):
        batches = Batches(OWNER.entry("shpo"))
        opened(batches, "shop")
        assert batches.properties == OWNER.entry("shop")

    def test_the_owner_writes_nothing_when_it_comes_again(self):
        batches = Batches({}, 1)
        for _ in range(3):
            opened(batches, "shop")
        assert batches.commits == 1


class TestDoctor:
    @pytest.fixture
    def found(self, tmp_path):
        place = tmp_path / "warehouse"
        place.mkdir()
        catalog = SqlCatalog("warehouse", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
        catalog.create_namespace("_pipeline")

        def look(properties, *names):
            columns = schema("batches")
            batches = catalog.create_table("_pipeline.batches", columns, properties=properties)
            empty = dict.fromkeys(columns.names)
            rows = [{**empty, "pipeline": name, "batch_id": number} for number, name in enumerate(names)]
            batches.append(pa.Table.from_pylist(rows, columns))
            told = examined(parse(SMALL, tmp_path))
            return [(one.mark, one.sentence) for one in told if "pipeline" in one.sentence]

        yield look
        catalog.close()

    def test_it_tells_a_warehouse_of_another_pipeline(self, found):
        ((mark, said),) = found(OWNER.entry("bank"), "bank")
        assert mark is Mark.WRONG
        assert said.startswith(f"{WAREHOUSE_OF_ANOTHER}: ")

    def test_one_that_was_another_ones_before_is_in_order(self, found):
        assert found(OWNER.entry("shop"), "bank", "shop") == []

    def test_one_that_does_not_say_is_worth_knowing_by_its_batches(self, found):
        ((mark, said),) = found({}, "bank")
        assert (mark, said) == (Mark.NOTE, "the pipeline bank wrote it, and the settings name shop")
