"""Which tests `make test` runs: all that are not slow. `make test-all` runs every one, with every case.

A slow test has the mark `slow`. A test with slow cases asks `EVERY`, or takes its cases from `few`.
"""

import os

EVERY = os.environ.get("TICDC_WAREHOUSE_GOLDEN") == "all"
"""Whether slow tests run, and each test with every case."""


def few(first, *others):
    """The cases of a test that takes long: the first, which tells most, or all."""
    return (first, *others) if EVERY else (first,)
