"""What a changefeed's folder has lost, or has not as the tables know it: refused, and passed over on demand."""

import pytest
from golden.corpus import GoldenCase
from golden.storage import Tree

from pipeline.errors import EnvironmentFault, Refused
from pipeline.service import Pipeline
from pipeline.sources.storage.paths import METADATA

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


def run(settings, *accept):
    with Pipeline.open(settings, accept=frozenset(accept)) as pipeline:
        pipeline.run(available_now=True)


def test_each_refusal_says_what_is_lost_and_run_accept_goes_on(tmp_path):
    case = GoldenCase("orders_small", "storage_csv_day")
    tree = Tree.of(case, tmp_path)
    settings = tree.settings(tmp_path)
    with pytest.raises(EnvironmentFault, match="METADATA_MISSING"):
        run(settings)
    tree.write(METADATA, b"{}")
    with pytest.raises(EnvironmentFault, match="METADATA_UNREADABLE"):
        run(settings)
    tree.show(tree.paths())
    orders = next(path for path in tree.rows() if "/orders/" in path)
    run(settings)
    tree.copy_under_another_number(orders)
    (second,) = (tree.shown / orders).parent.glob("CDC*2.csv")
    second.rename(second.with_name(second.name.replace("2.csv", "4.csv")))
    with pytest.raises(
        Refused, match=r"FILE_MISSING: .*: 2 to 3 of shop/orders/.* \(shop.orders\)(.|\n)*--accept FILE_MISSING"
    ):
        run(settings)
    run(settings, "FILE_MISSING")
    run(settings)  # it is known by now
    checkpoint = tree.shown / METADATA
    said = checkpoint.read_text()
    checkpoint.write_text('{"checkpoint-ts":440000000000000000}')
    with pytest.raises(Refused, match="CHECKPOINT_WENT_BACK"):
        run(settings)
    run(settings, "CHECKPOINT_WENT_BACK")
    run(settings)  # it is known by now
    checkpoint.write_text('{"checkpoint-ts":430000000000000000}')
    with pytest.raises(Refused, match="CHECKPOINT_WENT_BACK"):
        run(settings)
    checkpoint.write_text(said)
    run(settings)
    lost = tree.shown / orders
    for file in lost.parent.glob("CDC*.csv"):
        file.unlink()
    tree.write(str((lost.parent / f"CDC{9:020}.csv").relative_to(tree.shown)), (tree.whole / orders).read_bytes())
    with pytest.raises(Refused, match=r"FILES_EXPIRED: .*: [\d to]+ of shop/orders/.* \(shop.orders\)"):
        run(settings)
    run(settings, "FILES_EXPIRED")


def test_files_of_the_other_protocol_are_refused_at_once(tmp_path):
    tree = Tree.of(GoldenCase("key_updates", "storage_canal_day"), tmp_path)
    tree.show(tree.paths())
    with pytest.raises(Refused, match="PROTOCOL_DIFFERS"):
        run(tree.settings(tmp_path, protocol="csv"))


def test_rows_without_a_commit_ts_are_refused_at_once(tmp_path):
    tree = Tree.of(GoldenCase("key_updates", "storage_csv_none"), tmp_path)
    tree.show(tree.paths())
    for path in tree.rows():
        lines = (tree.whole / path).read_bytes().decode().split("\r\n")
        tree.write(path, "\r\n".join(",".join([*line.split(",")[:3], *line.split(",")[4:]]) for line in lines).encode())
    with pytest.raises(Refused, match=r"COMMIT_TS_MISSING(.|\n)*include-commit-ts = true"):
        run(tree.settings(tmp_path))


def test_a_damaged_schema_file_holds_its_table_alone(tmp_path):
    tree = Tree.of(GoldenCase("orders_small", "storage_csv_day"), tmp_path)
    tree.show(tree.paths())
    schema = next(path for path in tree.paths() if "/customers/meta/schema_" in path)
    tree.write(
        schema, (tree.whole / schema).read_bytes().replace(b'"ColumnNullable": "false"', b'"ColumnNullable": "none"', 1)
    )
    settings = tree.settings(tmp_path)
    with Pipeline.open(settings) as pipeline:
        pipeline.run(available_now=True)
        held = (
            pipeline.context.records.read("held")
            .where("status = 'open'")
            .select("table_name", "reason")
            .distinct()
            .collect()
        )
        assert {row.table_name for row in held} == {"customers"}
        shown = {str(table.source) for table in pipeline.context.tables if table.current and table.current.head()}
        assert shown == {"shop.orders", "shop.order_items", "shop.payments", "shop.products"}
