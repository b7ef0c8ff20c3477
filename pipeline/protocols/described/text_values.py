"""What values are alike in protocols that send each as a text: Simple in JSON, CSV, and Canal-JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import types as t
from pipeline.model.text import Value, number_of
from pipeline.protocols.described.values import member_of, members_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.types import WarehouseType


_HALF, _WHOLE = 2**63, 2**64


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


class NumberedMembers(TextValues):
    """Texts; ENUM and SET are the numbers of their members. Where nobody has named these, they stay numbers."""

    def mask(self, sent: Column) -> Column:
        """The 64 bits of a SET."""
        number = number_of(sent, t.UNSIGNED_BIGINT)
        high = number >= F.lit(str(_HALF)).cast(t.UNSIGNED_BIGINT)
        signed = F.when(high, number - F.lit(str(_WHOLE)).cast(t.UNSIGNED_BIGINT)).otherwise(number)
        return signed.try_cast(t.BIGINT)

    def member(self, sent: Column, members: tuple[str, ...]) -> Value:
        """By its number."""
        return member_of(self.whole(sent, t.INT), members) if members else Value(sent)

    def members(self, sent: Column, members: tuple[str, ...]) -> Value:
        """By the number of their bits."""
        return members_of(self.mask(sent), members) if members else Value(sent)
