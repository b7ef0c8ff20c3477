"""The programs of `tools/`, as modules."""

import importlib.util
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools"


def program(name):
    """One of them, by its file's name."""
    spec = importlib.util.spec_from_file_location(f"tools_{name}", TOOLS / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
