"""What values are alike in protocols that send each as a text: Simple in JSON, and CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model import types as t
from pipeline.model.text import Value, number_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.types import WarehouseType


class TextValues:
    """See `Values`."""

    def whole(self, sent: Column, kind: WarehouseType) -> Column:
        """A signed whole number."""
        return sent.try_cast(kind)

    def unsigned(self, sent: Column) -> Column:
        """A whole number of 64 bits."""
        return number_of(sent, t.UNSIGNED_BIGINT)

    def real(self, sent: Column, kind: WarehouseType) -> Column:
        """FLOAT or DOUBLE, perhaps with an exponent."""
        return sent.try_cast(kind)

    def text(self, sent: Column) -> Column:
        """As it is."""
        return sent

    def sound(self, sent: Column) -> Value:
        """As it is: a record that is no UTF-8 has no head."""
        return Value(sent)
