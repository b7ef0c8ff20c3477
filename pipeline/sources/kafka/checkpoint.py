"""What Spark's checkpoint has planned, and whether the tables can continue with that (design.md, rule 3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pipeline.sources.kafka.offsets import from_json
from pipeline.sources.source import Planned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pipeline.model.places import Partition
    from pipeline.sources.kafka.offsets import KafkaState
    from pipeline.sources.source import Committed


def folder_of(checkpoint: Path) -> Path:
    """Spark's own part of a pipeline's checkpoint."""
    return checkpoint / "spark"


def planned_batch(folder: Path) -> Planned | None:
    """[start, end) of the newest batch that a checkpoint planned; None where there is none that can be read."""
    files = sorted((int(f.name), f) for f in (folder / "offsets").glob("[0-9]*") if f.name.isdigit())
    if not files:
        return None
    try:
        texts = [path.read_text().splitlines()[-1] for _, path in files[-2:]]
        offsets = [from_json(text) for text in texts]
    except (OSError, ValueError, IndexError, json.JSONDecodeError):
        return None
    return Planned(offsets[0] if len(offsets) > 1 else {}, offsets[-1])


def can_continue(planned: Planned | None, committed: Committed, state: KafkaState) -> bool:
    """Whether the tables can continue with what was planned, and Kafka still has it."""
    return planned is not None and agrees(planned, committed.of(state.topics)) and fits(planned, committed, state)


def agrees(
    planned: Planned,
    ends: Mapping[Partition, int],
) -> bool:
    """Whether the checkpoint's newest planned batch [start, end) is one that the tables can continue with.

    A checkpoint after the tables would read everything again, one ahead of them would skip records.
    """
    start, end = planned[:2]
    return all(start.get(partition, 0) <= reached <= end.get(partition, reached) for partition, reached in ends.items())


def fits(planned: Planned, committed: Committed, state: KafkaState) -> bool:
    """Whether Kafka still has, in the same topics, what the checkpoint planned: Spark may read it once more."""
    start, end = planned[:2]
    committed_ends = committed.of(state.topics)
    return all(
        partition in state.latest
        and state.earliest[partition] <= start.get(partition, reached)
        and reached <= state.latest[partition]
        and (partition in committed_ends or reached == 0 or not committed.ends)
        for partition, reached in end.items()
    )
