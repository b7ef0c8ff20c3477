"""Environment variables `TICDC_WAREHOUSE__SECTION__KEY` over the file.

`-` and `.` are written `_`, case does not matter after the prefix, values are YAML. In a map with free keys
(`source.options`, `spark.conf`, `registry.headers`, `warehouse.catalog`, `warehouse.columns`) a variable
finds the key that the file has; a new key is lower-cased, and `_` becomes what separates words there:
`.` in options and conf, `-` in headers. In `catalog` and `columns` that is not known: the file must have the
key, or the variable gives the whole map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import SettingsError
from pipeline.settings.document import Document, SettingPlace, Tree, read_value
from pipeline.settings.faults import PREFIX, Path, SettingFault, did_you_mean
from pipeline.settings.shape import fields, free_map_of, section_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

_AMBIGUOUS = "`_` can mean `-`, `.` or `_` here: write the key without a value in the file, or set the whole map"


def override(document: Document, environ: Mapping[str, str], model: type[BaseModel]) -> None:
    """Put the environment's values into the document; a variable that matches nothing is a fault of it."""
    variables = sorted((name for name in environ if name.startswith(PREFIX)), key=lambda name: (name.count("__"), name))
    set_by: dict[Path, str] = {}
    for variable in variables:
        words = tuple(variable.removeprefix(PREFIX).split("__"))
        path = _match(words, document.tree, model)
        if isinstance(path, str):
            document.faults.append(SettingFault((), path, place=_named(variable)))
        elif path in set_by:
            document.faults.append(SettingFault(path, f"is set by {set_by[path]} too", place=_named(variable)))
        else:
            set_by[path] = variable
            _set(document, path, environ[variable], variable)


def _match(words: tuple[str, ...], tree: Tree, model: type[BaseModel]) -> Path | str:
    """Give the path that a variable's words name, or the sentence that says why there is none."""
    keys = {_plain(key): key for key in fields(model)}
    key = keys.get(words[0].lower())
    if key is None and model.model_config.get("extra") == "allow":
        return _free_key(words, tree, None)
    if key is None:
        return f"there is no such setting{did_you_mean(words[0], keys)}"
    if len(words) == 1:
        return (key,)
    info = fields(model)[key]
    inner = tree.get(key) if isinstance(tree, dict) else None
    if section := section_of(info):
        rest = _match(words[1:], inner, section)
    elif free_map := free_map_of(info):
        rest = _free_key(words[1:], inner, free_map.joint)
    else:
        rest = f"`{key}` is one value and has no keys"
    return rest if isinstance(rest, str) else (key, *rest)


def _free_key(words: tuple[str, ...], tree: Tree, joint: str | None) -> Path | str:
    wanted = "__".join(words).lower()
    for key in tree if isinstance(tree, dict) else ():
        if _plain(key) == wanted:
            return (key,)
    if "_" not in wanted and wanted:
        return (wanted,)
    if joint is None or not wanted:
        return _AMBIGUOUS
    return (wanted.replace("_", joint),)


def _plain(key: str) -> str:
    return key.lower().replace("-", "_").replace(".", "_")


def _named(variable: str) -> str:
    return f"environment variable {variable}"


def _set(document: Document, path: Path, text: str, variable: str) -> None:
    try:
        value = read_value(text, _named(variable))
    except SettingsError as error:
        document.faults.append(SettingFault(path, error.message.partition(": ")[2], place=_named(variable)))
        return
    document.faults += [SettingFault(path, fault.text, place=fault.place) for fault in value.faults]
    here = document.tree
    for key in path[:-1]:
        inner = here.get(key)
        if inner is None:
            inner = here[key] = {}
        if not isinstance(inner, dict):
            return  # the file has a single value where a mapping belongs, which is a fault of its own
        here = inner
    here[path[-1]] = value.tree["value"]
    document.places = {at: place for at, place in document.places.items() if at[: len(path)] != path}
    document.places[path] = SettingPlace(_named(variable))
