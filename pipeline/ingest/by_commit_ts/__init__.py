"""The ordering by commit ts: all tables show one consistent point."""
