"""How Spark's Kafka source is asked for records: as a stream, or for given ranges once."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pipeline.model.places import RAW
from pipeline.sources.kafka.cluster import pattern_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.places import Partition, Range
    from pipeline.settings import Settings

_FETCHING = {
    "kafka.max.poll.records": "100000",
    "kafka.max.partition.fetch.bytes": "2097152",
    "kafka.fetch.max.wait.ms": "10",
}
"""How Spark's Kafka source is made to fetch; `source.options` may say otherwise.

After each poll it asks the broker for the ends of the partition, and forgets what was fetched and not polled: 500
records, Kafka's default, would throw most of every fetch away. At the end of a partition that question waits until a
fetch ends for which there is nothing yet: half a second by default.
"""


def stream_options(
    settings: Settings, starting_offsets: str, present: Collection[str], *, awaited: bool
) -> Mapping[str, str]:
    """Options of Spark's Kafka source. It fails on lost data: nothing is skipped in silence.

    `present`: the topics that exist. `awaited`: a listed one that comes while the stream runs is taken up then.
    """
    source = settings.source
    expression = pattern_of(settings)
    if expression is not None:
        chosen = {"subscribePattern": expression}
    elif awaited and set(source.topics) - set(present):  # `subscribe` fails on a topic that does not exist
        chosen = {"subscribePattern": "|".join(re.escape(topic) for topic in source.topics)}
    else:
        chosen = {"subscribe": ",".join(sorted(present))}
    return {
        "failOnDataLoss": "true",
        **_FETCHING,
        **source.options,
        **chosen,
        "kafka.bootstrap.servers": source.bootstrap_servers,
        "startingOffsets": starting_offsets,
        "maxOffsetsPerTrigger": str(source.max_offsets_per_trigger),
    }


def records(spark: SparkSession, settings: Settings, ranges: Mapping[Partition, Range]) -> DataFrame:
    """The records of these ranges [from, to) as the raw frame, read once."""
    partitions: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for partition, (start, end) in ranges.items():
        partitions.setdefault(partition.stream, []).append(partition.number)
        starts.setdefault(partition.stream, {})[str(partition.number)] = start
        ends.setdefault(partition.stream, {})[str(partition.number)] = end
    options = {
        **_FETCHING,
        **settings.source.options,
        "kafka.bootstrap.servers": settings.source.bootstrap_servers,
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }
    return spark.read.format("kafka").options(**options).load().select(*RAW)
