"""Linux system calls that the standard library lacks, as thin wrappers named like the calls.

Each raises OSError with the call's errno and a text that names the arguments. Numbers are those of x86-64 and of the
generic table that arm64 uses (linux/unistd.h, asm-generic/unistd.h).
"""

import ctypes
import os
import struct
from typing import Final

_MACHINE: Final = os.uname().machine
_COLUMN: Final = {"x86_64": 0, "aarch64": 1}
if _MACHINE not in _COLUMN:
    raise ImportError(f"Stockade runs on x86-64 and arm64; the system calls of {_MACHINE} have other numbers")
_TABLE: Final[dict[str, tuple[int, int]]] = {
    # name: (x86-64, arm64)
    "capset": (126, 91),
    "clone": (56, 220),
    "close_range": (436, 436),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "pivot_root": (155, 41),
    "unshare": (272, 97),
}
NUMBERS: Final[dict[str, int]] = {name: numbers[_COLUMN[_MACHINE]] for name, numbers in _TABLE.items()}

# clone(2), unshare(2)
CLONE_NEWTIME = 0x00000080  # of unshare alone: in clone these bits are the exit signal
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
SIGCHLD = 17

# mount(2)
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

# open_tree(2), move_mount(2), mount_setattr(2)
AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
AT_NO_AUTOMOUNT = 0x800
OPEN_TREE_CLONE = 1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 4
MOVE_MOUNT_T_EMPTY_PATH = 0x40
MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8
MOUNT_ATTR_IDMAP = 0x00100000

# fsconfig(2)
FSOPEN_CLOEXEC = 1
FSCONFIG_SET_FLAG = 0
FSCONFIG_SET_STRING = 1
FSCONFIG_CMD_CREATE = 6
FSCONFIG_CMD_RECONFIGURE = 7
FSMOUNT_CLOEXEC = 1
FSPICK_CLOEXEC = 1
FSPICK_EMPTY_PATH = 8

# prctl(2)
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(name: str, *arguments: object, what: str) -> int:
    return call(NUMBERS[name], *arguments, what=what)


def call(number: int, *arguments: object, what: str) -> int:
    """A system call by number; `what` begins the text of its error."""
    # Integers are passed as longs: ctypes would pass a C int and leave the upper half of a register undefined.
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *converted), what)


def clone(flags: int) -> int:
    """fork(2) into new namespaces in one call: 0 in the child, its pid in the parent.

    The caller must have one thread. Python's own bookkeeping around fork is run, as os.fork would.
    """
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _libc.syscall(
        ctypes.c_long(NUMBERS["clone"]), ctypes.c_long(flags | SIGCHLD), ctypes.c_long(0), ctypes.c_long(0),
        ctypes.c_long(0), ctypes.c_long(0),
    )  # fmt: skip
    number = ctypes.get_errno()
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, f"clone {flags:#x}: {os.strerror(number)}")
    return pid


def unshare(flags: int) -> None:
    _syscall("unshare", flags, what=f"unshare {flags:#x}")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    def encoded(text: str | None) -> bytes | None:
        return None if text is None else os.fsencode(text)

    _checked(
        _libc.mount(encoded(source), encoded(target), encoded(kind), ctypes.c_ulong(flags), encoded(data)),
        f"mount {kind or source} on {target}",
    )


