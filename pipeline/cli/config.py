"""`ticdc-warehouse config`: the configuration in force, and what it may hold."""

from __future__ import annotations

from typing import Annotated

import typer
import yaml

from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.settings import described, json_schema, load

_BY_HAND = "pass Java options in the environment, as SPARK_SUBMIT_OPTS, or print them all with --with-secrets"

app = typer.Typer(no_args_is_help=True, help="Show the configuration in force, and its schema.")


@app.command()
def show(config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Print every setting with file, environment and defaults applied; secrets as ***."""
    with opened(output) as out:
        shown = load(config).shown()
        out.result(shown, yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=1000).rstrip())


@app.command()
def schema(config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Print every key with what it takes, its default and its meaning; as JSON, the file's JSON Schema."""
    del config  # every command takes it; the schema is the same for all files
    with opened(output) as out:
        if output is Format.JSON:
            out.result(json_schema())
        else:
            rows = [(key.path, key.takes, key.default or "required", key.meaning) for key in described()]
            out.table("ticdc-warehouse.yaml", ("key", "takes", "default", "meaning"), rows)


@app.command("spark-submit")
def spark_submit(
    *,
    with_secrets: Annotated[
        bool,
        typer.Option("--with-secrets", help="Also print passwords and other secrets, which are left out otherwise."),
    ] = False,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Print the properties that spark-submit needs before it starts Java, as a file for its --properties-file."""
    with opened(output) as out:
        from pipeline.runtime.session import launch_properties  # noqa: PLC0415 - Spark: the others need none

        launch = launch_properties(load(config), with_secrets=with_secrets)
        out.result(
            launch.properties, "\n".join(f"{key}={_property(value)}" for key, value in launch.properties.items())
        )
        if launch.left_out:
            typer.echo(f"left out because they are secret: {', '.join(launch.left_out)}; {_BY_HAND}", err=True)


def _property(value: str) -> str:
    """A value as java.util.Properties reads it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
