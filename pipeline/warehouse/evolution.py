"""How a layout changes: a new version of the source table, or one clause of a DDL statement (design.md, rule 6).

Each function takes a layout and gives the next one, with a note for every decision that a person may ask about.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline import ddl
from pipeline.model.columns import DefaultKind
from pipeline.model.messages import EVER
from pipeline.model.names import confusable, folded, stored_column
from pipeline.model.source_types import SourceType, more_telling, rewrites
from pipeline.model.tidb_types import natural
from pipeline.model.types import DOUBLE, FLOAT, STRING, absorbs, decimal_parameters, widens
from pipeline.warehouse.layout import DDL_VERSION, Column, Conversion, Layout, LayoutByOffset, Version

if TYPE_CHECKING:
    from pipeline.ddl import Action
    from pipeline.model.columns import SchemaId, SourceColumn, TableVersion

STALE = -1
"""The number of a version that is older than the newest and was never seen before."""


@dataclass(frozen=True, slots=True)
class Note:
    """One line of `ddl_history`: what was done to which column, and why it may surprise."""

    action: str
    column: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the settings say about dropped columns."""

    keep_dropped_columns: bool = True


def meet(
    layout: Layout, version: TableVersion, policy: Policy, *, stale: bool = False
) -> tuple[Layout, tuple[Note, ...]]:
    """The layout after a message of `version` was met.

    A version that was seen before, or is `stale` (older than the newest seen), never changes what the table
    shows: its fields are matched to columns that can hold them, and what no column holds gets one that only the
    changes table has. The column of that name shows it converted: the rows of one partition may come so late.
    """
    seen_before = layout.version(version.version)
    if seen_before is not None:
        fits = not (layout.settled or stale) and _fits(layout, version)
        return (_settle(layout, version) if fits else layout), ()
    if stale:
        return _meet_stale(layout, version)
    return _meet_newest(layout, version, policy)


def meet_key(layout: Layout, version: TableVersion) -> Layout:
    """The layout after a key-only message: it says which columns are the handle, and nothing of the others."""
    if layout.version(version.version) is not None:
        return layout
    first = not layout.columns
    for field in version.columns:
        if layout.live(field.name) is None:
            layout, _ = add_column(layout, field, layout.head)
    fields = tuple((f.name, _live_id(layout, f.name)) for f in version.columns)
    mapped = Version(version.version, layout.head, fields, key_only=True)
    layout = replace(layout, versions=(*layout.versions, mapped))
    return _with_handle(layout, version.handle) if first or layout.handle is None else layout


def _fits(layout: Layout, version: TableVersion) -> bool:
    """Whether the live columns are exactly the version's, under the same names and types that hold them."""
    live = [column for column in layout.columns if column.live]
    pairs = [(layout.live(field.name), field) for field in version.columns]
    return len(live) == len(pairs) and all(c and _holds(layout, c, f) for c, f in pairs)


def _holds(layout: Layout, column: Column, field: SourceColumn) -> bool:
    """Whether the column shows every value of the field as the source does: 1.1 as FLOAT is another DOUBLE."""
    shortened = (column.type, field.type) == (DOUBLE, FLOAT) and SourceType.of(column.source_type).name == "DOUBLE"
    return (absorbs(column.type, field.type) and not shortened) or _casts(layout, column, field)


def _casts(layout: Layout, column: Column, field: SourceColumn) -> bool:
    """Whether a DECIMAL column takes the field's values by cast: DECIMAL as text, without a number of digits."""
    as_text = (field.tidb_type, field.type) == ("DECIMAL", STRING)
    return as_text and _is_decimal(column) and _was_sent(layout, column)


def _is_decimal(column: Column) -> bool:
    return SourceType.of(column.source_type).name == "DECIMAL" and decimal_parameters(column.type) is not None


def _was_sent(layout: Layout, column: Column) -> bool:
    """Whether messages have had it as DECIMAL: of what a statement alone says, they say whether it is a text."""
    if any(column.id in version.columns for version in layout.versions):
        return True
    source = layout.column(column.conversions[0].source) if column.conversions else column
    return source.id != column.id and _is_decimal(source) and _was_sent(layout, source)


