"""Every record that TiCDC sent is recognised by its bytes alone; what it never sends is said to be that."""

import pytest
from golden.corpus import manifest
from golden.faults import FaultCase

from pipeline.protocols.recognise import recognise

CASES = [case for case in manifest() if case.protocol != "storage"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_golden_record_is_recognised_as_what_it_is(case):
    told = [record for record in case.records if (record.key, record.value) != (None, None)]  # a delete without a key
    found = {recognise(record.key, record.value)[:2] for record in told}
    assert found == {(case.protocol, case.encoding or "")}


@pytest.mark.parametrize(
    ("key", "value", "protocol", "words"),
    [
        (None, None, "", "neither key nor value"),
        (b"k", None, "", "no value"),
        (None, b'"I","t","s",450000000000000000,1', "csv", "CSV"),
        (None, b'{"id":0,"database":"d","isDdl":false,"type":"INSERT"}', "canal-json", "Canal-JSON"),
        (None, b'{"id":1,"database":"d","isDdl":false,"type":"INSERT"}', "", "Alibaba's Canal"),
        (None, b'{"data":[{"id":"1"}],"type":"INSERT"}', "", "Flink's canal-json"),
        (None, b'{"payload":{"op":"c"}}', "debezium", "Debezium"),
        (None, b'{"version":1,"type":"INS', "", "cut off or damaged"),
        (None, b"[1,2]", "", "a list"),
        (None, b'{"a":1}', "", "no protocol of TiCDC"),
        (None, b"\x28\xb5\x2f\xfd\x00\x00", "", "Zstandard inside the message, which TiCDC does not do"),
        (None, b"<html>", "", "no form"),
        (None, b"[" * 100_000, "", "cut off or damaged"),
    ],
)
def test_what_ticdc_does_not_send_is_named(key, value, protocol, words):
    found = recognise(key, value)
    assert found.protocol == protocol
    assert words in found.sentence


@pytest.mark.parametrize(
    ("name", "protocol", "codec"),
    [("d03_lz4_json", "", "lz4"), ("d03_snappy_json", "", "snappy"), ("e07_lz4", "open-protocol", "lz4")],
)
def test_what_ticdc_has_compressed_inside_is_named_with_the_setting(name, protocol, codec):
    records = [one for one in FaultCase(name).records if one.value != bytes(8)]  # a watermark of Open is plain
    found = {recognise(record.key, record.value) for record in records}
    assert {one.protocol for one in found} == {protocol}
    assert all(f"compressed by {codec} inside" in one.sentence for one in found)
    assert all("large-message-handle-compression" in one.sentence for one in found)
