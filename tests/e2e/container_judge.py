"""Runs inside a container, handed to its Python as text: the shop's tables there, against the shop itself.

Prints by table how many rows the shop has and what differs, as `ticdc-warehouse demo` compares them, and how often the
changes table has a change for each of its places in Kafka. The shop's dice fall the same on every day, but for moments.
"""

import collections
import itertools
import json
import sys
from dataclasses import replace

from pipeline.cli.quarantine import SetAsideRows
from pipeline.cli.simulate import _endless
from pipeline.demo import compare, quarantined_keys
from pipeline.lake.catalog import reader
from pipeline.model.change import POSITION
from pipeline.model.names import WarehouseName
from pipeline.settings import load
from pipeline.simulate import Shop, wall_clock

SEED, DIRTY = 7, 0.02
COLUMN_FROM = 2_000
"""How many transactions `simulate --continuous` counts the column's half way by."""


def worked(transactions, *, endless):
    """A shop after so many transactions."""
    shop = Shop(SEED, wall_clock, DIRTY)
    source = shop.transactions(transactions)
    if endless:
        source = itertools.islice((one for one in _endless(shop, COLUMN_FROM) if one.ddl is None), transactions)
    collections.deque(source, maxlen=0)
    return shop


def judged(table, rows, catalog, waiting):
    name = WarehouseName(table.schema, table.name)
    without = replace(table, columns=tuple(one for one in table.columns if not one.parsed.is_moment))
    found = catalog.table(name).scan().to_arrow().to_pylist()
    verdict = compare(without, rows, found, quarantined_keys(table, waiting))
    places = catalog.table(name.changes).scan(selected_fields=POSITION).to_arrow().to_pylist()
    often = collections.Counter(tuple(place.values()) for place in places)
    return {
        "rows": verdict.rows, "aside": verdict.set_aside, "differences": verdict.differences,
        "most": max(often.values(), default=0),
    }  # fmt: skip


def verdicts(transactions, *, endless):
    settings = load()
    shop, catalog = worked(transactions, endless=endless), reader(settings)
    waiting = SetAsideRows.read(settings).rows.to_pylist()
    return {
        table.full_name: judged(table, shop.database.rows(table.schema, table.name), catalog, waiting)
        for table in shop.database.tables()
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(verdicts(int(sys.argv[1]), endless=sys.argv[2:] == ["endless"])) + "\n")