def _settle(layout: Layout, version: TableVersion) -> Layout:
    return _register(replace(layout, settled=True), version, layout.head)


def _meet_newest(layout: Layout, version: TableVersion, policy: Policy) -> tuple[Layout, tuple[Note, ...]]:
    number = layout.head if not layout.settled and _fits(layout, version) else layout.head + 1
    notes: list[Note] = []
    sent = {folded(field.name) for field in version.columns}
    for column in layout.columns:
        if column.live and folded(column.source) not in sent:
            layout, note = drop_column(layout, column.source, policy)
            notes.append(note)
    for field in version.columns:
        layout, added = _place(layout, field, number, first=not layout.versions)
        notes.extend(added)
    layout = _register(replace(layout, head=number, settled=True), version, number)
    return _with_handle(layout, version.handle), tuple(notes)


def _place(layout: Layout, field: SourceColumn, number: int, *, first: bool) -> tuple[Layout, tuple[Note, ...]]:
    column = layout.live(field.name)
    if column is None:
        layout, note = add_column(layout, field, number)
        return layout, () if first else (note,)
    if _holds(layout, column, field):
        source_type = more_telling(column.source_type, field.source_type)
        return layout.with_column(column.defined(field.tidb_type, source_type)), ()
    return change_type(layout, column, field, number)


def add_column(layout: Layout, field: SourceColumn, number: int) -> tuple[Layout, Note]:
    """A new column; a kept column that has its name makes way as `<name>__v<N>`."""
    layout, name = _with_room(layout, stored_column(field.name))
    column = replace(_fresh(layout, name, field, number), default=field.default)
    action = "default_unknown" if field.default.kind is DefaultKind.UNKNOWN else "add_column"
    return layout.with_column(column), Note(action, name, f"{field.type}, {_described(field)}")


def _fresh(layout: Layout, name: str, field: SourceColumn, number: int) -> Column:
    column = Column(layout.next_id(), name, field.name, field.type, field.tidb_type, added=number)
    return column.defined(field.tidb_type, field.source_type)


def _described(field: SourceColumn) -> str:
    match field.default.kind:
        case DefaultKind.LITERAL:
            return f"existing rows show {field.default.text!r}"
        case DefaultKind.UNKNOWN:
            return "the protocol does not carry the default exactly: existing rows show NULL"
    return "existing rows show NULL"


def drop_column(layout: Layout, source: str, policy: Policy) -> tuple[Layout, Note]:
    """The column stays, new rows show NULL in it; or it leaves the current table, by policy."""
    column = layout.live(source)
    if column is None:
        return layout, Note("ignored", source, "no such column")
    keep = policy.keep_dropped_columns
    dropped = replace(column, live=False, in_current=keep)
    return layout.with_column(dropped), Note("keep_column" if keep else "drop_column", column.name)


def let_leave(layout: Layout, earlier: Layout, shown: int) -> Layout:
    """Columns that were dropped by policy leave the current table as soon as publishing no longer needs them.

    A column is needed if a time after `shown` has it in the handle, or in what decides on a removed partition. A column
    that had left the current table in the `earlier` layout does not come back.
    """
    ends = [*(since for since, _ in layout.by_commit_ts.handles[1:]), EVER + 1]
    needed = {
        number
        for (_, key), end in zip(layout.by_commit_ts.handles, ends, strict=False)
        if end > shown
        for number in key
    }
    needed |= {
        number for removal in layout.by_commit_ts.removals if removal.at > shown for _, number, _ in removal.columns
    }
    needed -= {column.id for column in earlier.columns if not column.in_current}
    for column in layout.columns:
        if column.id in needed and not column.in_current:
            layout = layout.with_column(replace(column, in_current=True, leaves=True))
        elif column.leaves and column.id not in needed:
            layout = layout.with_column(replace(column, in_current=False, leaves=False))
    return layout


def rename_column(layout: Layout, source: str, name: str) -> tuple[Layout, Note]:
    """The column keeps its id and its rows under another name."""
    column = layout.live(source)
    if column is None:
        return layout, Note("ignored", source, "no such column")
    stored = stored_column(name)
    if confusable(stored) != confusable(column.name):
        layout, stored = _with_room(layout, stored)
    renamed = replace(column, name=stored, source=name)
    return layout.with_column(renamed), Note("rename_column", stored, f"was {column.name}")


