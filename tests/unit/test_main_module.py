"""`pipeline/__main__.py`, which is also the file that `spark-submit` runs, in whatever Python it finds."""

import subprocess
import sys
from pathlib import Path

import pipeline

ROOT = Path(pipeline.__file__).parents[1]
APPLICATION = ROOT / "pipeline" / "__main__.py"


def test_a_python_without_our_packages_is_told_so():
    words = [sys.executable, "-S", str(APPLICATION), "run"]  # -S: without site-packages
    done = subprocess.run(words, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(f"PYTHON_PACKAGES: {sys.executable} has no package 'typer'")
    assert "config spark-submit" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_application_file_finds_the_packages_of_its_python():
    done = subprocess.run(
        [sys.executable, str(APPLICATION), "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
