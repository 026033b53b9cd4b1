"""What a profile's name stands for: its file as it is now, or the last version of it that could be used.

Files are looked at each time and read again only where something differs: device, inode, size and times of the file
under that name in every directory, for every name of the chain, also where there is none. A program cannot set the
change time (inode(7)), so what was written since has another one, unless both happened within one tick of the file
system's clock. A file that was young when it was read is therefore read again, and parsed where its text differs.

An edit in place can be seen half done, and half a profile may allow more than the whole. So what has just changed is
left alone until it has been at rest for a moment; whoever asks, asks again.
"""

import os
import stat
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from stockade_daemon.errors import ConfigurationError, RequestError
from stockade_daemon.profiles import chain, read
from stockade_daemon.profiles.chain import File
from stockade_daemon.values import Profile

REST_S: Final = 0.1  # that a changed file must have been left alone
_REST_NS: Final = int(REST_S * 1e9)
_TRUSTED_S: Final = 2.0  # that files which look the same are taken for the same without being read
_STAMPS: Final = 5  # CLOCK_REALTIME_COARSE of clock_gettime(2), by which file systems stamp; `time` lacks the name
_YOUNG_NS: Final = 2_000_000_000  # the coarsest clock of a file system that Linux writes (two seconds, FAT)

Fault: TypeAlias = ConfigurationError | RequestError


@dataclass(frozen=True, slots=True)
class Standing:
    """What a name stands for at one time."""

    name: str
    number: int  # of the change that led to it: a larger one is later, whatever the name. 0: nobody ever had the name
    profile: Profile | None  # the last good version; None: there is none, or the file is gone
    # Why what lies there now cannot be used: ConfigurationError; RequestError NOT_FOUND, there is no file. None: the
    # file as it is now is `profile`.
    fault: Fault | None

    def usable(self) -> Profile:
        """The last good version. Raises the fault where there is none."""
        if self.profile is None:
            self.check()
        assert self.profile is not None
        return self.profile

    def check(self) -> None:
        """Raises the fault, if there is one: an error for each caller, as several may raise theirs at a time."""
        match self.fault:
            case RequestError() as gone:
                raise RequestError(gone.status, gone.message, code=gone.code)
            case ConfigurationError() as faulty:
                raise ConfigurationError(*(faulty.mistakes or (str(faulty),)))


# What tells a file from any other, and from itself before a change.
_Identity: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Mark:
    """Which files a name leads to."""

    paths: tuple[str, ...]  # where they would lie
    identities: tuple[_Identity, ...]
    changed_ns: int  # when the newest of them was; 0: there is none


@dataclass(frozen=True, slots=True)
class _Homes:
    """Which directories they lie in, whose those are and who may write there (trust.py)."""

    identities: tuple[_Identity, ...]
    changed_ns: int  # when a name in one of them was made or removed last


@dataclass(slots=True)
class _Known:
    homes: _Homes
    marks: dict[str, _Mark]
    found: dict[str, File | str]
    young: bool
    read_s: float  # when, by time.monotonic
    standing: Standing


