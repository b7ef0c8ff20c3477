"""Words of rows that are set aside, as `_pipeline.quarantine` and `_pipeline.dead_letters` have them."""

OPEN, FENCED = "open", "FENCED"
"""The status of a row whose end is not known, and the code of a later change of a key that is in quarantine."""
IN_COLUMN = "; column: "
"""What the message of a dead letter says before the column whose value could not be read."""
FILE_TRUNCATED = "FILE_TRUNCATED"
"""The code of what is left of a file behind its last whole record, if it is not the newest of its folder."""
