"""The Confluent wire header, and TiCDC's own first bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry import NoWireHeader, join, split, wire


@given(st.integers(0, 2**32 - 1), st.binary())
def test_what_was_joined_is_split_again(schema_id, body):
    message = join(schema_id, body)
    assert split(message) == wire.Header(wire.SchemaId(schema_id), body)
    assert len(message) == wire.HEADER_BYTES + len(body)


@given(st.binary(max_size=12))
def test_any_bytes_have_a_header_or_are_refused_and_nothing_else(message):
    try:
        header = split(message)
    except NoWireHeader:
        assert len(message) < wire.HEADER_BYTES or message[0] != wire.MAGIC
    else:
        assert join(header.schema_id, header.body) == message


def test_a_value_that_ticdc_wrote_is_taken_apart():
    message = bytes.fromhex("0000000002 02 02 066f6e65".replace(" ", ""))  # golden lifecycle: id 1, v 'one', …
    assert split(message) == wire.Header(wire.SchemaId(2), bytes.fromhex("0202066f6e65"))


def test_the_id_is_big_endian_and_unsigned():
    assert split(bytes.fromhex("00 00 01 86 a0")).schema_id == 100_000
    assert split(bytes.fromhex("00 ff ff ff ff")).schema_id == 2**32 - 1


@pytest.mark.parametrize("schema_id", [-1, 2**32])
def test_an_id_that_four_bytes_cannot_hold_is_not_written(schema_id):
    with pytest.raises(ValueError, match="does not fit"):
        join(schema_id, b"")


@pytest.mark.parametrize("first", [wire.DDL, wire.CHECKPOINT, wire.DELETE])
def test_watermark_mode_messages_are_no_rows_and_the_hint_says_so(first):
    with pytest.raises(NoWireHeader) as refused:
        split(bytes([first]) + (450_000_000_000_000_000).to_bytes(8, "big"))
    assert f"{first:02x}" in refused.value.message
    assert "watermark" in refused.value.hint


def test_the_first_bytes_of_watermark_mode_are_ticdcs():
    assert (wire.DDL, wire.CHECKPOINT, wire.DELETE) == (1, 2, 3)
