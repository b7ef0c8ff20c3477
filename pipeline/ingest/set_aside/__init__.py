"""What a batch does not let into its tables: dead letters, pending rows, held tables, fenced changes."""
