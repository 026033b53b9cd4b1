"""Files that a command changed through a name that is gone afterwards, while other names of theirs stay: nothing in the
upper directory shows the change, only the overlay's index has it (overlayfs, "index").

They are brought into the upper directory, below a name that nobody chooses, so that they wait, are kept and move with
it.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace

from stockade_daemon.gate.effects.tree import Tree
from stockade_daemon.gate.effects.upper import Found, found_at
from stockade_daemon.gate.effects.values import Made
from stockade_daemon.gate.temporary import new_name


def gathered(made: Made) -> Made:
    """The same, with where they are; nothing is done twice. Raises OSError."""
    if made.orphans or not made.keeps_links:
        return made
    place = os.path.join(os.path.dirname(made.upper), "work", "index")
    try:
        index = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return made  # what is kept for somebody to look at has been looked through before it was
    try:
        names = [name for name in sorted(os.listdir(index)) if _is_left(index, name)]
        if not names:
            return made
        place = new_name().decode()
        os.mkdir(os.path.join(made.upper, place), 0o700)
        into = os.open(os.path.join(made.upper, place), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for number, name in enumerate(names):
                os.link(name, str(number), src_dir_fd=index, dst_dir_fd=into, follow_symlinks=False)
        finally:
            os.close(into)
        return replace(made, orphans=place)
    finally:
        os.close(index)


def orphans(upper: Tree, made: Made) -> Iterator[Found]:
    """The directory that they are in, and each of them. Raises OSError."""
    if made.orphans:
        place = os.fsencode(made.orphans)
        yield found_at(upper, place, made.marks)
        for name in upper.names(place):
            yield found_at(upper, place + b"/" + name, made.marks)


def _is_left(index: int, name: str) -> bool:
    """Whether the index is the last to know a file, as it is once no name in the upper directory is left."""
    status = os.stat(name, dir_fd=index, follow_symlinks=False)
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1
