"""What the settings say of a changefeed against TiCDC's own schemas."""

from types import SimpleNamespace

import pytest
from golden.corpus import GoldenCase

from pipeline.ddl import ActionType
from pipeline.ingest.by_offset.origins import Origins
from pipeline.ingest.by_offset.statements import understood
from pipeline.model.messages import Ddl
from pipeline.model.names import TableName
from pipeline.protocols.avro import AvroProtocol
from pipeline.protocols.avro.assertions import Asserted
from pipeline.protocols.open import OpenProtocol
from pipeline.protocols.simple import simple_protocol
from registry.columns import read_schema


def schemas(config):
    case = GoldenCase("all_types", config)
    return [read_schema(entry.schema) for entry in case.schemas if entry.subject.endswith("-value")]


def said(asserted, config):
    return {sentence.split(" is ")[0] for schema in schemas(config) for sentence in asserted.denied(schema)}


@pytest.mark.parametrize(
    ("config", "asserted"),
    [
        ("avro_ext_precise_long", Asserted(extension=True, decimal="precise", unsigned="long")),
        ("avro_ext_string_string", Asserted(extension=True, decimal="string", unsigned="string")),
        ("avro_noext", Asserted(extension=False)),
        ("avro_ext_string_string", Asserted()),
    ],
)
def test_what_is_true_is_not_denied(config, asserted):
    assert said(asserted, config) == set()


@pytest.mark.parametrize(
    ("config", "asserted", "setting"),
    [
        ("avro_noext", Asserted(extension=True), "enable-tidb-extension"),
        ("avro_ext_precise_long", Asserted(extension=False), "enable-tidb-extension"),
        ("avro_ext_precise_long", Asserted(decimal="string"), "avro-decimal-handling-mode"),
        ("avro_ext_string_string", Asserted(decimal="precise"), "avro-decimal-handling-mode"),
        ("avro_ext_precise_long", Asserted(unsigned="string"), "avro-bigint-unsigned-handling-mode"),
        ("avro_ext_string_string", Asserted(unsigned="long"), "avro-bigint-unsigned-handling-mode"),
    ],
)
def test_what_is_not_so_is_denied(config, asserted, setting):
    assert said(asserted, config) == {f"changefeed.{setting}"}


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [
        (AvroProtocol(None, asserted=Asserted(decimal="string")), "string"),
        (AvroProtocol(None, asserted=Asserted(decimal="precise")), "decimal(10,2)"),
        (AvroProtocol(None), "decimal(10,2)"),
        (simple_protocol("json", "UTC", {}, None), "decimal(10,2)"),
        (OpenProtocol("UTC", {}, None), "decimal(10,2)"),
    ],
    ids=["Avro, as text", "Avro, precise", "Avro", "Simple", "Open"],
)
def test_a_decimal_in_a_statement_is_what_the_protocol_makes_of_it_where_no_row_has_come(protocol, kind):
    added = Ddl(7, TableName("s", "t"), ActionType.ADD_COLUMN, "ALTER TABLE t ADD COLUMN d DECIMAL(10,2)", {})
    context = SimpleNamespace(tables=[], protocol=protocol, overrides={})
    (statement,) = understood(context, SimpleNamespace(ddl=(added,)), Origins())
    assert [action.column.type for action in statement.actions] == [kind]