def change_type(layout: Layout, column: Column, field: SourceColumn, number: int) -> tuple[Layout, tuple[Note, ...]]:
    """Widen in place where Iceberg can; else fork: a new column takes the name, old values are converted."""
    if widens(column.type, field.type):
        widened = replace(_modified(column, field, number), type=field.type)
        return layout.with_column(widened), (Note("widen", column.name, f"{column.type} to {field.type}"),)
    forked = layout.free_name(column.name)
    layout = layout.with_column(replace(column, name=forked, live=False))
    conversion = Conversion(number, column.id, field.source_type, column.source_type)
    fresh = replace(_fresh(layout, column.name, field, number), conversions=(conversion,))
    detail = f"{column.type} to {field.type}; old values stay in {forked}"
    layout = layout.with_column(fresh)
    if layout.handle and column.id in layout.handle:
        handle = tuple(fresh.id if key == column.id else key for key in layout.handle)
        layout = replace(layout, handle=handle)
    return layout, (Note("fork", column.name, detail),)


def _modified(column: Column, field: SourceColumn, number: int) -> Column:
    """The column under another definition, with a conversion where that gives older values another look."""
    old, new = column.source_type, field.source_type
    step = (Conversion(number, column.id, new, old),) if rewrites(old, new) else ()
    return replace(column, conversions=(*column.conversions, *step)).defined(field.tidb_type, new)


def apply_actions(
    layout: Layout, actions: tuple[Action, ...], commit_ts: int, policy: Policy
) -> tuple[Layout, tuple[Note, ...]]:
    """The layout after the column clauses of one DDL statement; a statement that was applied before changes nothing.

    What the text says holds until a message with the new schema comes, which may correct it: the protocol wins.
    """
    if commit_ts <= layout.ddl_at:
        return layout, ()
    if newest(layout) is None:  # the first version will carry what the statement did
        return replace(layout, ddl_at=commit_ts), ()
    number = layout.head + 1
    notes: list[Note] = []
    before = layout
    for action in actions:
        layout, made = _clause(layout, action, number, policy)
        notes.extend(made)
    if layout == before:
        return replace(layout, ddl_at=commit_ts), ()
    altered = replace(
        layout, head=number, ddl_at=commit_ts, altered_at=commit_ts, by_offset=LayoutByOffset(), settled=False
    )
    return altered, tuple(notes)


def exactly(actions: tuple[Action, ...], version: TableVersion) -> tuple[Action, ...]:
    """The actions of a statement, corrected by the `version` that it has made.

    This concerns the default of a TIMESTAMP that ADD COLUMN adds. The statement has it in the time zone of a session,
    and no message says which zone that is.
    """
    moments = [field for field in version.columns if SourceType.of(field.source_type).name == "TIMESTAMP"]
    defaults = {folded(field.name): field.default for field in moments if field.default.kind is DefaultKind.LITERAL}

    def with_default(action: Action) -> Action:
        if not isinstance(action, ddl.AddColumn) or action.column.default.kind is not DefaultKind.LITERAL:
            return action
        default = defaults.get(folded(action.column.name), action.column.default)
        return replace(action, column=replace(action.column, default=default))

    return tuple(map(with_default, actions))


def _clause(layout: Layout, action: Action, number: int, policy: Policy) -> tuple[Layout, tuple[Note, ...]]:
    match action:
        case ddl.AddColumn(column):
            if layout.live(column.name) is not None:
                return layout, ()
            layout, note = add_column(layout, column, number)
            return layout, (note,)
        case ddl.DropColumn(name):
            layout, note = drop_column(layout, name, policy)
            return layout, (note,)
        case ddl.RenameColumn(old, new):
            layout, note = rename_column(layout, old, new)
            return replace(layout, renamed=(*layout.renamed, (old, new))), (note,)
        case ddl.ModifyColumn(_, column):
            return _modify(layout, column, number)
    return layout, ()


