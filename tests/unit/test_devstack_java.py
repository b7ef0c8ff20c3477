"""Java: found where Spark looks, and refused in one sentence."""

import pytest

from pipeline.errors import EnvironmentFault
from pipeline.runtime.java import find_java


def fake_java(home, says, code=0):
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    launcher.chmod(0o755)
    return launcher


@pytest.mark.parametrize(
    ("says", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('openjdk version "21-ea" 2023-09-19', 21)],
)
def test_java_home_comes_first(tmp_path, monkeypatch, says, version):
    launcher = fake_java(tmp_path / "home", says)
    fake_java(tmp_path / "path", 'openjdk version "11.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    assert (find_java().executable, find_java().version) == (launcher, version)


def test_path_comes_second(tmp_path, monkeypatch):
    launcher = fake_java(tmp_path, 'openjdk version "17"')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_java().executable == launcher


@pytest.mark.parametrize(
    ("says", "version"),
    [('java version "1.8.0_402"', "8"), ('openjdk version "11.0.2"', "11"), ('x version "24"', "24")],
)
def test_another_version_is_refused_and_named(tmp_path, monkeypatch, says, version):
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=f"is Java {version}, and Spark 4.0 runs on Java 17 or 21") as caught:
        find_java()
    assert caught.value.code == "JAVA_VERSION"
    assert "openjdk-17-jre-headless" in caught.value.hint


def test_no_java_at_all(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="There is no Java") as caught:
        find_java()
    assert caught.value.code == "JAVA_MISSING"


def test_a_java_home_without_java_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=f"JAVA_HOME is {tmp_path}") as caught:
        find_java()
    assert caught.value.code == "JAVA_MISSING"


def test_the_stub_of_macos_counts_as_no_java(tmp_path, monkeypatch):
    fake_java(tmp_path, "The operation could not be completed. Unable to locate a Java Runtime.", code=1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="Unable to locate a Java Runtime") as caught:
        find_java()
    assert caught.value.code == "JAVA_MISSING"
