"""What was done for a statement, and what `_pipeline.ddl_history` says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.ddl import Action
    from pipeline.ddl.statement import Statement
    from pipeline.model.names import TableName

Row = dict[str, object]
APPLIED, HELD = "applied", "held"


class Done(NamedTuple):
    """What was done for a statement. `status`: `applied`, or `held`, where it waits with its table for a person."""

    action: str
    status: str = APPLIED

    @staticmethod
    def held(table: TableName) -> Done:
        """It holds a table."""
        return Done(f"held; to go on: ticdc-warehouse tables release {table}", HELD)

    @staticmethod
    def stays(table: TableName, state: State) -> Done:
        """A table that is not live, or knows better, stays as it is."""
        return Done(f"{table}: {state}", HELD if state is State.HELD else APPLIED)

    @staticmethod
    def of_all(some: Sequence[Done]) -> Done:
        """What was done to several tables."""
        is_held = any(done.status == HELD for done in some)
        return Done("; ".join(done.action for done in some), HELD if is_held else APPLIED)


def history_row(statement: Statement, action: Action, done: Done) -> Row:
    """A row of `ddl_history`: one of a statement's actions, and what was done."""
    table = statement.ddl.table
    return {
        "commit_ts": statement.commit_ts, "schema_name": table.schema, "table_name": table.table,
        "ddl_type": type(action).__name__, "sql": statement.ddl.sql, "action": done.action, "status": done.status,
    }  # fmt: skip
