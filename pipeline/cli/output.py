"""What every command takes (`--config`, `--output`) and the one seam through which every command speaks.

    def show(config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
        with opened(output) as out:
            out.table("tables", ["table", "rows"], [("shop.orders", 412)])

As text, each call prints at once. As JSON, stdout gets exactly one document, when the block ends without an
error: `result` adds its keys, `table` a list of objects under its title, `line` narrates and adds nothing. Names of
facts and columns are words for people; programs get them with `_` for spaces.
Errors go to stderr in either form; as JSON one document with `code`, `message` and `hint`.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self, runtime_checkable

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

_GAP = "  "
WIDE = 400  # columns where there is no terminal: a pipe gets whole lines
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Format(StrEnum):
    """Who reads the output."""

    TEXT = "text"
    JSON = "json"


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="The configuration file; else $TICDC_WAREHOUSE_CONFIG, else ./ticdc-warehouse.yaml.",
        show_default=False,
    ),
]
OutputOption = Annotated[
    Format, typer.Option("--output", help="text: for people; json: one JSON document for programs.")
]


@runtime_checkable
class Explained(Protocol):
    """An error that was foreseen: PipelineError, RegistryError."""

    code: str
    message: str
    hint: str


class Output(Protocol):
    """How a command speaks; `opened` gives one."""

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Show rows under a title (text), or add a list of objects under it (JSON)."""

    def line(self, text: str) -> None:
        """Say one thing while working; programs do not get it."""

    def result(self, facts: Mapping[str, Any], text: str | None = None) -> None:
        """Give the outcome: `text` or else the facts to people, the facts to programs."""

    def error(self, error: Explained, trace: str = "") -> None:
        """Report an error on stderr, with its traceback if there is one to show."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def opened(chosen: Format) -> Output:
    """Open the output of a command; use it as a context manager around everything the command says."""
    return JsonOutput() if chosen is Format.JSON else TextOutput()


class TextOutput:
    """For people: tables and lines, colours on a terminal, control characters of the data escaped."""

    def __init__(self) -> None:
        self._out = _console(stderr=False)
        self._err = _console(stderr=True)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table; columns that hold only numbers are aligned to the right."""
        cells = [list(row) for row in rows]
        plain = None if self._out.is_terminal else _lines(title, columns, cells)
        if plain is not None:
            self._out.out("\n".join(plain), highlight=False)
            return
        table = Table(title=_safe(title), title_justify="left", box=None, pad_edge=False, header_style="bold")
        for column, numeric in zip(columns, _numeric(columns, cells), strict=True):
            table.add_column(_safe(column), justify="right" if numeric else "left", overflow="fold")
        for row in cells:
            table.add_row(*(Text(_safe(_shown(cell))) for cell in row))
        if self._out.is_terminal:
            self._out.print(table)
            return
        with self._out.capture() as captured:
            self._out.print(table)
        for line in captured.get().splitlines():
            self._out.out(line.rstrip(), highlight=False)

    def line(self, text: str) -> None:
        """Print a line."""
        self._out.out(_safe(text), highlight=False)

    def result(self, facts: Mapping[str, Any], text: str | None = None) -> None:
        """Print the text, or else one line per fact."""
        width = max((len(str(key)) for key in facts), default=0)
        lines = (f"{key:<{width}}  {_shown(value)}" for key, value in facts.items())
        self._out.out(_safe("\n".join(lines) if text is None else text), highlight=False)

    def error(self, error: Explained, trace: str = "") -> None:
        """Print the error in red and its hint below."""
        if trace:
            self._err.out(_safe(trace), highlight=False)
        line = Text.assemble(("error ", "bold red"), (error.code, "bold"), ": ", _safe(error.message))
        self._err.print(line, soft_wrap=True)
        if error.hint:
            self._err.print(Text("  " + _safe(error.hint)), soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: everything is printed already."""


class JsonOutput:
    """For programs: one document on stdout at the end, nothing on stdout if the block ends with an error.

    An error raised after the block stands on stderr beside the document: `checks run` gives its results either way.
    """

    def __init__(self) -> None:
        self._document: dict[str, Any] = {}

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add the rows as objects under the title, in lower case with `_` for spaces."""
        keys = [as_key(column) for column in columns]
        objects = [dict(zip(keys, row, strict=True)) for row in rows]
        self._document.setdefault(_key(title), []).extend(objects)

    def line(self, text: str) -> None:
        """Say nothing: narration is for people, the log for programs."""

    def result(self, facts: Mapping[str, Any], text: str | None = None) -> None:  # noqa: ARG002 - for people
        """Add the facts to the document."""
        self._document.update({as_key(str(key)): value for key, value in facts.items()})

    def error(self, error: Explained, trace: str = "") -> None:
        """Write `{"code", "message", "hint"}` on stderr, and `traceback` where one is to be shown."""
        facts = {"code": error.code, "message": error.message, "hint": error.hint}
        _write(sys.stderr, facts | ({"traceback": trace} if trace else {}))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the document, also when the command ends early with `typer.Exit`."""
        if kind is None or issubclass(kind, typer.Exit):
            _write(sys.stdout, self._document)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else WIDE, highlight=False, emoji=False)


def _numeric(columns: Sequence[str], cells: Sequence[Sequence[Any]]) -> list[bool]:
    """Which columns hold only numbers."""
    return [bool(cells) and all(_is_number(row[index]) for row in cells) for index in range(len(columns))]


def _lines(title: str, columns: Sequence[str], cells: Sequence[Sequence[Any]]) -> list[str] | None:
    """The lines of a table as Rich draws them, a tenth of a millisecond each; None where a cell needs several."""
    texts = [[_safe(column) for column in columns], *([_safe(_shown(cell)) for cell in row] for row in cells)]
    widths = [max(map(cell_len, column)) for column in zip(*texts, strict=True)]
    width = sum(widths) + len(_GAP) * (len(widths) - 1)
    has_breaks = any("\n" in text or "\t" in text for row in texts for text in row)
    if not widths or has_breaks or not cell_len(_safe(title)) <= width <= WIDE:
        return None
    right = _numeric(columns, cells)
    lines = [_GAP.join(map(_padded, row, widths, right)).rstrip() for row in texts]
    return [_safe(title), *lines] if title else lines


def _padded(text: str, width: int, right: bool) -> str:  # noqa: FBT001 - a column of flags
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _write(stream: Any, document: Mapping[str, Any]) -> None:
    stream.write(json.dumps(_plain(document), indent=2) + "\n")
    stream.flush()


def _plain(value: Any) -> Any:
    """Give what JSON can hold: bytes as base64, times as ISO 8601, decimals and other things as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    finite = isinstance(value, float) and math.isfinite(value)
    return value if value is None or finite or isinstance(value, bool | int | str) else str(value)


def _shown(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, str):
        return plain
    return "" if plain is None else json.dumps(plain, ensure_ascii=False)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _key(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")


def as_key(name: str) -> str:
    """`cut ts` as `cut_ts`; a name without spaces is what programs know already."""
    return "_".join(name.split())


def _safe(text: str) -> str:
    """Escape control characters, so that no data steers the terminal; line breaks and tabs stay."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
