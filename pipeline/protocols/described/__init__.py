"""Protocols whose messages describe the versions of their tables; `protocol.py` is where to begin."""
