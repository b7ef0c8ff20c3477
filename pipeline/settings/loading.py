"""From a YAML file and the environment to Settings; one SettingsError for everything that is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from pipeline.errors import SettingsError
from pipeline.settings import document
from pipeline.settings.explain import explain
from pipeline.settings.faults import printable, refusal
from pipeline.settings.fields import FOLDER
from pipeline.settings.model import Settings
from pipeline.settings.overrides import override
from pipeline.settings.shape import fields, free_map_of, section_of

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_NAME = "ticdc-warehouse.yaml"
FILE_VARIABLE = "TICDC_WAREHOUSE_CONFIG"
LARGEST_FILE = 1 << 20


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Load the settings of `path`, or of the file that is found without one; raises SettingsError.

    `environ` is the process's environment unless given. Relative paths count from the file's folder.
    """
    environ = os.environ if environ is None else environ
    file = find(path, environ)
    return parse(_text(file), file.parent, environ, source=printable(str(file)))


def find(path: Path | None, environ: Mapping[str, str]) -> Path:
    """Give the configuration file: `path`, else TICDC_WAREHOUSE_CONFIG, else ./ticdc-warehouse.yaml."""
    named = path or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    if named is not None:
        return named
    here = Path.cwd() / FILE_NAME
    if not here.is_file():
        looked = f"--config (not given), {FILE_VARIABLE} (not set), {here} (not there)"
        raise SettingsError("SETTINGS_NOT_FOUND", f"no configuration file; looked at {looked}", _NOT_FOUND_HINT)
    return Path(FILE_NAME)


def parse(text: str, folder: Path, environ: Mapping[str, str] | None = None, source: str = FILE_NAME) -> Settings:
    """Make Settings of YAML text whose relative paths start at `folder`; `environ` is empty unless given."""
    written = document.read(text, source)
    override(written, environ or {}, Settings)
    tree = _without_nothing(written.tree, Settings)
    faults = list(written.faults)
    settings: Settings | None = None
    try:
        settings = Settings.model_validate(tree, context={FOLDER: folder.absolute()})
    except ValidationError as error:
        faults += explain(error, tree, Settings, written.tree)
    if faults or settings is None:
        raise refusal(faults, source, written.place)
    return settings


_NOT_FOUND_HINT = f"write {FILE_NAME}, or name a file: ticdc-warehouse … --config FILE"


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        looked = printable(str(file.absolute()))
        raise SettingsError("SETTINGS_NOT_FOUND", f"no configuration file at {looked}", _NOT_FOUND_HINT) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError("SETTINGS_UNREADABLE", f"{printable(str(file))} can't be read: {reason}") from None
    if len(data) > LARGEST_FILE:
        raise SettingsError(
            "SETTINGS_UNREADABLE", f"{printable(str(file))} is larger than 1 MiB; is it the right file?"
        )
    return text


def _without_nothing(tree: Any, model: type[BaseModel]) -> Any:
    """Drop keys without a value: they mean the default. In maps with free keys they stay, and are faults."""
    if not isinstance(tree, dict):
        return tree
    kept: dict[str, Any] = {}
    for key, value in tree.items():
        info = fields(model).get(key)
        section = section_of(info) if info else None
        if value is None and (info is not None) and (section is None or free_map_of(info) is None):
            continue
        kept[key] = _without_nothing(value, section) if section else value
    return kept
