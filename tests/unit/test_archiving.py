"""Making the archive of Spark's classes, as `make setup` does: a line of ours, and none of Java's or Spark's."""

import sys

from pipeline.runtime import archiving


def test_what_java_and_spark_print_is_not_repeated(tmp_path, monkeypatch, capfd):
    java = tmp_path / "python"
    java.write_text("#!/bin/sh\necho 'WARNING: Using incubator modules'; echo 'Setting default log level' >&2\n")
    java.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(java))
    monkeypatch.setattr(archiving, "__spec__", type("Spec", (), {"name": "pipeline.runtime.archiving"}))
    archiving._driver(tmp_path / "classes")
    assert tuple(capfd.readouterr()) == ("", "")
