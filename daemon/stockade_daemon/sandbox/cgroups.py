"""Control groups of workers: one for each, below one of this daemon's, below the group that the daemon was started in.

Nothing outside that is touched: no process of ours or others' is moved but workers, and no group is looked into but
those whose name says that a daemon of this program made it. The name holds pid, start time and pid namespace of its
daemon, so the groups of a live daemon are told from those of a dead one whose pid was given out again.

Version 1 takes 7-11 ms for a process to join when none has for a while: `admit` and `remove` belong into a thread,
ahead of need.
"""

import asyncio
import errno
import itertools
import logging
import os
import re
import signal
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from stockade_daemon.sandbox import cgroup_v1, cgroup_v2
from stockade_daemon.sandbox.cgroup_files import Figures, Setting
from stockade_daemon.sandbox.cgroup_layout import LIMITING, Layout, layout
from stockade_daemon.values import Layer, Limits

_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"stockade-(\d+)-(\d+)-(\d+)-\d+\Z")
_numbers: Final = itertools.count(1)  # of the pools of this process
_PATIENCE: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # seconds between tries to remove


class Dialect(Protocol):
    """A version of control groups."""

    def settings(self, limits: Limits) -> tuple[Setting, ...]: ...

    def figures(self, directories: Mapping[str, Path]) -> Figures: ...


@dataclass(frozen=True, slots=True)
class Group:
    """The group of one worker: a directory for each controller, in version 2 the same one."""

    directories: Mapping[str, Path]
    dialect: Dialect

    @property
    def knows_memory(self) -> bool:
        return "memory" in self.directories

    def limit(self, limits: Limits) -> None:
        """Makes the directories and writes the limits. Raises OSError; then nothing is left."""
        try:
            for directory in sorted(set(self.directories.values())):
                directory.mkdir()
            for setting in self.dialect.settings(limits):
                if setting.controller in self.directories:
                    with suppress(FileNotFoundError) if setting.optional else _nothing():
                        write(self.directories[setting.controller] / setting.file, setting.text)
        except OSError:
            self.remove()
            raise

    def join(self, pid: int) -> None:
        """Puts a process in, and asks the kernel whether it is. Raises OSError."""
        if pid <= 0:  # gone already, or not in our pid namespace; the kernel takes 0 for whoever writes
            raise OSError(errno.ESRCH, f"the process to put into {self.directories} has no pid here")
        for directory in sorted(set(self.directories.values())):
            write(directory / "cgroup.procs", str(pid))
        text = Path(f"/proc/{pid}/cgroup").read_text()
        for directory in set(self.directories.values()):
            wanted = f"/{directory.parent.name}/{directory.name}"
            if not any(line.endswith(wanted) for line in text.splitlines()):
                raise OSError(errno.ESRCH, f"the process is not in the group {directory} although it was put there")

    def figures(self) -> Figures:
        return self.dialect.figures(self.directories)

    def remove(self) -> None:
        """Removes the group, waiting a little for its last process to be gone."""
        for directory in set(self.directories.values()):
            _remove(directory)


class Cgroups:
    """What this host lets the daemon do with control groups."""

    def __init__(self, base: Group | None, reason: str) -> None:
        self._base = base
        self._number = 0
        self.reason = reason  # why a controller is missing; empty where none is

    @classmethod
    @asynccontextmanager
    async def start(cls, *, wanted: bool = True) -> AsyncIterator["Cgroups"]:
        """Removes what dead daemons left, and makes this daemon's group. At the end it is removed.

        `wanted` is false in tests that show how things are without.
        """
        if not wanted:
            yield cls(None, "switched off")
            return
        base, reason = await asyncio.to_thread(_begin)
        if reason:
            _log.info("control groups: %s", reason)
        try:
            yield cls(base if base.directories else None, reason)
        finally:
            for directory in set(base.directories.values()):
                await asyncio.to_thread(_remove_with_workers, directory)

    def admit(self, pid: int, limits: Limits) -> Group | None:
        """A new group with these limits and this one process in it; None where there are no groups.

        Raises OSError; then no group is left.
        """
        if self._base is None:
            return None
        self._number += 1
        name = f"w{self._number}"
        directories = {controller: place / name for controller, place in self._base.directories.items()}
        group = Group(directories, self._base.dialect)
        group.limit(limits)
        try:
            group.join(pid)
        except OSError:
            group.remove()
            raise
        return group

    def layer(self, group: Group | None, failure: str = "") -> Layer:
        """The layer `cgroup` of a worker: held where all three limits are in force."""
        if group is None:
            return Layer("cgroup", False, failure or self.reason)
        held = [name for name in LIMITING if name in group.directories]
        if len(held) == len(LIMITING):
            return Layer("cgroup", True)
        return Layer("cgroup", False, f"in force for {' and '.join(held) or 'nothing'} only: {self.reason}")


