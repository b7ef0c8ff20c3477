"""Artefacts: verified, whole or absent, fetched once. Ivy is a function here; tests/e2e runs the real one."""

import hashlib
import io
import json
import os
import re
import tarfile
import threading
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rich.console import Console

from pipeline import devstack, runtime
from pipeline.errors import EnvironmentFault
from pipeline.runtime.jars import artefacts, ivy, ledger, pins


def archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name in ("app-runner.jar", "lib/a.jar"):
            entry = tarfile.TarInfo(name)
            entry.size = len(name)
            tar.addfile(entry, io.BytesIO(name.encode()))
    return buffer.getvalue()


FILES = {
    "broker/kafka.jar": b"kafka",
    "registry/app-1.tar.gz": archive(),
    "spark/avro.jar": b"avro",
    "spark/iceberg.jar": b"iceberg",
}


class FakeIvy:
    """Lays down files as Ivy would; `fails` and `serves` change what it does."""

    def __init__(self):
        self.calls = 0
        self.fails = None
        self.serves = dict(FILES)

    def retrieve(self, into, cache, downloaded):
        self.calls += 1
        cache.mkdir(parents=True, exist_ok=True)
        for path, content in self.serves.items():
            target = into / path
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)
            downloaded(target.name)
            if self.fails:
                raise self.fails


@pytest.fixture
def fake(tmp_path, monkeypatch):
    pins_file = tmp_path / "artefacts.sha256"
    pins_file.write_text("".join(f"{hashlib.sha256(c).hexdigest()}  {p}\n" for p, c in FILES.items()))
    monkeypatch.setattr(pins, "PINS_FILE", pins_file)
    monkeypatch.setenv(artefacts.CACHE_ENV, str(tmp_path / "cache"))
    monkeypatch.delenv(artefacts.JARS_ENV, raising=False)
    fake = FakeIvy()
    monkeypatch.setattr(ivy, "retrieve", fake.retrieve)
    return fake


def home():
    return artefacts.jars("spark")[0].parent.parent


def leftovers(tmp_path):
    return [path.name for path in (tmp_path / "cache").iterdir() if "artefacts" in path.name]


def test_each_configuration_has_its_own_jars_and_the_registry_is_unpacked(fake):
    assert [path.name for path in artefacts.jars("spark")] == ["avro.jar", "iceberg.jar"]
    assert [path.read_bytes() for path in artefacts.jars("broker")] == [b"kafka"]
    assert (artefacts.registry_home() / "lib" / "a.jar").read_text() == "lib/a.jar"
    assert not list(artefacts.registry_home().glob("*.tar.gz"))
    assert fake.calls == 1


def test_a_second_fetch_neither_runs_ivy_nor_hashes(fake, monkeypatch):
    artefacts.fetch()
    monkeypatch.setattr(pins, "sha256", lambda path: pytest.fail(f"hashed {path}"))
    artefacts.fetch()
    assert fake.calls == 1


