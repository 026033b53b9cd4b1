"""The same function with the workspace in sight, read-only."""

from bodies.blind import run  # type: ignore[import-not-found]  # a package of its own inside

__all__ = ["run"]
