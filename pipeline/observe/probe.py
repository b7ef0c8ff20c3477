"""`python -m pipeline.observe.probe [URL [SECONDS]]`: whether a run does its work, by what its metrics say.

For a container's health check: exit code 0 or 1, and a sentence. That the address answers proves nothing: it does so
before the warehouse is open, which may be refused at each start. An operation is work, however long it takes.
"""

from __future__ import annotations

import sys
import time
import urllib.request
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from pipeline.observe.metrics import PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

URL = "http://127.0.0.1:9464/metrics"
PATIENCE = 100
"""Seconds that records may wait for a batch, or Kafka be away: ten triggers of the default, as the alerts allow."""
_ANSWER = 4


def trouble(text: str, now: float, patience: float = PATIENCE) -> str:
    """What is wrong with a run that has these metrics (Prometheus's text format) at this time; empty if it works."""
    values: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values.setdefault(sample.name.removeprefix(f"{PREFIX}_"), []).append(sample.value)
    if "dead_letters_total" not in values:
        return "the warehouse is not open: the run is starting, or was refused (its log says why)"
    if "operation_started_timestamp_seconds" in values:
        return ""
    silent = now - max(values.get("last_kafka_answer_timestamp_seconds", (now,)))
    if silent > patience:
        return f"Kafka has not answered for {silent:,.0f} s"
    lag = sum(values.get("consumer_lag_records", ()))
    operation = max(values.get("last_operation_timestamp_seconds", (0,)))
    if not lag or now - operation <= patience:
        return ""
    waits = f"{lag:,.0f} records wait, and"
    if "last_batch_timestamp_seconds" not in values:
        return f"{waits} no batch was ever committed"
    ago = now - max(values["last_batch_timestamp_seconds"])
    return f"{waits} the newest batch was committed {ago:,.0f} s ago" if ago > patience else ""


def main(words: Sequence[str]) -> int:
    """Ask a run; `words`: where its metrics are, and how long records or Kafka may be waited for."""
    url = words[0] if words else URL
    patience = float(words[1]) if len(words) > 1 else PATIENCE
    try:
        with urllib.request.urlopen(url, timeout=_ANSWER) as answer:  # noqa: S310 - the caller's own address
            wrong = trouble(answer.read().decode(), time.time(), patience)
    except OSError as error:
        wrong = f"{url} does not answer: {error}"
    sys.stdout.write(f"{wrong or 'it works'}\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
