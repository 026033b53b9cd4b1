"""The outside writer: a formatter and a person's editor that know nothing of Stockade and keep a log of what they did.

    python -m tests.rivals.outsider WORKSPACE LOG SEED          until its standard input ends

It saves by rename, saves in place, makes files and removes them, without asking anybody. A rename is an exchange, so
that the log can say which bytes were displaced and not only which were expected to be. A line of the log is
{"path", "displaced", "in_place", "content"}: a digest, base64; null where there was, or is, no file; "displaced" is "?"
where the file that was opened to be written in place was another one than the one that had been read.
"""

import base64
import json
import os
import random
import select
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

from stockade_daemon.gate.syscalls import RENAME_EXCHANGE, RENAME_NOREPLACE, renameat2
from tests.rivals.history import UNKNOWN, digest_of
from tests.rivals.load import EARLY, LATER, LINES, line

PAUSE_S: Final = 0.06  # at most, between two saves
_TEMPORARY: Final = b".editor~"


class Outsider:
    def __init__(self, workspace: Path, log: TextIO, seed: str) -> None:
        self._workspace = workspace
        self._directory = os.open(workspace, os.O_PATH | os.O_DIRECTORY)
        self._log = log
        self._chance = random.Random(seed)
        self._count = 0

    def act(self) -> None:
        """One thing that a formatter or an editor does. What has vanished meanwhile is left alone."""
        kind = self._chance.choices(("rename", "in place", "create", "remove"), (10, 6, 2, 1))[0]
        path = self._chance.choice(LATER if kind in ("create", "remove") else (*EARLY, *LATER))
        with suppress(FileNotFoundError, FileExistsError):
            match kind:
                case "rename":
                    self._rename(path)
                case "in place":
                    self._in_place(path)
                case "create":
                    self._make("".join(self._line() for _ in range(LINES)).encode())
                    renameat2(self._directory, _TEMPORARY, path.encode(), RENAME_NOREPLACE)
                    self._note(path, None, self._made)
                case "remove":
                    # The name goes first, so that what is removed is what is logged.
                    renameat2(self._directory, path.encode(), _TEMPORARY, 0)
                    self._note(path, self._read(_TEMPORARY.decode()), None)
        with suppress(FileNotFoundError):
            os.unlink(_TEMPORARY, dir_fd=self._directory)

    def pause(self) -> float:
        return self._chance.random() * PAUSE_S

    def _rename(self, path: str) -> None:
        self._make(self._formatted(self._read(path)))
        renameat2(self._directory, _TEMPORARY, path.encode(), RENAME_EXCHANGE)
        self._note(path, self._read(_TEMPORARY.decode()), self._made)

    def _in_place(self, path: str) -> None:
        with open(self._workspace / path, "rb") as seen:
            before = seen.read()
            content = self._formatted(before)
            # Emptied and written, as `open(path, "w")` does; what somebody put there since is not what was read.
            target = os.open(self._workspace / path, os.O_WRONLY | os.O_TRUNC)
            try:
                os.write(target, content)
                same = os.fstat(target).st_ino == os.fstat(seen.fileno()).st_ino
            finally:
                os.close(target)
        self._note(path, before if same else UNKNOWN, content, in_place=True)

    def _formatted(self, content: bytes) -> bytes:
        """One line is other than it was, and no two results are the same."""
        lines = content.splitlines(keepends=True)
        at = self._chance.randrange(len(lines)) if lines else 0
        return b"".join([*lines[:at], self._line().encode(), *lines[at + 1 :]])

    def _line(self) -> str:
        self._count += 1
        return line("outsider", self._count)

    def _make(self, content: bytes) -> None:
        self._made = content
        (self._workspace / _TEMPORARY.decode()).write_bytes(content)

    def _read(self, path: str) -> bytes:
        return (self._workspace / path).read_bytes()

    def _note(self, path: str, displaced: bytes | str | None, content: bytes | None, *, in_place: bool = False) -> None:
        record = {
            "path": path,
            "displaced": digest_of(displaced) if isinstance(displaced, bytes) else displaced,
            "in_place": in_place,
            "content": None if content is None else base64.b64encode(content).decode(),
        }
        self._log.write(json.dumps(record) + "\n")
        self._log.flush()


def main(workspace: str, log: str, seed: str) -> None:
    with open(log, "a") as written:
        outsider = Outsider(Path(workspace), written, f"{seed}/outsider")
        while not select.select([sys.stdin], [], [], outsider.pause())[0]:
            outsider.act()


if __name__ == "__main__":
    main(*sys.argv[1:])
