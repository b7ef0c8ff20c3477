"""What does not enter the tables: dead letters, quarantined and held records, with their bytes and coordinates."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.messages import INDEX
from pipeline.model.names import quoted
from pipeline.model.places import PARTITION, POSITION, STREAM, shown, shown_key
from pipeline.model.projection import walled
from pipeline.model.set_aside import FENCED, IN_COLUMN, OPEN
from pipeline.warehouse import changes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.ingest.context import PipelineContext
    from pipeline.model.messages import Undecodable
    from pipeline.model.names import TableName
    from pipeline.quality.rules import RuleSet
    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.pairs import TablePair

QUARANTINED = "QUARANTINED"
FENCED_WHY = "an older change of its key is in quarantine"
_FACTS = {
    "code": "string", "message": "string", "schema_name": "string", "table_name": "string", "commit_ts": "bigint",
}  # fmt: skip
"""What dead letters say of messages that no table takes."""
LEFT_OUT = "an earlier try of this batch left it out, because the rules were different then"


def of_table(source: TableName) -> Column:
    """Whether a record set aside is of this source table; names have no case."""
    schema, table = source.key
    return (F.lower("schema_name") == schema) & (F.lower("table_name") == table)


def set_aside_refused(
    context: PipelineContext, raw: DataFrame, refused: Sequence[Undecodable], batch_id: int, status: str = OPEN
) -> Mapping[str, int]:
    """Make dead letters of messages that no table takes; how many, by their table ("": it is not known)."""
    columns = {name: F.lit(None).cast(kind) for name, kind in _FACTS.items()}
    for refusal in refused:
        for name, column in _facts(refusal).items():
            columns[name] = F.when(refusal.where, column).otherwise(columns[name])
    place = shown(raw.columns)
    dead_letters = raw.select(
        place[STREAM].alias("topic"),
        place[PARTITION].alias("kafka_partition"),
        place[POSITION].alias("offset"),
        F.col(INDEX) if INDEX in raw.columns else F.lit(0).alias(INDEX),
        shown_key(raw.columns).alias("key"),
        "value",
        *(column.alias(name) for name, column in columns.items()),
        F.lit(status).alias("status"),
    )
    count = context.records.append(
        "dead_letters", batch_id, _as_dead_letters(dead_letters.where(F.col("code").isNotNull()))
    )
    return _by_table(refused, count)


def _by_table(refused: Sequence[Undecodable], written: int) -> Mapping[str, int]:
    """The letters by table, as the messages were counted when they were read; all others are of no table ("")."""
    names: dict[tuple[str, str], str] = {}
    counts: Counter[str] = Counter()
    for refusal in refused:
        for table, rows in refusal.tables.items():
            counts[names.setdefault(table.key, str(table))] += rows
    return {**counts, "": max(0, written - counts.total())}  # what an earlier try has put into a table is no letter


def _facts(refusal: Undecodable) -> dict[str, Column]:
    columns = {"code": F.lit(refusal.code), "message": F.lit(refusal.message)}
    if refusal.header is not None:
        header = refusal.header
        columns |= {"schema_name": header.schema, "table_name": header.table, "commit_ts": header.commit_ts}
    return columns


def unreadable(frame: DataFrame, sentences: Mapping[str, str]) -> DataFrame:
    """The dead letters of a change frame."""
    text = F.coalesce(*(F.when(F.col(change.ERROR) == code, F.lit(sentence)) for code, sentence in sentences.items()))
    text = F.concat(text, F.coalesce(F.concat(F.lit(IN_COLUMN), F.col(change.UNREAD)), F.lit("")))
    rows = walled(frame).where(F.col(change.ERROR).isNotNull())
    facts = [F.col(change.ERROR).alias("code"), text.alias("message"), F.col(change.COMMIT_TS).alias("commit_ts")]
    return rows.select(*_placed_bytes(), *facts)


def quarantined(
    frame: DataFrame, rules: RuleSet, layout: Layout, table: TableName, *, fenced: bool = False, status: str = OPEN
) -> DataFrame:
    """Rows of `_pipeline.quarantine` for a judged change frame; `fenced`: it has the column `_fenced`."""
    names = rules.broken()
    is_fenced = F.col(change.FENCED) if fenced else F.lit(False)
    why_out = F.when(is_fenced, F.lit(FENCED_WHY)).when(F.size(names) == 0, F.lit(LEFT_OUT))
    message = why_out.otherwise(rules.sentence())
    return frame.select(
        *_placed_bytes(),
        F.lit(table.schema).alias("schema_name"),
        F.lit(table.table).alias("table_name"),
        F.when(is_fenced, F.lit(FENCED)).otherwise(F.lit(QUARANTINED)).alias("code"),
        message.alias("message"),
        names.alias("rules"),
        F.lit(rules.fingerprint).alias("fingerprint"),
        F.col(change.COMMIT_TS).alias("commit_ts"),
        key_values(layout).alias("key_values"),
        F.lit(status).alias("status"),
    )


def key_values(layout: Layout) -> Column:
    """The key of a change as JSON: column → value as text, or the text that the column cannot hold."""
    pairs: list[Column] = []
    for column in layout.key:
        value = F.col(quoted(column.name))
        text = F.hex(value) if column.type == "binary" else value.cast("string")
        pairs += [F.lit(column.name), F.coalesce(text, F.col(change.UNREPRESENTABLE)[F.lit(column.name)])]
    return F.to_json(F.create_map(*pairs), {"ignoreNullFields": "false"}) if pairs else F.lit(None).cast("string")


def _placed_bytes() -> list[Column]:
    return [
        F.col(change.TOPIC).alias("topic"),
        F.col(change.PARTITION).alias("kafka_partition"),
        F.col(change.OFFSET).alias("offset"),
        F.col(change.INDEX).alias("index"),
        F.col(change.KEY_BYTES).alias("key"),
        F.col(change.VALUE_BYTES).alias("value"),
    ]


def not_in_changes(context: PipelineContext, frame: DataFrame, table: TablePair, batch_id: int) -> DataFrame:
    """The rows of a change frame that neither this batch nor a later one has put into the changes table."""
    place = list(change.POSITION)
    rows = changes.as_written(context.spark, table).where(F.col(change.BATCH_ID) >= batch_id)
    return frame.join(rows.select(*place), place, "left_anti")


def set_aside(
    context: PipelineContext, dead_letters: DataFrame, batch_id: int, source: TableName, status: str = OPEN
) -> int:
    """Append dead letters of one table; how many there were. The frame lacks what is the same for all."""
    named = {"schema_name": source.schema, "table_name": source.table, "status": status}
    full = dead_letters.select("*", *(F.lit(value).alias(name) for name, value in named.items()))
    return context.records.append("dead_letters", batch_id, _as_dead_letters(full))


def _as_dead_letters(dead_letters: DataFrame) -> DataFrame:
    """With the columns that only quarantined rows have."""
    kinds = {"rules": "array<string>", "fingerprint": "string", "key_values": "string"}
    return dead_letters.select("*", *(F.lit(None).cast(kind).alias(name) for name, kind in kinds.items()))
