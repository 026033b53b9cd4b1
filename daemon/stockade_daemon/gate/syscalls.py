"""System calls that Python does not wrap: openat2(2), renameat2(2), fstatfs(2), syncfs(2) and name_to_handle_at(2).

The first two go through libc's `syscall`, because not every C library that runs Python wraps them. Numbers differ
between architectures only for calls older than Linux 5.1.
"""

import ctypes
import errno
import functools
import os
import platform
from typing import Final

RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08

RENAME_NOREPLACE: Final = 0x1
RENAME_EXCHANGE: Final = 0x2

_SYS_OPENAT2: Final = 437
_SYS_RENAMEAT2: Final = {"x86_64": 316, "aarch64": 276}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _OpenHow(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(directory: int, path: bytes, flags: int, *, resolve: int) -> int:
    """A new descriptor of `path`, resolved from `directory` under the RESOLVE_* limits. Raises OSError."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    result: int = _libc.syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_long(directory),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if result < 0:
        raise _os_error(path)
    return result


def renameat2(directory: int, old: bytes, new: bytes, flags: int, *, into: int | None = None) -> None:
    """Renames within one directory, or `into` another one, with RENAME_* flags. Raises OSError."""
    number = _SYS_RENAMEAT2.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), new)
    result: int = _libc.syscall(
        ctypes.c_long(number),
        ctypes.c_long(directory),
        ctypes.c_char_p(old),
        ctypes.c_long(directory if into is None else into),
        ctypes.c_char_p(new),
        ctypes.c_uint(flags),
    )
    if result < 0:
        raise _os_error(new)


def file_system(descriptor: int) -> int:
    """The number of the kind of file system that holds an open file, `f_type` of fstatfs(2). Raises OSError."""
    found = (ctypes.c_long * 64)()  # more than `struct statfs` has; `f_type` is its first word
    if _libc.fstatfs(ctypes.c_int(descriptor), found) < 0:
        raise _os_error(b"")
    return int(found[0]) & 0xFFFFFFFF


class _FileHandle(ctypes.Structure):
    """`struct file_handle` of name_to_handle_at(2), with room for the largest."""

    _fields_ = (("handle_bytes", ctypes.c_uint), ("handle_type", ctypes.c_int), ("f_handle", ctypes.c_ubyte * 128))


def handle_of(directory: int, name: bytes) -> tuple[int, bytes] | None:
    """Type and bytes of the handle by which a file system knows what has this name, no link followed; None where it
    has none (name_to_handle_at(2))."""
    handle, mount = _FileHandle(128), ctypes.c_int()
    result = _libc.name_to_handle_at(
        ctypes.c_int(directory), ctypes.c_char_p(name), ctypes.byref(handle), ctypes.byref(mount), ctypes.c_int(0)
    )
    if result < 0:
        return None
    return int(handle.handle_type), bytes(handle.f_handle[: handle.handle_bytes])


def syncfs(descriptor: int) -> None:
    """Writes back all of the file system that holds an open file (syncfs(2)). Raises OSError."""
    if _libc.syncfs(ctypes.c_int(descriptor)) < 0:
        raise _os_error(b"")


@functools.cache
def has_openat2() -> bool:
    """Whether this kernel, and whatever filters our calls, lets openat2 through."""
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        os.close(openat2(root, b".", os.O_PATH, resolve=RESOLVE_BENEATH))
    except OSError:
        return False  # ENOSYS before Linux 5.6; EPERM where a container's filter does not know the call
    finally:
        os.close(root)
    return True


def _os_error(path: bytes) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
