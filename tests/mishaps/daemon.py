"""`stockaded` in which something happens to the disk at a named point of a commit; all else is the product's own.

    python -m tests.mishaps.daemon PLACE serve …

PLACE/next says what and where: {"point", "mishap", "file", "directory"}. It is removed when it has happened.
"""

import json
import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from stockade_daemon.__main__ import main
from stockade_daemon.gate import attributes, gate, publish, syscalls
from stockade_daemon.gate.temporary import Temporary
from tests.mishaps.disk import Disk

FILE_LIMIT: Final = 4096  # bytes that one file may have, once the limit is in force


class Injector:
    """Only within `publish`, in the thread that runs it."""

    def __init__(self, place: Path) -> None:
        self._next = place / "next"
        self._disk = Disk(place / "disk")
        self._state = Disk(place / "state")
        self._within = threading.local()

    def around_publish(self, real: Callable[..., str]) -> Callable[..., str]:
        def replacement(*arguments: Any) -> str:
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            self._within.publish = True
            try:
                happened: str = self.around("publish", real)(*arguments)
                return happened
            finally:
                self._within.publish = False
                # The limit is the process's: the ledger's file would not grow any more either.
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)

        return replacement

    def around(self, step: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def replacement(*arguments: Any, **named: Any) -> Any:
            if not getattr(self._within, "publish", False):
                return real(*arguments, **named)
            self._reach(f"before {step}")
            result = real(*arguments, **named)
            self._reach(f"after {step}")
            return result

        return replacement

    def _reach(self, point: str) -> None:
        try:
            wanted = json.loads(self._next.read_text())
        except FileNotFoundError:
            return
        if wanted["point"] != point:
            return
        self._next.unlink()
        match wanted["mishap"]:
            case "disk full":
                self._disk.fill()
            case "ledger full":
                self._state.fill()
            case "no inodes":
                self._disk.fill_inodes()
            case "file limit":
                resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            case "read-only":
                if (file := Path(wanted["file"])).exists():
                    file.chmod(0o444)
            case "vanished":
                self._disk.take_away(Path(wanted["directory"]))


def install(injector: Injector) -> None:
    """Replaces the functions that the points are around."""
    around = injector.around
    gate.publish = injector.around_publish(publish.publish)  # type: ignore[attr-defined]
    for owner, name, step in (
        (publish, "write_all", "write_all"),
        (publish, "overwrite", "overwrite"),
        (publish, "_standing", "standing"),
        (attributes, "carry", "carry"),
        (syscalls, "renameat2", "renameat2"),
        (Temporary, "__init__", "open"),
        (Temporary, "appear", "appear"),
        (Temporary, "publish_as", "publish_as"),
        (os, "fsync", "fsync"),
        (os, "mkdir", "mkdir"),
    ):
        setattr(owner, name, around(step, getattr(owner, name)))


if __name__ == "__main__":
    install(Injector(Path(sys.argv.pop(1))))
    main()
