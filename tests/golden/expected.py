"""TiDB's own answers (`expected.json`) as the tables that the warehouse must hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from golden.values import CALENDAR, Cell, Column, Row, calendar, typed, warehouse_type

from registry import sanitise

if TYPE_CHECKING:
    from golden.corpus import GoldenCase

_TYPE = re.compile(r"(\w+)(?:\((.*)\))?( unsigned)?( zerofill)?", re.DOTALL)
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_NAMED = ("enum", "set")


@dataclass(frozen=True, slots=True)
class ExpectedTable:
    """One table of the warehouse: `name` is `namespace.table`, `key` serves whoever reads a difference."""

    source: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def types(self) -> dict[str, str]:
        """Warehouse type by column."""
        return {column.name: column.type for column in self.columns}


def tables_at_the_end(case: GoldenCase) -> dict[str, ExpectedTable]:
    """Every table that TiDB has at the end, by its source name."""
    return _tables(case, case.final)


def tables_after(case: GoldenCase, step: int) -> dict[str, ExpectedTable]:
    """Every table as it was after this step, which must be one at which TiDB's tables were dumped."""
    found = next(one for one in case.steps if one["step"] == step)
    return _tables(case, found["tables"])


def dumped_steps(case: GoldenCase) -> list[int]:
    """The steps at which TiDB's tables were dumped."""
    return [step["step"] for step in case.steps if "tables" in step]


def _tables(case: GoldenCase, dumps: dict[str, Any]) -> dict[str, ExpectedTable]:
    return {source: expected_table(case, source, dump) for source, dump in dumps.items()}


def stored_name(case: GoldenCase, name: str) -> str:
    """The name of a schema, table or column in the warehouse: TiCDC's Avro sanitises, the others send it as it is."""
    return sanitise(name) if case.protocol == "avro" else name


def expected_table(case: GoldenCase, source: str, dump: dict[str, Any]) -> ExpectedTable:
    """One dumped table. Virtual generated columns are not sent, or always as NULL."""
    described = {
        position: _column(case, raw["name"], raw["type"])
        for position, raw in enumerate(dump["columns"])
        if raw.get("generated") != "virtual" or _sends_virtual(case)
    }
    exact = dump.get("exact") or {}
    names = [raw["name"] for raw in dump["columns"]]
    rows = tuple(
        Row.of(
            {
                column.name: Cell(None)
                if dump["columns"][position].get("generated") == "virtual"
                else _cell(column, values[position], _exact(exact, names[position], number))
                for position, column in described.items()
            }
        )
        for number, values in enumerate(dump["rows"])
    )
    key = tuple(stored_name(case, raw["name"]) for raw in dump["columns"] if raw.get("key") == "PRI")
    name = ".".join(stored_name(case, dump[part]) for part in ("schema", "table"))
    return ExpectedTable(source, name, tuple(described.values()), key, rows)


def _sends_virtual(case: GoldenCase) -> bool:
    """Whether virtual columns stand in schemas and rows like any other, without their values."""
    return case.protocol == "avro" and case.new_architecture


def _exact(exact: dict[str, list[str | None]], name: str, number: int) -> str | None:
    return exact[name][number] if name in exact else None


def _column(case: GoldenCase, name: str, mysql_type: str) -> Column:
    match = _TYPE.fullmatch(mysql_type)
    assert match, mysql_type
    family, parameters, unsigned = match[1], match[2] or "", bool(match[3])
    kind = warehouse_type(family, unsigned=unsigned, parameters=parameters, decimals_as_text=case.decimals_as_text)
    members = tuple(one.replace("''", "'") for one in _MEMBER.findall(parameters)) if family in _NAMED else ()
    return Column(stored_name(case, name), family, kind, members)


def _cell(column: Column, raw: Any, exact: str | None) -> Cell:
    if raw is None:
        return Cell(None)
    if isinstance(raw, dict):
        return Cell(_bytes(column, bytes.fromhex(raw["hex"])))
    if column.family in CALENDAR:
        return calendar(column.family, raw)
    return Cell(typed(column.type, exact or raw))


def _bytes(column: Column, data: bytes) -> Any:
    if column.family != "bit":
        return data
    number = int.from_bytes(data, "big")
    return number if column.type == "bigint" else Decimal(number)
