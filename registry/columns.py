"""TiCDC's Avro schemas, read as columns.

Written by `columns2AvroSchema` in TiCDC's pkg/sink/codec/avro: one record per table version, one field per
column, each with `connect.parameters` that name the TiDB type; then TiCDC's own fields, which have none. A registry may
give the text back in another form of the same schema (`registry.avro`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeGuard, cast

from pydantic_core import from_json

from registry.avro import PRIMITIVES, plain
from registry.errors import NotATicdcSchema

AvroType = Literal["int", "long", "float", "double", "string", "bytes", "boolean"]

MAX_TEXT: Final = 16 * 1024 * 1024
"""Characters. TiDB keeps a table's definition in one entry of at most 6 MB; `_ticdc_before` doubles it."""

MAX_FIELDS: Final = 4096 + 7
"""TiDB's largest table-column-count-limit, and TiCDC's own seven fields."""

BEFORE: Final = "_ticdc_before"
OPERATION: Final = "_tidb_op"
EXTENSION_FIELDS: Final[dict[str, AvroType]] = {
    OPERATION: "string",
    "_tidb_commit_ts": "long",
    "_tidb_commit_physical_time": "long",
}
CHECKSUM_FIELDS: Final[dict[str, AvroType]] = {
    "_tidb_row_level_checksum": "string",
    "_tidb_corrupted": "boolean",
    "_tidb_checksum_version": "int",
}

