"""The new root of a template: built from nothing, pivoted to, sealed. Runs as pid 1 of the template's pid namespace.

Order matters. The interpreter may lie under a home directory that the worker's uid cannot search, so everything is
mounted while the rights are still there; then they are dropped; then a fresh interpreter is executed inside, which
shares no memory with this one.
"""

import os
import stat
from collections.abc import Iterable
from typing import Any, NoReturn

from stockade_worker import kernel, legible, privileges, secret_files, trees
from stockade_worker.frames import encode
from stockade_worker.plan import PROGRAMS

LIBRARY = "/run/stockade/lib"  # where this package and the toolkit are inside
# Put over what a worker must not see (mounts.py).
EMPTY_DIRECTORY = "/run/stockade/empty"
EMPTY_FILE = "/run/stockade/nothing"
# Nobody lists them: the names in them are those of users. What is mounted below is reached by its whole path.
_UNLISTED = ("/home", "/root")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_READ_ONLY = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
_BOOT = f"import sys; sys.path.insert(0, {LIBRARY!r}); from stockade_worker.zygote import main; main()"


def become_template(plan: dict[str, Any], channel: int, *, host_uid: int | None) -> NoReturn:
    """Builds the root that `plan` describes and executes the zygote in it. Reports a failure on `channel`."""
    step = "descriptors"
    try:
        # 0-2 lead to /dev/null; nothing of the mounter's stays open across exec.
        kept = os.dup2(channel, 3, inheritable=True) if channel != 3 else channel
        os.set_inheritable(kept, True)
        kernel.close_range(4, 2**31 - 1)
        step = "secrets"
        secrets = {name: secret_files.read(path) for name, path in plan["secrets"].items()}
        step = "root"
        covered = build(plan)
        secret_files.write(_inside(secret_files.DIRECTORY), secrets, owner=host_uid)
        step = "mounts"
        held = [trees.hold(path, _inside(EMPTY_DIRECTORY)) for path in sorted(plan["mounts"])]
        step = "pivot_root"
        _pivot()
        step = "mounts"
        _add(held, covered)
        step = "root"
        _seal(plan["workspace"])
        if host_uid is not None:
            step = "host uid"
            privileges.become(host_uid)
        step = "interpreter"
        executable = plan["interpreter"]
        _refuse_illegible(plan)
        os.execve(executable, [executable, "-I", "-S", "-B", "-c", _BOOT, str(kept)], {"LC_ALL": "C.UTF-8"})
    except BaseException as error:
        number = getattr(error, "errno", None) or 0
        failure = {
            "type": "failed",
            "step": step,
            "errno": number,
            "message": str(error)
            if isinstance(error, trees.Unusable | secret_files.Unusable)
            else f"{type(error).__name__}: {error}",
        }
        if isinstance(error, legible.Illegible):
            failure |= {"step": "legible", "message": str(error), "directory": error.directory}
        os.write(3, encode(failure))
    os._exit(1)


def _refuse_illegible(plan: dict[str, Any]) -> None:
    """Raises Illegible for what the zygote will be run from. Directories above count for nothing: they are not here."""
    for tree in plan["trees"]:
        legible.refuse(tree)
        # This process has the same interpreter, whose library may be closed where its prefix is not.
        own = os.path.dirname(os.__file__)
        if own.startswith(f"{tree}/"):
            legible.refuse(own)
    for name, source in plan["library"].items():
        legible.refuse_package(source, place=f"{LIBRARY}/{name}")


