"""Rows that were too large for a message (`large-message-handle-option`), as TiCDC would have sent them whole."""
