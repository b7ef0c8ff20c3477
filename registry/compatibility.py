"""What changed between two versions of a subject, and what a registry and a changefeed make of it.

The judgement follows Avro's schema resolution, as the registries apply it: fields are matched by name, a
field that only the reader has needs a default, a type may be promoted, a null needs a null branch. Registries
look at neither `connect.parameters` nor precision and scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.columns import AvroColumn, TicdcSchema

Kind = Literal["table", "key", "added", "dropped", "type", "nullability", "default", "members", "order", "extension"]

_PROMOTIONS: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
"""Writer's type → other types that a reader may have (Avro specification, "Schema Resolution")."""

_WIDENINGS: Final = frozenset(
    {
        ("INT", "BIGINT"),
        ("INT UNSIGNED", "BIGINT"),
        ("INT UNSIGNED", "BIGINT UNSIGNED"),
        ("FLOAT", "DOUBLE"),
    }
)

_MODES: Final = {
    "DECIMAL": "avro-decimal-handling-mode",
    "BIGINT UNSIGNED": "avro-bigint-unsigned-handling-mode",
}
"""Types whose Avro type a changefeed chooses in its sink URI."""

_SHOWN_MEMBERS: Final = 10


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, as a sentence, and what it does to readers."""

    kind: Kind
    column: str
    """Empty where the change is the table's."""
    sentence: str
    backward: bool = True
    """Whether a reader of the new schema reads old data, as far as this change goes."""
    forward: bool = True
    """Whether a reader of the old schema reads new data, as far as this change goes."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All differences, and the judgement in the registry's sense."""

    changes: tuple[Change, ...]
    backward: bool
    forward: bool
    changefeed: str
    """What a changefeed meets when it registers the new schema under BACKWARD, Confluent's default."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The differences to be read aloud, then the changefeed's fate."""
        return (*(change.sentence for change in self.changes), self.changefeed)


def compare(old: TicdcSchema, new: TicdcSchema, *, key: bool = False) -> Verdict:
    """Compare two versions of one subject; `key` says that it is the `-key` subject."""
    changes = tuple(_changes(old, new, key=key))
    backward = all(change.backward for change in changes)
    return Verdict(
        changes=changes,
        backward=backward,
        forward=all(change.forward for change in changes),
        changefeed=_fate(backward=backward, changed=bool(changes)),
    )


def _fate(*, backward: bool, changed: bool) -> str:
    if not changed:
        return "Nothing changed; the changefeed goes on."
    if backward:
        return "Under BACKWARD the registry accepts this version; the changefeed goes on."
    return (
        "Under BACKWARD the registry refuses this version: at the first row after the DDL the changefeed"
        " stops with an error, until the subject's compatibility is NONE."
    )


def _changes(old: TicdcSchema, new: TicdcSchema, *, key: bool) -> Iterator[Change]:
    before, after = {c.name: c for c in old.columns}, {c.name: c for c in new.columns}
    yield from _table(old, new)
    if key and list(before) != list(after):
        yield Change("key", "", f"Key columns changed from {_list(before)} to {_list(after)}: {_IDENTITY}")
    dropped = [column for name, column in before.items() if name not in after]
    added = [column for name, column in after.items() if name not in before]
    yield from (_dropped(column) for column in dropped)
    yield from (_added(column) for column in added)
    if dropped and added and not key:
        yield Change("added", "", _RENAME)
    for name, column in before.items():
        if name in after:
            yield from _column(column, after[name])
    if [name for name in before if name in after] != [name for name in after if name in before]:
        yield Change("order", "", "Columns changed their order; readers match them by name.")
    yield from _extension(old, new)


_IDENTITY: Final = "rows have another identity from here on."
_RENAME: Final = "Avro does not tell a renamed column from a dropped and an added one."


def _table(old: TicdcSchema, new: TicdcSchema) -> Iterator[Change]:
    if old.table_name != new.table_name:
        sentence = f"The record was {old.table_name} and is {new.table_name}: another table under the same subject."
        yield Change("table", "", sentence, backward=False, forward=False)
    if (old.namespace, old.schema_name) != (new.namespace, new.schema_name):
        was, now = f"{old.namespace}.{old.schema_name}", f"{new.namespace}.{new.schema_name}"
        yield Change("table", "", f"The record's namespace was {was} and is {now}; readers do not mind.")


def _dropped(column: AvroColumn) -> Change:
    needed = "" if column.has_default else " A reader of the old schema cannot do without it: it has no default."
    return Change("dropped", column.name, f"{column.name} dropped.{needed}", forward=column.has_default)