class LastGood:
    """The profiles of some directories, by name. Its methods do file work and may be called from any thread."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}  # names that had a file once
        self._number = 0

    def names(self) -> list[str]:
        """The names that there are or were, sorted."""
        with self._lock:
            return sorted({*read.available(self._directories), *self._known})

    def look(self, name: str) -> Standing | None:
        """What the name stands for now. None: it has changed less than REST_S ago; ask again after that time."""
        with self._lock:
            return self._look(name, patient=True)

    def look_at_all(self) -> list[tuple[str, Standing | None]]:
        """The same for all names."""
        return [(name, self.look(name)) for name in self.names()]

    def take(self, name: str) -> Standing:
        """What the name stands for now, at rest or not."""
        with self._lock:
            standing = self._look(name, patient=False)
        assert standing is not None
        return standing

    def _look(self, name: str, *, patient: bool) -> Standing | None:
        known = self._known.get(name)
        if known is not None:
            # Writing through a mapping need not change a time (mmap(2)), so now and then the text itself is looked at.
            stale = time.monotonic() - known.read_s > _TRUSTED_S
            if not known.young and not stale and self._same(known):
                return known.standing
            again = _Reading(self._directories)
            again.repeat(known.found)
            if again.found == known.found:
                known.homes, known.marks, known.young = again.homes, again.marks, again.young
                known.read_s = again.read_s
                return known.standing
            if patient and again.restless:
                return None
        reading = _Reading(self._directories)
        profile: Profile | None = None
        fault: Fault | None = None
        try:
            profile = read.effective(chain.follow(reading.find(name), reading.find, found=True))
        except (ConfigurationError, RequestError) as error:
            fault = error.with_traceback(None)  # it is kept, and what it came through need not be
        if patient and reading.restless:
            return None
        if isinstance(fault, RequestError):
            # A name that is taken back is not brought back by a broken file: what was good before is forgotten.
            if known is None:
                return Standing(name, 0, None, fault)
        elif profile is None and known is not None:
            profile = known.standing.profile
        self._number += 1
        standing = Standing(name, self._number, profile, fault)
        self._known[name] = _Known(reading.homes, reading.marks, reading.found, reading.young, reading.read_s, standing)
        return standing

    def _same(self, known: _Known) -> bool:
        return _homes(self._directories).identities == known.homes.identities and all(
            _identities(mark.paths)[0] == mark.identities for mark in known.marks.values()
        )


class _Reading:
    """One reading of a chain: what was found under which name, and by which marks to know it again."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories
        # What is changed from now on has this time at least.
        self._begun_ns = time.clock_gettime_ns(_STAMPS)
        self.read_s = time.monotonic()
        self.homes = _homes(directories)
        self.marks: dict[str, _Mark] = {}
        self.found: dict[str, File | str] = {}  # a text: why there is none

    def find(self, name: str) -> File:
        """Raises RequestError NOT_FOUND, ConfigurationError."""
        # Before the text is read: of a change in between, the next look sees that something differs.
        paths = tuple(map(str, read.places(self._directories, name)))
        self.marks[name] = _Mark(paths, *_identities(paths))
        try:
            file = read.find(self._directories, name)
        except RequestError:
            self.found[name] = ""  # the error names files that do not matter here
            raise
        except ConfigurationError as error:
            self.found[name] = str(error)
            raise
        self.found[name] = file
        return file

    def repeat(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(RequestError, ConfigurationError):
                self.find(name)

    @property
    def young(self) -> bool:
        return any(mark.changed_ns >= self._begun_ns - _YOUNG_NS for mark in self.marks.values())

    @property
    def restless(self) -> bool:
        """Whether something changed a moment ago. A time that is still to come says nothing: a clock was set."""
        now = time.time_ns()
        # Where there is no file, somebody may be about to put one there.
        times = [mark.changed_ns or self.homes.changed_ns for mark in self.marks.values() if mark.paths]
        # A whole second is the stamp of a coarse clock: it says nothing of what was written within its tick.
        return any(0 <= now - each < (_REST_NS if each % 1_000_000_000 else _YOUNG_NS) for each in times)


def _homes(directories: Sequence[Path]) -> _Homes:
    identities: list[_Identity] = []
    changed_ns = 0
    for directory in directories:
        try:
            at = os.stat(directory)
        except OSError as error:
            identities.append((error.errno or 0,))
            continue
        identities.append((at.st_dev, at.st_ino, at.st_uid, at.st_mode))
        changed_ns = max(changed_ns, at.st_mtime_ns)
    return _Homes(tuple(identities), changed_ns)


def _identities(paths: tuple[str, ...]) -> tuple[tuple[_Identity, ...], int]:
    """Of the links under these names as well, where they are such; and when the newest was changed."""
    identities: list[_Identity] = []
    changed_ns = 0
    for path in paths:
        try:
            found = [os.lstat(path)]
            if stat.S_ISLNK(found[0].st_mode):
                found.append(os.stat(path))
        except OSError as error:
            identities.append((error.errno or 0,))
            continue
        for each in found:
            identities.append((each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns))
            changed_ns = max(changed_ns, each.st_ctime_ns)
    return tuple(identities), changed_ns
