"""Each command of the tutorial, in its order, in one shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.devstack.ports import free_port

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/tutorial/first-tables.md"
BLOCKS = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.slow
def test_every_command_of_the_tutorial_does_what_the_page_says(tmp_path):
    kafka, registry = free_port(), free_port()
    script = "\n".join(["set -euo pipefail", *BLOCKS.findall(PAGE.read_text())])
    script = script.replace("127.0.0.1:9092", f"127.0.0.1:{kafka}").replace("127.0.0.1:8081", f"127.0.0.1:{registry}")
    script = script.replace("devstack up", f"devstack up --kafka-port {kafka} --registry-port {registry}")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
    finally:
        stop = [sys.executable, "-m", "pipeline", "devstack", "down", "--folder", str(tmp_path / "shop/.devstack")]
        subprocess.run(stop, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search(r"^EUR \d+ \d+\.\d+$", done.stdout, re.MULTILINE)
    assert re.search(r"^batch 0  shop\.orders .* quarantined \d+ ", done.stdout, re.MULTILINE)
    assert "stopped; nothing runs in" in done.stdout
    assert (tmp_path / "shop" / "report.html").exists()
