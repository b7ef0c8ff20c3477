"""How easily the prose of documents and docstrings is read, in a few numbers.

`python tools/prose.py` prints one line for each document, and one for the docstrings of the packages.
`python tools/prose.py docs/reference/checks.md` prints the sentences of that file that a reader may stumble over, each
with what is wrong with it.

Code, links' addresses and tables' rules are left out. What is counted:

- long: sentences of more than 30 words;
- passive: sentences with a form of *to be* and a participle;
- words: sentences with a word that docs/glossary.md replaces (`INSTEAD`);
- cells: cells of tables with more than one sentence.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGES = ("pipeline", "registry")
GENERATED = ("docs/decisions/", "docs/explanation/wire-formats.md", "docs/contributing/slow-tests.md")
"""Not judged: decisions stay as they were taken, and lists of facts have no sentences."""
LONGEST = 30
"""Words of a sentence."""

INSTEAD = {
    r"nobody|nothing tells|somebody": "name who: the changefeed, TiCDC, the run",
    r"behind (?:it|them|that|this|the|a)\b": "after",
    r"stands? in": "is recorded in",
    r"(?:is|are) told\b": "says, shows, logs",
    r"what is said of": "name it",
    r"lets? in\b|let in\b": "append, show",
    r"resent|sent again": "redelivered",
    r"\baside\b(?! from)": "set aside is for dead letters and quarantine",
    r"such a one|such ones": "name it",
    r"\bof which\b": "two sentences",
    r"put off": "deferred",
    r"goes by\b|go by\b": "uses, follows",
    r"by itself|by themselves": "automatically",
    r"\bcomes? of\b": "results from",
}
"""What a sentence should not have, and what to say in its place."""

_ALLOWED = re.compile(r"set aside|sets aside", re.IGNORECASE)
_FENCE = re.compile(r"^```.*?^```[^\n]*\n", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_RULE = re.compile(r"^\|[\s:|-]+\|$")
_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z(\"`*])")
_WORD = re.compile(r"[A-Za-z][\w'-]*")
_IRREGULAR = (
    "begun|broken|brought|built|caught|chosen|done|drawn|found|given|gone|held|hidden|kept|known|left|lost|made|meant|met|"
    "paid|put|read|run|said|seen|sent|set|shown|shut|sold|split|taken|thrown|told|understood|won|written"
)
_PASSIVE = re.compile(rf"\b(?:is|are|was|were|be|been|being)\s+(?:\w+ly\s+|not\s+)?(?:\w+ed|{_IRREGULAR})\b")


class Fault(NamedTuple):
    """A sentence, and what a reader may stumble over."""

    kind: str
    sentence: str
    instead: str = ""


class Measured(NamedTuple):
    """Of one text: how many sentences it has, and the faults."""

    sentences: int
    faults: list[Fault]

    def share(self, kind: str) -> float:
        """The share of sentences with this fault."""
        return sum(fault.kind == kind for fault in self.faults) / max(1, self.sentences)


def measured(text: str) -> Measured:
    """The faults of a text in Markdown."""
    faults: list[Fault] = []
    sentences = 0
    for paragraph in _paragraphs(_FENCE.sub("\n", text)):
        for cell in paragraph:
            parts = [part for part in _END.split(_plain(cell)) if len(_WORD.findall(part)) > 1]
            sentences += len(parts)
            if len(paragraph) > 1 and len(parts) > 1:
                faults.append(Fault("cells", cell))
            faults += [fault for part in parts for fault in _of_sentence(part)]
    return Measured(sentences, faults)


def _of_sentence(sentence: str) -> Iterator[Fault]:
    if len(_WORD.findall(sentence)) > LONGEST:
        yield Fault("long", sentence)
    if _PASSIVE.search(sentence):
        yield Fault("passive", sentence)
    judged = _ALLOWED.sub("", sentence)
    for pattern, instead in INSTEAD.items():
        if re.search(rf"\b(?:{pattern})", judged, re.IGNORECASE):
            yield Fault("words", sentence, instead)
            return


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", _LINK.sub(r"\1", _CODE.sub("code", text)).replace("**", "").replace("*", "")).strip()


def _paragraphs(text: str) -> Iterator[list[str]]:
    """The cells of a row of a table, or a paragraph, a heading or an item alone."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        row, item = line.lstrip().startswith("|"), re.match(r"\s*(?:[-*]|\d+\.)\s", line)
        if row or item or not line.strip() or line.startswith("#"):
            if block:
                yield [" ".join(block)]
            block = []
        if row:
            if not _RULE.match(line.strip()):
                yield [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        elif line.strip() and not line.startswith("#"):
            block.append(line.strip())


def documents() -> Iterator[tuple[str, str]]:
    """Each document that is judged, by its path."""
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        name = str(path.relative_to(ROOT))
        if not name.startswith(GENERATED):
            yield name, path.read_text(encoding="utf-8")


def docstrings() -> str:
    """The docstrings of the packages, as paragraphs."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return "\n\n".join(ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented))


def _line(name: str, text: str) -> str:
    result = measured(text)
    shares = "".join(f"{result.share(kind):9.1%}" for kind in ("long", "passive", "words", "cells"))
    return f"{name:46}{result.sentences:10,}{shares}"


def main(files: list[str]) -> None:
    """Print the numbers, or the faults of these files."""
    for file in files:
        for fault in measured(Path(file).read_text(encoding="utf-8")).faults:
            sys.stdout.write(f"{fault.kind:8}{fault.sentence}{f'  ({fault.instead})' if fault.instead else ''}\n")
    if files:
        return
    heads = "".join(f"{kind:>9}" for kind in ("long", "passive", "words", "cells"))
    sys.stdout.write(f"{'':46}{'sentences':>10}{heads}\n")
    for name, text in documents():
        sys.stdout.write(_line(name, text) + "\n")
    whole = "\n\n".join(text for _, text in documents())
    sys.stdout.write(_line("all documents", whole) + "\n" + _line("docstrings", docstrings()) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
