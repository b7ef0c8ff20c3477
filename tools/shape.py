"""Checks the shape of `pipeline/ingest` (docs/decisions/007-one-micro-batch.md).

`python tools/shape.py` says what is wrong.

1. A module has at most 300 lines, a class at most 20 methods and 12 fields. `TABLES_OF_DATA` may have more.
2. Only `ASKS` compares orderings: everything else is given the ordering that it works in.
3. Nothing is passed by its identity (`id`).
4. No modules import each other in a circle, not for their types either.
5. The room has at most `TOTAL` lines: 85 % of what it had at 0c4b4c4, 65 for small batches (decision 012), 95 for
   statements ahead (decision 013), and 20 for batches whose files say what they have (decision 008).
"""

from __future__ import annotations

import ast
import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LINES, METHODS, FIELDS = 300, 20, 12
TOTAL = 6_458
TABLES_OF_DATA: dict[str, str] = {}
"""Modules that may be longer, each with the reason. There is none."""
ASKS = "pipeline/ingest/ordering.py"
ROOMS = ("ingest", "operations", "service")


def modules(*rooms: str) -> Iterator[tuple[str, str]]:
    """Each module of these rooms, by its path from the root, with its text."""
    for room in rooms:
        for file in sorted((ROOT / "pipeline" / room).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), file.read_text()


def too_large() -> Iterator[str]:
    """Modules and classes of `ingest` that a reader cannot hold in mind."""
    total = 0
    for path, text in modules("ingest"):
        lines = len(text.splitlines())
        total += lines
        if lines > LINES and path not in TABLES_OF_DATA:
            yield f"{path}: {lines} lines, at most {LINES}"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(part, ast.FunctionDef) for part in node.body)
                fields = sum(isinstance(part, ast.AnnAssign) for part in node.body)
                if methods > METHODS or fields > FIELDS:
                    yield f"{path}:{node.lineno}: {node.name} has {methods} methods and {fields} fields"
    if total > TOTAL:
        yield f"pipeline/ingest: {total} lines, at most {TOTAL}"


def asks() -> Iterator[str]:
    """Modules that ask for the ordering, or for the identity of an object."""
    for path, text in modules(*ROOMS):
        if path != ASKS and re.search(r"\bOrdering\.BY_|\.ordering\b is|\bordering ==", text):
            yield f"{path}: asks for the ordering; that is done in {ASKS}"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Name) and node.id == "id":
                yield f"{path}:{node.lineno}: id(): pass the value itself"


def circles() -> Iterator[str]:
    """Modules of `ingest` that need each other, be it for types alone."""
    sources = {path.removesuffix(".py").replace("/", "."): ast.parse(text) for path, text in modules("ingest")}
    imports = {name: {target for target in _imported(tree) if target in sources} for name, tree in sources.items()}
    try:
        tuple(TopologicalSorter(imports).static_order())
    except CycleError as error:
        yield f"circle of imports: {' <- '.join(error.args[1])}"


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def main() -> int:
    """Say what is wrong, a line each."""
    wrong = [*too_large(), *asks(), *circles()]
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
