"""The same rows in each protocol, read with changes and current tables; one warm-up round, then in turn."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

import workload
from figures import Measured, differences, two_batches
from machine import cores
from progress import say
from throughput import Contest, Ours, details_of, ratios_of

if TYPE_CHECKING:
    from ground import Ground, Sizes
    from order_line import Truth

AVRO, CHANGES = "avro", "-changes"
PROTOCOLS = {AVRO: "avro", "simple": "simple", "open": "open-protocol", "canal": "canal-json"}
"""As the settings name them."""
SIDES = (*PROTOCOLS, "avro-changes", "canal-changes")
PAIRS = [("simple", AVRO), ("open", AVRO), ("canal", AVRO), ("canal-changes", "avro-changes")]
WHAT = {
    AVRO: "Avro, changes and current (side d of throughput)",
    "simple": "Simple in JSON, changes and current",
    "open": "Open, records of up to 16 rows, changes and current",
    "canal": "Canal-JSON with enable-tidb-extension, changes and current",
    "avro-changes": "Avro, changes only (side c of throughput)",
    "canal-changes": "Canal-JSON with enable-tidb-extension, changes only",
}


def run(ground: Ground, sizes: Sizes) -> Measured:
    """A topic of four partitions for each protocol, a warehouse of its own for each run, two batches each."""
    topics: dict[str, str] = {}
    truths: dict[str, Truth] = {}
    for name in PROTOCOLS:
        say(f"protocols: producing {sizes.rows:,} rows as {name}")
        topics[name], truths[name] = _produce(ground, sizes, name)
    records = {name: workload.records(ground.stack.bootstrap_servers, topic) for name, topic in topics.items()}
    with ExitStack() as workers:
        sides = {
            name: Ours(
                workers.enter_context(ground.worker("ours", f"protocols-{name}")),
                ground,
                topics[protocol],
                two_batches(records[protocol], workload.PARTITIONS),
                current=name in PROTOCOLS,
                protocol=PROTOCOLS[protocol],
            )
            for name in SIDES
            if (protocol := name.removesuffix(CHANGES))
        }
        contest = Contest(dict(sides), ground.folder, truths[AVRO], sizes.rows, case="protocols")
        for name, truth in truths.items():
            contest.mistakes += differences(f"rows of {name}", asdict(truths[AVRO]), asdict(truth))
        contest.rounds(sizes.runs)
    return _measured(contest, sizes, records)


def _produce(ground: Ground, sizes: Sizes, name: str) -> tuple[str, Truth]:
    stack = ground.stack
    if name == AVRO:
        return workload.produce(
            stack.bootstrap_servers, stack.registry_url, sizes.rows, prefix="protocols", processes=cores()
        )
    return workload.produce_by_cut(stack.bootstrap_servers, PROTOCOLS[name], sizes.rows, processes=cores())


def _measured(contest: Contest, sizes: Sizes, records: dict[str, int]) -> Measured:
    ratios = ratios_of(contest, PAIRS)
    figures = {f"protocols.{name}": found["ratio"] for name, found in ratios.items()}
    details = {
        "rows": contest.rows,
        "records": records,
        "sides": details_of(contest, WHAT),
        "ratios": ratios,
    }
    return Measured(figures, details, contest.mistakes, sizes.reduced("rows", "runs"))
