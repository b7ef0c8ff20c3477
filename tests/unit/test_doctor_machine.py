"""What `doctor` says of this machine's memory, also inside a container."""

import pytest
from unit.configuration import SMALL

from pipeline.cli.checkup import machine
from pipeline.cli.checkup.findings import Mark
from pipeline.settings import load

CONFIG = SMALL + "spark: {conf: {spark.driver.memory: 2g}}\n"
GIB = 1024**3
V2, V1 = "memory.max", "memory/memory.limit_in_bytes"


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """What is said on a machine of 16 GiB whose control groups have this file."""
    file = tmp_path / "ticdc-warehouse.yaml"
    file.write_text(CONFIG)
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 16 * GIB // 4096}
    monkeypatch.setattr(machine.os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "cgroup")

    def told(limit="", text=""):
        if limit:
            place = tmp_path / "cgroup" / limit
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{text}\n")
        (finding,) = machine.memory(load(file))
        return finding

    return told


def test_a_machine_without_limits_has_what_it_has(memory):
    found = memory()
    assert (found.mark, found.sentence.partition(";")[0]) == (Mark.FINE, "2.1 GB for Spark's driver, of 17.2 GB")


@pytest.mark.parametrize("limit", [V2, V1], ids=["v2", "v1"])
def test_the_limit_of_a_container_counts_where_the_machine_has_more(memory, limit):
    found = memory(limit, 2 * GIB)
    assert found.mark is Mark.NOTE
    assert "of 2.1 GB (this container's limit)" in found.sentence
    assert "spark.driver.memory" in found.todo


def test_a_limit_that_leaves_room_is_fine(memory):
    found = memory(V2, 4 * GIB)
    assert found.mark is Mark.FINE
    assert "of 4.3 GB (this container's limit)" in found.sentence


@pytest.mark.parametrize(("limit", "text"), [(V2, "max"), (V1, 9_223_372_036_854_771_712)], ids=["v2", "v1"])
def test_no_limit_is_none(memory, limit, text):
    found = memory(limit, text)
    assert (found.mark, found.sentence.partition(";")[0]) == (Mark.FINE, "2.1 GB for Spark's driver, of 17.2 GB")
