"""Asks the kernel what it gives to whoever starts this: `main` prints the answers as one JSON object and ends.

Started by the daemon with its own rights, because what matters is what that daemon may. Each question is asked by a
child of its own, which enters what it asks for and ends, so no answer depends on another and nothing stays.
"""

import ctypes
import errno
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from stockade_worker import idmap, kernel, legible, privileges, userns

_INSIDE = 1000
_worker: int | None = None
_STRANGER: Final = 1_999_999_000  # a uid for trying an id map: what no account has
_PR_GET_SECCOMP = 21
_SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
_SECCOMP_GET_ACTION_AVAIL = 2
_SECCOMP_RET_ERRNO = 0x00050000
_SECCOMP_RET_KILL_PROCESS = 0x80000000
# Calls without which no sandbox can be built, with the kernel that brought them; asked with arguments that are refused.
_CALLS: Final = {"openat2": (437, "5.6"), "fsopen": (430, "5.2"), "open_tree": (428, "5.2"),
                 "move_mount": (429, "5.2"), "mount_setattr": (442, "5.12"), "pidfd_open": (434, "5.3")}  # fmt: skip


def main() -> None:
    """Arguments: a host uid that templates have, or "-"; an empty directory that may be used up; the packages that
    workers import, as JSON; paths to id-map."""
    global _worker
    place, packages, paths = sys.argv[2], json.loads(sys.argv[3]), sys.argv[4:]
    root = os.geteuid() == 0
    _worker = None if sys.argv[1] == "-" else int(sys.argv[1])
    own = {name: _layers(f"{place}/{name}") for name in ("user", "root")}
    answers: dict[str, Any] = {
        "landlock": _landlock(),
        "calls": [f"{name} (Linux {since})" for name, (number, since) in _CALLS.items() if not _known(number)],
        "seccomp": _asked(_seccomp),
        "packages": _asked(partial(_packages, packages)),
        "user": _asked(_user),
        "mount": _asked(_mount),
        "proc": _asked(_proc),
        "time": _asked(_time),
        "overlay_user": _asked(partial(_overlay, own["user"], {"userxattr": None}, user=True)),
    }
    for name, flag in (("pid", kernel.CLONE_NEWPID), ("net", kernel.CLONE_NEWNET), ("ipc", kernel.CLONE_NEWIPC),
                       ("uts", kernel.CLONE_NEWUTS), ("cgroup_ns", kernel.CLONE_NEWCGROUP)):  # fmt: skip
        answers[name] = _asked(partial(_user, flag))
    if root:
        options: dict[str, str | None] = {"redirect_dir": "on", "index": "on"}
        answers["overlay_root"] = _asked(partial(_overlay, own["root"], options, user=False))
        answers["idmap"] = {path: _asked(partial(_idmap, path)) for path in paths}
    print(json.dumps(answers))


def _asked(question: Callable[[], None]) -> list[Any]:
    """[0, ""] where a child could do it, else the errno and the kernel's words."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        answer = json.dumps([errno.EIO, "the question itself failed"]).encode()
        try:
            question()
            answer = b'[0, ""]'
        except OSError as error:
            answer = json.dumps([error.errno or errno.EIO, error.strerror or str(error)]).encode()
        finally:
            os.write(writing, answer)
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as end:
        text = end.read()
    os.waitpid(pid, 0)
    answered: list[Any] = json.loads(text) if text else [errno.EIO, "the process that asked was killed"]
    return answered


def _landlock() -> list[int]:
    """The ABI, and the errno where there is none."""
    try:
        return [kernel.call(444, None, 0, 1, what="landlock version"), 0]
    except OSError as error:
        return [0, error.errno or 0]


def _known(number: int) -> bool:
    try:
        os.close(kernel.call(number, -1, None, -1, None, 0, what="a call"))
    except OSError as error:
        return error.errno != errno.ENOSYS
    return True


def _seccomp() -> None:
    kernel.prctl(_PR_GET_SECCOMP)
    for action in (_SECCOMP_RET_ERRNO, _SECCOMP_RET_KILL_PROCESS):
        value = ctypes.byref(ctypes.c_uint32(action))
        kernel.call(_SECCOMP, _SECCOMP_GET_ACTION_AVAIL, 0, value, what="seccomp")


def _packages(paths: list[str]) -> None:
    """As a template does that has them mounted: what lies above them does not count."""
    held = [(path, os.open(path, os.O_PATH | os.O_DIRECTORY)) for path in paths]
    _become_worker()
    for path, descriptor in held:
        try:
            # Not through /proc/self/fd: a process that has changed its uid may not look there.
            os.fchdir(descriptor)
            legible.refuse_package(path, place=".")
        except PermissionError as error:
            illegible = error if isinstance(error, legible.Illegible) else legible.Illegible(path, path)
            raise PermissionError(errno.EACCES, str(illegible)) from error


def _become_worker() -> None:
    if _worker is not None:
        privileges.become(_worker)


def _user(more: int = 0) -> None:
    """As a template does: when it has given up root."""
    _become_worker()
    if _worker is not None:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # or /proc/self is still root's; a template executes a program instead
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    userns.map_single(_INSIDE, uid, gid)
    if more:
        kernel.unshare(more)


def _mount() -> None:
    """What AppArmor refuses where it lets a user namespace be made, and takes its capabilities away."""
    _user(kernel.CLONE_NEWNS)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)


def _proc() -> None:
    _user(kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)
    answer = _asked(partial(kernel.mount, "proc", "/proc", "proc", 0))
    if answer[0]:
        raise OSError(answer[0], answer[1])


def _time() -> None:
    _user()
    kernel.unshare(kernel.CLONE_NEWTIME)


def _layers(place: str) -> dict[str, str | None]:
    """Directories for one overlay: the kernel takes those of a volatile one only once."""
    layers: dict[str, str | None] = {f"{name}dir": f"{place}/{name}" for name in ("lower", "upper", "work")}
    for path in filter(None, layers.values()):
        os.makedirs(path)
    return layers


def _overlay(layers: dict[str, str | None], options: dict[str, str | None], *, user: bool) -> None:
    if user:
        _user(kernel.CLONE_NEWNS)
    else:
        kernel.unshare(kernel.CLONE_NEWNS)
    os.close(kernel.new_mount("overlay", {**layers, **options, "volatile": None}, kernel.MOUNT_ATTR_NOSUID))


def _idmap(path: str) -> None:
    found = os.stat(path)
    tree = kernel.open_tree(path)
    try:
        idmap.swap(tree, found.st_uid, found.st_gid, _STRANGER)
    finally:
        os.close(tree)


if __name__ == "__main__":
    main()
