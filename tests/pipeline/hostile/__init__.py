"""Bodies that lie. They run in real workers, in place of the built-in tools."""
