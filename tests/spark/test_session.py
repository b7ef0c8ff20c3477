"""What a session does before Spark starts."""

import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from py4j.java_gateway import JavaMember
from py4j.protocol import Py4JJavaError
from spark.sessions import SETTINGS
from unit.test_spark_redaction import ORDINARY, SECRET, TEXTS

from pipeline.errors import EnvironmentFault
from pipeline.runtime import class_archive, session
from pipeline.runtime.lock import WriterLock, made
from pipeline.settings import parse

ROOT = Path(__file__).parents[2]


def test_a_machine_whose_name_leads_nowhere_is_localhost(monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "")  # so that it is put back
    monkeypatch.delenv("SPARK_LOCAL_HOSTNAME")
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")
    session._name_this_machine()
    assert session.os.environ["SPARK_LOCAL_HOSTNAME"] == "localhost"
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "given")
    session._name_this_machine()
    assert session.os.environ["SPARK_LOCAL_HOSTNAME"] == "given"


def test_what_a_driver_must_know_before_it_starts_has_no_secrets_and_all_jars(tmp_path):
    conf = "spark: {conf: {spark.jars: /own.jar, spark.driver.memory: 3g, spark.yarn.keytab.password: hush}}"
    settings = parse(f"{SETTINGS.format(folder=tmp_path)}{conf}", tmp_path / "ticdc-warehouse.yaml")
    told = session.launch_properties(settings).properties
    assert told["spark.driver.memory"] == "3g"
    assert "iceberg-spark-runtime" in told["spark.jars"]
    assert told["spark.jars"].endswith(",/own.jar")
    assert "org.apache.avro.limits" in told["spark.driver.extraJavaOptions"]
    assert "hush" not in str(told)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what a process has mapped, only Linux tells")
def test_a_driver_maps_the_archive_of_classes_that_make_setup_has_made(spark):
    maps = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps").read_text()
    assert class_archive.place().is_file()
    assert str(class_archive.place()) in maps


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="the command lines of others, only Linux tells")
def test_a_catalog_stands_in_no_command_line_which_all_users_of_a_machine_read(spark):
    line = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/cmdline").read_text()
    assert "spark.driver.memory" in line
    assert "spark.sql.catalog.warehouse" not in line
    assert spark.conf.get("spark.sql.catalog.warehouse.uri").startswith("jdbc:sqlite:")


def test_java_reads_as_python_does_what_spark_is_to_hide_of_properties(spark):
    hides = spark.sparkContext._jvm.java.util.regex.Pattern.compile(spark.conf.get("spark.redaction.regex"))
    assert [text for text in [*SECRET, *TEXTS] if not hides.matcher(text).find()] == []
    assert [text for pair in ORDINARY.items() for text in pair if hides.matcher(text).find()] == []


def test_ctrl_c_is_ours_again_when_spark_has_started(spark):
    assert spark.sparkContext.defaultParallelism
    assert "pyspark" not in str(getattr(signal.getsignal(signal.SIGINT), "__module__", ""))


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match=f"create or write {tmp_path}/file/warehouse: Not a dir") as refused:
        made(tmp_path / "file" / "warehouse")
    assert refused.value.code == "FOLDER_UNWRITABLE"


AS_NOBODY = """
import os, pathlib, sys
from pipeline.runtime.lock import made
os.setuid(65534) if os.geteuid() == 0 else None  # root may write everywhere
made(pathlib.Path(sys.argv[1]))
"""


def test_a_folder_of_another_user_is_named():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        words = [sys.executable, "-c", AS_NOBODY, folder]
        told = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert f"cannot create or write {folder}: " in told.stderr


LOCKS_AS_NOBODY = """
import os, pathlib, sys
from pipeline.runtime.lock import WriterLock
os.setuid(65534) if os.geteuid() == 0 else None
WriterLock(pathlib.Path(sys.argv[1]), "run").__enter__()
print("locked")
"""


@pytest.mark.parametrize("name", [".writer.lock", ".writer.json", ".writer.jvm.lock", "catalog.db"])
def test_a_file_of_another_user_is_named_before_spark_starts_also_one_that_java_opens(name):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        words = [sys.executable, "-c", LOCKS_AS_NOBODY, folder]
        (Path(folder) / name).touch(0o444)
        told = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
        (Path(folder) / name).chmod(0o666)
        well = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert "FOLDER_UNWRITABLE: user " in told.stderr
    assert f"cannot create or write {folder}/{name}: " in told.stderr
    assert well.stdout == "locked\n"


def test_a_file_of_another_user_in_the_warehouse_is_named(tmp_path):
    (tmp_path / ".writer.lock").mkdir()  # root may write all files, but no folder as a file
    with pytest.raises(EnvironmentFault, match=r"cannot create or write .*\.writer\.lock: ") as refused:
        WriterLock(tmp_path, "run").__enter__()
    assert refused.value.code == "FOLDER_UNWRITABLE"


class TestIterations:
    """Loops over Java's collections (`runtime.jvm`)."""

    def test_a_loop_ends_where_the_collection_does_and_asks_for_nothing_else(self, spark, monkeypatch):
        asked = []
        of_java = JavaMember.__call__
        monkeypatch.setattr(
            JavaMember, "__call__", lambda self, *given: asked.append(self.name) or of_java(self, *given)
        )
        assert list(spark._jvm.java.util.List.of("a", "b")) == ["a", "b"]
        assert list(spark._jvm.java.util.List.of().iterator()) == []
        assert "isInstanceOf" not in asked
        assert len(asked) < 10

    def test_an_error_in_the_middle_is_no_end(self, spark):
        changed = spark._jvm.java.util.ArrayList()
        changed.add("a")
        iterator = changed.iterator()
        changed.add("b")
        with pytest.raises(Py4JJavaError, match="ConcurrentModificationException"):
            list(iterator)
