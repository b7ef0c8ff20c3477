"""The settings described: as JSON Schema, and as one line per key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file: dotted path, what it takes, its default as YAML (empty: required), its meaning."""

    path: str
    takes: str
    default: str
    meaning: str


def json_schema() -> dict[str, Any]:
    """Give the JSON Schema of the configuration file, with a description and a default for every key."""
    schema = Settings.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "ticdc-warehouse configuration"
    return schema


def described() -> tuple[Key, ...]:
    """Give every key of the file in its order; a section's keys stand where the section stands."""
    schema = json_schema()
    return tuple(_keys(schema, schema["$defs"], ""))


def _keys(section: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str) -> Iterator[Key]:
    required = section.get("required", ())
    for name, entry in section["properties"].items():
        if "$ref" in entry:
            yield from _keys(definitions[entry["$ref"].rpartition("/")[2]], definitions, f"{prefix}{name}.")
        else:
            default = "" if name in required else _yaml(entry["default"])
            yield Key(prefix + name, _takes(entry), default, entry["description"])
    if isinstance(further := section.get("additionalProperties"), Mapping):
        yield Key(f"{prefix}<property>", _takes(further), "none", "any property of the catalog, as Iceberg names it")


def _yaml(value: object) -> str:
    if value in (None, ""):
        return "none"
    written = json.dumps(value)
    return written[1:-1].replace('\\"', '"') if isinstance(value, str) else written


def _takes(entry: Mapping[str, Any]) -> str:
    """Say in words what a schema accepts."""
    if "anyOf" in entry:
        kinds = [one for one in entry["anyOf"] if one.get("type") != "null"]
        return " or ".join(_takes(one) for one in kinds)
    if "enum" in entry:
        return ", ".join(f"`{word}`" for word in entry["enum"])
    if entry["type"] == "array":
        return f"list of {_takes(entry['items'])}"
    if entry["type"] == "object":
        return f"map to {_takes(entry['additionalProperties'])}"
    if entry["type"] in {"integer", "number"}:
        return _NUMBERS[entry["type"]] + _bounds(entry)
    return _TEXTS.get(entry.get("format", ""), "text") if entry["type"] == "string" else "`true`, `false`"


def _bounds(entry: Mapping[str, Any]) -> str:
    words = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤"}
    bounds = [
        f"{sign} {entry[key]:g}" for key, sign in words.items() if key in entry and abs(entry[key]) < LARGEST_SHOWN
    ]
    return " " + ", ".join(bounds) if bounds else ""


LARGEST_SHOWN = 1 << 53
_NUMBERS = {"integer": "whole number", "number": "number"}
_TEXTS = {
    "path": "path",
    "password": "secret text",
    "host-port-list": "`host:port[,host:port]`",
    "kafka-topic": "topic names",
    "regex": "regular expression",
    "uri": "URL",
    "spark-duration": "duration, such as `10 seconds`",
    "iana-timezone": "time zone name",
    "name-template": "name, `{schema}` in it",
    "column-type": "type",
}
