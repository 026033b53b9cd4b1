"""What a command's effects are made of, from the survey to the commit. Frozen."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from stockade_daemon import json_text
from stockade_daemon.gate.names import body_of, shown
from stockade_daemon.looks import Shown
from stockade_daemon.values import Json

Kind: TypeAlias = Literal["file", "directory", "symlink", "fifo", "socket", "device"]
Change: TypeAlias = Literal["created", "changed", "deleted", "replaced", "renamed", "metadata"]
Do: TypeAlias = Literal["link", "take", "put", "swap", "write", "attributes", "meta"]

CHANGES: Final[tuple[Change, ...]] = ("created", "changed", "deleted", "replaced", "renamed", "metadata")


@dataclass(frozen=True, slots=True)
class Effect:
    """One name that is another afterwards, as it is shown and recorded."""

    path: bytes  # relative to the workspace
    change: Change
    kind: Kind  # of what is there afterwards; of a deleted name, of what was there
    size: int = 0  # bytes of a file: afterwards; of a deleted one, before
    mode: int | None = None  # permission bits afterwards; None: nothing is there, or a link
    before_mode: int | None = None
    source: bytes | None = None  # where it was before it was renamed
    target: bytes | None = None  # of a symbolic link
    before: str | None = None  # SHA-256 of a file's bytes, lower-case hex; None where there were none, or not looked at
    after: str | None = None
    held: bytes = b""  # where the new bytes are, below the upper directory; empty: there are none
    below: int = 0  # names in a directory that is new or gone
    inside: bool = False  # of a directory that is new as a whole

    def body(self) -> dict[str, Json]:
        """For records and cards: `path`, `change`, `kind`, `size` and what else there is to say."""
        body: dict[str, Json] = {**body_of("path", self.path), "change": self.change, "kind": self.kind}
        body["size"] = self.size
        for key, name in (("from", self.source), ("target", self.target)):
            if name is not None:
                body |= body_of(key, name)
        for key, mode in (("mode", self.mode), ("before_mode", self.before_mode)):
            if mode is not None:
                body[key] = f"{mode:04o}"
        for key, digest in (("before", self.before), ("after", self.after)):
            if digest is not None:
                body[key] = digest
        return body | {"names": self.below} if self.below else body


@dataclass(frozen=True, slots=True)
class Facts:
    """What tells whether something at a path is still what was looked at. Its ctime does not: a rename changes it."""

    inode: int
    mode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a transaction; whether it is done can be told from the disk.

    link    the file at `path` gets one more name, `held`
    take    what is at `path` goes to `held`, a free name of the area
    put     what is at `held` goes to `path`, which is free
    swap    both change places
    write   the bytes of `held` go into the file at `path`, whose own are copied to `kept` before
    attributes
            the extended attributes of `held` go onto what is at `path`; the old ones are on `kept`, an empty file
    meta    mode and mtime of what is at `path`
    """

    do: Do
    path: bytes  # relative to the workspace, when it is this step's turn
    held: bytes = b""  # relative to the area
    kept: bytes = b""
    expected: Facts | None = None  # of what is at `path` before
    inode: int = 0  # of what is to be at `path` afterwards
    before: tuple[int, int] = (0, 0)  # of meta: mode, mtime in nanoseconds (0: stays)
    after: tuple[int, int] = (0, 0)
    tree: bool = False  # a directory is moved
    guarded: bool = False  # of take and swap: a whole directory goes, and nothing in it may be newer than the mark


@dataclass(frozen=True, slots=True)
class Adopted:
    """What is to be done to what waits in the area before it gets its names."""

    held: bytes  # relative to the upper directory
    owner: tuple[int, int] | None  # None: as it is
    mode: int | None  # None: as it is
    marked: bool = False  # it has extended attributes of the overlay's


@dataclass(frozen=True, slots=True)
class Made:
    """How an overlay was made."""

    upper: str  # path of its upper directory, which nobody else can reach
    marks: str  # prefix of the extended attributes that are its own
    root_mode: int  # permission bits that the upper directory had at first
    worker_uid: int | None  # who owns what the worker made; None: the daemon's own user
    keeps_links: bool  # a change of a file with several names is told from another file in its place
    # What the overlay showed at first of directories of which a layer of its own had a repetition: by path, in hex.
    shown: Mapping[str, Shown] = field(default_factory=dict)
    # Directories that nobody could look into, and their permission bits, by path, in hex: whoever looks opens them.
    shut: Mapping[str, int] = field(default_factory=dict)
    orphans: str = ""  # name in `upper` of a directory of changed files that have no name there; empty: none


@dataclass(frozen=True, slots=True)
class Plan:
    """What committing would do, as the disk is now."""

    effects: tuple[Effect, ...] = ()
    steps: tuple[Step, ...] = field(default=(), repr=False)
    adopted: tuple[Adopted, ...] = field(default=(), repr=False)
    aside: tuple[tuple[bytes, bytes], ...] = ()  # within the area, before the first step: from, to
    dropped: tuple[bytes, ...] = ()  # relative to the upper directory: what is never committed
    left_out: tuple[tuple[bytes, str], ...] = ()  # path, and what of it is not committed
    reasons: tuple[tuple[bytes, str], ...] = ()  # path, and why somebody has to be asked about it
    touched: tuple[bytes, ...] = field(default=(), repr=False)  # also what is in directories that go or move

    shared: tuple[tuple[bytes, tuple[int, int]], ...] = ()  # path, device and inode of a file that has further names

    @property
    def digest(self) -> str:
        """SHA-256, lower-case hex, over all effects: what a yes is bound to."""
        return hashlib.sha256(json_text.dump([each.body() for each in self.effects])).hexdigest()

    @property
    def summary(self) -> str:
        """The first paths, for a sentence."""
        return summary(each.path for each in self.effects if not each.inside)


NEW: Final = b"new"  # in the area: the upper directory
OLD: Final = b"old"  # what was taken away, by number
APART: Final = b"apart"  # what is in directories that moved, by number
LINKS: Final = b"links"  # further names of files, by number


def above_of(path: bytes) -> bytes:
    """The directory that a path is in."""
    return path.rpartition(b"/")[0]


def summary(paths: Iterable[bytes], most: int = 5) -> str:
    found = [shown(each) or "." for each in paths]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def counted(effects: list[Effect]) -> list[Effect]:
    """With the number of names in each new directory."""
    counts: dict[bytes, int] = {}
    for each in effects:
        if each.inside:
            above = above_of(each.path)
            while above in counts or above:
                counts[above] = counts.get(above, 0) + 1
                above = above_of(above)
    return [
        replace(each, below=counts.get(each.path, 0)) if each.kind == "directory" and each.held else each
        for each in effects
    ]
