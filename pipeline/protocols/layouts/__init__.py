"""Protocols whose rows show the layout of their table: names and types of columns, and which of them are the handle.

A layout is the version of the table. What a row does not show, members, precision and defaults, comes from the DDL
that was sent (`protocols.definitions`), where that agrees. Open is such a protocol, and so is Canal-JSON, but not in
files: there schema files describe the tables.
"""
