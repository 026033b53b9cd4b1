"""Landlock: a second, independent "no" for files, TCP, abstract sockets and signals (landlock(7)).

The root is built so that nothing else is there; Landlock says once more what of it may be written. It needs
no_new_privs, is entered with capabilities gone, and before the filters, which would refuse nothing of it but have to
stay last. Descriptors opened earlier keep their rights.
"""

import ctypes
import errno
import os
import stat
import struct
from dataclasses import dataclass

from stockade_worker import kernel

_CREATE_RULESET = 444  # the same numbers on x86-64 and arm64
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PATH_BENEATH = 1

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_SYM = 1 << 12
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
_ALL_FILES = ((1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)  # by ABI, from 1
_TCP = 0b11  # bind, connect: ABI 4
_SCOPES = 0b11  # abstract Unix sockets, signals
SCOPES_ABI = 6  # the first that has them

_READ = EXECUTE | READ_FILE | READ_DIR
_MAKE = MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM  # no device nodes
_CHANGE = _READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | _MAKE | REFER | TRUNCATE
_WRITE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
_OF_A_FILE = EXECUTE | _WRITE  # all else is about directories, and refused with EINVAL for anything else


@dataclass(frozen=True, slots=True)
class Rules:
    """What a worker may do, as Landlock can say it."""

    readable: tuple[str | int, ...]  # trees, or files; or descriptors of them
    changeable: tuple[str, ...]  # trees
    writable: tuple[str, ...]  # files, or trees whose files, may be read and written and nothing else
    tcp: bool  # whether TCP is allowed, in the worker's own network


def abi() -> int:
    """The kernel's Landlock ABI; 0 where it has none or it is switched off."""
    try:
        return _landlock(_CREATE_RULESET, None, 0, _VERSION, what="landlock version")
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP):
            return 0
        raise


def restrict(rules: Rules) -> int:
    """Restricts this process and its descendants, for good; the ABI that was used, 0 where there is none.

    Raises OSError where the kernel has Landlock and refuses, or claims to restrict and does not: shown by a file whose
    mode allows what the rules do not.
    """
    version = abi()
    if version == 0:
        return 0
    handled = _ALL_FILES[min(version, len(_ALL_FILES)) - 1]
    tcp = _TCP if version >= 4 and not rules.tcp else 0
    scopes = _SCOPES if version >= SCOPES_ABI else 0
    attributes = struct.pack("QQQ", handled, tcp, scopes)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _landlock(_CREATE_RULESET, attributes, len(attributes), 0, what="landlock_create_ruleset")
    try:
        for paths, access in ((rules.readable, _READ), (rules.changeable, _CHANGE), (rules.writable, _WRITE)):
            for path in paths:
                _allow(ruleset, path, access & handled)
        _landlock(_RESTRICT_SELF, ruleset, 0, what="landlock_restrict_self")
    finally:
        os.close(ruleset)
    return version


def holds(path: str) -> bool:
    """Whether writing `path`, which its mode allows, is refused now."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
    except PermissionError:
        return True
    return False


def _allow(ruleset: int, path: str | int, access: int) -> None:
    try:
        parent = os.dup(path) if isinstance(path, int) else os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            access &= _OF_A_FILE
        rule = ctypes.create_string_buffer(struct.pack("=Qi", access, parent), 12)
        _landlock(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0, what=f"landlock_add_rule {path}")
    finally:
        os.close(parent)


def _landlock(number: int, *arguments: object, what: str) -> int:
    return kernel.call(number, *arguments, what=what)
