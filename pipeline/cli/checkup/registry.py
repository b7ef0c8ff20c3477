"""The schema registry of an Avro changefeed: does it answer, has it what the topics need, what would stop TiCDC."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pipeline.cli.checkup.findings import fine, note
from pipeline.cli.words import counted, some
from registry import subjects_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pipeline.cli.checkup.findings import Finding
    from registry import RegistryClient

HARMLESS = {"NONE", "FORWARD", "FORWARD_TRANSITIVE"}
"""Levels under which a registry takes whatever an ADD or DROP COLUMN makes of a schema, or all but little of it."""


def examined(client: RegistryClient, topics: Collection[str]) -> Iterator[Finding]:
    """`topics`: those that the settings ask for and that exist."""
    subjects = set(client.subjects())
    yield fine("registry", f"answers, {counted(len(subjects), 'subject')}")
    wanted = {topic: subjects_of(topic).value for topic in topics}
    without = sorted(topic for topic, subject in wanted.items() if subject not in subjects)
    if without:
        yield note(
            "registry", f"{len(without)} topics have no subject {some(f'{topic}-value' for topic in without)}",
            "no row was sent to them yet, or TiCDC was given another registry (the sink URI's schema-registry)",
        )  # fmt: skip
    mine = sorted(
        subject
        for topic in topics
        for subject in (subjects_of(topic).key, subjects_of(topic).value)
        if subject in subjects
    )
    if mine:
        yield from _compatibility(client, mine)


def _compatibility(client: RegistryClient, subjects: list[str]) -> Iterator[Finding]:
    levels = {subject: client.compatibility(subject) or "NONE" for subject in subjects}
    counted = ", ".join(f"{level}: {count}" for level, count in sorted(Counter(levels.values()).items()))
    strict = [subject for subject, level in levels.items() if level not in HARMLESS]
    if not strict:
        yield fine("compatibility", f"of the subjects: {counted}")
        return
    yield note(
        "compatibility",
        f"{counted}; a DDL that these subjects refuse stops the changefeed itself: {some(strict)}",
        'set them to NONE: PUT <registry>/config/<subject> {"compatibility": "NONE"}',
    )
