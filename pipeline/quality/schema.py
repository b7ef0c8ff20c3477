"""What may stand in a suite: Great Expectations' expectations with their arguments, and the JSON Schema for editors.

Everything is taken from GX's registry, but for what that does not tell: which expectations mean something for changes
only when the whole table is seen, and which mean nothing here.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from great_expectations import expectations as _registers  # noqa: F401 - its import fills the registry
from great_expectations.expectations.registry import get_expectation_impl, list_registered_expectation_implementations

from pipeline.quality.compiled import COMPILED
from pipeline.quality.suites import CheckForm, SuiteForm

if TYPE_CHECKING:
    from collections.abc import Mapping

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Level(StrEnum):
    """What an expectation is judged on: each row by itself, the rows of a batch together, the current table."""

    ROW = "row"
    BATCH = "batch"
    TABLE = "table"


WHOLE_TABLE = frozenset(
    {
        "expect_column_distinct_values_to_contain_set",
        "expect_column_distinct_values_to_equal_set",
        "expect_column_proportion_of_unique_values_to_be_between",
        "expect_column_unique_value_count_to_be_between",
        "expect_column_values_to_be_unique",
        "expect_compound_columns_to_be_unique",
        "expect_table_row_count_to_be_between",
        "expect_table_row_count_to_equal",
        "unexpected_rows_expectation",
    }
)
"""A batch of changes may have a row many times, has as many as it happens to have, and may refer to rows that come into
another table a moment later."""

_NO_SPARK = "Great Expectations has it only for other engines than Spark"
_NO_ORDER = "rows of a table, and of a batch, have no order"
UNSUPPORTED: Mapping[str, str] = {
    "expect_column_values_to_be_dateutil_parseable": _NO_SPARK,
    "expect_column_values_to_be_decreasing": _NO_ORDER,
    "expect_column_values_to_be_increasing": _NO_ORDER,
    "expect_column_values_to_match_like_pattern": _NO_SPARK,
    "expect_column_values_to_match_like_pattern_list": _NO_SPARK,
    "expect_column_values_to_not_match_like_pattern": _NO_SPARK,
    "expect_column_values_to_not_match_like_pattern_list": _NO_SPARK,
    "expect_query_results_to_match_comparison": "it compares data sources of Great Expectations, and a suite has none",
    "expect_table_row_count_to_equal_other_table": "Great Expectations sees one table at a time in Spark",
}
"""Expectations that mean nothing here, and why."""

IGNORES_ROW_CONDITION = frozenset(
    {"expect_column_kl_divergence_to_be_less_than", "expect_column_pair_values_to_be_in_set"}
)
"""They take a `row_condition` and leave it out of some of their counts."""

OF_GX_ITSELF = frozenset(
    {
        "batch_id", "catch_exceptions", "condition_parser", "description", "id", "library_metadata", "meta", "metadata",
        "notes", "rendered_content", "result_format", "windows",
    }
)  # fmt: skip
"""Arguments of every expectation that decide nothing here."""


@cache
def known() -> tuple[str, ...]:
    """The expectations that a suite can hold, by name."""
    names = list_registered_expectation_implementations()
    return tuple(sorted(name for name in names if _is_gx(name) and name not in UNSUPPORTED))


def _is_gx(name: str) -> bool:
    return get_expectation_impl(name).__module__.startswith("great_expectations.")


def level(expectation: str) -> Level:
    """What an expectation is judged on."""
    if expectation in COMPILED:
        return Level.ROW
    return Level.TABLE if expectation in WHOLE_TABLE else Level.BATCH


@cache
def arguments(expectation: str) -> frozenset[str]:
    """The arguments of its own; what every check has (`mostly` …) stands beside it."""
    return frozenset(_fields(expectation)) - OF_GX_ITSELF - set(CheckForm.model_fields)


def takes(expectation: str, key: str) -> bool:
    """Whether `mostly` or `row_condition` means something for it."""
    if key == "row_condition" and expectation in IGNORES_ROW_CONDITION:
        return False
    return key in _fields(expectation)


def _fields(expectation: str) -> Any:
    fields: Any = getattr(get_expectation_impl(expectation), "__fields__")  # noqa: B009 - pydantic's, unknown to types
    return fields


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a suite file."""
    suite, definitions = SuiteForm.model_json_schema(), dict[str, Any]()
    check = CheckForm.model_json_schema()
    definitions |= check.pop("$defs", {})
    for name in known():
        check["properties"][name] = _schema(name, definitions)
    check |= {"oneOf": [{"required": [name]} for name in known()], "title": "Check"}
    check["description"] = "one expectation with its arguments, and what follows from it"
    for key in ("table", "private"):
        entry = suite["properties"][key]
        many = {"type": "array", "items": {"type": "string"}}
        several = many | {"minItems": entry["minItems"]} if "minItems" in entry else many
        kept = {one: entry[one] for one in ("title", "description", "default") if one in entry}
        suite["properties"][key] = kept | {"anyOf": [{"type": "string"}, several]}
    suite["properties"]["checks"]["items"] = {"$ref": "#/$defs/Check"}
    suite["description"] = "what is expected of a table"
    suite["title"] = "ticdc-warehouse suite"
    return {"$schema": DIALECT, **suite, "$defs": dict(sorted({**definitions, "Check": check}.items()))}


