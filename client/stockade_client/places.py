"""Paths of workspaces, as the daemon is told them. Nobody here looks whether they exist."""

import os

from stockade_client import wire
from stockade_client.errors import InvalidRequest


def workspace(path: str | os.PathLike[str]) -> str:
    """A workspace's absolute path. Raises InvalidRequest."""
    return wire.said(_absolute(wire.said(os.fspath(path), "the workspace")), "the workspace")


def _absolute(path: str) -> str:
    """Only made absolute: `..` behind a link means what the daemon's kernel says, not what the text says."""
    if path.startswith("/"):
        return path
    try:
        return os.path.join(os.getcwd(), path)
    except OSError as error:
        raise InvalidRequest(
            f"the workspace {path!r} counts from the current directory, which is gone ({error.strerror}); change to "
            "one that exists, or give an absolute path"
        ) from error