def build(plan: dict[str, Any]) -> list[str]:
    """Makes the new root the working directory; returns the directories of the host that it shows.

    `plan`: system (host paths), trees (interpreter), library and programs ({name: host path}), files ({path: text}).
    """
    os.umask(0o022)
    os.makedirs("r", 0o755, exist_ok=True)  # the tmpfs below is shared with earlier templates, the mount is not
    kernel.mount("stockade", "r", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=4m,nr_inodes=4k")
    os.chdir("r")
    covered: list[str] = []
    for path in sorted({*plan["system"], *plan["trees"]}):
        if not any(path.startswith(f"{above}/") for above in covered) and _share(path):
            covered.append(path)
    for name, source in plan["library"].items():
        _bind_directory(source, f"{LIBRARY}/{name}", _READ_ONLY)
    for name, source in plan["programs"].items():
        _bind_file(source, f"{PROGRAMS}/{name}", _READ_ONLY)
    _devices()
    for directory in ("/tmp", "/var/tmp", "/dev/shm", "/proc", "/run", "/var", "/etc", "/home"):
        os.makedirs(_inside(directory), exist_ok=True)
    os.makedirs(_inside(EMPTY_DIRECTORY))
    for path, text in {**plan["files"], EMPTY_FILE: ""}.items():
        _write(path, text)
    kernel.mount("proc", _inside("/proc"), "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    return covered


def _pivot() -> None:
    # The new root is stacked on the old one in the same place, so no directory for the old root is needed
    # (pivot_root(2), "pivot_root(".", ".")").
    kernel.pivot_root(".", ".")
    kernel.umount2(".", kernel.MNT_DETACH)
    os.chdir("/")


def _add(held: list[trees.Held], covered: list[str]) -> None:
    """Attaches the profile's own mounts, outer ones first; what a tree already shows is not shown twice."""
    for each in held:
        if any(each.path == above or each.path.startswith(f"{above}/") for above in covered):
            each.close()
            continue
        trees.attach(each)
        if each.directory:
            covered.append(each.path)


def _seal(workspace: str | None) -> None:
    """Makes the workspace's mount point, then the root read-only. After the pivot, when links lead where they do
    inside."""
    if workspace is not None and not os.path.lexists(workspace):
        os.makedirs(workspace)
    for directory in _UNLISTED:
        if os.path.isdir(directory) and not os.path.ismount(directory):
            os.chmod(directory, 0o111)
    kernel.mount_setattr(
        kernel.AT_FDCWD, "/", set_=kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID, recursive=False
    )


def _inside(path: str) -> str:
    """The place of an absolute path below the working directory, which is the new root until the pivot."""
    return f".{path}"


def _share(path: str) -> bool:
    """Shows a host path read-only at the same place. A symbolic link is copied as a link; a missing path is left out.

    Returns whether a directory tree was mounted.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    if os.path.lexists(_inside(path)) and not os.path.isdir(_inside(path)):
        return False
    if stat.S_ISLNK(found.st_mode):
        os.makedirs(_inside(os.path.dirname(path)), exist_ok=True)
        if not os.path.lexists(_inside(path)):
            os.symlink(os.readlink(path), _inside(path))
        return False
    if stat.S_ISDIR(found.st_mode):
        _bind_directory(path, path, _READ_ONLY)
        return True
    if stat.S_ISREG(found.st_mode):
        _bind_file(path, path, _READ_ONLY)
    return False


def _bind_directory(source: str, target: str, attributes: int) -> None:
    os.makedirs(_inside(target), exist_ok=True)
    _attach(source, target, attributes)


def _bind_file(source: str, target: str, attributes: int) -> None:
    os.makedirs(_inside(os.path.dirname(target)), exist_ok=True)
    os.close(os.open(_inside(target), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    _attach(source, target, attributes)


def _attach(source: str, target: str, attributes: int) -> None:
    tree = kernel.open_tree(source)
    try:
        # Recursive and before it is attached: a sub-mount that stayed writable would be a hole.
        kernel.mount_setattr(tree, "", set_=attributes)
        kernel.move_mount(tree, _inside(target))
    finally:
        os.close(tree)


def _devices() -> None:
    os.makedirs(_inside("/dev"), exist_ok=True)
    for name in _DEVICES:
        _bind_file(
            f"/dev/{name}",
            f"/dev/{name}",
            kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NOEXEC,
        )
    links: Iterable[tuple[str, str]] = (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    )
    for name, target in links:
        os.symlink(target, _inside(f"/dev/{name}"))


def _write(path: str, text: str) -> None:
    os.makedirs(_inside(os.path.dirname(path)), exist_ok=True)
    descriptor = os.open(_inside(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