_OWN_FIELDS: Final = EXTENSION_FIELDS | CHECKSUM_FIELDS
_AVRO_TYPES: Final = frozenset({"int", "long", "float", "double", "string", "bytes", "boolean"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MEMBER_END: Final = re.compile(r"(?<!\\),")
_MAX_PRECISION: Final = 65
_MAX_SCALE: Final = 30
_MAX_BITS: Final = 64
"""Of a BIT, and so many members of a SET."""
_UNION_BRANCHES: Final = 2

_CARRIERS: Final[dict[str, frozenset[str]]] = {
    tidb_type: frozenset(avro_types.split())
    for tidb_type, avro_types in {
        "INT": "int long",
        "INT UNSIGNED": "int long",
        "BIGINT": "long",
        "BIGINT UNSIGNED": "long string",
        "FLOAT": "float double",  # double in older TiCDC
        "DOUBLE": "double",
        "DECIMAL": "bytes string",
        "BIT": "bytes",
        "TEXT": "string",
        "BLOB": "bytes",
        "ENUM": "string",
        "SET": "string",
        "JSON": "string",
        "DATE": "string",
        "DATETIME": "string",
        "TIMESTAMP": "string",
        "TIME": "string",
        "YEAR": "int long",
        "TIDBVECTORFLOAT32": "string",
    }.items()
}


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """One source column as its Avro field describes it."""

    name: str
    """Sanitised by TiCDC: `[A-Za-z_][A-Za-z0-9_]*`."""
    tidb_type: str
    """As sent, in upper case: `BIGINT UNSIGNED`, `TIDBVECTORFLOAT32`. A type of a later TiCDC passes too."""
    avro_type: AvroType
    nullable: bool
    null_first: bool
    """Whether the union is `["null", T]` and not `[T, "null"]` (a default). False if not nullable."""
    precision: int | None = None
    """With `scale`: DECIMAL in precise mode, up to (65,30). None in string mode and for every other type."""
    scale: int | None = None
    length: int | None = None
    """Bits of a BIT column, 1 to 64."""
    allowed: tuple[str, ...] = ()
    """Members of an ENUM or SET, unescaped (`members_of`)."""
    has_default: bool = False
    default: object = None
    """The JSON value as sent. Not data: bytes are base64, expressions are text, unsigned bigints wrap."""
    default_told: bool = True
    """Whether the schema has defaults at all. False: what gave the text back has left them out."""


@dataclass(frozen=True, slots=True)
class TicdcSchema:
    """One registered schema, of a key or of a value. Names are the sanitised ones."""

    namespace: str
    """The changefeed's namespace (newer TiCDC: its keyspace), mostly `default`."""
    schema_name: str
    table_name: str
    columns: tuple[AvroColumn, ...]
    """Source columns in wire order: the table's, or by column id when checksums are on."""
    fields: tuple[str, ...]
    """Every field in wire order, TiCDC's own included."""
    extension: bool
    """Whether `_tidb_op`, `_tidb_commit_ts` and `_tidb_commit_physical_time` are there."""
    checksums: bool
    before: bool
    """Whether `_ticdc_before` is there: null, or a `<table>_before` record of the same columns."""
    text: str
    operation: bool = False
    """Whether `_tidb_op` is there: with the extension, and without it where `before` is on."""


def read_schema(text: str) -> TicdcSchema:
    """Read a schema's JSON text. Raises NotATicdcSchema, and nothing else, whatever the text is."""
    record = _parse(text)
    namespace, schema_name = _namespace(record)
    fields = _fields(record)
    shows_defaults = not _without_defaults(fields)
    columns = tuple(_column(field, shows_defaults=shows_defaults) for field in fields if not _is_own(field))
    if not columns:
        raise _refusal("It has no column.")
    own = {field["name"] for field in fields if _is_own(field)}
    before = next((field for field in fields if field["name"] == BEFORE and BEFORE in own), None)
    if before is not None:
        _check_before(before, columns, shows_defaults=shows_defaults)
    return TicdcSchema(
        namespace=namespace,
        schema_name=schema_name,
        table_name=_name(record.get("name"), "The record's name"),
        columns=columns,
        fields=tuple(field["name"] for field in fields),
        extension=_has_all(own, EXTENSION_FIELDS, allowed_alone={OPERATION}),
        checksums=_has_all(own, CHECKSUM_FIELDS, allowed_alone=set()),
        before=before is not None,
        text=text,
        operation=OPERATION in own,
    )


def is_same(text: str, other: str) -> bool:
    """Whether two texts are of one schema: alike, or what is read from both is."""
    try:
        return text == other or replace(read_schema(text), text="") == replace(read_schema(other), text="")
    except NotATicdcSchema:
        return False


def members_of(allowed: str) -> tuple[str, ...]:
    r"""Split the `allowed` parameter of an ENUM or SET: joined by `,`, a comma inside a member is `\,`.

    TiCDC (`EscapeEnumAndSetOptions`) does not escape backslashes: a member that ends in one comes out as one
    with the next. It also writes `'` for `''` and for `\'`, which cannot be undone.
    """
    return tuple(member.replace("\\,", ",") for member in _MEMBER_END.split(allowed))


def _parse(text: str) -> dict[str, Any]:
    if len(text) > MAX_TEXT:
        raise _refusal(f"It has {len(text)} characters; a TiDB table needs at most {MAX_TEXT}.")
    try:
        record = from_json(text.encode(), allow_inf_nan=False)  # bounded depth, no lone surrogates
    except ValueError as error:
        raise _refusal(f"It is no JSON: {error}.") from error
    record = plain(record)
    if not _is_object(record) or record.get("type") != "record":
        raise _refusal("It is no Avro record.")
    return record


def _namespace(record: dict[str, Any]) -> tuple[str, str]:
    namespace = record.get("namespace")
    if not isinstance(namespace, str):
        raise _refusal("The record has no namespace.")
    changefeed, dot, schema_name = namespace.partition(".")
    if not dot:
        raise _refusal(f"The namespace {_shown(namespace)} has no part that names the schema.")
    return _name(changefeed, "The namespace's first part"), _name(schema_name, "The namespace's schema")


def _fields(record: dict[str, Any]) -> list[dict[str, Any]]:
    fields = record.get("fields")
    if not isinstance(fields, list) or len(fields) > MAX_FIELDS:
        raise _refusal(f"The record has no list of at most {MAX_FIELDS} fields.")
    seen: set[str] = set()
    for field in fields:
        if not _is_object(field):
            raise _refusal("A field is no object.")
        folded = _name(field.get("name"), "A field's name").lower()  # TiDB's column names ignore case
        if folded in seen:
            raise _refusal(f"The field {field['name']} stands there twice.")
        seen.add(folded)
    return fields


def _is_own(field: dict[str, Any]) -> bool:
    """Tell TiCDC's own fields from source columns that happen to have such a name: those have a TiDB type."""
    name, avro = field["name"], field.get("type")
    if name == BEFORE:
        return isinstance(avro, list) and any(_is_object(b) and b.get("type") == "record" for b in avro)
    return name in _OWN_FIELDS and avro == _OWN_FIELDS[name]


def _has_all(own: set[str], group: dict[str, AvroType], *, allowed_alone: set[str]) -> bool:
    present = own & group.keys()
    if present and present != group.keys() and present != allowed_alone:
        raise _refusal(f"Of the fields {', '.join(group)} it has only {', '.join(sorted(present))}.")
    return present == group.keys()


def _without_defaults(fields: list[dict[str, Any]]) -> bool:
    """Whether defaults were left out after TiCDC, which gives one to each field of its own and each nullable column."""
    always = (field for field in fields if isinstance(field.get("type"), list) or _is_own(field))
    return any("default" not in field for field in always)


def _check_before(field: dict[str, Any], columns: tuple[AvroColumn, ...], *, shows_defaults: bool) -> None:
    branches = field["type"]
    record = next(branch for branch in branches if _is_object(branch))
    if len(branches) != _UNION_BRANCHES or "null" not in branches:
        raise _refusal(f"{BEFORE} is no union of null and a record.")
    if tuple(_column(inner, shows_defaults=shows_defaults) for inner in _fields(record)) != columns:
        raise _refusal(f"The columns of {BEFORE} are not the columns of the record.")


def _column(field: dict[str, Any], *, shows_defaults: bool) -> AvroColumn:
    name = field["name"]
    avro, nullable, null_first = _branch(field)
    parameters = avro.get("connect.parameters")
    tidb_type = parameters.get("tidb_type") if _is_object(parameters) else None
    if not _is_object(parameters) or not isinstance(tidb_type, str) or not tidb_type:
        raise _untyped(name)
    tidb_type, avro_type = tidb_type.upper(), _avro_type(avro, name)
    if avro_type not in _CARRIERS.get(tidb_type, _AVRO_TYPES):
        raise _refusal(f"The field {name} is {tidb_type}, which is never sent as {avro_type}.")
    default = field.get("default")
    if isinstance(default, list | dict):
        raise _refusal(f"The default of the field {name} is no single value.")
    precision, scale = _decimal(avro, tidb_type, name)
    return AvroColumn(
        name=name,
        tidb_type=tidb_type,
        avro_type=avro_type,
        nullable=nullable,
        null_first=null_first,
        precision=precision,
        scale=scale,
        length=_length(parameters, name) if tidb_type == "BIT" else None,
        allowed=_allowed(parameters, tidb_type, name) if tidb_type in {"ENUM", "SET"} else (),
        has_default="default" in field,
        default=default,
        default_told=shows_defaults,
    )


def _branch(field: dict[str, Any]) -> tuple[dict[str, Any], bool, bool]:
    """Find the type that carries the value; whether it may be null; whether null comes first."""
    avro = field.get("type")
    if isinstance(avro, list):
        others = [branch for branch in avro if branch != "null"]
        if len(avro) == _UNION_BRANCHES and len(others) == 1 and _is_object(others[0]):
            return others[0], True, avro[0] == "null"
        if len(others) == 1 and isinstance(others[0], str) and others[0] in PRIMITIVES:
            raise _untyped(field["name"])
    elif _is_object(avro):
        return avro, False, False
    elif isinstance(avro, str) and avro in PRIMITIVES:
        raise _untyped(field["name"])
    raise _refusal(f"The field {field['name']} has no tidb_type: {_shown(avro)} is no type of TiCDC's.")


def _avro_type(avro: dict[str, Any], name: str) -> AvroType:
    avro_type = avro.get("type")
    if not isinstance(avro_type, str) or avro_type not in _AVRO_TYPES:
        raise _refusal(f"The field {name} has an Avro type that TiCDC never sends: {_shown(avro_type)}.")
    return cast("AvroType", avro_type)


def _decimal(avro: dict[str, Any], tidb_type: str, name: str) -> tuple[int | None, int | None]:
    precise = tidb_type == "DECIMAL" and avro["type"] == "bytes"
    logical = avro.get("logicalType")
    if not precise and logical is None:
        return None, None
    precision, scale = avro.get("precision"), avro.get("scale", 0)  # Avro: a scale that is not there is 0
    if not precise or logical != "decimal" or not _is_number(precision) or not _is_number(scale):
        raise _refusal(f"The field {name} is {tidb_type} with the logical type {_shown(logical)}.")
    if not (1 <= precision <= _MAX_PRECISION and 0 <= scale <= min(precision, _MAX_SCALE)):
        raise _refusal(f"The field {name} is DECIMAL({precision},{scale}), TiDB's largest is (65,30).")
    return precision, scale


def _length(parameters: dict[str, Any], name: str) -> int:
    length = parameters.get("length")
    if isinstance(length, str) and re.fullmatch("[1-9][0-9]?", length) and int(length) <= _MAX_BITS:
        return int(length)
    raise _refusal(f"The field {name} is BIT with the length {_shown(length)}, not 1 to {_MAX_BITS}.")


def _allowed(parameters: dict[str, Any], tidb_type: str, name: str) -> tuple[str, ...]:
    allowed = parameters.get("allowed")
    if not isinstance(allowed, str):
        raise _refusal(f"The field {name} does not say which members it has (allowed).")
    members = members_of(allowed)
    if tidb_type == "SET" and len(members) > _MAX_BITS:
        raise _refusal(f"The field {name} is a SET of {len(members)} members, TiDB's largest has {_MAX_BITS}.")
    return members


def _name(name: object, what: str) -> str:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise _refusal(f"{what} is {_shown(name)}, not a name as TiCDC forms it.")


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "…"  # noqa: PLR2004 - a line


def _untyped(name: str) -> NotATicdcSchema:
    return _refusal(
        f"The field {name} has no connect.parameters with a tidb_type.",
        "Check whether something else writes to this topic or subject. Check, too, whether the registry, or something "
        "in front of it, leaves out attributes that Avro itself does not know, as Avro's Parsing Canonical Form "
        "does: it has to keep them.",
    )


def _refusal(why: str, hint: str = "Does something else write to this topic or subject?") -> NotATicdcSchema:
    return NotATicdcSchema(
        "NOT_A_TICDC_SCHEMA",
        f"This is not a schema of TiCDC's Avro encoder. {why}",
        hint,
    )
