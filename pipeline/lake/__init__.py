"""The warehouse as its catalog and metadata files describe it, for commands that only look: no Spark, no lock."""
