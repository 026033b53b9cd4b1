"""Runs a command and fails if something of it is left afterwards.

    python tests/leaks.py [--after-next-start CMD] [--patience SECONDS] -- COMMAND [ARGUMENT]...

Left are, and counted: processes; mounts; files, directories and sockets in temporary places; cgroups. Only what the
command made counts, and that is told apart like this:

* Processes: this program is the reaper of everything below it (PR_SET_CHILD_SUBREAPER, prctl(2)), so whatever the
  command started stays its descendant, in other namespaces and after double forks too. Zombies do not count.
* Temporary files: the command gets a TMPDIR of its own, which must be empty at the end but for what other programs are
  known to keep there (`KEPT`). In the places that it shares with others, new names of the product count, unless a
  process that is not the command's has them open.
* Control groups: new ones of the product below the group that the command was started in, except of a daemon that
  lives and is not the command's.
* Mounts: new ones in the mount namespace that the command was started in, except of other known programs. (Other
  namespaces live only as long as a process in them, and processes are counted.)

With --after-next-start, CMD is run before files, sockets and cgroups are counted: after a `kill -9` nobody is left to
tidy up, and the next start does. Processes and mounts are counted before it, too.

Exit status: 1 and a list on standard error if something is left, else the command's own (128+n if signal n killed it).
"""

import argparse
import contextlib
import ctypes
import fnmatch
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PATIENCE_S: Final = 5.0  # for teardown that goes on after the command's exit
PR_SET_CHILD_SUBREAPER: Final = 36

