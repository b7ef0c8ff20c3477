"""`ticdc-warehouse devstack`: a real broker and a real registry on this machine, in the background."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.devstack import Devstack, ports
from pipeline.runtime.jars import fetch

DEFAULT_FOLDER = Path(".devstack")
_KAFKA_PORT = 9092
_REGISTRY_PORT = 8081

_Folder = Annotated[
    Path,
    typer.Option(
        help="The folder for logs, topics and schemas. With --config it is relative to the folder of that file."
    ),
]
_Port = Annotated[int | None, typer.Option(min=1, max=65535, show_default=False)]

app = typer.Typer(no_args_is_help=True, help="A real Kafka broker and schema registry on this machine.")


@app.command()
def up(
    folder: _Folder = DEFAULT_FOLDER,
    kafka_port: _Port = None,
    registry_port: _Port = None,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Start both in the background.

    The ports are those given, else those of last time, else 9092 and 8081, else free ones.
    """
    place = _place(folder, config)
    with opened(output) as out:
        stack = Devstack.at(place)
        if stack is None or not _whole(stack):
            stack = _start(place, stack, kafka_port, registry_port)
        facts = _facts(stack, place)
        out.result(facts, _text(facts))


@app.command()
def down(folder: _Folder = DEFAULT_FOLDER, config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Stop both. Topics and schemas stay in the folder."""
    place = _place(folder, config)
    with opened(output) as out:
        stack = Devstack.at(place)
        ran = stack is not None and stack.is_running
        if stack is not None:
            stack.stop()
        facts = _facts(stack, place)
        out.result(facts, f"stopped; {_text(facts)} any more" if ran else _text(facts))


@app.command()
def status(folder: _Folder = DEFAULT_FOLDER, config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Say what runs, and where."""
    place = _place(folder, config)
    with opened(output) as out:
        facts = _facts(Devstack.at(place), place)
        out.result(facts, _text(facts))


def _place(folder: Path, config: Path | None) -> Path:
    return (config.absolute().parent / folder) if config else folder.absolute()


def _start(place: Path, last: Devstack | None, kafka_port: int | None, registry_port: int | None) -> Devstack:
    fetch()  # before there is a spinner: it has a bar of its own
    if last is not None:
        last.stop()  # what is left of the two
    with Console(stderr=True).status("starting broker and registry"):
        return Devstack.start(
            place,
            kafka_port=kafka_port or _usable(last.broker.port if last else None, _KAFKA_PORT),
            registry_port=registry_port or _usable(last.registry.port if last else None, _REGISTRY_PORT),
            detached=True,
        )


def _whole(stack: Devstack) -> bool:
    return stack.broker.pid is not None and stack.registry.pid is not None


def _usable(last: int | None, usual: int) -> int | None:
    """Return the port of last time or the usual one, whichever is free; None: the stack chooses."""
    return next((port for port in (last, usual) if port and ports.is_free(port)), None)


def _facts(stack: Devstack | None, place: Path) -> dict[str, Any]:
    if stack is None or not stack.is_running:
        return {"folder": str(place), "running": False}
    return {
        "folder": str(place),
        "running": _whole(stack),
        "bootstrap_servers": stack.bootstrap_servers,
        "registry_url": stack.registry_url,
        "broker": {"pid": stack.broker.pid, "log": str(stack.broker.log)},
        "registry": {"pid": stack.registry.pid, "log": str(stack.registry.log)},
    }


def _text(facts: dict[str, Any]) -> str:
    if "bootstrap_servers" not in facts:
        return f"nothing runs in {facts['folder']}"
    rows = [f"bootstrap servers  {facts['bootstrap_servers']}", f"registry url       {facts['registry_url']}"]
    if not facts["running"]:
        dead = "broker" if facts["broker"]["pid"] is None else "registry"
        rows.append(f"the {dead} has died ({facts[dead]['log']}); `ticdc-warehouse devstack up` starts it again")
    return "\n".join([*rows, f"folder             {facts['folder']}"])
