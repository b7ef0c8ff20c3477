"""Iceberg tables: what changes are appended to, what is published, and the ledger of it."""
