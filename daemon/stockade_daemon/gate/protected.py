"""Protected paths: files that no commit touches, whichever tool asks, whether they exist yet or not.

A pattern binds the file, so it is compared with the real path, after links. A pattern without a slash matches a name at
any depth, one with a slash is anchored at the workspace; `*`, `?` and `[…]` stay within a name, `**` spans directories.
A pattern that matches a directory protects everything beneath it.
"""

import os
import re
from collections.abc import Iterator
from typing import Final

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate.names import encoded, shown

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
    """The patterns in force for one session."""

    __slots__ = ("_patterns",)

    def __init__(self, patterns: tuple[str, ...] = ()) -> None:
        self._patterns = [(pattern, _compiled(pattern)) for pattern in (*ALWAYS, *patterns)]

    def check(self, real: bytes, asked: bytes) -> None:
        """Raises GateRefusal FS_PROTECTED where the real path, or a directory above it, is protected."""
        parts = real.split(b"/")
        for end in range(1, len(parts) + 1):
            above = b"/".join(parts[:end])
            for pattern, compiled in self._patterns:
                if compiled.fullmatch(above):
                    raise _refusal(asked, f"is protected by {pattern!r}")

    def check_links(self, workspace: int, status: os.stat_result, asked: bytes) -> None:
        """Refuses a file with several names where one of them is protected: it is the same file.

        Looks at patterns without wildcards and at git's own places in the workspace's root; a second name that only
        a wildcard would match is not searched for.
        """
        for name in self._plain_names(workspace):
            try:
                other = os.stat(name, dir_fd=workspace, follow_symlinks=False)
            except OSError:
                continue
            if (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino):
                raise _refusal(asked, f"is another name of {shown(name)}, which is protected")

    def _plain_names(self, workspace: int) -> Iterator[bytes]:
        for pattern, _ in self._patterns:
            plain = pattern.removeprefix("**/").strip("/")
            if not re.search(r"[*?\[]", plain):
                yield encoded(plain)
        try:
            hooks = os.open(b".git/hooks", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=workspace)
        except OSError:
            return
        try:
            for name in os.listdir(hooks):
                yield b".git/hooks/" + os.fsencode(name)
        finally:
            os.close(hooks)


def _refusal(asked: bytes, why: str) -> GateRefusal:
    return GateRefusal(
        "FS_PROTECTED", f"{shown(asked)} {why}. Leave it as it is; a person can change it outside the session."
    )


def _compiled(pattern: str) -> re.Pattern[bytes]:
    parts = [part for part in encoded(pattern).split(b"/") if part not in (b"", b".")]
    if b"/" not in encoded(pattern).rstrip(b"/"):
        parts.insert(0, b"**")
    text = b""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == b"**":
            text += b"(?s:.+)" if last else b"(?:[^/]+/)*"
        else:
            text += _name(part) + (b"" if last else b"/")
    return re.compile(text)


def _name(part: bytes) -> bytes:
    """One name's pattern as a regular expression; a `[` that is never closed means itself."""
    text = b""
    at = 0
    while at < len(part):
        character = part[at : at + 1]
        at += 1
        if character == b"*":
            text += b"[^/]*"
        elif character == b"?":
            text += b"[^/]"
        elif character == b"[" and (end := part.find(b"]", at + 1 + (part[at : at + 1] in (b"!", b"^")))) > 0:
            inside = part[at:end].replace(b"\\", b"\\\\").replace(b"[", b"\\[")
            negated = inside[:1] in (b"!", b"^")
            text += b"[^/" + inside[1:] + b"]" if negated else b"[" + inside + b"]"
            at = end + 1
        else:
            text += re.escape(character)
    return text
