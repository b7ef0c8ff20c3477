"""Virtual columns of Simple's tables: listed by TiCDC, carried by no row, and in no version."""

import pytest
from golden.corpus import GoldenCase
from spark.test_simple_hostile import ENCODINGS, INT, TEXT, TS, VERSION, Batch, Known, bootstrap, ddl, insert, schema

from pipeline.model import change
from pipeline.model.columns import SchemaId

pytestmark = pytest.mark.spark

COLUMNS = {"id": INT, "name": TEXT, "vg": INT}
ROW = {"id": "1", "name": "a"}
CREATE = "CREATE TABLE `s`.`t` (`id` INT PRIMARY KEY,`name` VARCHAR(20),`vg` INT GENERATED ALWAYS AS(`id`+1) VIRTUAL)"


def names(version):
    return [column.name for column in version.columns], version.virtual


def layouts(messages, table):
    """Every version of a table that the batch describes or has rows or statements of: (columns, virtual)."""
    seen = [one.version for found in messages.tables for one in found.versions]
    behind = [one.version for one in messages.ddl if one.version is not None]
    every = [one for one in (*messages.described, *seen, *behind) if str(one.table) == table]
    found = {(one.version, *map(tuple, names(one))) for one in every}
    assert len({version for version, *_ in found}) == len(found), found
    return [tuple(rest) for _, *rest in sorted(found)]


def golden(scenario, encoding):
    return GoldenCase(scenario, f"simple_{encoding}").records


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_golden_tables_have_no_virtual_column(spark, encoding):
    types = Batch(spark, encoding, *(record.value for record in golden("all_types", encoding))).messages
    ((columns, virtual),) = layouts(types, "types.t_generated")
    assert ("sg" in columns, "vg" in columns, virtual) == (True, False, ("vg",))
    ddls = Batch(spark, encoding, *(record.value for record in golden("ddl", encoding))).messages
    assert layouts(ddls, "d.src") == [(("id", "v", "g"), ()), (("id", "v", "g"), ("vg",))]
    every = {one for messages in (types, ddls) for one in messages.described if one.virtual}
    assert {str(one.table) for one in every} == {"types.t_generated", "d.src"}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_golden_rows_alone_say_the_same(spark, encoding):
    sent = [*golden("all_types", encoding), *golden("ddl", encoding)]
    found = Batch(spark, encoding, *(record.value for record in sent if record.kind != "ddl")).messages
    assert found.ddl == ()
    ((columns, virtual),) = layouts(found, "types.t_generated")
    assert ("sg" in columns, "vg" in columns, virtual) == (True, False, ("vg",))
    assert layouts(found, "d.src")[-1] == (("id", "v", "g"), ("vg",))
    assert {str(one.table) for one in found.described if one.virtual} == {"types.t_generated", "d.src"}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("kind", ["INSERT", "DELETE"])
def test_a_row_says_what_a_bootstrap_does_not(spark, encoding, kind):
    row = {"data": ROW} if kind == "INSERT" else {"data": None, "old": ROW}
    batch = Batch(
        spark,
        encoding,
        bootstrap(encoding, columns=COLUMNS),
        insert(encoding, kind=kind, **row),
        (1, insert(encoding, ts=TS + 1)),
    )
    (seen,) = batch.table.versions
    assert names(seen.version) == (["id", "name"], ("vg",))
    assert batch.messages.described == (seen.version,)
    assert [(row["id"], row["name"], row[change.ERROR]) for row in batch.changes()] == [(1, "a", None)] * 2


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_null_is_a_value(spark, encoding):
    row = insert(encoding, data={**ROW, "vg": None})
    batch = Batch(spark, encoding, bootstrap(encoding, columns=COLUMNS), row)
    assert names(batch.table.versions[0].version) == (["id", "name", "vg"], ())


def test_a_damaged_row_says_nothing(spark):
    rows = [insert("json", data=None), insert("json", data={**ROW, "vg": "2"}), insert("json", data=None)]
    batch = Batch(spark, "json", bootstrap("json", columns=COLUMNS), *rows)
    assert names(batch.table.versions[0].version) == (["id", "name", "vg"], ())


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_bootstrap_behind_the_statement_does_not_bring_the_column_back(spark, encoding):
    create = ddl(encoding, "CREATE", CREATE, tableSchema=schema(columns=COLUMNS))
    again = bootstrap(encoding, columns=COLUMNS)
    first = Batch(spark, encoding, create, again)
    (version,) = first.messages.described
    assert names(version) == (["id", "name"], ("vg",))
    assert first.messages.ddl[0].version == version
    same = Batch(spark, encoding, again, known=Known(version))
    assert same.messages.described == (version,)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_a_bootstrap_listed_in_an_earlier_batch_is_put_right_by_the_first_row_and_then_known(spark, encoding):
    (listed,) = Batch(spark, encoding, bootstrap(encoding, columns=COLUMNS)).messages.described
    assert names(listed) == (["id", "name", "vg"], ())
    batch = Batch(spark, encoding, insert(encoding), known=Known(listed))
    (version,) = batch.messages.described
    assert batch.table.versions[0].version == version
    assert names(version) == (["id", "name"], ("vg",))
    batch.protocol.remembered = Known(version)
    assert batch.protocol.read(batch.prepared).described == ()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_later_statement_takes_what_is_known_from_the_version_before(spark, encoding):
    (known,) = Batch(
        spark, encoding, ddl(encoding, "CREATE", CREATE, tableSchema=schema(columns=COLUMNS))
    ).messages.described
    behind = schema(version=VERSION + 1, columns={"id": INT, "name": TEXT, "w": INT})
    sql = "ALTER TABLE `s`.`t` RENAME COLUMN `vg` TO `w`"
    one = ddl(encoding, "ALTER", sql, tableSchema=behind, preTableSchema=schema(columns=COLUMNS))
    found = Batch(spark, encoding, one, known=Known(known)).messages
    assert [names(version) for version in found.described] == [(["id", "name"], ("vg",)), (["id", "name"], ("w",))]
    assert found.ddl[0].version.version == SchemaId(VERSION + 1)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_table_like_another_has_its_virtual_columns(spark, encoding):
    (known,) = Batch(
        spark, encoding, ddl(encoding, "CREATE", CREATE, tableSchema=schema(columns=COLUMNS))
    ).messages.described
    like = schema(table="u", version=VERSION + 1, columns=COLUMNS)
    one = ddl(encoding, "CREATE", "CREATE TABLE `s`.`u` LIKE `s`.`t`", tableSchema=like)
    (version,) = Batch(spark, encoding, one, known=Known(known)).messages.described
    assert names(version) == (["id", "name"], ("vg",))
