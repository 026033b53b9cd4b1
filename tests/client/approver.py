"""`stockade approve` as a command, and whoever sits in front of it: a person at a terminal, or a program at pipes."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

HANG_S = 60.0  # a hang detector
QUESTION = re.compile(rb"Yes to card ([0-9a-f]{8})\? ")


class Approver:
    """`stockade approve …`, and the end of it that a person or a program has."""

    def __init__(self, process: "subprocess.Popen[bytes]", reads: int, writes: int) -> None:
        self.process, self._reads, self._writes = process, reads, writes
        self.shown = b""
        self.all = b""  # for whoever reads of a failure

    def until(self, words: bytes) -> None:
        """Returns when the words were shown, and takes what was shown so far away."""
        while words not in self.shown:
            more = self._more()
            assert more, f"it ended without {words!r}: {self.shown!r}"
        self.shown = self.shown.partition(words)[2] if QUESTION.pattern != words else self.shown

    def question(self) -> tuple[str, bytes]:
        """Waits for the next question; the card that it names, and what was shown before it."""
        while (found := QUESTION.search(self.shown)) is None:
            assert self._more(), f"it ended without a question: {self.shown!r}"
        before, self.shown = self.shown[: found.start()], self.shown[found.end() :]
        return found[1].decode(), before

    def type(self, text: bytes) -> None:
        os.write(self._writes, text)

    def close(self) -> None:
        """Nobody types any more."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._writes)
        os.close(nowhere)

    def ended(self) -> int:
        while self._more():
            pass
        return self.process.wait(HANG_S)

    def _more(self) -> bytes:
        ready, _, _ = select.select([self._reads], [], [], HANG_S)
        assert ready, f"nothing comes any more, after {self.all!r}"
        try:
            more = os.read(self._reads, 4096)
        except OSError:  # EIO: nobody has the terminal open any more
            more = b""
        self.shown += more
        self.all += more
        return more


@contextmanager
def approving(environment: dict[str, str], *arguments: str, terminal: bool = False) -> Iterator[Approver]:
    if terminal:
        reads, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        writes, given, taken = reads, theirs, theirs
    else:
        given, writes = os.pipe()
        reads, taken = os.pipe()
    command = [sys.executable, "-m", "stockade_client", "approve", *arguments]
    with subprocess.Popen(command, env=environment, stdin=given, stdout=taken, stderr=taken) as process:
        for each in {given, taken}:
            os.close(each)
        try:
            yield Approver(process, reads, writes)
        finally:
            process.kill()
            for each in {reads, writes}:
                os.close(each)
