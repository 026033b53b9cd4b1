"""Cards of what a command did, as a daemon sends them."""

from typing import Any, Final

_DIFFERENCE: Final = (
    "--- a/src/greet.py\n+++ b/src/greet.py\n@@ -1,2 +1,2 @@\n import sys\n-print('hello')\n+print('good day')\n"
)
EFFECTS: Final[list[dict[str, Any]]] = [
    {"path": "README.md", "change": "deleted", "kind": "file", "size": 812, "before": "b6" * 32},
    {
        "path": "src/greet.py",
        "change": "changed",
        "kind": "file",
        "size": 42,
        "before": "d1" * 32,
        "after": "d2" * 32,
        "added": 1,
        "removed": 1,
        "difference": _DIFFERENCE,
    },
    {"path": "src/logo.png", "change": "created", "kind": "file", "size": 48211, "after": "e7" * 32, "binary": True},
    {"path": "src/run.sh", "change": "metadata", "kind": "file", "mode": "0755", "before_mode": "0644"},
    {"path": "src/latest", "change": "created", "kind": "symlink", "target": "greet.py"},
    {"path": "doc/deep/new.txt", "change": "renamed", "kind": "file", "from": "old.txt", "size": 1234567},
    {"path": "data", "change": "replaced", "kind": "directory"},
]
COUNTS: Final = {"created": 2, "changed": 1, "deleted": 1, "renamed": 1, "replaced": 1, "metadata": 1}
DONE: Final[dict[str, Any]] = {
    "title": "Run make greeting",
    "tool": "shell",
    "session": "greeter",
    "workspace": "/srv/greeter",
    "profile": "dev",
    "profile_digest": "5d" * 32,
    "reason": "profile dev asks about effects",
    "arguments": {"command": "make greeting"},
    "lengths": {"command": {"characters": 13, "lines": 1}},
    "transaction": "7f" * 32,
    "counts": COUNTS,
    "files": 5,
    "bytes": 1283054,
    "effects": EFFECTS,
    "effects_total": 7,
    "left_out": [{"path": "log.sock", "why": "a socket"}],
    "complete": True,
    "tool_digest": "7a" * 32,
    "expires_ms": 0,
}
