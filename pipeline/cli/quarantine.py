"""`ticdc-warehouse quarantine`: what was set aside, why, and its way back.

`list` and `show` only look; `redrive` writes, so it starts Spark and takes the writer's lock, or asks the living
`run` to do it. With `--dead-letters` each is about messages that could not be decoded.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console

from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.cli.wording import counted
from pipeline.lake import table_metadata
from pipeline.lake.catalog import reader, records
from pipeline.model.names import folded
from pipeline.model.set_aside import FENCED
from pipeline.runtime.jars import fetch
from pipeline.settings import load
from pipeline.settings.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.cli.output import Output
    from pipeline.settings import Settings

QUARANTINE, DEAD_LETTERS = "quarantine", "dead_letters"
NO_TABLE = "no table"
_FIELDS = (
    "recorded_at", "batch_id", "topic", "kafka_partition", "offset", "index", "schema_name", "table_name", "code",
    "message", "rules", "fingerprint", "commit_ts", "key_values", "status",
)  # fmt: skip
_LONG = ("message", "key_values", "fingerprint")
_GROUP = ("table", "reason", "records", "first", "last")
_ROW = ("recorded_at", "table", "topic", "partition", "offset", "key", "rules", "message", "status")
_WHOLE = (*_ROW, "index", "code", "commit_ts", "batch_id")
"""What programs get of a record; people are shown less of it."""

TableOption = Annotated[
    str | None, typer.Option("--table", help="Only rows of this source table, such as shop.orders.")
]
RuleOption = Annotated[str | None, typer.Option("--rule", help="Only what breaks this rule.")]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", help="Only what was set aside since a time (2026-11-21T11:48), or within a duration (`2 hours`)."
    ),
]
DeadLettersOption = Annotated[
    bool,
    typer.Option(
        "--dead-letters", help="Dead letters (messages that could not be decoded) instead of quarantined rows."
    ),
]
StatusOption = Annotated[bool, typer.Option("--all", help="Also what was redriven or superseded.")]

app = typer.Typer(no_args_is_help=True, help="Look at rows that failed a check, and redrive them.")


@app.command("list")
def list_quarantine(  # noqa: PLR0913 - options
    *,
    table: TableOption = None,
    rule: RuleOption = None,
    since: SinceOption = None,
    dead_letters: DeadLettersOption = False,
    every: StatusOption = False,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Count what was set aside, by table and rule (dead letters: by code)."""
    settings = load(config)
    with opened(output) as out:
        fields = [name for name in _FIELDS if name not in _LONG]
        set_aside = SetAsideRows.read(
            settings, table, rule, since, dead_letters=dead_letters, every=every, fields=fields
        )
        groups = set_aside.groups()
        _shown(out, output, set_aside.what, _GROUP, groups)
        out.result({"records": len(set_aside.rows)}, set_aside.sentence())
        for table_name, reason, *_ in groups:
            out.line(_way_back(table_name, reason, dead_letters=dead_letters))


