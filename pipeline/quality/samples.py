"""A few of the rows that break a rule, as text: what a person looks at first."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.projection import walled
from pipeline.quality.suites import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame

    from pipeline.model.names import TableName
    from pipeline.quality.rules import RuleResult, RuleSet

ROWS = 3
"""Rows for each rule."""
_LOOKED_AT = 60
"""Rows that are looked at to find some for every rule."""
_AT = (change.TOPIC, change.PARTITION, change.OFFSET)

Sample = dict[str, Any]


def sampled(frame: DataFrame, rules: RuleSet, failed: Collection[str], key: Sequence[str]) -> dict[str, list[Sample]]:
    """Failed rule → rows that break it: where each stands, its key, and the values of the rule's columns."""
    some = rules.only(failed)
    if not some.rules:
        return {}
    columns = {rule.name: rule.columns for rule in some.rules}
    shown = sorted({*key, *(name for names in columns.values() for name in names)})
    values = [part for name in shown for part in (F.lit(name), rules.shown(name))]
    rows = (
        walled(some.judged(frame))
        .where(some.breaks(*Severity))
        .select(
            *(F.col(name) for name in _AT),
            (F.create_map(*values) if values else F.lit(None).cast("map<string,string>")).alias("values"),
            some.broken().alias("rules"),
        )
    )
    samples: dict[str, list[Sample]] = defaultdict(list)
    for row in rows.limit(_LOOKED_AT).collect():
        for name in row["rules"]:
            if len(samples[name]) < ROWS:
                samples[name].append(
                    {
                        "at": [row[name] for name in _AT],
                        "key": {column: row["values"][column] for column in key},
                        "values": {column: row["values"][column] for column in columns[name]},
                    }
                )
    return samples


def told(result: RuleResult, rows: Sequence[Sample]) -> str | None:
    """The `sample` of a result: JSON with what there is to say beside the counts."""
    details: dict[str, object] = {}
    if rows and not result.success:
        details["rows"] = list(rows)
    if result.evaluated < result.rows and (result.evaluated or result.unexpected == 0):
        details["not_checked"] = result.rows - result.evaluated
    if not result.success:
        details |= {"because": result.because, "owner": result.owner}
    if result.observed:
        details["observed"] = result.observed
    details = {name: value for name, value in details.items() if value}
    return json.dumps(details, ensure_ascii=False) if details else None


def as_row(
    result: RuleResult, table: TableName, fingerprint: str, snapshot: int | None, sample: str | None
) -> dict[str, object]:
    """A row of `_pipeline.quality_results`."""
    return {
        "schema_name": table.schema, "table_name": table.table, "rule": result.rule,
        "severity": result.severity.value, "fingerprint": fingerprint, "engine": result.engine,
        "evaluated": result.evaluated, "unexpected": result.unexpected, "success": result.success,
        "snapshot_id": snapshot, "sample": sample,
    }  # fmt: skip
