"""The archive of Spark's classes: which options a driver gets for it, and what makes another one."""

import sys
from pathlib import Path

import pytest

from pipeline.runtime import class_archive
from pipeline.runtime.java import Java


@pytest.fixture
def java(tmp_path, monkeypatch):
    """An environment of its own, with a Java that is a file."""
    executable = tmp_path / "java"
    executable.write_text("17")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(class_archive, "find_java", lambda: Java(executable, 17))
    for name in (*class_archive._OTHER_CLASS_PATHS, class_archive.WRITES):
        monkeypatch.delenv(name, raising=False)
    return executable


def test_a_driver_reads_it_where_it_is(java):
    assert class_archive.options({}) == ""
    class_archive.place().write_bytes(b"")
    assert f"-XX:SharedArchiveFile={java.parent}/ticdc-warehouse-" in class_archive.options({})
    assert class_archive.place().parent == java.parent


@pytest.mark.parametrize("name", class_archive._OTHER_CLASS_PATHS)
@pytest.mark.usefixtures("java")
def test_it_is_not_read_with_another_class_path(monkeypatch, name):
    class_archive.place().write_bytes(b"")
    assert class_archive.options({"spark.driver.extraClassPath": "/more.jar"}) == ""
    monkeypatch.setenv(name, "/elsewhere")
    assert class_archive.options({}) == ""


def test_another_java_has_another_one(java):
    first = class_archive.place()
    java.write_text("17.0.1")
    assert class_archive.place() != first
    assert class_archive.place().parent == Path(sys.prefix) == first.parent


@pytest.mark.usefixtures("java")
def test_the_process_that_makes_it_writes_it_at_its_end(monkeypatch):
    monkeypatch.setenv(class_archive.WRITES, "/fresh")
    assert class_archive.options({}).endswith("-XX:ArchiveClassesAtExit=/fresh")