# What other programs keep in TMPDIR on purpose: pytest its last runs, V8 its compile cache.
KEPT: Final = ("pytest-of-*", "node-compile-cache", "v8-compile-cache-*")
# How the product's own names begin, wherever it makes some.
OURS: Final = ("stockade", ".stockade")
# Below these places of the working directory new names of the product are not leaks.
CACHES: Final = frozenset(
    {".git", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "build", "dist"}
)
# Mounts that come and go with other programs.
FOREIGN_MOUNTS: Final = (
    "/run/user/",
    "/run/docker/",
    "/run/containerd/",
    "/run/credentials/",
    "/run/netns/",
    "/var/lib/docker/",
    "/var/lib/containers/",
    "/snap/",
    "/media/",
    "/proc/sys/fs/binfmt_misc",
)


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/self/mountinfo, proc_pid_mountinfo(5)."""

    identity: int
    point: str
    kind: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    mounts: frozenset[Mount]
    files: dict[str, str]
    sockets: frozenset[str]
    cgroups: frozenset[str]


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    become_reaper()
    with private_tmpdir() as tmpdir:
        environment = {**os.environ, "TMPDIR": tmpdir}
        before = snapshot()
        status = run(options.command, environment)
        left = [f"process {describe(pid)}" for pid in survivors(options.patience)]
        end(descendants())
        left += [f"mount {mount.point} ({mount.kind})" for mount in new_mounts(before)]
        if options.after_next_start:
            started = run(shlex.split(options.after_next_start), environment)
            if started != 0:
                left.append(f"the next start ended with status {started}: {options.after_next_start}")
            left += [f"process of the next start {describe(pid)}" for pid in survivors(options.patience)]
            end(descendants())
        left += leftovers(before, tmpdir, options.patience)
    for each in left:
        print(f"leaks: left behind: {each}", file=sys.stderr)
    if left:
        return 1
    print("leaks: nothing left behind", file=sys.stderr)
    return status


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="leaks.py", description="Run COMMAND; fail if something of it is left.")
    parser.add_argument("--after-next-start", metavar="CMD", help="run CMD before counting files and sockets")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_S, metavar="SECONDS", help="how long teardown may go on"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    options = parser.parse_args(arguments)
    if options.command[:1] == ["--"]:
        del options.command[0]
    if not options.command:
        parser.error("name the command after --")
    return options


@contextlib.contextmanager
def private_tmpdir() -> Iterator[str]:
    """What /tmp is to others. Everybody may use it: the command may change its uid."""
    directory = tempfile.mkdtemp(prefix="leaks-")
    try:
        os.chmod(directory, 0o1777)
        yield directory
    finally:
        # By rm, because a command may have left a tree that is deeper than Python's recursion.
        subprocess.run(["rm", "-rf", "--", directory], check=False)


def run(command: list[str], environment: dict[str, str]) -> int:
    """The command's exit status, 128+n where signal n ended it, 127 where it does not exist."""
    try:
        with subprocess.Popen(command, env=environment) as process:
            # Asked to end, it asks the command to: what that leaves is then still looked for.
            signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number))
            while True:
                try:
                    status = process.wait()
                    break
                except KeyboardInterrupt:  # the command has the same terminal, and ends in its own way
                    continue
    except OSError as error:
        print(f"leaks: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    return status if status >= 0 else 128 - status


# --- processes ---


def become_reaper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def descendants() -> list[int]:
    """Living processes below this one; zombies that are ours to reap are reaped on the way."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    children: dict[int, list[int]] = {}
    alive: set[int] = set()
    for pid in _pids():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(pid)
        if fields[0] not in "ZX":
            alive.add(pid)
    found: list[int] = []
    open_ends = [os.getpid()]
    while open_ends:
        for child in children.get(open_ends.pop(), []):
            open_ends.append(child)
            if child in alive:
                found.append(child)
    return sorted(found)


def survivors(patience: float) -> list[int]:
    """The processes that are still there when patience is at an end: each is waited for by its descriptor."""
    deadline = time.monotonic() + patience
    while (found := descendants()) and (rest := deadline - time.monotonic()) > 0:
        try:
            descriptor = os.pidfd_open(found[0])
        except ProcessLookupError:
            continue
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll(rest * 1000)
        finally:
            os.close(descriptor)
    return found


def end(pids: Iterable[int]) -> None:
    """Kills what was left, so that the next check does not count it again."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    survivors(PATIENCE_S)


def describe(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        name = command or "[" + Path(f"/proc/{pid}/comm").read_text(errors="replace").strip() + "]"
        namespace = os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return str(pid)
    elsewhere = "" if namespace == os.readlink("/proc/self/ns/mnt") else f", holds {namespace}"
    return f"{pid}: {name[:200]}{elsewhere}"


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


# --- everything else ---


def snapshot() -> Snapshot:
    return Snapshot(
        mounts=frozenset(_mounts()),
        files=dict(_files()),
        sockets=frozenset(_sockets()),
        cgroups=frozenset(_cgroups()),
    )


def new_mounts(before: Snapshot) -> list[Mount]:
    return sorted(
        (mount for mount in set(_mounts()) - before.mounts if not mount.point.startswith(FOREIGN_MOUNTS)),
        key=lambda mount: mount.point,
    )


def leftovers(before: Snapshot, tmpdir: str, patience: float) -> list[str]:
    """Files, sockets and cgroups. A foreign program may be just tidying up a name of its own: so more than one look."""
    deadline = time.monotonic() + patience
    tick = threading.Event()  # never set: its wait is the pause between two looks
    while True:
        left = _leftovers_now(before, tmpdir)
        if not left or time.monotonic() > deadline:
            return left
        tick.wait(0.2)


def _leftovers_now(before: Snapshot, tmpdir: str) -> list[str]:
    left = [f"file {path}" for path in _tree(tmpdir, passed_over=KEPT)]
    files = {path: top for path, top in _files() if path not in before.files}
    sockets = set(_sockets()) - before.sockets
    if files or sockets:
        held = _held_by_others()
        tops = {top for top in files.values() if any(each == top or each.startswith(top + "/") for each in held)}
        left += [f"file {path}" for path, top in sorted(files.items()) if top not in tops]
        left += [f"socket {path}" for path in sorted(sockets - held)]
    ours = {os.getpid(), *descendants()}
    cgroups = (each for each in set(_cgroups()) - before.cgroups if not _of_another_daemon(each, ours))
    left += [f"cgroup {path}" for path in sorted(cgroups)]
    return left


def _mounts() -> Iterator[Mount]:
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        fields = line.split(" ")
        kind = fields[fields.index("-") + 1]
        yield Mount(int(fields[0]), fields[4].encode().decode("unicode_escape", "replace"), kind)


def _files() -> Iterator[tuple[str, str]]:
    """Paths of the product in places that it shares with others, each with the top one that it lies below."""
    shared = ["/tmp", "/var/tmp", "/dev/shm", "/run", tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", "")]
    tops = ["/var/lib/stockade", os.path.expanduser("~/.local/state/stockade")]
    if os.environ.get("XDG_STATE_HOME"):
        tops.append(f"{os.environ['XDG_STATE_HOME']}/stockade")
    for directory in {os.path.realpath(each) for each in shared if each}:
        with contextlib.suppress(OSError):
            tops += [f"{directory}/{name}" for name in os.listdir(directory) if name.startswith(OURS)]
    for top in tops:
        if _can_be_ours(top):
            yield top, top
            yield from ((path, top) for path in _tree(top))
    for parent, directories, names in os.walk(os.getcwd()):
        directories[:] = [name for name in directories if name not in CACHES and not name.endswith(".egg-info")]
        for name in (*directories, *names):
            if name.startswith((".stockade", "stockade-")):
                yield f"{parent}/{name}", f"{parent}/{name}"


def _can_be_ours(path: str) -> bool:
    """Whether it exists, and a command of this user can have made it: who is not root makes no files of others."""
    try:
        return os.lstat(path).st_uid == os.geteuid() or os.geteuid() == 0
    except OSError:
        return False


def _tree(top: str, *, passed_over: tuple[str, ...] = ()) -> Iterator[str]:
    """All below `top`, except names directly in it that match. Not os.walk, which recurses; and a path longer than the
    kernel takes cannot be looked into, which is no matter, since what lies above it has been named by then."""
    places = [top]
    while places:
        place = places.pop()
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if place == top and any(fnmatch.fnmatch(entry.name, kept) for kept in passed_over):
                    continue
                yield entry.path
                if entry.is_dir(follow_symlinks=False):
                    places.append(entry.path)


def _sockets() -> Iterator[str]:
    """Names of the product among this network namespace's bound Unix sockets; abstract ones begin with @."""
    for path in _bound_sockets().values():
        if "stockade" in path and (path.startswith("@") or _can_be_ours(path)):
            yield path


def _bound_sockets() -> dict[str, str]:
    """By what /proc/PID/fd shows for them. (/proc/net/unix: eight columns, the last is missing where unbound)"""
    lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]
    rows = [line.split(maxsplit=7) for line in lines]
    return {f"socket:[{row[6]}]": row[7] for row in rows if len(row) == 8}


def _cgroups() -> Iterator[str]:
    """Groups of daemons, stockade-PID-START-NAMESPACE-NUMBER; a worker's lies below one, which cannot go before it."""
    for top in own_groups():
        for parent, directories, _ in os.walk(top):
            yield from (path for name in directories if "stockade" in name and _can_be_ours(path := f"{parent}/{name}"))


def own_groups() -> Iterator[str]:
    """Directories of the groups that this process is in, one for each hierarchy: it makes none elsewhere."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        fields = line.split(" ")
        kind, options = fields[fields.index("-") + 1], set(fields[-1].split(","))
        for _, names, path in groups:
            if (kind == "cgroup2" and not names) or (kind == "cgroup" and set(names.split(",")) <= options):
                root = fields[3].rstrip("/")
                yield fields[4] + (path.removeprefix(root) if path.startswith(root) else path).rstrip("/")


def _of_another_daemon(group: str, ours: set[int]) -> bool:
    """Whether the name at the end of the group's path gives pid and start time of a living process that is not the
    command's."""
    prefix, _, rest = os.path.basename(group).partition("-")
    words = rest.split("-")
    if prefix != "stockade" or len(words) != 4 or not all(word.isdecimal() for word in words):
        return False
    try:
        fields = Path(f"/proc/{words[0]}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return int(words[0]) not in ours and fields[19] == words[1]


def _held_by_others() -> set[str]:
    """Paths that processes which are not the command's have open, work in, or have bound."""
    ours = {os.getpid(), *descendants()}
    bound = _bound_sockets()
    held: set[str] = set()
    for pid in _pids():
        if pid in ours:
            continue
        with contextlib.suppress(OSError):
            for link in ("cwd", *(f"fd/{name}" for name in os.listdir(f"/proc/{pid}/fd"))):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/{link}")
                    held.add(bound.get(target, target))
    return held


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
