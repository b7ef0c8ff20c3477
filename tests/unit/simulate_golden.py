"""TiDB's own description of the golden tables, as tables of the simulator."""

import re

from pipeline.simulate.tables import SimulatedColumn, SimulatedTable, value_of


def tables_of(case):
    """The tables of a scenario by `schema.table`, as they were when TiDB first showed them."""
    found = {}
    for step in case.steps:
        for name, state in step.get("tables", {}).items():
            found.setdefault(name, _table(state))
    return found


def _table(state):
    columns = tuple(
        SimulatedColumn(c["name"], c["type"], c["nullable"], c["default"], virtual=c.get("generated") == "virtual")
        for c in state["columns"]
    )
    primary = re.search(r"PRIMARY KEY \(([^)]*)\)", state["ddl"])
    return SimulatedTable(
        state["schema"],
        state["table"],
        columns,
        _names(primary[1]) if primary else (),
        tuple(map(_names, re.findall(r"UNIQUE KEY `[^`]*` \(([^)]*)\)", state["ddl"]))),
        clustered="NONCLUSTERED" not in state["ddl"],
    )


def _names(text):
    return tuple(re.sub(r"\(\d+\)$", "", name).strip("`") for name in text.split(","))


def value_from(column, text):
    """A number, text or bytes of a message as the value that a driver would give."""
    kind = column.parsed
    if text is None or isinstance(text, bytes):
        return text
    if kind.name == "enum":
        return kind.members[int(text) - 1] if int(text) else ""
    if kind.name == "set":
        return ",".join(member for at, member in enumerate(kind.members) if int(text) >> at & 1)
    return column.normalise(value_of(kind, str(text)))
