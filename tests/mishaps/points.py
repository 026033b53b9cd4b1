"""Where in a commit something happens, and what."""

from typing import Final

# Functions that a commit comes through, in the order of publish.py; something happens before or after each.
STEPS: Final = {
    "replace": ("publish", "open", "write_all", "carry", "fsync", "appear", "renameat2", "standing"),
    "create": ("publish", "mkdir", "open", "write_all", "fsync", "publish_as", "standing"),
    "in place": ("publish", "open", "write_all", "fsync", "overwrite"),
}
# What fills the disk or its table of inodes, ends what one process may write, changes the file or moves its directory.
MISHAPS: Final = ("disk full", "no inodes", "file limit", "read-only", "vanished")


def points(method: str) -> list[str]:
    """`before STEP` and `after STEP` of a method of publish.py, in order."""
    return [f"{when} {step}" for step in STEPS[method] for when in ("before", "after")]
