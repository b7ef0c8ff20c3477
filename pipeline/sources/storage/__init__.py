"""A storage changefeed: the files that TiCDC's storage sink writes (decision 008)."""
