"""`ticdc-warehouse doctor`: find out what is wrong with the set-up, before a run does."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import typer

from pipeline.cli.checkup import machine
from pipeline.cli.checkup.findings import Mark, explained, fine, guarded, note
from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.errors import SettingsError
from pipeline.model.messages import Ordering
from pipeline.model.protocols import PROTOCOLS
from pipeline.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pipeline.cli.checkup.findings import Finding
    from pipeline.settings import Settings

_FIELDS = ("mark", "about", "said", "todo", "each")

app = typer.Typer(help="Find out what is wrong with the set-up.")


@app.command()
def doctor(config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Look at the machine, the warehouse, Kafka, the registry and the newest messages.

    Doctor changes and fetches nothing. It only writes a small file where the tables are, and removes it.

    It prints a line for each thing: ✓ in order, ! worth knowing, ✗ would stop a run or make it read something wrongly,
    with what to do. Exit code 1 if there is a ✗. You can call it while a run is at work.
    """
    with opened(output) as out:
        findings: list[Finding] = []
        for finding in examined(config):
            out.line(str(finding))
            findings.append(finding)
        counts = Counter(finding.mark for finding in findings)
        if output is Format.JSON:
            out.table(
                "findings", _FIELDS, [(f.mark.name.lower(), f.about, f.sentence, f.todo, f.each) for f in findings]
            )
        facts = {mark.name.lower(): counts[mark] for mark in Mark}
        out.result(
            facts, f"{counts[Mark.FINE]} in order, {counts[Mark.NOTE]} worth knowing, {counts[Mark.WRONG]} wrong"
        )
        if counts[Mark.WRONG]:
            raise typer.Exit(1)


def examined(config: Path | None) -> Iterator[Finding]:
    """All findings; a check that needs an earlier one is left out if that failed."""
    settings: Settings | None = None
    try:
        settings = load(config)
    except SettingsError as error:
        yield explained("settings", error)
    if settings is not None:
        protocol, facts = settings.source.protocol, PROTOCOLS[settings.source.protocol]
        by_offset = facts.ordering is Ordering.BY_OFFSET
        order = "by offset" if by_offset else "by commit ts: all tables show one consistent point"
        if facts.commit_ts_optional and settings.source.kind == "kafka":
            order += "; by offset if the changefeed has no enable-tidb-extension"
        sentence = f"pipeline {settings.name}, {protocol} from {settings.source.kind}; a run applies changes {order}"
        yield fine("settings", sentence)
        if settings.idle:
            sentence = f"these settings have no effect with `protocol: {protocol}`: {', '.join(settings.idle)}"
            yield note("settings", sentence, "remove them, or set source.protocol to the changefeed's protocol")
    able = True
    for finding in (*guarded("java", machine.programs()), *guarded("jars", machine.libraries())):
        able = able and finding.mark is not Mark.WRONG
        yield finding
    if settings is None:
        return
    yield from guarded("machine", machine.memory(settings))
    yield from guarded("folders", machine.folders(settings))
    from pipeline.cli.checkup import whole  # noqa: PLC0415 - it brings Spark, which takes seconds

    yield from whole.examined(settings, able=able)
