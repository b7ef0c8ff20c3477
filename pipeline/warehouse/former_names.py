"""Whose rows are before a statement's late copy (by offset).

A statement that ends what a name means stands in every partition of its stream, and partitions may be read unevenly. It
is applied when the first copy has been read. What is before it in the other partitions is still of the table that had
the name: so that is remembered, with where each copy stands, until all have been read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline import ddl as text
from pipeline.ddl.bindings import rebound
from pipeline.ddl.table_ref import CreatedTable, PairRef
from pipeline.model.names import TableName, folded
from pipeline.model.places import Partition
from pipeline.warehouse.stored import FormerName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pipeline.ddl.bindings import Bindings, Heirs
    from pipeline.ddl.statement import Statement
    from pipeline.ddl.table_ref import TableRef
    from pipeline.model.messages import Ddl
    from pipeline.model.names import Name
    from pipeline.model.places import PartitionId, Position, Range
    from pipeline.warehouse.pairs import TablePair
    from pipeline.warehouse.tables import Tables

NOT_YET = -1
NAMELESS = ("", "")
NEVER = (0, "", "")
END = 2**62
Copies = dict[int, dict[Partition, "Position"]]
"""By commit ts: where the statements of that time stand, the last of them in each partition."""


def _copies_of(events: Iterable[Ddl]) -> Copies:
    """Where the statements of a batch stand."""
    copies: Copies = {}
    for ddl in events:
        places = copies.setdefault(ddl.commit_ts, {})
        for partition, position in ddl.at.items():
            places[partition] = max(position, places.get(partition, position))
    return copies


def ended(
    statements: Iterable[Statement],
    names: Bindings,
    heirs: Heirs,
    ids: Mapping[str, str],
    unread: Collection[Partition],
) -> tuple[FormerName, ...]:
    """The names that statements take from tables. `names`: what they mean before the first. `ids`: of the streams.

    `unread`: the partitions that have more than this batch reads of them.
    """
    taken: list[tuple[FormerName, TableRef]] = []
    for statement in statements:
        streams = {at.stream for at in statement.ddl.at}
        partitions = sorted({*statement.ddl.at, *(at for at in unread if at.stream in streams)})
        copies = tuple((ids[at.stream], at.number, NOT_YET) for at in partitions)
        before, names = names, rebound(names, statement, heirs)
        for name, table_ref in before.items():
            if names.get(name) != table_ref and _takes(statement, name):
                pair = table_ref.uuid if isinstance(table_ref, PairRef) else ""
                created = (table_ref.commit_ts, *table_ref.name) if isinstance(table_ref, CreatedTable) else NEVER
                taken.append((FormerName(statement.commit_ts, name, pair, created, NAMELESS, copies), table_ref))
    new_names = {table_ref: name for name, table_ref in names.items()}
    return tuple(former._replace(new_name=new_names.get(table_ref, NAMELESS)) for former, table_ref in taken)


@dataclass(frozen=True, slots=True)
class FormerNames:
    """What is remembered. `ids`: of the streams that are there, by name."""

    names: tuple[FormerName, ...]
    ids: Mapping[str, str]

    def after(
        self, news: Iterable[FormerName], events: Iterable[Ddl], ends: Mapping[PartitionId, Position]
    ) -> FormerNames:
        """The same after a batch with these DDL events, which ends `news`; without those of which all copies were read.

        A second try knows better than the first which pair a table has. `ends`: what is committed.
        """
        both = {(one.commit_ts, one.name): one for one in (*self.names, *news)}
        copies = _copies_of(events)
        met = (self._met(one, copies.get(one.commit_ts, {})) for one in sorted(both.values()))
        return replace(self, names=tuple(one for one in met if is_outstanding(one, ends)))

    def without(self, others: Iterable[FormerName]) -> FormerNames:
        """The same without these."""
        left_out = {(one.commit_ts, one.name) for one in others}
        return replace(self, names=tuple(one for one in self.names if (one.commit_ts, one.name) not in left_out))

    def _met(self, former: FormerName, copies: Mapping[Partition, Position]) -> FormerName:
        places = {(self.ids[at.stream], at.number): position for at, position in copies.items()}
        copies_now = (
            (stream, number, places.get((stream, number), NOT_YET) if position == NOT_YET else position)
            for stream, number, position in former.copies
            if stream in self.ids.values()
        )
        return former._replace(copies=tuple(copies_now))

    def pieces(self, name: Name, partition: Partition) -> Iterator[tuple[Range, FormerName | None]]:
        """The parts of a partition by whose the rows of a name are in them; None: of the table that has it now."""
        place, low = (self.ids.get(partition.stream, ""), partition.number), 0
        for former in self.names:
            position = next((copy[2] for copy in former.copies if copy[:2] == place), None)
            if former.name != name or position is None:
                continue
            high = END if position == NOT_YET else position
            if low < high:
                yield (low, high), former
                low = high
        if low < END:
            yield (low, END), None

    def parts(self, name: Name, ranges: Mapping[Partition, Range]) -> dict[FormerName | None, dict[Partition, Range]]:
        """Where the rows of a name stand within ranges, by whose they are; None: of the table that has it now."""
        parts: dict[FormerName | None, dict[Partition, Range]] = {}
        for partition, (low, high) in ranges.items():
            for (start, stop), former in self.pieces(name, partition):
                begin, end = max(low, start), min(high, stop)
                if begin < end:
                    first, _ = parts.setdefault(former, {}).get(partition, (begin, end))  # the pieces are in order
                    parts[former][partition] = (first, end)
        return parts


def _takes(statement: Statement, name: Name) -> bool:
    """Whether a statement takes a name from its table; one that gives the name to another table does not."""
    for action in statement.actions:
        match action:
            case text.RenameTable(table, _) | text.DropTable(table) if table.key == name:
                return True
            case text.DropDatabase(schema) if folded(schema) == name[0]:
                return True
    return False


def pair_of(tables: Tables, former: FormerName) -> TablePair | None:
    """The pair of the table that had the name, if it has one."""
    created_at, schema, name = former.created
    if former.pair:
        return tables.by_uuid(former.pair)
    return tables.born(created_at, (schema, name)) if created_at else None


def table_of(
    tables: Tables, former: FormerName, names: Iterable[FormerName]
) -> tuple[TableName, TablePair | None] | None:
    """The table that had the name, as it is called now, and its pair, if it has one; None where nobody can tell.

    A table that had no pair is known by the names that it has got since (`names`, by commit ts).
    """
    pair = pair_of(tables, former)
    if pair is not None:
        return pair.source, pair
    name = former.new_name
    for later in names:
        if later.commit_ts > former.commit_ts and later.name == name:
            name = later.new_name
    table = TableName(*name)
    return None if former.pair or name == NAMELESS else (table, tables.find(table))


def came_before(statement: Statement, former: FormerName) -> bool:
    """Whether this is the statement that has ended a name, or an older one that has given it: another copy of it."""
    if statement.commit_ts >= former.commit_ts:
        return statement.commit_ts == former.commit_ts and _takes(statement, former.name)
    return any(isinstance(one, text.CreateTable) and one.table.key == former.name for one in statement.actions)


def is_committed(former: FormerName, ends: Mapping[PartitionId, Position]) -> bool:
    """Whether a copy of the statement lies within what is committed."""
    return any(NOT_YET < position < ends.get((stream, number), 0) for stream, number, position in former.copies)


def is_outstanding(former: FormerName, ends: Mapping[PartitionId, Position]) -> bool:
    """Whether a copy has not been read yet by what is committed."""
    return any(
        position == NOT_YET or ends.get((stream, number), 0) <= position for stream, number, position in former.copies
    )
