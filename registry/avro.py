"""An Avro schema's JSON by its meaning: forms that Avro takes for one are one.

Registries and what stands before them print schemas anew, in Avro's Parsing Canonical Form in parts: a full name in
`name`, a namespace that is inherited, a primitive as `{"type": "string"}`, attributes in any order (Avro specification,
"Names", "Primitive Types", "Parsing Canonical Form for Schemas").
"""

from __future__ import annotations

from typing import Any, Final

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_TELLING: Final = frozenset({"connect.parameters", "logicalType"})
"""Attributes that make of a primitive more than it is: TiCDC's, and Avro's own. Of others Avro says to ignore them."""


def plain(schema: Any, namespace: str = "") -> Any:
    """The schema with bare primitives and with names apart from their namespaces. What is no schema stays what it is.

    `namespace`: that of the schema around it.
    """
    if isinstance(schema, list):
        return [plain(branch, namespace) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):
        return plain(kind, namespace) if len(schema) == 1 and isinstance(kind, list | dict) else schema
    if kind in PRIMITIVES:
        return schema if _TELLING & schema.keys() else kind
    return _named(schema, namespace) if kind in _NAMED else schema


def _named(schema: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The schema with its names split up: a dotted name is a full name, whatever `namespace` says."""
    named, own = dict(schema), schema.get("namespace", namespace)
    name = schema.get("name")
    if isinstance(name, str) and "." in name:
        own, _, named["name"] = name.rpartition(".")
    if own:
        named["namespace"] = own
    if isinstance(schema.get("fields"), list):
        inner = own if isinstance(own, str) else ""
        named["fields"] = [_field(field, inner) for field in schema["fields"]]
    return named


def _field(field: Any, namespace: str) -> Any:
    if not isinstance(field, dict) or "type" not in field:
        return field
    return field | {"type": plain(field["type"], namespace)}
