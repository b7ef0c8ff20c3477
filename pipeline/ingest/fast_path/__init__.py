"""Appending a large batch while it is read, because it looks like the one before."""