@app.command()
def show(  # noqa: PLR0913 - options
    *,
    table: TableOption = None,
    rule: RuleOption = None,
    since: SinceOption = None,
    dead_letters: DeadLettersOption = False,
    every: StatusOption = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many of the newest records to show.")] = 20,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Show single records: where each comes from, its key, the rules that it breaks, and the values that break them."""
    settings = load(config)
    with opened(output) as out:
        set_aside = SetAsideRows.read(settings, table, rule, since, dead_letters=dead_letters, every=every)
        rows = [_whole(row) for row in set_aside.newest(limit)]
        if output is Format.JSON:
            _shown(out, output, set_aside.what, _WHOLE, [[row[name] for name in _WHOLE] for row in rows])
        else:
            lines = [{**row, "rules": ", ".join(row["rules"] or [row["code"]])} for row in rows]
            _shown(out, output, set_aside.what, _ROW, [[row[name] for name in _ROW] for row in lines])
        out.result({"records": len(set_aside.rows)}, set_aside.sentence(len(rows)))


@app.command()
def redrive(
    *,
    table: TableOption = None,
    rule: RuleOption = None,
    since: SinceOption = None,
    dead_letters: DeadLettersOption = False,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Check open records against the suites as they are now, and bring those that may enter into their tables."""
    settings = load(config)
    with opened(output) as out:
        source = table_metadata.source_named(reader(settings), table) if table else None
        moment = _moment(since).isoformat() if since else ""
        names = [DEAD_LETTERS if dead_letters else QUARANTINE, *((source.schema, source.table) if source else ("", ""))]
        fetch()  # before there is a spinner: it has a bar of its own
        from pipeline.service import client  # noqa: PLC0415 - it brings Spark: those who only look need not wait

        with Console(stderr=True).status("starting Spark"):
            done = client.redrive(
                settings,
                [*names, rule or "", moment],
                lambda who: out.line(f"asked {who} to do this; it will do so between two batches"),
            )
        out.result(done, _redriven(done))


class SetAsideRows:
    """The records that options select, as an Arrow table: there may be millions."""

    def __init__(self, what: str, rows: Any, *, every: bool) -> None:
        self.what = what
        self.rows = rows
        self._every = every

    @classmethod
    def read(  # noqa: PLR0913 - the options
        cls,
        settings: Settings,
        table: str | None = None,
        rule: str | None = None,
        since: str | None = None,
        *,
        dead_letters: bool = False,
        every: bool = False,
        fields: Sequence[str] = _FIELDS,
    ) -> SetAsideRows:
        """Read them; without their bytes, which may be large."""
        what = DEAD_LETTERS if dead_letters else QUARANTINE
        rows = records(reader(settings), what, fields, "" if every else "status = 'open'")
        if table:
            rows = rows.filter(pc.equal(pc.utf8_lower(_tables(rows)), folded(table)))
        if rule:
            broken = rows["rules"].combine_chunks()
            rows = rows.take(pc.unique(pc.list_parent_indices(broken).filter(pc.equal(pc.list_flatten(broken), rule))))
        if since:
            rows = rows.filter(pc.greater_equal(rows["recorded_at"], pa.scalar(_moment(since))))
        return cls(what, rows, every=every)

    def groups(self) -> list[tuple[Any, ...]]:
        """By table and what is broken: how many, the first and the last. A row that breaks two rules is in two."""
        rules = self.rows["rules"].combine_chunks()
        alone = pc.equal(pc.fill_null(pc.list_value_length(rules), 0), 0)
        reasons = pa.table({"table": _tables(self.rows), "reason": self.rows["code"], "at": self.rows["recorded_at"]})
        broken = reasons.take(pc.list_parent_indices(rules)).set_column(1, "reason", pc.list_flatten(rules))
        both = pa.concat_tables([reasons.filter(alone), broken], promote_options="permissive")
        counted = both.group_by(["table", "reason"]).aggregate([("at", "count"), ("at", "min"), ("at", "max")])
        ordered = counted.sort_by([("table", "ascending"), ("reason", "ascending")]).to_pylist()
        return [tuple(row[name] for name in ("table", "reason", "at_count", "at_min", "at_max")) for row in ordered]

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """The rows that were set aside last."""
        order = [("recorded_at", "descending"), ("offset", "descending")]
        rows: list[dict[str, Any]] = self.rows.take(pc.select_k_unstable(self.rows, limit, order)).to_pylist()
        return rows

    def sentence(self, shown: int | None = None) -> str:
        """Say how many there are."""
        kind = "dead letter" if self.what == DEAD_LETTERS else "quarantined row"
        if not len(self.rows):
            return f"no {kind}s" + ("" if self._every else " are open")
        cut = shown is not None and shown < len(self.rows)
        more = f"; shown: the newest{'' if shown == 1 else f' {shown}'}" if cut else ""
        still = "" if self._every else " is open" if len(self.rows) == 1 else " are open"
        return f"{counted(len(self.rows), kind)}{still}{more}"


def _tables(rows: Any) -> Any:
    """The name of each row's table."""
    schema, table = (rows[name].cast(pa.string()) for name in ("schema_name", "table_name"))
    return pc.fill_null(pc.binary_join_element_wise(schema, table, "."), NO_TABLE)


def _table(row: dict[str, Any]) -> str:
    return f"{row['schema_name']}.{row['table_name']}" if row["table_name"] is not None else NO_TABLE


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    """A record under the names of `_WHOLE`."""
    renamed = {"table": _table(row), "partition": row["kafka_partition"], "key": row["key_values"]}
    return {**row, **renamed, "rules": row["rules"] or []}


def _way_back(table: str, reason: str, *, dead_letters: bool) -> str:
    named = "" if table == NO_TABLE else f" --table {table}"
    if dead_letters:
        return f"when they can be read: ticdc-warehouse quarantine redrive --dead-letters{named}"
    if reason == FENCED:
        return f"{table}: these wait for an older change of their key, and come back with it"
    return f"when the cause of {reason} is fixed: ticdc-warehouse quarantine redrive{named} --rule {reason}"


_ELSEWHERE = (
    "belong to another table since an EXCHANGE PARTITION (ROWS_EXCHANGED). Change them in the source: TiCDC then "
    "sends them as rows of that table. Then redrive again"
)


def _redriven(done: dict[str, Any]) -> str:
    parts = [
        f"{counted(done['redriven'], 'record')} entered {'its table' if done['redriven'] == 1 else 'their tables'}"
    ]
    parts += [f"{done['superseded']:,} are older than what their tables have"] if done["superseded"] else []
    parts += (
        [f"{done['quarantined']:,} can be read but break a rule, and are in quarantine now"]
        if done["quarantined"]
        else []
    )
    parts += [f"{done['open']:,} stay open"] if done["open"] else []
    parts += [f"{done['exchanged']:,} of these {_ELSEWHERE}"] if done["exchanged"] else []
    return "; ".join(parts)


def _moment(text: str) -> datetime:
    """A time (UTC unless it says otherwise), or a duration before now."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return datetime.now(UTC) - timedelta(seconds=seconds(text))
        except ValueError:
            raise typer.BadParameter(
                f"{text} is neither a time such as 2026-11-21T11:48 nor a duration such as `2 hours`"
            ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _shown(out: Output, output: Format, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    listed = list(rows)
    if output is Format.JSON:
        out.table(title, columns, listed)
    elif listed:
        out.table("", columns, [[_text(value) for value in row] for row in listed])


def _text(value: Any) -> Any:
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else value
