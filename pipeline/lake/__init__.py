"""The warehouse as its catalog and metadata files tell it, for commands that only look: no Spark, no lock."""