def _begin() -> tuple[Group, str]:
    """This daemon's own group, with the controllers that could be had, and why others could not."""
    found = layout(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    if found is None:
        return Group({}, cgroup_v2), "the host mounts no control groups with the controllers memory, pids and cpu"
    name = f"stockade-{os.getpid()}-{_started(os.getpid())}-{_pid_namespace()}-{next(_numbers)}"
    group, reasons = _base_v1(found, name) if found.version == 1 else _base_v2(found, name)
    return group, "; ".join(reasons)


def _base_v1(found: Layout, name: str) -> tuple[Group, list[str]]:
    directories: dict[str, Path] = {}
    reasons = [f"the host mounts no controller {name}" for name in LIMITING if name not in found.own]
    for controller, own in found.own.items():
        sweep(own)
        try:
            # Controllers that are mounted together share the directory.
            (own / name).mkdir(exist_ok=True)
            directories[controller] = own / name
        except OSError as error:
            if controller in LIMITING:
                reasons.append(f"{controller}: {_said(error)}")
    return Group(directories, cgroup_v1), reasons


def _base_v2(found: Layout, name: str) -> tuple[Group, list[str]]:
    own = next(iter(found.own.values()))
    # A service manager that puts the daemon into a subgroup of what it has delegated leaves us the parent.
    places = [own, own.parent] if _delegated(own.parent) else [own]
    reasons = [f"the controller {each} is not delegated to {own}" for each in LIMITING if each not in found.own]
    for place in places:
        sweep(place)
        failed: dict[str, str] = {}
        for controller in found.own:
            try:
                _pass_on(place, controller)
            except OSError as error:
                failed[controller] = _said(error)
        wanted = [controller for controller in found.own if controller not in failed]
        if not wanted:
            reasons += [f"{controller}: {text}" for controller, text in failed.items()]
            continue
        base = place / name
        try:
            base.mkdir()
            for controller in wanted:
                _pass_on(base, controller)
        except OSError as error:
            with suppress(OSError):
                base.rmdir()
            reasons.append(_said(error))
            continue
        return Group(dict.fromkeys(wanted, base), cgroup_v2), [
            *(reasons if len(found.own) < len(LIMITING) else ()),
            *(f"{controller}: {text}" for controller, text in failed.items()),
        ]
    return Group({}, cgroup_v2), reasons


def _pass_on(place: Path, controller: str) -> None:
    """Lets the groups below have a controller."""
    control = place / "cgroup.subtree_control"
    if controller not in control.read_text().split():
        write(control, f"+{controller}")


def _delegated(place: Path) -> bool:
    """Whether the service manager has marked the group as left to its service (systemd.resource-control(5))."""
    for mark in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            return os.getxattr(place, mark) == b"1"
    return False


def _said(error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return (
            f"{error.filename}: the daemon's group holds processes, and a group with processes cannot have limited "
            "groups below it; start the daemon as a service with Delegate=yes and DelegateSubgroup=daemon"
        )
    if error.errno == errno.EROFS:
        return f"{error.filename} may not be written ({error.strerror}); mount the control groups writable"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{error.filename} may not be written ({error.strerror}); delegate the daemon's group to its user"
    return f"{error.filename}: {error.strerror}"


def sweep(place: Path) -> None:
    """Removes groups in `place` whose daemon is dead. Those of another pid namespace cannot be judged, and stay.

    Where nothing can be removed, nothing is waited for either.
    """
    if not os.access(place, os.W_OK):
        return
    try:
        names = os.listdir(place)
    except OSError:
        return
    for name in names:
        match = _NAME.match(name)
        if match is None or int(match[3]) != _pid_namespace() or _started(int(match[1])) == int(match[2]):
            continue
        _remove_with_workers(place / name)


def _remove_with_workers(base: Path) -> None:
    """Removes a daemon's group. A worker's may still be there: of a daemon that died, or whose making was given up."""
    with suppress(OSError):
        for name in os.listdir(base):
            if (base / name).is_dir():
                _remove(base / name)
    _remove(base)


def _remove(directory: Path) -> None:
    tick = threading.Event()  # never set: its wait is the pause between two tries
    for pause in (*_PATIENCE, 0.0):
        try:
            directory.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or not pause:
                _log.warning("the control group %s cannot be removed: %s", directory, error.strerror)
                return
        _end_members(directory)
        tick.wait(pause)


def _end_members(directory: Path) -> None:
    """Kills what is left in a group of a worker that has to be gone: nobody else's processes are in it."""
    with suppress(OSError):
        write(directory / "cgroup.kill", "1")  # version 2, since Linux 5.14
        return
    with suppress(OSError, ValueError):
        for pid in _members(directory):
            process = os.pidfd_open(pid)
            try:
                # Asked again, because the number may be another process's by now.
                if pid in _members(directory) and pid != os.getpid():
                    signal.pidfd_send_signal(process, signal.SIGKILL)
            finally:
                os.close(process)


def _members(directory: Path) -> list[int]:
    return [int(line) for line in (directory / "cgroup.procs").read_text().split()]


def _started(pid: int) -> int:
    """When a living process was started, in clock ticks since boot (proc_pid_stat(5)); -1 where there is none.

    A zombie is dead: whoever has to wait for it may never do so.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return -1 if state in "ZX" else int(fields[18])
    except (OSError, ValueError, IndexError):
        return -1


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def write(file: Path, text: str) -> None:
    """One write, as the kernel wants it; the file is not made. Raises OSError that names the file."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(file)) from error


@contextmanager
def _nothing() -> Iterator[None]:
    yield
