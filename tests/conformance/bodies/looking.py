"""The same function with the workspace in sight, read-only."""

from bodies.blind import run

__all__ = ["run"]
