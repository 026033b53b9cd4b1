"""The files below a directory of the workspace in a stable order, each with whether it is ignored.

ripgrep walks twice at the same time: once with the rules of .gitignore, .ignore and .rgignore, once without. What only
the second walk has is ignored. Both are in the order of names as bytes, directory by directory, and come as a stream,
so a large tree takes no more memory than a small one. Links are not followed and not listed.
"""

from collections.abc import Generator
from contextlib import ExitStack

from stockade_worker.tools.ripgrep import Ripgrep

_ALWAYS = ("--sort=path", "--hidden", "--no-ignore-global")
_RULED = ("--no-require-git",)


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
            ruled = stack.enter_context(self._run(*_RULED))
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
        return Ripgrep(["--files", "--null", *_walk(self._start), *rules, "--", b"./" + at(self._start)])


def walk(start: bytes) -> tuple[str, ...]:
    """ripgrep's options for a walk that finds, in the same order, what `Listing` has and is not ignored."""
    return (*_walk(start), *_RULED)


def at(start: bytes) -> bytes:
    """A place as ripgrep is told it, behind `./`."""
    return b"" if start == b"." else start


def _walk(start: bytes) -> tuple[str, ...]:
    return _ALWAYS if b".git" in start.split(b"/") else (*_ALWAYS, "--glob=!.git")


def counted(number: int, what: str) -> str:
    """`3 files`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
