"""Checks the words of the code (docs/glossary.md).

`python tools/words.py` says what is wrong.

Three rules for `pipeline` and `registry`:

1. An identifier of `INSTEAD` is not used; the word to use stands beside it.
2. No class name is defined twice.
3. A local or parameter is named for what it is, not for how it was found (`VAGUE`), except inside a comprehension of
   one line.

`ALLOWED` has the exceptions, each with its reason.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGES = ("pipeline", "registry")
INSTEAD = {
    "Workbench": "PipelineContext",
    "bench": "context (of a pipeline), benchmark",
    "Regime": "Ordering",
    "regime": "ordering",
    "Moment": "Frontier",
    "Obedience": "DdlPlan",
    "Chronicle": "DdlApplier",
    "obey": "apply",
    "obeyed": "applied",
    "Landing": "ColumnMapping",
    "landing": "mapping (of columns), writer (of a table)",
    "errand": "operation",
    "guess": "prediction",
    "meaning": "table_ref",
    "wall": "barrier",
    "obliged": "forced",
    "untold": "unrecorded",
    "homeless": "unattributed",
    "resent": "redelivered",
    "letters": "dead_letters",
    "parked": "displaced (a table under another name than its own)",
    "put_off": "deferred",
    "waited": "was_pending",
    "census": "event_counter",
    "shelf": "table_metadata",
    "workshop": "client (of a running pipeline)",
    "extremes": "least and greatest",
    "WarehouseTable": "TablePair",
    "Speculation": "SpeculativeAppend",
    "obligations": "backfills",
    "spans": "bindings (of names), ranges",
}
ALLOWED = {
    ("pipeline/cli/__init__.py", "meaning"): "what a command is for",
    ("pipeline/cli/config.py", "meaning"): "what a setting means",
    ("pipeline/settings/schema.py", "meaning"): "what a setting means",
    ("pipeline/warehouse/state.py", "meaning"): "what a key means",
    (
        "pipeline/warehouse/multiset.py",
        "guess",
    ): "one of several sets of columns that are tried: a guess in the plain sense",
    ("pipeline/quality/regexes/ambiguity.py", "letters"): "characters of an alphabet",
    ("pipeline/quality/regexes/probe.py", "letters"): "characters of an alphabet",
    ("pipeline/warehouse/partitions.py", "spans"): "ranges of a partition's values",
    ("pipeline/ddl/partitions/rows.py", "spans"): "ranges of a partition's values",
    ("pipeline/cli/checkup/messages.py", "spans"): "first and last offsets",
    ("pipeline/model/messages.py", "at"): "`Ddl.at`: where the copies of a DDL event stand; read in every room",
    ("pipeline/report/facts.py", "at"): "keys of the report's JSON, which users read",
    ("pipeline/warehouse/layout.py", "at"): "a key of the layout's JSON, which is stored with tables",
}
"""Identifiers that may stay in a file, each with the reason. One that is not there any more is to be taken out."""
VAGUE = frozenset({"one", "told", "said", "found", "known", "at"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Every module, by its path from the root."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), ast.parse(file.read_text())


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each name that the code defines or uses, with its line; not what texts and comments say."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name


def vague() -> Iterator[str]:
    """Locals, parameters and fields with a name of `VAGUE`, but for those of comprehensions of one line."""
    for path, tree in sources():
        short = {
            id(part)
            for node in ast.walk(tree) if isinstance(node, _COMPREHENSIONS) and node.lineno == node.end_lineno
            for part in ast.walk(node)
        }  # fmt: skip
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    if name in VAGUE and id(node) not in short and (path, name) not in ALLOWED:
                        yield f"{path}:{node.lineno}: `{name}`: name it for what it is"


def defined_twice() -> Iterator[str]:
    """Class names that two modules define."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    for name, where in sorted(places.items()):
        if len(where) > 1:
            yield f"{name} is the name of {len(where)} classes: {', '.join(where)}"


def forbidden() -> Iterator[str]:
    """Identifiers for which there is a better word."""
    for path, tree in sources():
        for line, name in identifiers(tree):
            if name in INSTEAD and (path, name) not in ALLOWED:
                yield f"{path}:{line}: {name}: say {INSTEAD[name]} (docs/glossary.md)"


def needless() -> Iterator[str]:
    """Exceptions that nothing needs any more."""
    used = {(path, name) for path, tree in sources() for _, name in identifiers(tree)}
    for path, name in ALLOWED:
        if (path, name) not in used:
            yield f"tools/words.py: {name} is not in {path} any more: take it out of ALLOWED"


def main() -> int:
    """Say what is wrong, a line each."""
    wrong = [*forbidden(), *defined_twice(), *vague(), *needless()]
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
