"""What the settings say of a changefeed against TiCDC's own schemas."""

import pytest
from golden.corpus import GoldenCase

from pipeline.protocols.avro.assertions import Asserted
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
