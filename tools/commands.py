"""Writes docs/reference/commands.md from the command line itself: `python tools/commands.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "commands.md"

_HEAD = """# Commands

Every command of `ticdc-warehouse`, with its options. `ticdc-warehouse COMMAND --help` says the same:
`tools/commands.py` makes this page from that help.

Before the command you can write:

| | |
|---|---|
| `--version` | Print the version. |
| `--debug` | Log more, and show tracebacks. It may stand anywhere in the line. |
| `--log-format auto, text, json` | The log on stderr. `auto`: lines on a terminal, JSON elsewhere. |

Every command takes `--config FILE` (`-c`) and `--output text|json`. The tables below leave these two out.

| exit code | |
|---|---|
| 0 | Done, warnings included. |
| 1 | A refusal or a failure that has a code: [error codes](error-codes.md). |
| 2 | Wrong usage, `MAIN_MOVED` or `DDL_TOO_MANY`, or an error that the product did not foresee. |
| 130 | A second Ctrl-C. |
"""
_SHARED = {"config", "output"}


def page() -> str:
    """The page, as text."""
    sys.path.insert(0, str(ROOT))
    from pipeline.cli import COMMANDS, _loaded  # noqa: PLC0415 - of this checkout

    parts = [_HEAD]
    for name, meaning in COMMANDS.items():
        command = _loaded(name)
        parts.append(f"\n## {name}\n\n{meaning}\n")
        group = getattr(command, "commands", None)
        for words, part in sorted(group.items()) if group else (("", command),):
            parts += _section(f"{name} {words}".strip(), part, alone=not group)
    return "".join(parts)


def _section(words: str, command: Any, *, alone: bool) -> Iterator[str]:
    if not alone:
        yield f"\n### {words}\n"
    paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
    yield "".join(f"\n{_line(paragraph)}\n" for paragraph in paragraphs)
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    named = "".join(f" {_argument(param)}" for param in arguments)
    yield f"\n```sh\nticdc-warehouse {words}{named}\n```\n"
    context = command.context_class(command, info_name=words)
    rows = [(param, param.get_help_record(context)) for param in command.params if param.name not in _SHARED]
    rows = [(param, record) for param, record in rows if record is not None and not getattr(param, "hidden", False)]
    if rows:
        yield "\n| | |\n|---|---|\n"
        yield "".join(f"| `{_spelled(record[0])}` | {_cell(record[1])} |\n" for _, record in rows)


def _argument(param: Any) -> str:
    name = (param.metavar or param.name).upper().strip("[].…")
    name = f"{name}…" if param.nargs == -1 else name
    return name if param.required else f"[{name}]"


def _spelled(options: str) -> str:
    return re.sub(r"\s+", " ", options).replace("|", "\\|").strip()


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
