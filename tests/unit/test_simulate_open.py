"""The simulator's Open records against TiCDC's own: decoded and encoded again they are the same bytes."""

import base64
import json

import pytest
from golden.corpus import GoldenCase
from golden.decode_open import unquoted
from unit.simulate_golden import tables_of, value_from

from pipeline.simulate import go, open_protocol
from pipeline.simulate.open_protocol import OpenCodec

CASES = [
    (scenario, config)
    for scenario, configs in {
        "key_updates": ("open", "open_p3", "open_raw"),
        "lifecycle": ("open", "open_raw"),
        "all_types": ("open",),
        "orders_small": ("open", "open_p3"),
    }.items()
    for config in configs
]
GENERATED = "types.t_generated"
"""Its stored generated column has a flag that the simulator does not know."""
INDEXED = b'"customer_id":{"t":8,"f":161', b'"customer_id":{"t":8,"f":129'
"""The flag of an index that is not unique: the simulator has no such index."""


def parts(data):
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        yield data[at + 8 : at + 8 + size]
        at += 8 + size


def image(table, sent):
    return sent and {name: value_from(table.column(name), decoded(table, name, one["v"])) for name, one in sent.items()}


def decoded(table, name, value):
    kind = table.column(name).parsed
    if value is None or not (kind.is_text or kind.is_binary) or kind.name in {"char", "varchar"}:
        return value
    if kind.name in {"binary", "varbinary"}:
        return unquoted(value)
    data = base64.b64decode(value)
    return data if kind.is_binary else data.decode()


@pytest.mark.parametrize(("scenario", "config"), CASES)
def test_every_record_encodes_to_the_bytes_that_ticdc_sent(scenario, config):
    case = GoldenCase(scenario, config)
    tables, count = tables_of(case), 0
    for record in case.records:
        if record.kind != "row":
            continue
        ours, theirs = [], list(zip(parts(record.key[8:]), parts(record.value), strict=True))
        for key, value in theirs:
            told, sent = json.loads(key), json.loads(value)
            table = tables[f"{told['scm']}.{told['tbl']}"]
            if table.full_name == GENERATED:
                ours.append((key, value))
                continue
            before, after = image(table, sent.get("p", sent.get("d"))), image(table, sent.get("u"))
            codec = OpenCodec(table)
            made = codec.key(after or before, told["ts"], told.get("rid", 0)), codec.value(before, after)
            partition = f',"ptn":{told["ptn"]}'.encode() if "ptn" in told else b""
            ours.append((made[0].replace(b',"t":1}', partition + b',"t":1}'), made[1]))
            assert ours[-1] == (key, value.replace(*INDEXED))
            count += 1
        assert open_protocol.record(ours) == (record.key, record.value.replace(*INDEXED))
    assert count > 100


@pytest.mark.parametrize("scenario", ["key_updates", "lifecycle", "orders_small", "ddl"])
def test_statements_and_resolved_events_are_those_of_ticdc(scenario):
    kinds = set()
    for record in GoldenCase(scenario, "open").records:
        kinds.add(record.kind)
        if record.kind == "resolved":
            assert open_protocol.resolved(record.commit_ts) == (record.key, record.value)
        elif record.kind == "ddl":
            (key,), (value,) = map(json.loads, parts(record.key[8:])), map(json.loads, parts(record.value))
            ours = open_protocol.ddl_message(value["q"], value["t"], key["scm"], key.get("tbl", ""), key["ts"])
            assert ours == (record.key, record.value)
    assert kinds == {"row", "ddl", "resolved"}


@pytest.mark.parametrize(
    ("value", "bits", "plain", "short"),
    [
        (0.0, 64, "0", "0"),
        (0.1, 64, "0.1", "0.1"),
        (1e20, 64, "100000000000000000000", "100000000000000000000"),
        (1e21, 64, "1000000000000000000000", "1e+21"),
        (-2.5e-7, 64, "-0.00000025", "-2.5e-7"),
        (0.00001, 64, "0.00001", "0.00001"),
        (3.4028234663852886e38, 32, "340282350000000000000000000000000000000", "3.4028235e+38"),
        (0.10000000149011612, 32, "0.1", "0.1"),
        (16777216.0, 32, "16777216", "16777216"),
    ],
)
def test_floats_are_written_as_go_writes_them(value, bits, plain, short):
    assert (go.plain_float(value, bits), go.json_float(value, bits)) == (plain, short)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"ab c", "ab c"),
        (b'"\\', '\\"\\\\'),
        (b"\x00\x07\n\x7f", "\\x00\\a\\n\\x7f"),
        (b"\xff\xc3\xa9", "\\xffé"),
        ("\u2028\U000e0001".encode(), "\\u2028\\U000e0001"),
    ],
)
def test_bytes_are_quoted_as_go_quotes_them(data, text):
    assert go.quoted(data) == text
    assert unquoted(text) == data
