"""A small file system of a test's own, and what can be done to it."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from stockade_worker import kernel

DISK_KIB: Final = 1024
INODES: Final = 96

_CHUNK: Final = bytes(4096)


class Missing(Exception):
    """What this host does not give."""


def own_mounts() -> None:
    """Gives this process mounts that nobody else sees: by a mount namespace, as an ordinary user in a user namespace.

    Raises Missing. For a process that has one thread.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        kernel.unshare(kernel.CLONE_NEWNS | (kernel.CLONE_NEWUSER if uid else 0))
        if uid:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1\n")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1\n")
        kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    except OSError as error:
        what = "mount namespaces" if uid == 0 else "user namespaces for ordinary users"
        raise Missing(f"{what} ({error.strerror})") from error


def mount(place: Path, *, kib: int = DISK_KIB, inodes: int = INODES) -> None:
    """A small tmpfs at `place`, which goes with this process's mounts. Raises Missing."""
    place.mkdir()
    try:
        kernel.mount("tmpfs", str(place), "tmpfs", 0, f"size={kib}k,nr_inodes={inodes},mode=0700")
    except OSError as error:
        raise Missing(f"a tmpfs of one's own ({error.strerror})") from error


def unmount(place: Path) -> None:
    kernel.umount2(str(place))


class Disk:
    """Works beside the workspace, on the same file system: nothing of this is in the workspace."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._filler = root / "filler"
        self._gone = root / "gone"

    def fill(self) -> None:
        """Until not one more page can be had."""
        with open(self._filler, "ab", buffering=0) as filler:
            while True:
                try:
                    if filler.write(_CHUNK) < len(_CHUNK):
                        return
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    return

    def fill_inodes(self) -> None:
        self._filler.mkdir()
        for number in range(10 * INODES):
            try:
                (self._filler / str(number)).touch()
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return

    def take_away(self, directory: Path) -> None:
        with suppress(FileNotFoundError):
            directory.rename(self._gone)

    def restore(self, directory: Path) -> None:
        """Makes room again, and puts the directory back; what was made in its place meanwhile stays where it is."""
        if self._filler.is_dir():
            for each in self._filler.iterdir():
                each.unlink()
            self._filler.rmdir()
        self._filler.unlink(missing_ok=True)
        if self._gone.exists():
            if directory.exists():
                directory.rename(directory.with_name("made-meanwhile"))
            self._gone.rename(directory)
