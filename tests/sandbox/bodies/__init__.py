"""Bodies that run in place of the built-in tools, to be limited and counted."""