def _modify(layout: Layout, field: SourceColumn, number: int) -> tuple[Layout, tuple[Note, ...]]:
    column = layout.live(field.name)
    if column is None:
        return layout, (Note("ignored", field.name, "no such column"),)
    if _is_decimal(column) and field.tidb_type.startswith("DECIMAL(") and field.type == STRING:
        field = replace(field, type=natural(field.tidb_type))  # also where its rows come as text
    if not _holds(layout, column, field):
        return change_type(layout, column, field, number)
    modified = _modified(column, field, number)
    rewritten = Note("rewrite", column.name, f"converted to {field.source_type}")
    return layout.with_column(modified), () if modified.conversions == column.conversions else (rewritten,)


def _with_room(layout: Layout, name: str) -> tuple[Layout, str]:
    """Who has the name makes way as `<name>__v<N>`; but a column that lives beside it in the source stays."""
    taken = layout.named(name)
    if taken is None:
        return layout, name
    if taken.live and folded(taken.name) != folded(name):
        return layout, layout.free_name(name)
    return layout.with_column(replace(taken, name=layout.free_name(taken.name))), name


def _meet_stale(layout: Layout, version: TableVersion) -> tuple[Layout, tuple[Note, ...]]:
    fields: list[tuple[str, int]] = []
    for field in version.columns:
        source = _source_today(layout, field.name)
        column = _holder(layout, source, field)
        if column is None:
            name = stored_column(field.name)
            name = layout.free_name(name) if layout.named(name) else name
            today = layout.live(source)
            column = replace(
                _fresh(layout, name, field, STALE), live=False, in_current=False, shown_in=today.id if today else None
            )
            layout = layout.with_column(column)
        fields.append((field.name, column.id))
    mapped = Version(version.version, STALE, tuple(fields))
    return replace(layout, versions=(*layout.versions, mapped)), ()


def _source_today(layout: Layout, name: str) -> str:
    """What a field of an older version is called today."""
    if layout.live(name) is None:
        for old, new in layout.renamed:
            name = new if folded(old) == folded(name) else name
    return name


def _holder(layout: Layout, source: str, field: SourceColumn) -> Column | None:
    """The column of this source name that can hold such values: the live one, else the newest that is not.

    One that takes them by cast comes after those that hold them as they are.
    """
    wanted = folded(source)
    named = [column for column in layout.columns if folded(column.source) == wanted]
    named.sort(key=lambda column: (column.live, column.added), reverse=True)
    as_sent = (column for column in named if absorbs(column.type, field.type))
    by_cast = (column for column in named if _casts(layout, column, field))
    return next(as_sent, None) or next(by_cast, None)


def _register(layout: Layout, version: TableVersion, number: int) -> Layout:
    fields = tuple((f.name, _live_id(layout, f.name)) for f in version.columns)
    others = tuple(v for v in layout.versions if v.version not in (version.version, DDL_VERSION))
    return replace(layout, versions=(*others, Version(version.version, number, fields)))


def _live_id(layout: Layout, name: str) -> int:
    column = layout.live(name)
    if column is None:
        raise AssertionError(f"{name} was just placed")
    return column.id


def _with_handle(layout: Layout, handle: tuple[str, ...] | None) -> Layout:
    if handle is None:
        return layout
    return replace(layout, handle=tuple(_live_id(layout, name) for name in handle))


def keyed_as(layout: Layout, version: TableVersion) -> Layout:
    """The layout with the handle of a version that was met, if all of its columns are live."""
    live = all(layout.live(name) for name in version.handle or ())
    return _with_handle(layout, version.handle) if live else layout


def surely_keyed(layout: Layout) -> Layout:
    """The layout of a table whose handle is all columns that are never NULL, without those that may be NULL here.

    Existing rows show NULL in a column that was added with a default which is not known exactly.
    """
    key = (layout.column(number) for number in layout.handle or ())
    sure = (column.id for column in key if column.added <= 1 or column.default.kind is not DefaultKind.UNKNOWN)
    return replace(layout, handle=tuple(sure))


def newest(layout: Layout) -> SchemaId | None:
    """The id of the newest version that a message carried."""
    ordered = sorted((v for v in layout.versions if not v.key_only), key=lambda version: version.number)
    return ordered[-1].version if ordered else None
