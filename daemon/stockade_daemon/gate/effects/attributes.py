"""Extended attributes of users (xattr(7), `user.`): those that a commit carries over."""

import errno
import os
from collections.abc import Mapping
from typing import Final

from stockade_daemon.gate.effects.tree import Tree, named

# Names that an ordinary user's overlay keeps to itself (overlayfs, "userxattr"); root's has others, out of reach.
_UNSEEN: Final = ("user.overlay.",) if os.geteuid() != 0 else ()


def attributes_at(tree: Tree, path: bytes, marks: str) -> dict[str, bytes]:
    """Those of what is at a path, without those that an overlay marks its own with. Raises OSError."""
    found = _attributes(named(*tree.at(path)))
    return {name: value for name, value in found.items() if not name.startswith(marks)}


def has_marks(tree: Tree, path: bytes, marks: str) -> bool:
    """Whether what is at a path has some of those, which an overlay shows to nobody. Raises OSError."""
    return any(name.startswith(marks) for name in _names(named(*tree.at(path)), follow=False))


def keep(source: tuple[int, bytes], kept: tuple[int, bytes]) -> None:
    """Copies all of them to `kept`, a new empty file, which has them all or does not exist. Raises OSError."""
    into, name = kept
    draft = name + b".draft"
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=into))
    for each, value in _attributes(named(*source)).items():
        os.setxattr(named(into, draft), each, value)
    os.rename(draft, name, src_dir_fd=into, dst_dir_fd=into)


def replace(descriptor: int, source: tuple[int, bytes]) -> None:
    """Gives what is open (O_PATH) those of `source`, and no others but what no command of an ordinary user's daemon can
    see or set. Raises OSError."""
    place, wanted = b"/proc/self/fd/%d" % descriptor, _attributes(named(*source))
    has = _attributes(place, follow=True)
    for each in has.keys() - wanted.keys():
        if not each.startswith(_UNSEEN):
            os.removexattr(place, each)
    for each, value in wanted.items():
        if has.get(each) != value:
            os.setxattr(place, each, value)


def _attributes(place: bytes, *, follow: bool = False) -> Mapping[str, bytes]:
    return {name: os.getxattr(place, name, follow_symlinks=follow) for name in _names(place, follow=follow)}


def _names(place: bytes, *, follow: bool) -> list[str]:
    """Which needs no right to read what is there, as the values do (xattr(7))."""
    try:
        names = os.listxattr(place, follow_symlinks=follow)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return []
        raise
    return [name for name in names if name.startswith("user.")]