def test_threads_that_fetch_at_once_run_ivy_once(fake):
    threads = [threading.Thread(target=artefacts.fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fake.calls == 1
    assert len(artefacts.jars("spark")) == 2


def test_a_wrong_sum_names_the_file_and_both_sums_and_leaves_nothing(fake, tmp_path):
    fake.serves["spark/avro.jar"] = b"evil"
    with pytest.raises(EnvironmentFault) as caught:
        artefacts.fetch()
    assert caught.value.code == "ARTEFACT_CHECKSUM"
    for told in ("spark/avro.jar", hashlib.sha256(b"evil").hexdigest(), hashlib.sha256(b"avro").hexdigest()):
        assert told in caught.value.message
    assert "TICDC_WAREHOUSE_IVY_SETTINGS" in caught.value.hint
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "cache" / "ivy").exists(), "Ivy would find the wrong file again"


@pytest.mark.parametrize("change", ["more", "less"])
def test_a_file_without_pin_and_a_pin_without_file_are_refused(fake, change):
    if change == "more":
        fake.serves["spark/extra.jar"] = b"extra"
    else:
        del fake.serves["spark/iceberg.jar"]
    with pytest.raises(EnvironmentFault, match="extra.jar" if change == "more" else "iceberg.jar") as caught:
        artefacts.fetch()
    assert caught.value.code == "ARTEFACTS_UNPINNED"


def test_an_interrupted_fetch_leaves_nothing_and_the_next_one_succeeds(fake, tmp_path):
    fake.fails = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        artefacts.fetch()
    assert leftovers(tmp_path) == []
    fake.fails = None
    assert len(artefacts.jars("spark")) == 2


def test_what_a_killed_fetch_left_is_removed_by_the_next(fake, tmp_path):
    dead = home()
    half = dead.parent / f".{dead.name}-killed"
    dead.rename(half)
    assert len(artefacts.jars("spark")) == 2
    assert fake.calls == 2
    assert leftovers(tmp_path) == [dead.name]


def test_a_lost_file_is_fetched_again(fake):
    artefacts.jars("spark")[0].unlink()
    assert artefacts.jars("spark")[0].read_bytes() == b"avro"
    assert fake.calls == 2


@pytest.mark.usefixtures("fake")
def test_a_changed_file_is_refused_with_both_sums():
    jar = artefacts.jars("spark")[0]
    jar.write_bytes(b"changed")
    with pytest.raises(EnvironmentFault) as caught:
        artefacts.jars("broker")
    assert caught.value.code == "ARTEFACT_CHECKSUM"
    assert str(jar) in caught.value.message
    assert hashlib.sha256(b"changed").hexdigest() in caught.value.message
    assert hashlib.sha256(b"avro").hexdigest() in caught.value.message


def test_a_touched_file_is_hashed_once_and_accepted(fake, monkeypatch):
    os.utime(artefacts.jars("spark")[0], (1, 1))
    artefacts.fetch()
    monkeypatch.setattr(pins, "sha256", lambda path: pytest.fail(f"hashed {path}"))
    artefacts.fetch()
    assert fake.calls == 1


def test_other_pins_are_another_folder(fake):
    first = home()
    fake.serves["spark/new.jar"] = b"new"
    with pins.PINS_FILE.open("a") as file:
        file.write(f"{hashlib.sha256(b'new').hexdigest()}  spark/new.jar\n")
    assert home() != first
    assert first.exists(), "an older version of the program may still use it"


def test_jars_baked_into_an_image_are_used_without_ivy(fake, tmp_path, monkeypatch):
    artefacts.fetch(into=tmp_path / "image")
    fake.fails = AssertionError("no network here")
    monkeypatch.setenv(artefacts.JARS_ENV, str(tmp_path / "image"))
    monkeypatch.setenv(artefacts.CACHE_ENV, "/nowhere")
    assert artefacts.jars("spark")[0] == tmp_path / "image" / "spark" / "avro.jar"
    assert (artefacts.registry_home() / "app-runner.jar").exists()
    assert (tmp_path / "image").stat().st_mode & 0o055 == 0o055, "an image runs as another user"


@pytest.mark.usefixtures("fake")
def test_a_read_only_image_whose_times_changed_is_accepted(tmp_path, monkeypatch):
    artefacts.fetch(into=tmp_path / "image")
    os.utime(tmp_path / "image" / "spark" / "avro.jar", (1, 1))
    monkeypatch.setenv(artefacts.JARS_ENV, str(tmp_path / "image"))

    def refuse(*_args):
        raise PermissionError

    monkeypatch.setattr(ledger, "_save", refuse)
    assert len(artefacts.jars("spark")) == 2


@pytest.mark.parametrize("damage", ["empty", "other edition", "file lost", "ledger garbled"])
@pytest.mark.usefixtures("fake")
def test_a_baked_folder_that_is_not_whole_or_of_another_version_is_refused(tmp_path, monkeypatch, damage):
    image = tmp_path / "image"
    artefacts.fetch(into=image)
    recorded = image / ledger.NAME
    if damage == "empty":
        recorded.unlink()
    elif damage == "other edition":
        recorded.write_text(json.dumps(json.loads(recorded.read_text()) | {"edition": "0"}))
    elif damage == "file lost":
        (image / "spark" / "avro.jar").unlink()
    else:
        recorded.write_text("{")
    monkeypatch.setenv(artefacts.JARS_ENV, str(image))
    with pytest.raises(EnvironmentFault) as caught:
        artefacts.jars("spark")
    assert caught.value.code == "ARTEFACTS_BAKED"
    assert f"--into {image}" in caught.value.hint


@pytest.mark.usefixtures("fake")
def test_progress_is_plain_lines_where_there_is_no_terminal():
    said = io.StringIO()
    artefacts.fetch(Console(file=said, force_terminal=False, width=200))
    assert said.getvalue().startswith("fetching 4 artefacts")
    assert "\x1b" not in said.getvalue()


@pytest.mark.usefixtures("fake")
def test_a_terminal_sees_a_bar():
    said = io.StringIO()
    artefacts.fetch(Console(file=said, force_terminal=True, width=120))
    assert "4/4" in said.getvalue()


def test_ivy_xml_and_the_committed_pins_name_the_same_artefacts():
    named = set()
    for dependency in ET.parse(ivy.MODULE_FILE).iter("dependency"):  # noqa: S314 - our own file
        conf = dependency.get("conf").removesuffix("->default")
        suffix = "-all-{}.tar.gz" if conf == "registry" else "-{}.jar"
        named.add(f"{conf}/{dependency.get('name')}{suffix.format(dependency.get('rev'))}")
    assert named == set(pins.read_pins())


def test_no_address_stands_in_what_is_shipped():
    rooms = [Path(module.__file__).parent for module in (runtime, devstack)]
    shipped = [path for room in rooms for path in room.rglob("*") if path.suffix in {".py", ".xml", ".sha256"}]
    assert {"ivy.xml", "ivysettings.xml", "artefacts.sha256", "broker.py"} <= {path.name for path in shipped}
    for path in shipped:
        addresses = re.findall(r"https?://[^\s\"]+", path.read_text())
        allowed = {"http://ant.apache.org/ivy/maven", "http://{ports.HOST}:{self.port}{_API}", "http://localhost:1"}
        assert set(addresses) <= allowed, path.name


def test_a_settings_file_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv(ivy.SETTINGS_ENV, "/nowhere/settings.xml")
    with pytest.raises(EnvironmentFault, match=re.escape("/nowhere/settings.xml")) as caught:
        ivy.settings_file()
    assert caught.value.code == "IVY_SETTINGS_MISSING"
