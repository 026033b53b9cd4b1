"""Tools whose bodies are probes: they run in real workers, in place of the built-in tools."""
