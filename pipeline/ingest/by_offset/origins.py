"""Which table the rows of a name are of, where several tables are sent under one name (ordering by offset).

A protocol may write `_` for every character that its schemas refuse, and none names the cluster. `order-items` and
`order_items`, or the `orders` of two clusters or keyspaces, so arrive under one name. What tells them apart is the
stream, for TiCDC sends a table to one stream, and the keyspace, where the protocol has it.

The table that comes first has the plain name as long as its stream is read. Another one is `<name>@<topic>`, or
`<name>@<keyspace>` where both stand in one stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipeline.model.messages import Origin, TableMessages
from pipeline.model.names import TableName
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pipeline.model.messages import Messages, SeenVersion
    from pipeline.model.names import Name
    from pipeline.warehouse.pairs import TablePair

_APART = "@"
"""No name that is sent has it."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Where the rows of a table come from, as far as that is known: no streams, or no keyspace, are any."""

    streams: frozenset[str] = frozenset()
    keyspace: str = ""

    def sends(self, origin: Origin) -> bool:
        """Whether rows of this origin are the table's."""
        same = not (self.keyspace and origin.keyspace) or self.keyspace == origin.keyspace
        return same and (not self.streams or origin.stream in self.streams)


@dataclass(slots=True)
class Origins:
    """What tables of which origins are called. `owners`: by the name (`TableName.key`) that a table has here."""

    owners: dict[Name, Owner] = field(default_factory=dict)

    @staticmethod
    def of(pairs: Iterable[TablePair], streams: Mapping[str, str], read: Collection[str]) -> Origins:
        """What the warehouse knows. `streams`: names by id, `read`: the names of the streams that are read now."""
        owners: dict[Name, Owner] = {}
        for pair in pairs:
            names = {streams[stream] for stream in pair.streams_at() if stream in streams}
            if pair.state is not State.DROPPED and (not names or names & {*read}):
                owners[pair.source.key] = Owner(frozenset(names), pair.keyspace)
        return Origins(owners)

    def name_of(self, origin: Origin, table: TableName) -> TableName:
        """What the table is called whose rows this origin sends under a name."""
        owner = self.owners.get(table.key)
        shares_stream = owner is not None and origin.stream in owner.streams
        apart = _apart(origin, table, shares_stream=shares_stream)
        for name in apart:
            if name.key in self.owners and self.owners[name.key].sends(origin):
                return name
        if owner is None or owner.sends(origin):
            return table
        return next((name for name in apart if name.key not in self.owners), apart[-1])

    def claim(self, origin: Origin, table: TableName) -> TableName:
        """The same, and from here on the name is this table's."""
        name = self.name_of(origin, table)
        owner = self.owners.get(name.key, Owner())
        self.owners[name.key] = Owner(owner.streams or frozenset({origin.stream}), owner.keyspace or origin.keyspace)
        return name


def _apart(origin: Origin, table: TableName, *, shares_stream: bool) -> list[TableName]:
    """What a table may be called that is not the first of its name: after its stream or keyspace, else after both."""
    both = f"{origin.keyspace}{_APART}{origin.stream}"
    suffixes = [origin.keyspace if shares_stream and origin.keyspace else origin.stream, both]
    return [TableName(table.schema, f"{table.table}{_APART}{suffix}") for suffix in suffixes]


def identified(messages: Messages, known_origins: Callable[[], Origins], noun: str = "stream") -> Messages:
    """The messages by table, each under the name that it has here; a warning for each that gets another name.

    The origins learn where new tables come from. They are asked for only where messages have an origin. `noun`: what
    users call a stream.
    """
    if all(table.origin is None for table in messages.tables):
        return messages
    origins = known_origins()
    owned = set(origins.owners)
    by_name: dict[Name, TableMessages] = {}
    warnings: list[str] = []
    for table in sorted(messages.tables, key=_by_likeness):
        name = table.table if table.origin is None else origins.claim(table.origin, table.table)
        if name.key != table.table.key and name.key not in owned:
            where = f"{noun} {table.origin.stream}, keyspace {table.origin.keyspace}" if table.origin else ""
            warnings.append(f"{table.table} of {where} is not the table that had this name: it is called {name} here")
        mine = replace(table, table=name)
        by_name[name.key] = _joined(by_name[name.key], mine) if name.key in by_name else mine
    return replace(messages, tables=tuple(by_name.values()), warnings=(*messages.warnings, *warnings))


def _by_likeness(table: TableMessages) -> tuple[bool, Origin]:
    """First those whose stream ends in the very name: of two that are new it is theirs in the source, too."""
    origin = table.origin or Origin("")
    return not origin.stream.endswith(table.table.table), origin


def _joined(some: TableMessages, others: TableMessages) -> TableMessages:
    """The messages of one table, which stand in several streams."""
    versions: dict[tuple[int, bool], SeenVersion] = {}
    for seen in (*some.versions, *others.versions):
        key = (seen.version.version, seen.key_only)
        versions[key] = versions[key].joined(seen) if key in versions else seen
    return replace(some, versions=tuple(versions[key] for key in sorted(versions)))
