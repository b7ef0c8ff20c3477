"""Every page can be reached from the index, and is in the site; those that programs write are up to date."""

import re
from pathlib import Path

import yaml
from support.programs import program

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
PAGES = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def linked(page):
    """The pages that a page links."""
    paths = ((DOCS / page).parent / target for target in LINK.findall((DOCS / page).read_text()) if "://" not in target)
    return {path.resolve().relative_to(DOCS).as_posix() for path in paths if path.resolve().is_relative_to(DOCS)}


def listed(tree):
    """The pages of a part of the navigation."""
    match tree:
        case str():
            return {tree}
        case dict():
            return set().union(*map(listed, tree.values()))
    return set().union(*map(listed, tree))


def test_the_index_has_every_page():
    assert sorted(PAGES - linked("index.md") - {"index.md"}) == []


def test_the_site_has_every_page():
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert listed(navigation) == PAGES


def test_the_readme_can_be_read_in_two_minutes():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150


def test_the_page_of_commands_is_that_of_the_command_line():
    commands = program("commands")
    assert commands.PAGE.read_text() == commands.page(), "python tools/commands.py writes it"


OLDER = ("docs/explanation/design.md", "docs/glossary.md", "docs/reference/configuration.md", "docs/contributing/add-")
"""Pages of before the style."""
MOST, MOST_PASSIVE = 0.01, 0.1
"""Shares of sentences."""


def test_documents_are_no_harder_to_read_than_they_were():
    prose = program("prose")
    texts = [text for name, text in prose.documents() if not name.startswith(OLDER)]
    measured = prose.measured("\n\n".join(texts))
    faults = {kind: measured.share(kind) for kind in ("long", "words", "cells")}
    assert all(share <= MOST for share in faults.values()), faults
    assert measured.share("passive") <= MOST_PASSIVE
