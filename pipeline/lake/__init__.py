"""The warehouse as its catalog and metadata files describe it, for commands that only look: no Spark, no lock.

Commands use `catalog` (a reader of tables), `table_metadata` (the table pairs), `consistent_points` (the cuts),
`pending` (what waits) and `schemas` (versions that were described). Begin with `catalog.reader`.
"""
