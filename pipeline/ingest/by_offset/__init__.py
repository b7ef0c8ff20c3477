"""The ordering by offset: a change is newer than what stands before it in its partition."""