def _added(column: AvroColumn) -> Change:
    what = f"{column.name} added: {_type(column)}{', nullable' if column.nullable else ' NOT NULL'}"
    if column.has_default:
        default = "" if column.default is None else f" with default {_default(column)}"
        return Change("added", column.name, f"{what}{default}.")
    why = " (TiCDC shows none of a DECIMAL in precise mode)" if column.precision is not None else ""
    sentence = f"{what} without default{why}. A reader of the new schema cannot read old data."
    return Change("added", column.name, sentence, backward=False)


def _column(old: AvroColumn, new: AvroColumn) -> Iterator[Change]:
    if _type(old) != _type(new) or old.avro_type != new.avro_type:
        yield _retyped(old, new)
    elif old.allowed != new.allowed:
        yield Change("members", new.name, f"{new.name}: {_members(old.allowed, new.allowed)}")
    if old.nullable and not new.nullable:
        sentence = f"{new.name} became NOT NULL. A reader of the new schema cannot read old NULLs."
        yield Change("nullability", new.name, sentence, backward=False)
    elif new.nullable and not old.nullable:
        sentence = f"{new.name} became nullable. A reader of the old schema cannot read new NULLs."
        yield Change("nullability", new.name, sentence, forward=False)
    if _default(old) != _default(new):
        sentence = f"{new.name}: default changed from {_default(old)} to {_default(new)}; rows are sent in full."
        yield Change("default", new.name, sentence)


def _retyped(old: AvroColumn, new: AvroColumn) -> Change:
    backward = _readable(writer=old.avro_type, reader=new.avro_type)
    forward = _readable(writer=new.avro_type, reader=old.avro_type)
    sentence = f"{new.name} {_movement(old, new)}."
    if not backward:
        sentence += f" A reader of the new schema cannot read old data ({old.avro_type} as {new.avro_type})."
    if not forward:
        sentence += f" A reader of the old schema cannot read new data ({new.avro_type} as {old.avro_type})."
    return Change("type", new.name, sentence, backward=backward, forward=forward)


def _movement(old: AvroColumn, new: AvroColumn) -> str:
    if old.tidb_type == new.tidb_type and old.avro_type != new.avro_type:
        mode = _MODES.get(new.tidb_type)
        because = f" ({mode} changed)" if mode else ""
        return f"is {_type(new)} sent as {new.avro_type}, it was sent as {old.avro_type}{because}"
    if (old.tidb_type, new.tidb_type) in _WIDENINGS or _wider(old, new):
        return f"widened from {_type(old)} to {_type(new)}"
    return f"changed from {_type(old)} to {_type(new)}"


def _wider(old: AvroColumn, new: AvroColumn) -> bool:
    """Whether every value of the old DECIMAL or BIT fits the new one as it is."""
    if old.length is not None and new.length is not None:
        return new.length > old.length
    if old.precision is None or old.scale is None or new.precision is None or new.scale is None:
        return False
    return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale


def _readable(*, writer: str, reader: str) -> bool:
    return writer == reader or reader in _PROMOTIONS.get(writer, set())


def _members(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    added = [member for member in new if member not in old]
    removed = [member for member in old if member not in new]
    clauses = []
    if added:
        where = " at the end" if new[: len(old)] == old else ""
        clauses.append(f"members added{where}: {_list(map(repr, added))}")
    if removed:
        clauses.append(f"members removed: {_list(map(repr, removed))}")
    if [m for m in old if m in new] != [m for m in new if m in old]:
        clauses.append("members reordered")
    return "; ".join(clauses or ["members changed"]) + ". Names are sent, so readers do not mind."


def _extension(old: TicdcSchema, new: TicdcSchema) -> Iterator[Change]:
    for what, was, now in (
        ("enable-tidb-extension", old.extension, new.extension),
        ("row checksums (integrity-check-level)", old.checksums, new.checksums),
        ("old values (avro-include-before-value)", old.before, new.before),
    ):
        if was != now:
            yield Change("extension", "", f"The changefeed turned {what} {'on' if now else 'off'}.")


def _type(column: AvroColumn) -> str:
    if column.precision is not None:
        return f"{column.tidb_type}({column.precision},{column.scale})"
    if column.length is not None:
        return f"{column.tidb_type}({column.length})"
    return column.tidb_type


def _default(column: AvroColumn) -> str:
    """Show a default as the source's DDL has it: bytes are sent in base64, large unsigned bigints wrapped."""
    default = column.default
    if not column.has_default:
        return "none"
    if default is None:
        return "NULL"
    if column.avro_type == "bytes" and isinstance(default, str):
        return f"{default!r} in base64"
    if column.tidb_type == "BIGINT UNSIGNED" and isinstance(default, int) and default < 0:
        return str(default + 2**64)
    return repr(default)


def _list(names: Iterator[str] | dict[str, AvroColumn] | map[str]) -> str:
    shown = list(names)
    rest = len(shown) - _SHOWN_MEMBERS
    return f"({', '.join(shown[:_SHOWN_MEMBERS])}{f' and {rest} more' if rest > 0 else ''})"
