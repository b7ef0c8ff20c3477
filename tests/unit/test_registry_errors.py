"""Errors are stable, pickle, and end in a hint."""

import pickle

import pytest

import registry
from registry import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.RegistryError)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_pickling_whole(kind):
    error = kind("SOME_CODE", "What is wrong.", "What to do.")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is kind
    assert (copy.code, copy.message, copy.hint) == ("SOME_CODE", "What is wrong.", "What to do.")
    assert str(copy) == "SOME_CODE: What is wrong.\n  What to do."


def test_every_error_has_the_one_root_and_is_exported():
    assert len(KINDS) == 10
    assert {kind.__name__ for kind in KINDS} <= set(registry.__all__)


def test_an_error_without_a_hint_is_one_line():
    assert str(errors.RegistryError("CODE", "Said.")) == "CODE: Said."


def test_the_package_exports_its_names_sorted_and_all_of_them_exist():
    assert sorted(registry.__all__) == registry.__all__
    assert all(hasattr(registry, name) for name in registry.__all__)
