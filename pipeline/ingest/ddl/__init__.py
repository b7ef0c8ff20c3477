"""What DDL events do to tables."""
