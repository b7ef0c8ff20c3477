"""What documents and docstrings refer to exists: files, pages, modules."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = sorted([*(ROOT / "pipeline").rglob("*.py"), *(ROOT / "registry").rglob("*.py"), *(ROOT / "tools").rglob("*.py")])
OF_THE_CODE = re.compile(r"`((?:pipeline|registry|tests|tools|docker|docs)/[\w/.-]*\w)`")
LINKED = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
PAGE = re.compile(r"\b(docs/[\w/-]+\.md)\b")
MODULE = re.compile(
    r"`((?:model|sources|protocols|ingest|service|report|observe|cli)(?:[./]\w+)+|(?:settings|quality|warehouse)(?:/\w+)+\.py)`"
)
"""With dots `settings`, `quality` and `warehouse` are sections of the configuration, too."""


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_and_pages_that_a_page_names_exist(page):
    text = page.read_text()
    files = [ROOT / name for name in [*OF_THE_CODE.findall(text), *PAGE.findall(text)]]
    pages = [page.parent / name for name in LINKED.findall(text)]
    assert [str(path) for path in (*files, *pages) if not path.exists()] == []


def test_the_pages_that_docstrings_cite_by_their_names_exist():
    """`(design.md, rule 3)`: docs/explanation/architecture.md says where they are."""
    pages = {page.name for page in (ROOT / "docs/explanation").glob("*.md")}
    assert {"architecture.md", "design.md", "wire-formats.md"} <= pages
    assert [name_of(f) for f in CODE if re.search(r"\bDESIGN\b|WIRE-FORMATS|SIMPLE-AVRO", f.read_text())] == []


@pytest.mark.parametrize("module", CODE, ids=name_of)
def test_pages_that_a_module_names_exist(module):
    assert [name for name in PAGE.findall(module.read_text()) if not (ROOT / name).exists()] == []


def modules(name):
    """The module or package that a dotted name, or a path, begins with; what follows is in it."""
    parts = re.split(r"[./]", name)
    for end in range(len(parts), 0, -1):
        path = ROOT / "pipeline" / Path(*parts[:end])
        if path.with_suffix(".py").exists():
            return path.with_suffix(".py"), parts[end:]
        if path.is_dir():
            return path / "__init__.py", parts[end:]
    return None, parts


@pytest.mark.parametrize("file", [*CODE, *PAGES], ids=name_of)
def test_modules_that_a_text_names_exist(file):
    wrong = []
    for name in MODULE.findall(file.read_text()):
        module, rest = modules(name.removesuffix(".py"))
        inside = rest[:1]
        if module is None or (inside and not re.search(rf"\b{re.escape(inside[0])}\b", module.read_text())):
            wrong.append(name)
    assert wrong == []