def umount2(target: str, flags: int = MNT_DETACH) -> None:
    _checked(_libc.umount2(os.fsencode(target), flags), f"umount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    _syscall("pivot_root", os.fsencode(new_root), os.fsencode(put_old), what=f"pivot_root {new_root}")


def open_tree(path: str, flags: int = 0, *, directory: int = AT_FDCWD) -> int:
    """A detached copy of the mounts below `path`, as a descriptor. Recursive: in a user namespace a plain copy of a
    tree with locked children is EINVAL."""
    return _syscall(
        "open_tree",
        directory,
        os.fsencode(path),
        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_NO_AUTOMOUNT | flags,
        what=f"open_tree {path}",
    )


def move_mount(tree: int, target: str | int) -> None:
    """`target`: a path, or the descriptor of the directory itself."""
    place, name, flags = (target, b"", MOVE_MOUNT_T_EMPTY_PATH) if isinstance(target, int) else (AT_FDCWD, target, 0)
    encoded = os.fsencode(name)
    _syscall("move_mount", tree, b"", place, encoded, MOVE_MOUNT_F_EMPTY_PATH | flags, what=f"move_mount to {target}")


def mount_setattr(
    directory: int, path: str, *, set_: int = 0, clear: int = 0, userns: int = 0, recursive: bool = True
) -> None:
    """Recursive by default; it only adds to locked attributes, which a classic remount would have to repeat."""
    attributes = ctypes.create_string_buffer(struct.pack("QQQQ", set_, clear, 0, userns), 32)
    flags = (AT_RECURSIVE if recursive else 0) | (0 if path else AT_EMPTY_PATH)
    _syscall(
        "mount_setattr", directory, os.fsencode(path), flags, attributes, 32,
        what=f"mount_setattr {path or directory} +{set_:#x}",
    )  # fmt: skip


def new_mount(kind: str, options: dict[str, str | None], attributes: int) -> int:
    """A detached mount of a new file system: fsopen, fsconfig and fsmount (fsconfig(2)). None makes a flag."""
    context = _syscall("fsopen", kind.encode(), FSOPEN_CLOEXEC, what=f"fsopen {kind}")
    try:
        for key, value in options.items():
            command = FSCONFIG_SET_FLAG if value is None else FSCONFIG_SET_STRING
            encoded = None if value is None else os.fsencode(value)
            _syscall("fsconfig", context, command, key.encode(), encoded, 0, what=f"{kind}: {key}={value}")
        _syscall("fsconfig", context, FSCONFIG_CMD_CREATE, None, None, 0, what=f"create {kind}")
        return _syscall("fsmount", context, FSMOUNT_CLOEXEC, attributes, what=f"fsmount {kind}")
    finally:
        os.close(context)


def fspick(tree: int) -> int:
    """A context of the file system of a mount, for `reconfigure`; it keeps the file system, though not the mount."""
    return _syscall("fspick", tree, b"", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH, what=f"fspick {tree}")


def reconfigure(context: int, *flags: str) -> None:
    """Has a file system take up its options again, with these flags (fsconfig(2))."""
    for flag in flags:
        _syscall("fsconfig", context, FSCONFIG_SET_FLAG, flag.encode(), None, 0, what=f"fsconfig {flag}")
    _syscall("fsconfig", context, FSCONFIG_CMD_RECONFIGURE, None, None, 0, what="reconfigure")


def prctl(option: int, *arguments: int) -> int:
    values = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(_libc.prctl(option, *values), f"prctl {option} {arguments}")


def load_filter(program: bytes) -> None:
    """Loads a seccomp program of struct sock_filter, 8 bytes each (seccomp(2), linux/filter.h)."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    _checked(
        _libc.prctl(
            PR_SET_SECCOMP,
            ctypes.c_ulong(SECCOMP_MODE_FILTER),
            ctypes.byref(Program(len(program) // 8, program)),
            ctypes.c_ulong(0),
            ctypes.c_ulong(0),
        ),
        "prctl PR_SET_SECCOMP",
    )


def close_range(first: int, last: int) -> None:
    """Closes every descriptor from `first` to `last`; falls back to one by one before Linux 5.9."""
    try:
        _syscall("close_range", first, last, 0, what="close_range")
    except OSError:
        os.closerange(first, min(last + 1, 65536))


def clear_capabilities() -> None:
    """Empties the effective, permitted and inheritable sets (capset(2), version 3)."""
    header = struct.pack("Ii", 0x20080522, 0)
    _syscall("capset", header, b"\0" * 24, what="capset")
