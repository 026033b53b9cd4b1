"""All that a tool author imports."""
