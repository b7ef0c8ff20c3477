"""Regular expressions of suites: which ones have a loop that can match one text in many ways."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.quality.regexes import unbounded
from pipeline.quality.regexes.syntax import Unread, read


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+", r"(a|a)*", r"(.*)*", r"(a*)*", r"^(\w+\s?)+$", r"([a-z]+)*x", r"(a|ab|b)*", r"(?i)(a|A)*", r"(a?b?)*",
        r"(\s*,\s*)*", r"(x+x+)+y", r"(?>(a+)+)b", r"((?>a+)|a)+", r"(\d+|[0-9a-f]+)*", r"(\d{1,200})+", r"(.|\d)*",
        r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(?s)(.|\n)*", r"([^a]|b)+", r"(\p{L}|\w)+", r"([a-c&&[^b]]|a)+",
    ],
)  # fmt: skip
def test_loops_that_match_one_text_in_many_ways_are_unbounded(pattern):
    assert unbounded(pattern) == "nested quantifiers that can match one text in many ways"


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?<x>a)\k<x>", r"(?=(a)\1)"])
def test_back_references_are_unbounded(pattern):
    assert unbounded(pattern) == "a back-reference"


@pytest.mark.parametrize("pattern", [r"(?=(a+)+)b", r"(?=(ab)+)b", r"(?<!(?:ab){1,3})c"])
def test_quantified_groups_in_lookarounds_are_unbounded(pattern):
    assert unbounded(pattern) == "a lookaround with a quantified group"


@pytest.mark.parametrize(
    "pattern",
    [
        r"", r"^$", r"a+", r".*foo.*bar", r"(a|b)*", r"(a?)*", r"(a++)+", r"(?>a+)+", r"(.|\n)*", r"\b\w+\b",
        r"^[a-z]+(-[a-z]+)*$", r"(\d+,)*\d+", r"([0-9a-f]{2}){6}", r"(?:[0-9a-f]{2})+", r"(\d{1,3}){2}",
        r"^(?:\d{1,3}\.){3}\d{1,3}$", r"^[\w.+-]+@[\w-]+\.[\w.-]+$", r"(?=.*\d)(?=.*[a-z]).{8,}", r"^(foo|bar|baz)+$",
        r"\Q(a+)+\E", "(?x) a + # (b+)+\n b", r"[a-z&&[^b]]+", r"([a-c&&[^b]]|b)+", r"\x{1F600}+", r"\0101\cA[\w-]+",
        r"^\p{Lu}\p{L}*(\s\p{Lu}\p{L}*)*$", r"(?:[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?\.)+[a-z]{2,}",
        r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$", r"^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$",
    ],
)  # fmt: skip
def test_what_people_write_is_bounded(pattern):
    assert unbounded(pattern) == ""


@pytest.mark.parametrize("pattern", [r"(a", r"a)", r"\y", r"[]a]", r"*a", r"a{3,2}", r"(?z)a", r"(?'x'a)", "[a", "\\"])
def test_what_is_not_known_is_told(pattern):
    assert unbounded(pattern).startswith("a running time that cannot be predicted: ")


@given(st.text(alphabet="ab01.*+?|()[]{}^$\\dwsQEpx-&,<>=!:#\n ", max_size=30))
def test_any_text_is_read_or_told(text):
    with contextlib.suppress(Unread):
        read(text)
    assert isinstance(unbounded(text), str)
