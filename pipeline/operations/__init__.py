"""What a person asks of a warehouse between two batches: release a table, bring rows back, check whole tables."""
