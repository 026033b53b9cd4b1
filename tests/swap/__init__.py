"""A directory that is a link out of the workspace every other moment, while the gate works in it."""
