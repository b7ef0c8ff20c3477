"""What functions of Java that read JSON have in common (`Json.java`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column

JSON = Path(__file__).with_name("Json.java")


def struct(fields: Mapping[str, str]) -> str:
    """The type of what such a function gives, as Spark's DDL writes it."""
    return f"struct<{', '.join(f'{name}: {kind}' for name, kind in fields.items())}>"


def joined(names: Iterable[str] | None) -> Column:
    """Names as such a function takes them (`Json.names`); NULL for None."""
    if names is None:
        return F.lit(None).cast("binary")
    texts = [name.encode() for name in names]
    return F.lit(b"".join([_number(len(texts)), *(_number(len(text)) + text for text in texts)]))


def _number(number: int) -> bytes:
    return number.to_bytes(4, "big")
