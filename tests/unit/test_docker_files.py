"""What stands in docker/ and is not run everywhere: it has to be what the product itself understands."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import sqlglot

from pipeline import ddl
from pipeline.ddl.classify import classify
from pipeline.demo import checks
from pipeline.model.names import TableName
from pipeline.settings import load

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"


@pytest.mark.parametrize("folder", ["demo", "canal", "files", "tidb"])
def test_a_configuration_is_valid(folder):
    settings = load(DOCKER / folder / "ticdc-warehouse.yaml")
    assert str(settings.warehouse.path).startswith("/data/")


def test_the_demo_has_one_set_of_checks(tmp_path):
    checks.write(tmp_path)
    written = {path.name: path.read_text() for path in tmp_path.rglob("*.yaml")}
    assert {path.name: path.read_text() for path in (DOCKER / "demo" / "checks").iterdir()} == written


def test_the_changefeed_sends_what_the_pipeline_reads():
    told = tomllib.loads((DOCKER / "tidb" / "changefeed.toml").read_text())
    (dispatcher,) = told["sink"]["dispatchers"]
    assert dispatcher == {"matcher": ["*.*"], "partition": "index-value"}
    source = load(DOCKER / "tidb" / "ticdc-warehouse.yaml").source
    script = (DOCKER / "tidb" / "changefeed.sh").read_text()
    sink = re.search(r"--sink-uri='kafka://([^/]+)/(\w+)\?protocol=(\w+)&", script)
    assert sink.groups() == (source.bootstrap_servers, source.topics[0], source.protocol)


def test_the_tables_of_the_workload_are_understood():
    text = (DOCKER / "tidb" / "schema.sql").read_text()
    database, *tables = [one.strip() for one in text.split(";") if one.strip()]
    assert classify(database) is ddl.ActionType.CREATE_SCHEMA
    assert len(tables) == 4
    for sql in tables:
        assert sqlglot.parse_one(sql, dialect="mysql")
        (action,) = ddl.parse(classify(sql), sql, TableName("shop", "any"))
        assert isinstance(action, ddl.CreateTable), action


@pytest.mark.parametrize("script", sorted(DOCKER.rglob("*.sh")), ids=lambda path: path.name)
def test_a_script_is_one(script):
    shell = script.read_text().partition("\n")[0].removeprefix("#!").split()
    assert subprocess.run([*shell, "-n", str(script)], check=False).returncode == 0
    assert script.stat().st_mode & 0o100


_FETCH = """
import runpy, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "Editable" not in repr(finder)]  # it has all modules
sys.argv[:] = ["devstack", "fetch", "--help"]
runpy.run_module("pipeline.devstack", run_name="__main__")
"""


def test_the_jars_are_fetched_with_what_that_stage_copies(tmp_path):
    """Modules that it lacks would end the image's build, which the tests here do not do."""
    stage = (DOCKER / "Dockerfile").read_text().partition(" AS jars\n")[2].partition("\nFROM ")[0]
    for line in re.findall(r"^COPY (.+)$", stage, re.MULTILINE):
        *sources, target = line.split()
        for source in sources:
            place = tmp_path / target / (Path(source).name if target.endswith("/") else "")
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copy(ROOT / source, place)
    command = [sys.executable, "-P", "-c", _FETCH]
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
