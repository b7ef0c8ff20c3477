"""Pydantic's errors as faults: what was expected, in words, and did you mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pipeline.settings.faults import Path, SettingFault, did_you_mean, printable, variable_of
from pipeline.settings.fields import REFUSED
from pipeline.settings.reserved import sink_key
from pipeline.settings.shape import field_at, fields, in_free_map, section_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

_EXPECTED = {
    "string_type": "expected text",
    "string_unicode": "expected text that UTF-8 can hold",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "int_parsing_size": "expected a whole number of less than 20 digits",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "finite_number": "expected a finite number",
    "tuple_type": "expected a list: [a, b]",
    "list_type": "expected a list: [a, b]",
    "dict_type": "expected keys and values",
    "mapping_type": "expected keys and values",
    "model_type": "expected keys and values",
    "model_attributes_type": "expected keys and values",
}
LONGEST_ECHO = 60
_LEAVES_OUT = re.compile(r"(?:excluded?|ignored?|skip|drop|omit|without)_(columns?|tables?|topics?|schemas?)")
"""Wishes to leave something out. The nearest known word would be the opposite: `exclude_columns` is not `columns`."""
_OUT_BY_FILTER = "leave tables out with source.tables, or with the changefeed's filter rules"
_OUT_BY_SELECTOR = (
    "every column that is sent is taken: leave columns out by the changefeed's column-selectors, or by a view"
)
_OUT_BY_PATTERN = "name the topics to read in source.topics, or by a source.topic_pattern such as `(?!audit_).*`"
_LEFT_OUT = {
    **dict.fromkeys(("column", "columns"), _OUT_BY_SELECTOR),
    **dict.fromkeys(("table", "tables", "schema", "schemas"), _OUT_BY_FILTER),
    **dict.fromkeys(("topic", "topics"), _OUT_BY_PATTERN),
}


def explain(error: ValidationError, tree: Any, model: type[BaseModel], written: Any = None) -> Iterator[SettingFault]:
    """Yield a fault for each error; `tree` is what was validated, `written` the same with its keys without a value."""
    for detail in error.errors(include_url=False, include_input=False):
        path = tuple(str(key) for key in detail["loc"] if key != "[key]")
        yield SettingFault(path, _sentence(detail, path, tree, model) + _unset(path, written))


def _unset(path: Path, written: Any) -> str:
    """Name the variable of a key that stands in the file without a value: an environment that lacks it is the cause."""
    within = _value(path[:-1], written) if path else None
    if not isinstance(within, dict) or path[-1] not in within or within[path[-1]] is not None:
        return ""
    return f"; the key has no value here, and the environment variable {variable_of(path)} is not set"


def _sentence(detail: ErrorDetails, path: Path, tree: Any, model: type[BaseModel]) -> str:
    kind = detail["type"]
    if kind == REFUSED:
        return detail["msg"]
    if kind == "extra_forbidden":
        return _unknown(path, model)
    if kind == "missing":
        info = field_at(model, path)
        return f"required: {info.description if info else 'a value'}"
    if kind == "literal_error":
        return _none_of(str(detail["ctx"]["expected"]), path, tree, model)
    expected = _EXPECTED.get(kind) or "expected " + detail["msg"].removeprefix("Input should be ")
    return expected + ("" if _value(path, tree) is not None else ", but there is no value")


def _unknown(path: Path, model: type[BaseModel]) -> str:
    section, key = section_at(model, path[:-1]), path[-1]
    if path[0] == "changefeed" and (reason := sink_key(key)):
        return reason
    if wish := _LEAVES_OUT.fullmatch(key.lower().replace("-", "_")):
        return f"unknown key; {_LEFT_OUT[wish[1]]}"
    keys = fields(section) if section else {}
    return "unknown key" + (did_you_mean(key, keys) or f"; known here: {', '.join(keys)}")


def _none_of(expected: str, path: Path, tree: Any, model: type[BaseModel]) -> str:
    words = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
    value = _value(path, tree)
    if not isinstance(value, str) or in_free_map(model, path):
        return f"expected {expected}"
    return f"expected {expected}, not '{printable(value[:LONGEST_ECHO])}'{did_you_mean(value, words)}"


def _value(path: Path, tree: Any) -> Any:
    for key in path:
        if isinstance(tree, dict):
            tree = tree.get(key)
        elif isinstance(tree, list) and key.isdecimal() and int(key) < len(tree):
            tree = tree[int(key)]
        else:
            return None
    return tree
