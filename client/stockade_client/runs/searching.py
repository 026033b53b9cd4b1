"""Searches texts for regular expressions in a process of its own: where a pattern takes longer than anybody waits, the
process is killed, and the run goes on. Python's `re` cannot be stopped otherwise, and keeps every thread waiting.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

LONGEST_S: Final = 60.0  # one search, also of an entry without a time of its own
_SHOWN: Final = 200  # characters of a pattern in a sentence

# Takes the lengths of pattern and text, then both; answers with a line: yes, no, or why it cannot be told. Where who
# started it is gone it ends, also in the middle of a search: `re` looks for signals.
PROGRAM: Final = """\
import os, re, signal, sys
def look(number, frame):
    if os.getppid() != int(sys.argv[1]):
        os._exit(1)
signal.signal(signal.SIGALRM, look)
signal.setitimer(signal.ITIMER_REAL, 1, 1)
read = sys.stdin.buffer.read
while lengths := read(16):
    pattern, text = (read(int.from_bytes(lengths[at:at + 8], "big")).decode("utf-8", "surrogatepass") for at in (0, 8))
    try:
        said = "no" if re.search(pattern, text, re.MULTILINE) is None else "yes"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    sys.stdout.buffer.write(ascii(said)[1:-1].encode()[:1000] + b"\\n")
    sys.stdout.buffer.flush()
"""


class Unsearched(Exception):
    """Whether it is found cannot be told; the text says why."""


class Searcher:
    """One search at a time; its process is started for the first one and lives as long as the block."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self._process: Process | None = None
        self.unfinished = ""  # the pattern that is being searched for, or was when the search was cancelled

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def found(self, pattern: str, text: str) -> bool:
        """Whether the pattern is found in the text; ^ and $ are at every line. Raises Unsearched."""
        self.unfinished = pattern
        said = b""
        try:
            async with asyncio.timeout(self._longest_s):
                said = await self._asked(pattern, text)
        except TimeoutError:
            self.unfinished = ""
            raise Unsearched(f"the search took longer than {self._longest_s:g} s; simplify it") from None
        finally:
            if not said.endswith(b"\n"):
                await self._end()
        self.unfinished = ""
        if not said:
            raise Unsearched("the process that searched was ended from outside")
        if said not in (b"yes\n", b"no\n"):
            raise Unsearched(said.decode().strip())
        return said == b"yes\n"

    async def _asked(self, pattern: str, text: str) -> bytes:
        if self._process is None:
            # Not of this terminal's foreground: a Ctrl-C that ended the search would look like a fault of the entry.
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-W", "ignore", "-c", PROGRAM, str(os.getpid())),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                start_new_session=True,
            )
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        parts = [each.encode("utf-8", "surrogatepass") for each in (pattern, text)]
        with suppress(ConnectionError):  # it is gone: that is read, too
            asked.writelines([*(len(each).to_bytes(8, "big") for each in parts), *parts])
            await asked.drain()
        return await answers.readline()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def quoted(pattern: str) -> str:
    """A pattern as it stands in a sentence."""
    text = json.dumps(pattern, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
