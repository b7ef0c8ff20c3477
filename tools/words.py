"""Checks the words of the code (docs/glossary.md).

`python tools/words.py` says what is wrong, `--record` writes anew how many old names are left.

Three rules for `pipeline` and `registry`:

1. An identifier of `INSTEAD` is not used; the word to use stands beside it.
2. No class name is defined twice.
3. A local or parameter is named for what it is, not for how it was found (`VAGUE`), except inside a comprehension of
   one line.

`words.json` lists what broke the third rule before it was made, by file. Each number may only shrink.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LEFT = Path(__file__).with_name("words.json")
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
    "landed": "results (of tables), written",
    "errand": "operation",
    "guess": "prediction",
    "meaning": "table_ref",
    "wall": "barrier",
    "obliged": "forced",
    "untold": "unrecorded",
    "homeless": "unattributed",
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
}
"""Identifiers that may stay in a file, each with the reason."""
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


def vague(tree: ast.Module) -> Counter[str]:
    """How often locals and parameters have a name of `VAGUE`, but for those of comprehensions of one line."""
    short = {
        id(part)
        for node in ast.walk(tree) if isinstance(node, _COMPREHENSIONS) and node.lineno == node.end_lineno
        for part in ast.walk(node)
    }  # fmt: skip
    counts: Counter[str] = Counter()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in VAGUE and id(node) not in short:
                counts[name] += 1
    return counts


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


def grown(left: dict[str, dict[str, int]]) -> Iterator[str]:
    """Files with other counts of vague names than the list has: more are wrong, fewer are to be recorded."""
    for path, tree in sources():
        counts, listed = vague(tree), left.get(path, {})
        for name in sorted(VAGUE):
            now, before = counts[name], listed.get(name, 0)
            if now > before:
                yield f"{path}: {now} locals called `{name}` (before: {before}): name them for what they are"
            elif now < before:
                yield f"{path}: `{name}` is rarer than tools/words.json says: python tools/words.py --record"


def record() -> None:
    """Write the list anew; refuses where a number has grown."""
    counts = {path: dict(sorted(found.items())) for path, tree in sources() if (found := vague(tree))}
    if LEFT.exists() and any("before" in line for line in grown(json.loads(LEFT.read_text()))):
        sys.exit("a number has grown: name the locals for what they are")
    LEFT.write_text(json.dumps(counts, indent=1) + "\n")


def main() -> int:
    """Say what is wrong, a line each."""
    if "--record" in sys.argv[1:]:
        record()
        return 0
    left = json.loads(LEFT.read_text())
    wrong = [*forbidden(), *defined_twice(), *grown(left)]
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
