"""What the settings say of the changefeed, against what its newest messages show.

`protocols.avro.assertions` checks what one value schema of Avro can show, also in a run. This module checks what no
single batch can show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.cli.checkup.findings import note, wrong
from pipeline.cli.wording import counted
from pipeline.model.messages import Ordering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.cli.checkup.findings import Finding
    from pipeline.protocols.images import OldImages

ABOUT = "changefeed"
TELLING_SECONDS = 10.0
"""Watermarks come more often than that: none in so long is not chance."""


@dataclass(frozen=True, slots=True)
class MessageSample:
    """The newest messages: how many; the longest time between the first and the last of a partition.

    `whole`: there are no older ones. `watermarks`: whether a watermark or a statement is among them.
    """

    messages: int
    seconds: float
    whole: bool
    watermarks: bool

    @property
    def is_telling(self) -> bool:
        """Whether watermarks would be among them, if there were any."""
        return self.whole or self.seconds >= TELLING_SECONDS

    def __str__(self) -> str:
        return f"the newest {counted(self.messages, 'message')} (within {self.seconds:,.0f} s)"


def watermarks(setting: bool | None, sample: MessageSample) -> Iterator[Finding]:  # noqa: FBT001 - a setting, as it stands
    """`changefeed.avro-enable-watermark` of an Avro changefeed. Without it TRUNCATE, DROP and RENAME do not arrive."""
    if sample.watermarks:
        if setting is False:
            yield note(
                ABOUT, "changefeed.avro-enable-watermark is false, but the messages have watermarks; they are applied",
                "set it to true, or check that this is the changefeed you mean",
            )  # fmt: skip
    elif not sample.is_telling:
        if setting:
            yield note(
                ABOUT, f"there is no watermark among {sample}: the time is too short to know whether TiCDC sends any",
                "run ticdc-warehouse doctor again when the changefeed is less busy",
            )  # fmt: skip
    elif setting:
        yield note(
            ABOUT, f"changefeed.avro-enable-watermark is true, but there is no watermark among {sample}; without "
            "watermarks TRUNCATE, DROP and RENAME never arrive",
            "check that the sink URI has it, with enable-tidb-extension=true (cdc cli changefeed query), and that "
            "this version of TiCDC has the setting (docs/reference/protocols/avro.md: Which versions)",
        )  # fmt: skip
    elif setting is None:
        yield note(
            ABOUT, f"no watermark among {sample}: TRUNCATE, DROP and RENAME do not arrive, and tables have no cuts",
            "add avro-enable-watermark=true to the sink URI; or, if you want it so, set "
            "changefeed.avro-enable-watermark: false (docs/reference/protocols/avro.md: What a changefeed without "
            "watermarks cannot tell)",
        )  # fmt: skip


def old_values(setting: bool | None, images: OldImages) -> Iterator[Finding]:  # noqa: FBT001 - a setting, as it stands
    """`changefeed.enable-old-value` of an Open changefeed. Updates without the row as it was look like inserts."""
    if setting is False:
        if images.updates:
            yield note(
                ABOUT, f"changefeed.enable-old-value is false, but {counted(images.updates, 'update')} of "
                f"{counted(images.rows, 'row')} carry old values; with this setting inserts are shown as upserts",
                "remove the setting: then a run can tell inserts from updates",
            )  # fmt: skip
    elif images.rows and not images.updates and (setting or images.bare_deletes):
        keys = ", and deletes carry only the key" if images.bare_deletes else ""
        yield note(
            ABOUT, f"none of {counted(images.rows, 'row')} carries old values{keys}: there are no updates among them, "
            "or the changefeed sends no old values, and a run would show its updates as inserts",
            "if there are updates among them, set changefeed: {enable-old-value: false}",
        )  # fmt: skip


def updates_without_old_values(images: OldImages) -> Iterator[Finding]:
    """Of a Simple changefeed, which has no setting that leaves them out."""
    if images.without:
        yield note(
            ABOUT, f"{counted(images.without, 'update')} of {counted(images.rows, 'row')} carry no old values: a run "
            "makes them dead letters",
            "TiCDC sends `old` in each update of Simple: find out what else writes to these topics, or filters them",
        )  # fmt: skip


def extension(earlier: Ordering | None, first: Ordering, newest: Ordering) -> Iterator[Finding]:
    """Of Canal-JSON: whether its rows have a commit ts (enable-tidb-extension), and what a run makes of it.

    `earlier`: the order in which the warehouse applies changes, None where no message has told it yet. `first` and
    `newest`: the orders that the messages would tell which doctor looks at, the first of them and the last.
    """
    if newest is (earlier or first):
        if newest is Ordering.BY_OFFSET:
            yield note(
                "changefeed", "rows have no commit ts: a run applies changes by offset, and you cannot read the tables "
                "as of a commit ts",
                "for consistent points set enable-tidb-extension=true in its sink URI, and begin a new warehouse "
                "behind the last row without it (source.starting_offsets)",
            )  # fmt: skip
    elif earlier is None:
        yield note(
            "changefeed", "some rows have a commit ts and some have none: the first that a run reads tell in which "
            "order it applies changes",
            "let the run begin behind the last row without a commit ts (source.starting_offsets), or read a new topic",
        )  # fmt: skip
    elif earlier is Ordering.BY_OFFSET:
        yield note(
            "changefeed", "its rows have a commit ts now; the warehouse applies changes by offset, as it has begun",
            "for consistent points begin a new warehouse behind the last row without a commit ts "
            "(source.starting_offsets)",
        )  # fmt: skip
    else:
        yield wrong(
            "changefeed", "some of its newest rows have no commit ts: each becomes a dead letter (COMMIT_TS_MISSING), "
            "since the warehouse applies changes by commit ts",
            "set enable-tidb-extension=true in its sink URI if it is not there, or begin a new warehouse",
        )  # fmt: skip
