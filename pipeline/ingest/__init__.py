"""The micro-batch: from a source's raw frame to tables that show it.

`batch.micro_batch` is the function to read first. Other rooms use `context` (what stays open), `spark_batch` and
`commit_ts_batch` (a batch by offset, by commit ts), `table_writer`, and `set_aside`.
"""
