"""Publishing without reading back (docs/decisions/011).

The files that an append has brought to the changes table are rows of the current table, too: the same columns under the
same field ids. So they are linked into the current table, and one RowDelta shows them together with position deletes
of the rows that must not show: those that the keys had before, and those in the new files that are not the last of
their key. Where few rows of a file show, these rows are written as a small file instead of the link (an excerpt).
"""
