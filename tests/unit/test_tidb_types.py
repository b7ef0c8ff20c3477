"""A type is a row of one table, and everything that reads types knows every row (docs/contributing/add-a-type.md)."""

import re
from collections import Counter
from pathlib import Path

import pytest

from pipeline.ddl import defaults
from pipeline.ddl.lexemes import Cursor, lexemes
from pipeline.ddl.sql_types import read_type
from pipeline.model import tidb_types
from pipeline.model.tidb_types import TYPES, ChecksumForm, Domain, Loss, Parameters, TidbType, natural, of, of_sql
from pipeline.model.types import CALENDAR, STRING, absorbs
from pipeline.protocols.avro import checksum as avro_checksum
from pipeline.protocols.avro import defaults as avro_defaults
from pipeline.protocols.avro import fields as avro_fields
from pipeline.protocols.build import READERS
from pipeline.protocols.described import values as described_values
from pipeline.protocols.open import values as open_values
from pipeline.protocols.open.columns import sent_column
from pipeline.protocols.simple import checksum as simple_checksum
from pipeline.settings.column_types import column_type
from pipeline.simulate import open_protocol as simulated_open
from pipeline.simulate import schemas as simulated_schemas
from registry import AvroColumn
from registry.columns import _CARRIERS
from registry.compatibility import _WIDENINGS

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/contributing/add-a-type.md").read_text()
ROWS = [*TYPES.values()]
BY_NAME = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
DECODERS = {
    "Avro": avro_fields.DECODERS,
    "Simple": described_values.DECODERS,
    "CSV": described_values.DECODERS,
    "Canal-JSON": described_values.DECODERS,
    "Open": open_values.DECODERS,
}
PAGES = (("reference/types.md", "## Types"), ("explanation/design.md", "### 4.4 Types"))
FORMS = {"Avro": avro_checksum.FORMS, "Simple": simple_checksum.FORMS}


def test_every_protocol_is_looked_at():
    assert sorted(name.lower() for name in DECODERS) == sorted(name.removesuffix("-protocol") for name in READERS)


def names(rows):
    return sorted(row.name for row in rows)


@pytest.mark.parametrize("protocol", DECODERS)
def test_each_protocol_knows_every_type_and_no_other(protocol):
    assert names(DECODERS[protocol]) == names(ROWS)


@pytest.mark.parametrize("protocol", FORMS)
def test_each_row_checksum_knows_every_form(protocol):
    assert {*FORMS[protocol]} == {*ChecksumForm} == {row.checksum for row in ROWS}


def test_defaults_know_every_type():
    assert sorted(defaults._BY_FAMILY) == names(ROWS)
    assert sorted([*avro_defaults.NUMBERS, *avro_defaults.TEXTS]) == names(ROWS)


def test_every_row_of_the_module_is_in_the_table():
    assert names(value for value in vars(tidb_types).values() if isinstance(value, TidbType)) == names(ROWS)


def test_no_name_in_sql_is_that_of_two_types():
    counts = Counter((name, row.unsigned) for row in ROWS for name in row.sql)
    assert [name for name, count in counts.items() if count > 1] == []


@BY_NAME
def test_a_definition_by_any_of_its_names_is_of_the_type(row):
    for name in row.sql:
        parameters = "('a')" if row.parameters is Parameters.MEMBERS else ""
        read = read_type(Cursor(lexemes(name + parameters + " UNSIGNED" * row.unsigned)))
        assert read.row is row
        assert read.warehouse_type(decimals_as_text=False) == natural(read.tidb_type)


@BY_NAME
def test_open_reaches_the_type_by_each_of_its_codes(row):
    assert row.codes
    for code in row.codes:
        assert row.name in {sent_column("c", code, flags, handle=False).tidb_type for flags in (0, 1, 128)}


def test_the_registry_client_names_the_same_types():
    widest = {name: max(carriers) for name, carriers in _CARRIERS.items()}  # a long: INT UNSIGNED as int is an INT
    columns = [AvroColumn("c", name, sent, nullable=True, null_first=True) for name, sent in widest.items()]
    assert names(map(avro_fields.row_of, columns)) == names(ROWS)


def test_the_registry_client_says_widened_where_the_table_does():
    assert {*_WIDENINGS} == {(row.name, wider) for row in ROWS for wider in row.widens_to}


