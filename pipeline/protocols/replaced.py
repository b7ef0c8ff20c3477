"""Arrow batches some of whose columns are replaced by values of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Parts = tuple[bytes | None, ...]

_BATCH_BYTES = 64 << 20
"""About so many bytes of new values go on at once."""


def replaced(batch: pa.RecordBatch, columns: Sequence[str], rows: Iterable[Parts]) -> Iterator[pa.RecordBatch]:
    """The batch in parts, with what `rows` has in place of these columns: a tuple for each row of the batch."""
    done: list[Parts] = []
    size, start = 0, 0
    for number, row in enumerate(rows, start=1):
        done.append(row)
        size += sum(len(part or b"") for part in row)
        if size >= _BATCH_BYTES or number == batch.num_rows:
            part = batch.slice(start, number - start)
            for name, values in zip(columns, zip(*done, strict=True), strict=True):
                place = part.schema.get_field_index(name)
                field = part.schema.field(place)
                part = part.set_column(place, field, pa.array(values, field.type))
            yield part
            done, size, start = [], 0, number
