"""Which statements earlier batches have applied (by offset): what comes of them is a late copy, or a redelivery."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.names import TableName
from pipeline.warehouse.former_names import came_before, is_committed
from pipeline.warehouse.state import FORMER_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pipeline.ddl.statement import Statement
    from pipeline.model.messages import DdlIdentity
    from pipeline.model.names import Name
    from pipeline.model.places import PartitionId, Position
    from pipeline.warehouse.records import Records
    from pipeline.warehouse.stored import FormerName


@dataclass(frozen=True, slots=True)
class PastDdl:
    """What earlier batches have applied, as far as the statements of this one go back."""

    applied: frozenset[DdlIdentity] = frozenset()
    newest: Mapping[Name, int] = field(default_factory=dict)
    """Commit ts of the newest statement about a name."""
    ended: tuple[FormerName, ...] = ()
    """Names that statements have ended of which a copy is committed, be it by a second try that the history does not
    tell from the first."""

    @staticmethod
    def of(
        records: Records,
        statements: Sequence[Statement],
        unfinished: int,
        ends: Mapping[PartitionId, Position],
        as_sent: Callable[[str], str],
    ) -> PastDdl:
        """What `_pipeline.ddl_history` says of batches before `unfinished`, and of statements within these ends.

        `as_sent`: how the protocol spells a name.
        """
        if not statements:
            return PastDdl()
        oldest = min(statement.commit_ts for statement in statements)
        history = records.read("ddl_history").where(F.col("batch_id") < unfinished)
        newest: dict[Name, int] = {}
        applied: set[DdlIdentity] = set()
        for row in history.where(F.col("commit_ts") >= oldest).collect():
            schema, table = row["schema_name"], row["table_name"]
            for name in {TableName(schema, table), TableName(as_sent(schema), as_sent(table))}:  # the latter: of old
                newest[name.key] = max(row["commit_ts"], newest.get(name.key, 0))
                applied.add((row["commit_ts"], name.key, row["sql"]))
        former = records.tables["ddl_history"].property_of(FORMER_NAMES) or ()
        ended = tuple(one for one in former if is_committed(one, ends))
        return PastDdl(frozenset(applied), newest, ended)

    def has(self, statement: Statement) -> bool:
        """Whether a statement was applied: this is another partition's copy, or a redelivery."""
        return statement.ddl.identity in self.applied or any(came_before(statement, one) for one in self.ended)
