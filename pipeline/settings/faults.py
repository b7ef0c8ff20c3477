"""What is wrong with a setting, as a value; and all of it as one SettingsError."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

from pipeline.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Path: TypeAlias = tuple[str, ...]  # keys as written, list items by number from 0; () is the file

PREFIX = "TICDC_WAREHOUSE__"
INVALID = "SETTINGS_INVALID"
PREFIX_LENGTH = 3  # letters from which on the beginning of a word is taken for it


@dataclass(frozen=True, slots=True)
class SettingFault:
    """One wrong setting: its path, a sentence, and where it was written (filled in by `load`)."""

    path: Path
    text: str
    place: str = ""


def dotted(path: Path) -> str:
    """Write a path as in the documentation: `source.topics[1]`; a value run into its key is cut off."""
    keys = (re.sub(r"(?s)[:=].*", "…", key) for key in path)
    written = "".join(f"[{key}]" if key.isdigit() else f".{key}" for key in keys)
    return printable(written.removeprefix("."))


def variable_of(path: Path) -> str:
    """Give the environment variable that sets what stands at a path."""
    return PREFIX + "__".join(re.sub(r"[-.]", "_", key).upper() for key in path)


def printable(text: str) -> str:
    """Escape what a terminal would act on or could not show; nothing in a configuration may steer one."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def did_you_mean(written: str, words: Iterable[str]) -> str:
    """Give ` (did you mean …?)` with the nearest of the words, whatever its case, `-` or `_`; empty if none is near."""
    plain = {name.lower().replace("-", "_"): name for name in words}
    word = written.lower().replace("-", "_")
    near = get_close_matches(word, plain, n=1, cutoff=0.6)
    near = near or [name for name in plain if len(word) >= PREFIX_LENGTH and name.startswith(word)]
    return f" (did you mean `{plain[near[0]]}`?)" if near else ""


def refusal(faults: Iterable[SettingFault], source: str, place: Callable[[Path], object]) -> SettingsError:
    """Make one error that names every fault, in the file's order."""
    placed = sorted({(_order(str(f.place or place(f.path))), dotted(f.path), f.text) for f in faults})
    lines = [f"{where[2]}: {name}: {text}" if name else f"{where[2]}: {text}" for where, name, text in placed]
    count = "1 setting is" if len(lines) == 1 else f"{len(lines)} settings are"
    message = f"{count} wrong in {source}" + "".join(f"\n  {line}" for line in lines)
    return SettingsError(INVALID, message, _HINT)


_HINT = "`ticdc-warehouse config schema` lists every key with its type and default"


def _order(place: str) -> tuple[int, int, str]:
    """Sort by line and column; environment variables, which have none, come last."""
    *_, line, column = ["", "", *place.rsplit(":", 2)]
    return (int(line), int(column), place) if line.isdigit() and column.isdigit() else (1 << 30, 0, place)
