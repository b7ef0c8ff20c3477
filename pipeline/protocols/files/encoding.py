"""What the encodings of files have in common: schema files describe versions, and rows follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.protocols.files.head import COLUMNS, statement
from pipeline.protocols.files.schema_messages import message_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

    from pipeline.model.columns import TableVersion


class FileEncoding:
    """See `Encoding`."""

    columns: tuple[str, ...] = COLUMNS
    ddl_closes = always_sends_before = describes_before = False

    @property
    def commit_time(self) -> Column | None:
        """The commit ts says it."""
        return None

    def key_rows(self, timezone: str) -> None:
        """A file has rows of any size."""

    def body(self) -> Column:
        """See `statement`."""
        return statement()

    def message(self, body: Any) -> Mapping[str, Any] | None:
        """A schema file as a message."""
        return message_of(body)

    def width(self) -> Column | None:
        """Names tell what a row has."""
        return None

    def checksum(self, version: TableVersion, after: Column, before: Column, timezone: str) -> Column | None:  # noqa: ARG002
        """There are none."""
        return None
