"""YAML text as a tree of text, with the place of every key.

The tree holds mappings, lists, text and None only: a plain scalar stays as it was written and the settings'
own types read it. So `password: 0123` keeps its zero, `no` is no boolean by accident, a time is no number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias, Union

import yaml

from pipeline.errors import SettingsError
from pipeline.settings.faults import Path, SettingFault, printable

Tree: TypeAlias = Union[str, list["Tree"], dict[str, "Tree"], None]  # noqa: UP007 - recursive: needs names in quotes

DEEPEST = 20
MOST_NODES = 20_000  # aliases multiply: a page of YAML can stand for billions of nodes
_NULL = "tag:yaml.org,2002:null"
_TEXT_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "null", "bool", "int", "float"))
_MAP, _LIST = "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"


@dataclass(frozen=True, slots=True)
class SettingPlace:
    """Where a setting was written: a file with line and column (from 1), or an environment variable."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(slots=True)
class Document:
    """The tree of one configuration, where its keys stand, and what was wrong with its form."""

    tree: dict[str, Tree]
    places: dict[Path, SettingPlace]
    faults: list[SettingFault] = field(default_factory=list)

    def place(self, path: Path) -> SettingPlace:
        """Give the place of the key, or of the nearest mapping around it that was written."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places[path]


class _TextLoader(yaml.SafeLoader):
    """PyYAML's loader that resolves no scalar but null."""


_TextLoader.yaml_implicit_resolvers = {}
_TextLoader.add_implicit_resolver(_NULL, re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])


def read(text: str, source: str) -> Document:
    """Read a configuration; `source` names it in errors. Raises SettingsError unless it is a YAML mapping."""
    root = compose(text, source)
    document = Document({}, {(): SettingPlace(source, 1, 1)})
    if root is None:
        raise SettingsError("SETTINGS_EMPTY", f"{source} is empty", _SCHEMA_HINT)
    if not isinstance(root, yaml.MappingNode):
        raise SettingsError("SETTINGS_YAML", f"{source}: expected keys and values at the top", _SCHEMA_HINT)
    tree = _Reader(source, document).value(root, ())
    document.tree = tree if isinstance(tree, dict) else {}
    return document


def read_value(text: str, source: str) -> Document:
    """Read one YAML value of an environment variable; it stands under the key `value` of the tree."""
    root = compose(text, source)
    document = Document({}, {(): SettingPlace(source)})
    value = None if root is None else _Reader(source, document, marks=False).value(root, ("value",))
    document.tree = {"value": value}
    return document


def compose(text: str, source: str) -> yaml.Node | None:
    """Give the root node of one YAML document; the SettingsError never quotes the text, it may be secret."""
    try:
        return yaml.compose(text, Loader=_TextLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = SettingPlace(source, mark.line + 1, mark.column + 1) if mark else SettingPlace(source)
        sentence = f"{place}: {_problem(error)}"
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        sentence = f"{source}: {_unreadable(error)}"
    raise SettingsError("SETTINGS_YAML", sentence, _QUOTE_HINT)  # out here, so that it carries no quoting error along


_SCHEMA_HINT = "`ticdc-warehouse config schema` lists every key"
_QUOTE_HINT = "a value that begins with one of & * ! % @ ` { [ or holds `: ` or ` #` needs quotes"


def _problem(error: yaml.MarkedYAMLError) -> str:
    problem = re.sub(r"'(?!<)[^']{2,}'", "'…'", error.problem or "this is not YAML")
    return f"not YAML: {printable(problem)}" + (
        f" ({error.context})" if error.context and "'" not in error.context else ""
    )


def _unreadable(error: Exception) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"not YAML: a character that may not stand there, at position {error.position}"
    return "nested too deeply" if isinstance(error, RecursionError) else "not YAML: an escape names no character"


class _Reader:
    """Turns nodes into the tree, and notes the place of each key."""

    def __init__(self, source: str, document: Document, *, marks: bool = True) -> None:
        self.source = source
        self.document = document
        self.marks = marks
        self.nodes = 0

    def value(self, node: yaml.Node, path: Path) -> Tree:
        self.nodes += 1
        if len(path) > DEEPEST or self.nodes > MOST_NODES:
            raise SettingsError("SETTINGS_YAML", f"{self._at(node)}: nested too deeply, or too large", _SCHEMA_HINT)
        if isinstance(node, yaml.MappingNode) and node.tag == _MAP:
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _LIST:
            return [self._item(item, (*path, str(n))) for n, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in _TEXT_TAGS:
            return None if node.tag == _NULL else str(node.value)
        self._fault(node, path, "a YAML tag (`!…`) is not read here; quote the value if it begins with `!`")
        return None

    def _item(self, node: yaml.Node, path: Path) -> Tree:
        self.document.places[path] = self._at(node)
        return self.value(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Tree]:
        tree: dict[str, Tree] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in _TEXT_TAGS:
                self._fault(key_node, path, "a key must be plain text")
                continue
            key = str(key_node.value)
            inner = (*path, key)
            if key in tree:
                self._fault(key_node, inner, f"is here twice, first at {self.document.places[inner]}")
                continue
            self.document.places[inner] = self._at(key_node)
            tree[key] = self.value(value_node, inner)
        return tree

    def _fault(self, node: yaml.Node, path: Path, text: str) -> None:
        self.document.faults.append(SettingFault(path, text, place=str(self._at(node))))

    def _at(self, node: yaml.Node) -> SettingPlace:
        if not self.marks:
            return SettingPlace(self.source)
        return SettingPlace(self.source, node.start_mark.line + 1, node.start_mark.column + 1)
