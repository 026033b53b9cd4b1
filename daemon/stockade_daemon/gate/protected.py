"""Protected paths: files that no commit touches, whichever tool asks, whether they exist yet or not.

A pattern (patterns.py) binds the file, so it is compared with the real path, after links, and with every name that the
file has.
"""

import os
from typing import Final

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate import links
from stockade_daemon.gate.names import shown
from stockade_daemon.gate.patterns import Patterns
from stockade_daemon.gate.workspace import Workspace

# What git runs or obeys: writing these is running a program later, outside every sandbox. At any depth, because
# submodules and repositories within the workspace have their own.
ALWAYS: Final = (
    "**/.git/hooks",
    "**/.git/config",
    "**/.git/config.worktree",
    "**/.git/modules/**/hooks",
    "**/.git/modules/**/config",
)


class Protected:
    """The patterns in force for one session: ours and its profile's."""

    __slots__ = ("_patterns",)

    def __init__(self, patterns: tuple[str, ...] = ()) -> None:
        self._patterns = Patterns((*ALWAYS, *patterns))

    def check(self, real: bytes, asked: bytes) -> None:
        """Raises GateRefusal FS_PROTECTED where the path, as asked for or after links, or one above it is protected."""
        pattern = self._patterns.match(real) or self._patterns.match(asked)
        if pattern is not None:
            raise _refusal(asked, f"is protected by {pattern!r}")

    def check_links(self, workspace: Workspace, status: os.stat_result, asked: bytes) -> None:
        """Refuses a file with several names where one of them is protected: it is the same file."""
        for name in links.names(workspace, status):
            if self._patterns.match(name) is not None:
                raise _refusal(asked, f"is another name of {shown(name)}, which is protected")


def _refusal(asked: bytes, why: str) -> GateRefusal:
    return GateRefusal(
        "FS_PROTECTED", f"{shown(asked)} {why}. Leave it as it is; a person can change it outside the session."
    )