@BY_NAME
def test_a_wider_type_has_every_value_and_so_has_its_warehouse_type(row):
    for wider in map(TYPES.__getitem__, row.widens_to):
        assert absorbs(wider.warehouse, row.warehouse)
        if row.range:
            assert wider.range[0] <= row.range[0] <= row.range[1] <= wider.range[1]


def test_a_calendar_type_is_one_that_loses_zero_dates():
    losing = [row for row in ROWS if Loss.ZERO_DATES in row.loses]
    assert {row.warehouse for row in losing} == CALENDAR
    assert names(losing) == sorted(tidb_types.names(Domain.CALENDAR))


def test_parameters_decide_the_warehouse_type_of_two_types():
    assert names(row for row in ROWS if row.sized) == ["BIT", "DECIMAL"]
    assert [natural(text) for text in ("DECIMAL(38,2)", "DECIMAL(39,2)", "DECIMAL", "BIT(63)", "BIT(64)", "BIT")] == [
        "decimal(38,2)", "string", "string", "bigint", "decimal(20,0)", "decimal(20,0)",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "GEOMETRY", "VECTOR<FLOAT>", "int", "INT "])
def test_a_type_that_is_not_in_the_table_is_taken_as_text(text):
    assert of(text) is None
    assert natural(text) == STRING


def test_a_user_may_give_a_column_every_natural_type_but_an_array():
    def is_refused(row):
        try:
            return column_type(row.warehouse) != row.warehouse
        except ValueError:
            return True

    assert names(row for row in ROWS if is_refused(row)) == ["VECTOR"]


def test_the_simulator_sends_every_type_and_says_it_as_the_table_does():
    simulated = {
        (name, unsigned): of_sql(name.upper(), unsigned=unsigned)
        for name in simulated_open.MYSQL_CODES
        for unsigned in (False, True)
    }
    assert names({*simulated.values()}) == names(ROWS)
    for (name, _), row in simulated.items():
        assert simulated_open.MYSQL_CODES[name] in row.codes
    for name, word in simulated_schemas._TIDB_TYPES.items():
        column = AvroColumn("c", word, "string", nullable=True, null_first=True)
        assert avro_fields.family(column) == simulated[name, False].name


def test_the_documents_say_which_types_parameters_decide():
    for page, heading in PAGES:
        shown = {named[0]: ", ".join(warehouse) for named, warehouse, _ in documented(page, heading)}
        assert shown["DECIMAL"].startswith("DECIMAL(p,s)"), page
        assert shown["DECIMAL"].endswith("else STRING"), page
        assert shown["BIT"].startswith("BIGINT"), page
        assert "DECIMAL(20,0)" in shown["BIT"], page


def documented(page, heading):
    """The rows of the first table after a heading: names in SQL, warehouse types, and the note."""
    _, section = (ROOT / "docs" / page).read_text().split(f"\n{heading}\n", 1)
    table = section.strip().split("\n\n", 1)[0] if section.strip().startswith("|") else section
    for line in table.splitlines()[2:]:
        named, warehouse, note = (cell.strip() for cell in line.strip("|").split("|"))
        plain = re.sub(r" family| ?\([^)]*\)", "", named)
        yield plain.split(", "), re.split(r", ", warehouse.strip("`")), note


@pytest.mark.parametrize(("page", "heading"), PAGES)
def test_the_documents_have_every_type_with_its_warehouse_type(page, heading):
    rows = set()
    for named, warehouse, _ in documented(page, heading):
        mine = [of_sql(name.removesuffix(" UNSIGNED"), unsigned=name.endswith(" UNSIGNED")) for name in named]
        assert None not in mine, named
        if not any(row.sized for row in mine):
            shown = warehouse if len(warehouse) > 1 else warehouse * len(mine)
            assert shown == [row.warehouse.upper() for row in mine]
        rows |= {*mine}
    assert names(rows) == names(ROWS)


def test_tables_md_says_of_each_type_that_loses_values_where_they_are():
    for named, _, note in documented("reference/types.md", "## Types"):
        if any(of_sql(name.removesuffix(" UNSIGNED")).loses for name in named):
            assert "`_unrepresentable`" in note


def test_the_guide_names_files_that_exist():
    named = re.findall(r"`((?:pipeline|tests|registry|docs)/[\w/.-]+\.(?:py|md))`", GUIDE)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
