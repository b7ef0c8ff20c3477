"""The name of a member is a text, also where TiDB has bytes that are no UTF-8."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.model.members import name_of, octets_of


@given(st.binary(max_size=8))
@example(b"M\xfcller")
@example(rb"\x4D")
def test_bytes_come_back_from_their_name_and_texts_are_their_own(octets):
    name = name_of(octets)
    found = octets_of(name)
    assert (name.encode() if found is None else found) == octets


@pytest.mark.parametrize("name", ["", "a", r"\x", r"\x4D", r"\xA", r"\xzz", r"\xa5", "\ufffd"])
def test_a_name_that_no_bytes_have_is_a_text(name):
    assert octets_of(name) is None
