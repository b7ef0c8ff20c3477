"""Iceberg tables: what changes are appended to, what is published, and the ledger of it.

Other rooms use `tables` and `pairs` (the table pairs), `layout` and `evolution` (columns over time), `changes`,
`current` and `advance` (append and publish), `records` (the tables of `_pipeline`), `state` (every key that is kept
with a table) and `maintenance`. Begin with `pairs.TablePair`.
"""
