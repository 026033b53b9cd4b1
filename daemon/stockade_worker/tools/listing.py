"""The files below a directory of the workspace in a stable order, each with whether it is ignored.

ripgrep walks twice at the same time: once with the rules of .gitignore, .ignore and .rgignore, once without. What only
the second walk has is ignored. Both are in the order of names as bytes, directory by directory, and come as a stream,
so a large tree takes no more memory than a small one. Links are not followed and not listed.
"""

from collections.abc import Generator
from contextlib import ExitStack

from stockade_worker.tools.ripgrep import Ripgrep

_ALWAYS = ("--files", "--null", "--sort=path", "--hidden", "--no-ignore-global")


class Listing:
    """The files below `start`, a directory relative to the workspace (`.`: all of it).

    What lies in a directory `.git` is left out, unless `start` is in one.
    """

    def __init__(self, start: bytes) -> None:
        self._start = start
        self.unreadable = 0  # directories, when all has been listed

    def below(self, path: bytes) -> bytes:
        """A path of `files` as it is from `start` on."""
        return path if self._start == b"." else path[len(self._start) + 1 :]

    def files(self) -> Generator[tuple[bytes, bool], None, None]:
        """Paths relative to the workspace, each with whether it is ignored."""
        with ExitStack() as stack:
            ruled = stack.enter_context(self._run("--no-require-git"))
            every = stack.enter_context(self._run("--no-ignore"))
            names = ruled.names()
            wanted = next(names, None)
            for name in every.names():
                # A file may have come between the two walks; then the walks are brought together again by their order.
                while wanted is not None and wanted != name and wanted.split(b"/") < name.split(b"/"):
                    yield wanted.removeprefix(b"./"), False
                    wanted = next(names, None)
                ignored = wanted != name
                yield name.removeprefix(b"./"), ignored
                if not ignored:
                    wanted = next(names, None)
            while wanted is not None:
                yield wanted.removeprefix(b"./"), False
                wanted = next(names, None)
            every.end()
            self.unreadable = every.unreadable()

    def _run(self, *rules: str) -> Ripgrep:
        kept = () if b".git" in self._start.split(b"/") else ("--glob=!.git",)
        return Ripgrep([*_ALWAYS, *kept, *rules, "--", b"./" + (self._start if self._start != b"." else b"")])


def counted(number: int, what: str) -> str:
    """`3 files`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
