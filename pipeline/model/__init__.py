"""Source tables, warehouse types, names and the change frame: data that every other room speaks in.

Other rooms use `names` (source and warehouse tables), `places` (streams, partitions, positions), `columns` (the
versions of a source table), `messages` (what a batch of records says), `change` (the columns of a change frame),
`types` and `tidb_types`, and `protocols` (the facts of each). Begin with `messages.Messages`.
"""
