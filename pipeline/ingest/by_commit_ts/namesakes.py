"""Two source tables of one name (ordering by commit ts): the name is held, and nothing is mixed.

The changefeeds of two clusters may send a table of the same schema and name, each to a stream of its own. No message
names its cluster, so the stream is all that tells them apart: TiCDC sends the rows and the DDL events of a table to
one stream. Rows in another stream are therefore of another table, unless the table has moved: then its old stream is
not read any more, or a RENAME has given it a name that goes elsewhere. Where neither is the case, the table is held
(`TABLE_NAME_TAKEN`) until a person decides: a release says that both streams bring the same table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline import ddl as text
from pipeline.ingest.set_aside import dead_letters
from pipeline.model.names import TableName
from pipeline.model.places import STREAM
from pipeline.warehouse.held import NAME_TAKEN
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pipeline.ddl.statement import Statement
    from pipeline.ingest.context import PipelineContext
    from pipeline.model.messages import Messages
    from pipeline.model.names import Name
    from pipeline.warehouse.pairs import TablePair

_FIRST_AND_NEWEST = 2
Streams = dict["Name", dict[str, int]]
"""By table name: the streams in which its rows are, each with the greatest commit ts of a row there."""


def streams_of(messages: Messages) -> Streams:
    """In which streams the rows of each name are."""
    return joined(
        *(
            {table.table.key: {at.stream: seen.until for at in seen.last}}
            for table in messages.tables
            for seen in table.versions
        )
    )


def joined(*several: Streams) -> Streams:
    """The streams of all of them."""
    names: Streams = {}
    for streams in several:
        for name, rows in streams.items():
            newest = names.setdefault(name, {})
            for stream, until in rows.items():
                newest[stream] = max(newest.get(stream, 0), until)
    return names


@dataclass(frozen=True, slots=True)
class Namesakes:
    """Tells what is of another table than the pair that has its name.

    `ids`: of the streams that are read now, by name. `released`: tables (`TableName.key`) of which a person has said
    that all their streams bring the same.
    """

    ids: Mapping[str, str]
    released: Collection[Name] = frozenset()
    noun: str = "stream"
    """What users call a stream (`Source.stream_noun`)."""

    def reason(self, name: Name, table: TablePair | None, streams: Mapping[str, int]) -> str:
        """Why the rows of a name in these streams cannot all be of one table; nothing, if they can.

        A table without a pair may come in any stream, but in one only; so may one whose pair has no rows of this name.
        """
        if name in self.released or (table is not None and not self._is_judged(table, name)):
            return ""
        own_ids = frozenset() if table is None else table.streams_at(max(streams.values()))
        own = self._names(own_ids)
        others = {stream for stream in streams if stream in self.ids} - own
        moved = bool(own_ids) and not own
        if not others or moved or (not own and len(others) == 1):
            return ""
        return f"{NAME_TAKEN}: {self._sentence(own | others)}"

    def _is_judged(self, table: TablePair, name: Name) -> bool:
        """Whether the streams of a pair's rows are known; those of a pair that had several names are not noted."""
        former = name != table.source.key and len(table.by_commit_ts.bindings) > _FIRST_AND_NEWEST
        return table.state is State.LIVE and table.source.key not in self.released and not former

    def checked(self, statements: Iterable[Statement], pairs: Iterable[TablePair]) -> list[Statement]:
        """The statements; those that another stream sends about a table of a name are not understood, and hold it.

        `statements` come in the order in which they are applied. What a name means after a RENAME or DROP of this
        batch, and in which streams it comes then, is not known yet.
        """
        live = [pair for pair in pairs if pair.state is State.LIVE]
        given: set[Name] = set()
        checked = []
        for statement in statements:
            name = _before(statement)
            table = None if name in given else _named(live, name, statement.ddl.commit_ts)
            checked.append(self._statement(statement, table))
            for action in statement.actions:
                match action:
                    case text.RenameTable(old, new):
                        given |= {old.key, new.key}
                    case text.DropTable(dropped):
                        given.add(dropped.key)
        return checked

    def _statement(self, statement: Statement, table: TablePair | None) -> Statement:
        ddl = statement.ddl
        if table is None or table.source.key in self.released or _creates(statement, ddl.table):
            return statement
        own, sent = self._names(table.streams_at(ddl.commit_ts)), {at.stream for at in ddl.at}
        if not own or not sent or sent & own:
            return statement
        return replace(statement, actions=(text.NotUnderstood(self._sentence(own | sent)),))

    def _sentence(self, streams: Collection[str]) -> str:
        return (
            f"{self.noun}s {', '.join(sorted(streams))} all bring a table of this name. If they are of two "
            "changefeeds, read one here, and the other in a pipeline of its own. If the table has moved from one to "
            "the other, release it"
        )

    def _names(self, ids: Collection[str]) -> set[str]:
        return {stream for stream, identity in self.ids.items() if identity in ids}


def streams_to_let_in(context: PipelineContext, source: TableName) -> frozenset[str]:
    """The streams from which the records come that a release of a table is to let in.

    Records of streams that are not read any more, and that a held pair has no rows of, are of the other table: they
    stay in `_pipeline.held` as dropped. A release of a table that lives gives up rows without a
    schema, and drops nothing.
    """
    held = context.records.read("held").where(dead_letters.of_table(source) & (F.col("status") == "open"))
    streams = {row[STREAM] for row in held.select(STREAM).distinct().collect()}
    table, read = context.tables.find(source), context.source.stream_ids().keys()
    pair_is_held = table is not None and table.state is State.HELD
    own = (
        {context.run.ledger.streams.get(stream, "") for stream in table.streams_at()}
        if table and pair_is_held
        else set()
    )
    strange = streams - own - read if own else set()
    context.records.drop_held(source, strange)
    return frozenset(streams - strange)


def accept(context: PipelineContext, source: TableName, streams: Collection[str]) -> None:
    """Let these streams be a table's own: a person has released it.

    One alone is not noted of a table whose streams are not known: it may move, or bring statements of another's name.
    """
    table, ids = context.tables.find(source), context.source.stream_ids()
    accepted = {ids[stream] for stream in streams if stream in ids}
    if table is not None and (table.streams_at() or len(accepted) > 1):
        context.tables.note_streams(table, accepted - table.streams_at())


def _named(pairs: Iterable[TablePair], name: Name, commit_ts: int) -> TablePair | None:
    """The pair that had a name at a commit ts: a try that died may have given it another one since."""
    for pair in pairs:
        bound = [
            binding for binding in pair.by_commit_ts.bindings if TableName(binding.schema, binding.table).key == name
        ]
        if any(binding.since < commit_ts <= binding.until for binding in bound):
            return pair
    return None


def _before(statement: Statement) -> Name:
    """The name that the table of a statement has before it."""
    renamed = [one.old for one in statement.actions if isinstance(one, text.RenameTable)]
    return (renamed or [statement.ddl.table])[0].key


def _creates(statement: Statement, table: TableName) -> bool:
    return any(isinstance(one, text.CreateTable) and one.table.key == table.key for one in statement.actions)