_SHOWN = {
    Level.ROW: "Judged row by row, in every batch.",
    Level.BATCH: "Judged on the rows of a batch together, now and then; it cannot quarantine.",
    Level.TABLE: "Judged on the current table by `checks run`; it cannot quarantine.",
}


_OWN = {
    "value_set": {"type": "array", "description": "the values; NULL is ignored in any case"},
    "quantile_ranges": {
        "type": "object",
        "properties": {
            "quantiles": {"type": "array", "items": {"type": "number"}},
            "value_ranges": {
                "type": "array",
                "items": {"type": "array", "items": {"type": ["number", "null"]}, "minItems": 2, "maxItems": 2},
            },
        },
        "required": ["quantiles", "value_ranges"], "additionalProperties": False,
        "description": "increasing quantiles, and for each the least and the largest value that it may have",
    },
    "value_pairs_set": {
        "type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2}, "description": "pairs of values",
    },
}  # fmt: skip
"""Where GX's own schema is narrower than what it takes."""


def _schema(expectation: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """An expectation's arguments, from GX's own schema; what that refers to goes into `definitions`."""
    gx_schema: dict[str, Any] = getattr(get_expectation_impl(expectation), "schema")()  # noqa: B009 - as above
    own = arguments(expectation)
    required = [key for key in gx_schema.get("required", ()) if key in own]
    properties = {
        key: _OWN.get(key) or _or_null(_modern(value), optional=key not in required)
        for key, value in gx_schema["properties"].items()
        if key in own
    }
    for name in _referred(properties):
        definitions[name] = _modern(gx_schema["definitions"][name])
    return {
        "description": _SHOWN[level(expectation)],
        "type": "object" if required else ["object", "null"],
        "properties": properties,
        "additionalProperties": False,
    } | ({"required": required} if required else {})


def _modern(entry: Any) -> Any:
    """An entry in the dialect of 2020: tuples, references; without the parameters that GX would fill in later."""
    if isinstance(entry, list):
        return [_modern(one) for one in entry]
    if not isinstance(entry, dict):
        return entry
    made = {key: _modern(value) for key, value in entry.items() if key != "default" or value is not None}
    if isinstance(made.get("items"), list):
        made["prefixItems"] = made.pop("items")
    if isinstance(made.get("$ref"), str):
        made["$ref"] = made["$ref"].replace("#/definitions/", "#/$defs/")
    if isinstance(made.get("anyOf"), list):
        made["anyOf"] = [one for one in made["anyOf"] if one != {"type": "object"}]
    return made


def _or_null(entry: dict[str, Any], *, optional: bool) -> dict[str, Any]:
    """Without a default it may be written as null, which GX's schema does not say."""
    if not optional or "default" in entry or not isinstance(entry.get("anyOf"), list):
        return entry
    return entry | {"anyOf": [*entry["anyOf"], {"type": "null"}]}


def _referred(entry: Any) -> set[str]:
    if isinstance(entry, list):
        return set().union(*map(_referred, entry))
    if not isinstance(entry, dict):
        return set()
    here = {str(entry["$ref"]).rpartition("/")[2]} if isinstance(entry.get("$ref"), str) else set()
    return here.union(*map(_referred, entry.values()))
