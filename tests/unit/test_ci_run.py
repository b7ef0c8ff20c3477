"""`.ci/run` starts a Docker engine where there is none, and ends it, whatever that does; all of it stand-ins."""

import os
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci" / "run"
PROGRAMS = {
    "id": "echo 0",
    "docker": '[ "$DOCKER_HOST" ] && [ -e "${DOCKER_HOST#unix://}" ]',
    "make": 'echo "the tests, with ${DOCKER_HOST:+an engine}"; exit ${MAKE_ENDS:-0}',
    "sleep": "exec {sleep} 0.02",
    "umount": "exit 0",
    "dockerd": """\
echo $$ > {folder}/pid
while [ $# -gt 1 ]; do case $1 in --pidfile) pid=$2 ;; --host) socket=${{2#unix://}} ;; esac; shift; done
{trap}
{ready}
while :; do {sleep} 0.02; done""",
}
WELL = 'echo $$ > "$pid"; touch "$socket"'
NO_FILE = 'touch "$socket"'


@pytest.fixture
def ci(tmp_path):
    """Runs it with an engine that is ready by these commands, and traps signals by those: its end, and what it said."""
    programs, temporary = tmp_path / "bin", tmp_path / "tmp"
    programs.mkdir()
    temporary.mkdir()
    sleep = subprocess.run(["sh", "-c", "command -v sleep"], capture_output=True, text=True, check=True).stdout.strip()
    started = tmp_path / "pid"

    def run(ready, trap="", **environment):
        for name, text in PROGRAMS.items():
            said = text.format(folder=tmp_path, sleep=sleep, ready=ready, trap=trap) if "{folder}" in text else text
            (programs / name).write_text(f"#!/bin/sh\n{said.replace('{sleep}', sleep)}\n")
            (programs / name).chmod(0o755)
        own = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "TMPDIR": str(temporary)}
        kept = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
        done = subprocess.run(
            [str(RUN)], env={**kept, **own, **environment}, capture_output=True, text=True, check=False, timeout=30
        )
        return done, int(started.read_text())

    yield run
    if started.exists():
        subprocess.run(["kill", "-KILL", started.read_text().strip()], check=False, capture_output=True)


@pytest.mark.parametrize("trap", ["", "trap '' TERM"], ids=["ends when asked", "has to be killed"])
@pytest.mark.parametrize("ready", [WELL, NO_FILE, "exit 1", ":"], ids=["well", "no pid file", "dies", "never ready"])
def test_the_engine_is_ended_whatever_it_does(ci, tmp_path, ready, trap):
    done, engine = ci(ready, trap)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == ("the tests, with an engine" if "socket" in ready else "the tests, with ")
    assert not Path(f"/proc/{engine}").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_end_of_the_tests_is_its_own(ci):
    assert ci(WELL, MAKE_ENDS="3")[0].returncode == 3
