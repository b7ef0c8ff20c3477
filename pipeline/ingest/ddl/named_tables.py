"""What the modules of this folder ask an ordering: which table a name means when a statement is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ingest.ddl.done import Done

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.ddl import Action, RenameTable
    from pipeline.ddl.statement import Clause, Statement
    from pipeline.ingest.context import PipelineContext
    from pipeline.model.names import Name, TableName
    from pipeline.warehouse.pairs import StoredBinding, TablePair


class NamedTables:
    """Tables by what their names mean at the statement that is applied.

    An ordering answers the questions of the first part. Those of the second part concern one ordering, which is named.
    The answers here are for the other one.
    """

    __slots__ = ()
    context: PipelineContext
    partners: dict[int, str]
    """By commit ts of an EXCHANGE PARTITION: the pair that is not partitioned. A statement of TiDB has a commit ts of
    its own. By commit ts alone: by offset the statement is not understood."""

    def has(self, table: TableName) -> bool:
        """Whether the name means a table now."""
        raise NotImplementedError

    def pair(self, name: TableName, commit_ts: int) -> TablePair | None:
        """The pair of the table that has the name. By commit ts it is made now, where rows tell of a table."""
        raise NotImplementedError

    def in_database(self, schema: str, commit_ts: int) -> Iterable[tuple[Name, TablePair | None]]:
        """The tables of a database by name. By commit ts also those without a pair."""
        raise NotImplementedError

    def concerned(self, statement: Statement) -> Sequence[TableName]:
        """The tables that a statement may be about which is not understood."""
        raise NotImplementedError

    def hold(self, name: TableName, reason: str, commit_ts: int) -> Done:
        """Hold a table from here on, whether it has a pair yet or not."""
        raise NotImplementedError

    def follow(self, action: Action, clause: Clause) -> None:
        """Let names mean what they mean after a clause."""
        raise NotImplementedError

    def passed(self, statement: Statement) -> None:
        """Note that a statement is applied, all its clauses."""
        raise NotImplementedError

    # ---- what concerns one ordering: by commit ts, unless said

    def create(self, _table: TableName, _clause: Clause) -> Done:
        """Make the pair of a new table, where the statement describes it. Else, and by offset, its first rows do."""
        return Done("created")

    def displaced(self, _name: TableName, _commit_ts: int) -> TablePair | None:
        """A pair for a table that has none because its name is taken; None where nothing of it waits."""
        return None

    def outdated(self, _name: TableName, _commit_ts: int) -> TablePair | None:
        """The pair that has a name which the source has taken from it by a statement that nobody has seen."""
        return None

    def is_renamed(self, _pair: TablePair, _rename: RenameTable, _commit_ts: int) -> bool:
        """By offset: whether a pair has the new name already, or a newer one, by an earlier try or delivery of this."""
        return False

    def bindings_after(self, _pair: TablePair, _rename: RenameTable, _clause: Clause) -> tuple[StoredBinding, ...]:
        """What is recorded of a pair's names after a RENAME; nothing where none are recorded."""
        return ()

    def rows_until(self, _commit_ts: int) -> int | None:
        """Up to which commit ts a statement concerns what is set aside; None: all that is there."""
        return None

    def drop_pending_of(self, _name: Name, _commit_ts: int) -> None:
        """Let the records go that wait for the name of a table without a pair, which is dropped."""

    def truncate(self, _pair: TablePair | None, _name: TableName, _commit_ts: int) -> None:
        """By offset: let the rows of a table go that it had up to a commit ts. By commit ts its layout notes that."""

    def waits(self, _statement: Statement) -> bool:
        """By offset: whether a statement about columns waits with the rows of its table, which is held."""
        return False

    def done_before(self, _action: Action, _clause: Clause) -> Done | None:
        """What there is to say of a clause that was applied before; None: it was not, or may be applied again."""
        return None

    def recorded(self, _statement: Statement, done: Sequence[Done]) -> Sequence[Done]:
        """What the history says of each clause; nothing where it has them."""
        return done
