"""`ticdc-warehouse quarantine`: what was set aside, why, and its way back.

`list` and `show` only look; `redrive` writes, so it starts Spark and takes the writer's lock, or asks the living
`run` to do it. With `--dead-letters` each is about messages that could not be decoded.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pipeline.cli import shelf
from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.cli.reading import reader, records
from pipeline.devstack import fetch
from pipeline.settings import load
from pipeline.settings.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.cli.output import Output
    from pipeline.settings import Settings

QUARANTINE, LETTERS = "quarantine", "dead_letters"
_FIELDS = (
    "recorded_at", "batch_id", "topic", "kafka_partition", "offset", "index", "schema_name", "table_name", "code",
    "message", "rules", "fingerprint", "commit_ts", "key_values", "status",
)  # fmt: skip
_GROUP = ("table", "reason", "records", "first", "last")
_ROW = ("recorded_at", "table", "topic", "partition", "offset", "key", "rules", "message", "status")

TableOption = Annotated[str | None, typer.Option("--table", help="Of this source table only, as in shop.orders.")]
RuleOption = Annotated[str | None, typer.Option("--rule", help="Only what breaks this rule.")]
SinceOption = Annotated[
    str | None, typer.Option("--since", help="Set aside since then: 2026-11-21T11:48, or `2 hours` (ago).")
]
LettersOption = Annotated[bool, typer.Option("--dead-letters", help="Messages that could not be decoded instead.")]
StatusOption = Annotated[bool, typer.Option("--all", help="Also what was redriven, or superseded by newer changes.")]

app = typer.Typer(no_args_is_help=True, help="Look at rows that failed a check, and send them on their way again.")


@app.command("list")
def list_quarantine(  # noqa: PLR0913 - options
    *,
    table: TableOption = None,
    rule: RuleOption = None,
    since: SinceOption = None,
    letters: LettersOption = False,
    every: StatusOption = False,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Count what was set aside, by table and rule (dead letters: by code)."""
    settings = load(config)
    with opened(output) as out:
        found = Found.read(settings, table, rule, since, letters=letters, every=every)
        groups: dict[tuple[str, str], list[datetime]] = defaultdict(list)
        for row in found.rows:
            for reason in (None if letters else row["rules"]) or [row["code"]]:
                groups[_table(row), reason].append(row["recorded_at"])
        lines = [(*group, len(times), min(times), max(times)) for group, times in sorted(groups.items())]
        _shown(out, output, found.what, _GROUP, lines)
        out.result({"records": len(found.rows)}, found.sentence())
        for table_name, reason in sorted(groups):
            out.line(_way_back(table_name, reason, letters=letters))


@app.command()
def show(  # noqa: PLR0913 - options
    *,
    table: TableOption = None,
    rule: RuleOption = None,
    since: SinceOption = None,
    letters: LettersOption = False,
    every: StatusOption = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 20,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Show single records: where each stands in Kafka, its key, what it breaks and with which values."""
    settings = load(config)
    with opened(output) as out:
        found = Found.read(settings, table, rule, since, letters=letters, every=every)
        rows = sorted(found.rows, key=lambda row: (row["recorded_at"], row["offset"]), reverse=True)[:limit]
        lines = [
            (
                row["recorded_at"], _table(row), row["topic"], row["kafka_partition"], row["offset"],
                row["key_values"], ", ".join(row["rules"] or [row["code"]]), row["message"], row["status"],
            )
            for row in rows
        ]  # fmt: skip
        _shown(out, output, found.what, _ROW, lines)
        out.result({"records": len(found.rows)}, found.sentence(len(rows)))


@app.command()
def redrive(
    *,
    table: TableOption = None,
    rule: RuleOption = None,
    since: SinceOption = None,
    letters: LettersOption = False,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Judge open records by the suites as they are now, and let into their tables what may enter."""
    settings = load(config)
    with opened(output) as out:
        source = shelf.source_named(reader(settings), table) if table else None
        moment = _moment(since).isoformat() if since else ""
        names = [LETTERS if letters else QUARANTINE, *((source.schema, source.table) if source else ("", ""))]
        fetch()  # before there is a spinner: it has a bar of its own
        from pipeline.cli import workshop  # noqa: PLC0415 - it brings Spark: those who only look need not wait

        with Console(stderr=True).status("starting Spark"):
            done = workshop.redrive(
                settings,
                [*names, rule or "", moment],
                lambda who: out.line(f"asked {who}: it does this between two batches"),
            )
        out.result(done, _told(done))


class Found:
    """The records that options select."""

    def __init__(self, what: str, rows: list[dict[str, Any]], *, every: bool) -> None:
        self.what = what
        self.rows = rows
        self._every = every

    @classmethod
    def read(
        cls, settings: Settings, table: str | None, rule: str | None, since: str | None, *, letters: bool, every: bool
    ) -> Found:
        """Read them; without their bytes, which may be large."""
        what = LETTERS if letters else QUARANTINE
        rows = records(reader(settings), what, _FIELDS, "" if every else "status = 'open'").to_pylist()
        if table:
            rows = [row for row in rows if _table(row).casefold() == table.casefold()]
        if rule:
            rows = [row for row in rows if rule in (row["rules"] or [])]
        if since:
            moment = _moment(since)
            rows = [row for row in rows if row["recorded_at"] >= moment]
        return cls(what, rows, every=every)

    def sentence(self, shown: int | None = None) -> str:
        """Say how many there are."""
        kind = "dead letters" if self.what == LETTERS else "quarantined rows"
        if not self.rows:
            return f"no {kind}" + ("" if self._every else " wait")
        cut = shown is not None and shown < len(self.rows)
        more = f"; shown: the newest{'' if shown == 1 else f' {shown}'}" if cut else ""
        return f"{len(self.rows):,} {kind}{'' if self._every else ' wait'}{more}"


def _table(row: dict[str, Any]) -> str:
    return f"{row['schema_name']}.{row['table_name']}" if row["table_name"] is not None else "no table"


def _way_back(table: str, reason: str, *, letters: bool) -> str:
    named = "" if table == "no table" else f" --table {table}"
    if letters:
        return f"when they can be read: ticdc-warehouse quarantine redrive --dead-letters{named}"
    return f"when {reason} is mended: ticdc-warehouse quarantine redrive{named} --rule {reason}"


def _told(done: dict[str, Any]) -> str:
    parts = [f"{done['redriven']:,} records entered their tables"]
    parts += [f"{done['superseded']:,} are older than what their tables have"] if done["superseded"] else []
    parts += [f"{done['quarantined']:,} can be read and break a rule: quarantined"] if done["quarantined"] else []
    parts += [f"{done['open']:,} stay open"] if done["open"] else []
    return "; ".join(parts)


def _moment(text: str) -> datetime:
    """A time (UTC unless it says otherwise), or a duration before now."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return datetime.now(UTC) - timedelta(seconds=seconds(text))
        except ValueError:
            raise typer.BadParameter(f"{text} is neither a time such as 2026-11-21T11:48 nor `2 hours`") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _shown(out: Output, output: Format, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    listed = list(rows)
    if output is Format.JSON:
        out.table(title, columns, listed)
    elif listed:
        out.table("", columns, [[_text(value) for value in row] for row in listed])


def _text(value: Any) -> Any:
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else value
