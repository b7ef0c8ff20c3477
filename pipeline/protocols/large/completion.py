"""Rows that were too large for their messages, completed behind `prepare` (docs/decisions/010).

A frame is looked at once more only where it has such rows. Each gets the message that TiCDC would have sent, and that
goes through `prepare` as any other; the row keeps its place. If the message can't be had, the row keeps the bytes that
were sent, and its code says why.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.model.large_rows import KIND, LOCATION, Message
from pipeline.model.messages import INDEX
from pipeline.model.places import PLACE, RAW
from pipeline.protocols.described.head import one_of
from pipeline.protocols.large.codes import (
    CLAIM_CHECK,
    CLAIM_CHECK_OUTSIDE,
    CLAIM_CHECK_UNREADABLE,
    HANDLE_KEY_ONLY,
    UPSTREAM_ROW_UNREADABLE,
)
from pipeline.protocols.large.form import code_of_mark
from pipeline.protocols.large.upstream import Asked
from pipeline.protocols.replaced import replaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import ExitStack

    import pyarrow as pa
    from pyspark.sql import Column

    from pipeline.model.large_rows import LargeRows
    from pipeline.model.messages import Messages, SourceProtocol
    from pipeline.protocols.large.claim_checks import ClaimChecks
    from pipeline.protocols.large.upstream import Upstream

_PATH = "path"
_MESSAGE = ("key", "value")
_ROW_TIME = ("schema", "table", "ts")
"""What a SELECT is for."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Where the rest of large rows is, as the settings say."""

    claims: ClaimChecks | None = None
    upstream: Upstream | None = None

    def is_due(self, messages: Messages) -> bool:
        """Whether a batch with these messages has rows that can be completed."""
        return any(refused.code in self._codes for refused in messages.refused)

    def completed(self, protocol: SourceProtocol, prepared: DataFrame, resources: ExitStack) -> DataFrame:
        """A prepared frame whose large rows are whole. `resources` releases what is kept for it."""
        form = protocol.large_rows()
        if form is None or not self._codes:
            raise AssertionError("nothing can be completed")
        kind = F.col(form.head).getField(KIND)
        parts = [prepared.where(~F.coalesce(one_of(kind, self._codes), F.lit(False)))]
        if self.claims:
            parts += _of_claims(protocol, form, prepared.where(kind == CLAIM_CHECK), self.claims)
        if self.upstream:
            by_key = prepared.where(kind == HANDLE_KEY_ONLY)
            read = _read(by_key, self.upstream, form)
            parts.append(_in_place(protocol, form, read, by_key, UPSTREAM_ROW_UNREADABLE))
        whole = reduce(DataFrame.unionByName, parts[1:]).persist(StorageLevel.MEMORY_AND_DISK_DESER)
        resources.callback(whole.unpersist)
        return parts[0].unionByName(whole)

    @property
    def _codes(self) -> tuple[str, ...]:
        """Of rows that can be completed."""
        given = {CLAIM_CHECK: self.claims, HANDLE_KEY_ONLY: self.upstream}
        return tuple(code for code, where in given.items() if where)


def with_kinds_of(messages: Messages, first: Messages) -> Messages:
    """What a completed frame has, with the kinds that were there before: the next batch will be like it."""
    return replace(messages, kinds=messages.kinds | first.kinds)


def _of_claims(
    protocol: SourceProtocol, form: LargeRows, claimed: DataFrame, claims: ClaimChecks
) -> Iterable[DataFrame]:
    """The events whose messages lie elsewhere: those that lie below the path are fetched, the others are refused."""
    head = F.col(form.head)
    placed = claimed.withColumn(_PATH, claims.path(head.getField(LOCATION)))
    outside = placed.where(F.col(_PATH) == "").drop(_PATH)
    inside = placed.where(F.col(_PATH) != "")
    yield outside.withColumn(form.head, head.withField(KIND, F.lit(CLAIM_CHECK_OUTSIDE)))
    yield _in_place(protocol, form, _fetched(inside, claims, form), inside.drop(_PATH), CLAIM_CHECK_UNREADABLE)


def _fetched(large: DataFrame, claims: ClaimChecks, form: LargeRows) -> DataFrame:
    """Raw records of these events with the messages that lie at their paths, or marks."""
    asked = large.select(*RAW, _PATH)

    def fetch(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            key, value, path = (batch[name].to_pylist() for name in (*_MESSAGE, _PATH))
            sent = zip(map(Message, key, value), path, strict=True)
            yield from replaced(batch, _MESSAGE, claims.messages(sent, form))

    spread = asked.repartition(asked.sparkSession.sparkContext.defaultParallelism)
    return spread.mapInArrow(fetch, spread.schema).select(*RAW)


def _read(large: DataFrame, upstream: Upstream, form: LargeRows) -> DataFrame:
    """Raw records of these events with the messages that rows of the upstream make, or marks."""
    about = [F.col(form.head).getField(name).alias(alias) for name, alias in zip(form.about, _ROW_TIME, strict=True)]
    tasks = large.sparkSession.sparkContext.defaultParallelism
    grouped = large.select(*RAW, *about).repartition(tasks, *_ROW_TIME).sortWithinPartitions(*_ROW_TIME)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with closing(upstream.session()) as session:
            for batch in batches:
                key, value, *about = (batch[name].to_pylist() for name in (*_MESSAGE, *_ROW_TIME))
                asked = map(Asked, map(Message, key, value), *about)
                yield from replaced(batch, _MESSAGE, session.messages(asked, form))

    return grouped.mapInArrow(read, grouped.schema).select(*RAW)


def _in_place(
    protocol: SourceProtocol, form: LargeRows, fetched: DataFrame, large: DataFrame, otherwise: str
) -> DataFrame:
    """The prepared events of fetched records in place of the large ones, if each is the row that was sent.

    `otherwise`: the code of one that is another.
    """
    sent = {name: f"_sent_{name}" for name in large.columns if name not in (*PLACE, INDEX)}
    before = large.select(*PLACE, INDEX, *(F.col(name).alias(other) for name, other in sent.items()))
    whole = protocol.prepare(fetched).join(F.broadcast(before), [*PLACE, INDEX], "left")
    old = F.col(sent[form.head])
    same = [F.col(form.head).getField(name) == old.getField(name) for name in form.about]
    is_whole = F.coalesce(reduce(and_, same, F.col(form.head).getField(KIND) == form.row), F.lit(False))
    code = F.coalesce(code_of_mark(F.col("value")), F.lit(otherwise))
    columns: dict[str, Column] = {name: F.col(other) for name, other in sent.items()}
    for name in _MESSAGE:
        columns[name] = F.when(is_whole, F.col(name)).otherwise(F.coalesce(columns[name], name))
    columns[form.head] = F.when(is_whole, F.col(form.head)).otherwise(old.withField(KIND, code))
    return whole.select(*(columns.get(name, F.col(name)).alias(name) for name in large.columns))
