"""`inspect` of a record of a file: what it is, or why it would become a dead letter."""

import pytest
from golden.corpus import GoldenCase
from golden.storage import Tree

from pipeline.cli.inspection import inspected
from pipeline.errors import Refused

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


@pytest.mark.parametrize("config", ["storage_csv_day", "storage_canal_day"])
def test_a_record_is_shown_with_the_columns_of_its_version(config, tmp_path):
    tree = Tree.of(GoldenCase("orders_small", config), tmp_path)
    tree.show(tree.paths())
    settings = tree.settings(tmp_path)
    path = next(path for path in tree.rows() if "/customers/" in path)
    first = 1 if "csv" in config else 0  # behind the header
    one = inspected(settings, f"{path}:{first}", 0, None)
    assert one.facts["record"].startswith(f"{path}, record {first}, ")
    assert one.facts["looks like"] == ("a line of TiCDC's CSV" if first else "Canal-JSON")
    assert "shop.customers, version 450000000052363267, 11 columns" in one.facts["describes"]
    (change,) = one.changes
    assert change.sentence.startswith("insert of shop.customers, commit ts ")
    assert change.columns[0][:3] == ("id", "BIGINT UNSIGNED", "1")
    assert one.refusals == []
    schema = next(path for path in tree.paths() if "/customers/meta/schema_" in path)
    assert "CREATE TABLE" in inspected(settings, schema, 0, None).facts["statement"]
    tree.write(path, (tree.shown / path).read_bytes() + b"what is this\r\n")
    last = inspected(settings, path, 0, None)
    assert [code for code, _ in last.refusals] == ["CSV_UNREADABLE" if first else "CANAL_UNREADABLE"]
    assert last.dump
    for wrong, code in (
        (f"{path}:99999", "RECORD_UNKNOWN"),
        ("shop/nothing", "FILE_UNKNOWN"),
        ("metadata", "FILE_UNKNOWN"),
    ):
        with pytest.raises(Refused, match=code):
            inspected(settings, wrong, 0, None)
