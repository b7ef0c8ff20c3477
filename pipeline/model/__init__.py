"""Source tables, warehouse types, names and the change frame: data that every other room speaks in."""
