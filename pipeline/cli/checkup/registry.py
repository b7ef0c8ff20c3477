"""The schema registry of an Avro changefeed: does it answer, has it what the topics need, what would stop TiCDC."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pipeline.cli.checkup.findings import fine, note
from pipeline.cli.wording import counted, some
from registry import subjects_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pipeline.cli.checkup.findings import Finding
    from registry import RegistryClient

NONE = "NONE"
"""The only level under which a registry takes whatever a DDL makes of a schema."""
BACKWARD = ("ADD COLUMN … NOT NULL without default", "NULL to NOT NULL", "INT to VARCHAR")
FORWARD = ("DROP of a NOT NULL column without default", "INT to BIGINT", "NOT NULL to NULL", "INT to VARCHAR")
REFUSED = {"BACKWARD": BACKWARD, "FORWARD": FORWARD, "FULL": tuple(dict.fromkeys((*BACKWARD, *FORWARD)))}
"""By level, what it refuses for example (docs/reference/registry.md, "Compatibility").

`_TRANSITIVE` ones look further back.
"""
_TRANSITIVE = "_TRANSITIVE"


def examined(client: RegistryClient, topics: Collection[str], every: Collection[str]) -> Iterator[Finding]:
    """`topics`: those that the settings ask for and that exist; `every`: all that Kafka shows, whoever they are of."""
    subjects = set(client.subjects())
    yield fine("registry", f"answers, {counted(len(subjects), 'subject')}")
    wanted = {topic: subjects_of(topic).value for topic in topics}
    without = sorted(subject for subject in wanted.values() if subject not in subjects)
    if without:
        yield note(
            "registry", f"no subject for {counted(len(without), 'topic')}: {some(without)}",
            "a topic with only DDL and watermarks needs none. Otherwise TiCDC has not sent a row there yet, or it "
            "uses another registry (the sink URI's schema-registry)", each=dict.fromkeys(without, ""),
        )  # fmt: skip
    of_topics = {subject for topic in every for subject in (subjects_of(topic).key, subjects_of(topic).value)}
    strays = sorted(subjects - of_topics)
    if strays:
        yield note(
            "registry", f"{counted(len(strays), 'subject')} without a topic that this user sees: {some(strays)}",
            "if the topics are gone: DELETE <registry>/subjects/<subject>; otherwise check whether TiCDC writes to "
            "another Kafka than source.bootstrap_servers", each=dict.fromkeys(strays, ""),
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
    general = client.rule() or NONE
    levels = {subject: client.rule(subject) or general for subject in subjects}
    held: dict[str, list[str]] = defaultdict(list)
    for subject, level in levels.items():
        held[level].append(subject)
    alike, every = f"{len(held[general]):,}", counted(len(subjects), "subject")
    sentence = f"the registry's own level is {general}; {alike} of {every} have it"
    others = (
        f"; {len(held[level]):,} {'has' if len(held[level]) == 1 else 'have'} {level}: {some(held[level])}"
        for level in sorted(held.keys() - {general})
    )
    yield fine("compatibility", sentence + "".join(others), each=levels)
    for level in sorted(level for level, those in held.items() if those and level != NONE):
        sentence = f"{level} (level of {some(held[level])}) {_refuses(level)}"
        yield note(
            "compatibility",
            f"{sentence}: such a DDL stops the changefeed itself at the first row after it",
            'to let every DDL pass: PUT <registry>/config/<subject> {"compatibility": "NONE"}',
        )


def _refuses(level: str) -> str:
    """What a level does to DDL, as a phrase."""
    refused = REFUSED.get(level.removesuffix(_TRANSITIVE))
    if refused is None:
        return "is a level that this version does not know, and may refuse DDL"
    against = ", also against versions before the last," if level.endswith(_TRANSITIVE) else ""
    return f"refuses{against} {', '.join(refused)}"
