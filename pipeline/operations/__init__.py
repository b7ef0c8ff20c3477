"""What a person asks of a warehouse between two batches.

`release` ends a hold, `redrive` brings rows and dead letters back, `whole_table_checks` judges tables as they are.
"""
