"""The command line `ticdc-warehouse`, also `python -m pipeline`.

One module per command, `pipeline/cli/<command>.py`, and one convention: **the module exposes `app`, a
`typer.Typer`**. With one command in it, that is the command (`run`); with more they are its
subcommands (`config show`). A module is imported only when its command is called, so `--help` needs no Spark,
and a command whose module is not there does not appear. Every command takes `ConfigOption` and `OutputOption`
and speaks through `opened(output)`, all from `pipeline.cli.output`.

Exit codes: 0 done (warnings allowed), 1 a quality stop or a handled refusal, 2 anything unexpected or wrong
usage; 130 after Ctrl-C. A command ends early with `raise typer.Exit(1)` after it has said why.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
import typer.main

from pipeline.cli import wording
from pipeline.cli.output import Explained, Format, JsonOutput, Output, opened
from pipeline.errors import PipelineError, reason
from pipeline.observe import logs

if TYPE_CHECKING:
    from collections.abc import Sequence

UNEXPECTED, INTERRUPTED = 2, 130
MESSAGE_LENGTH = 500
DEBUG_VARIABLE = "TICDC_WAREHOUSE_DEBUG"
_WITH_DEBUG = f"this was not foreseen; run the same command with --debug, or set {DEBUG_VARIABLE}=1, to see where"
COMMANDS = {
    "demo": "Run a demo on this machine: a shop's changes go through a real broker into checked tables.",
    "run": "Read the changefeed into the warehouse, continuously or once.",
    "tables": "List, describe, rebuild and maintain the warehouse's tables.",
    "checks": "Validate the quality suites, or run them on the tables.",
    "quarantine": "Look at rows that failed a check, and redrive them.",
    "report": "Write the report of a pipeline.",
    "inspect": "Look at one record of Kafka or of a file, as the pipeline reads it.",
    "doctor": "Find out what is wrong with the set-up.",
    "config": "Show the configuration in force, and its schema.",
    "devstack": "A real Kafka broker and schema registry on this machine.",
    "simulate": "Write a shop's changes to Kafka as TiCDC would.",
}
# What the command line library raises for wrong usage: click's class, or typer's own since it has no click.
_WrongUsage: type[Exception] = typer.BadParameter.__mro__[1]


class LazyGroup(typer.core.TyperGroup):
    """Lists commands without importing them, and imports the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, meaning in COMMANDS.items():
            if importlib.util.find_spec(f"{__name__}.{name}"):
                self.add_command(typer.core.TyperCommand(name, help=meaning, callback=None), name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Give the real command instead of its line in the list; raises a usage error for an unknown one."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, _loaded(name) if name and listed else listed, rest


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; the entry point of `ticdc-warehouse`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words or os.environ.get(DEBUG_VARIABLE, "") not in {"", "0"}
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal can't show is no reason to fail
    try:
        command: Any = typer.main.get_command(app)
        code = command.main(_debug_first(words, debug=debug), "ticdc-warehouse", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - the one place where everything ends
        return _ended(error, opened(_chosen(words)), debug=debug)
    return code if isinstance(code, int) else 0


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the value of an option
    if wanted:
        typer.echo(f"ticdc-warehouse {wording.version()}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Log more and show tracebacks. You can write it anywhere in the line.")
    ] = False,
    log_format: Annotated[
        logs.LogFormat, typer.Option(help="How the log on stderr looks; auto: lines on a terminal, JSON elsewhere.")
    ] = logs.LogFormat.AUTO,
) -> None:
    """TiCDC changefeeds into Apache Iceberg tables: exact, checked on every micro-batch, operable."""
    del version  # its callback has acted
    logs.configure(log_format, debug=debug)


def _debug_first(words: Sequence[str], *, debug: bool) -> list[str]:
    """Move `--debug` to the front: people add it at the end of the line that failed."""
    return ["--debug"] * debug + [word for word in words if word != "--debug"]


def _loaded(name: str) -> Any:
    """Import a command's module and give its command, without typer's own completion options."""
    module = importlib.import_module(f"{__name__}.{name}")
    command = typer.main.get_command(module.app)
    command.params = [param for param in command.params if param.name not in {"install_completion", "show_completion"}]
    return command


def _chosen(words: Sequence[str]) -> Format:
    """Tell the output that was asked for, before the words are parsed: they may be wrong themselves."""
    spelled = [part for word in words for part in word.split("=", 1)]
    asked = [after for word, after in pairwise(spelled) if word == "--output"]
    return Format.JSON if asked[-1:] == [Format.JSON] else Format.TEXT


def _ended(error: Exception, output: Output, *, debug: bool) -> int:
    """Report the error that ended a command, and give the exit code."""
    if isinstance(error, typer.Abort):
        return INTERRUPTED
    if isinstance(error, _WrongUsage):
        return _usage(error, output)
    trace = "".join(traceback.format_exception(error)) if debug else ""
    error = _after(error)
    if isinstance(error, Explained):
        output.error(error, trace)
        return int(getattr(error, "exit_code", 1))
    output.error(PipelineError("UNEXPECTED", reason(error)[:MESSAGE_LENGTH], "" if debug else _WITH_DEBUG), trace)
    return UNEXPECTED


def _after(error: Exception) -> Exception:
    """Give the cause of an error as one of ours: the end of Spark, or what something outside says (`causes`).

    Spark is asked only if it was imported. The causes are imported only when there is an error: that takes time.
    """
    if isinstance(error, Explained):
        return error
    spark = sys.modules.get("pipeline.runtime.session")
    ended = None if spark is None else spark.spark_ended(error)
    cause: Exception = ended or importlib.import_module("pipeline.causes").explained(error) or error
    return cause


def _wrong_usage(error: Any) -> str:
    """Say what is wrong with the words; the error of a missing argument has no message until it formats one."""
    message = str(error.format_message()) if hasattr(error, "format_message") else str(error)
    return message.strip() or "no command"


def _usage(error: Exception, output: Output) -> int:
    if isinstance(output, JsonOutput):
        hint = "`ticdc-warehouse --help` lists the commands, `ticdc-warehouse COMMAND --help` its options"
        output.error(PipelineError("USAGE", _wrong_usage(error), hint))
    else:
        error.show()  # type: ignore[attr-defined]  # of click and of typer alike
    return int(getattr(error, "exit_code", UNEXPECTED))
