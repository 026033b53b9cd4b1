"""How a view of the workspace is to differ from it: what is not to be there, and where something else is mounted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from stockade_daemon.sandbox import covers

# Looks for the names of the workspace that views must not show, in a thread. Raises OSError. None: there are none.
Hidden: TypeAlias = Callable[[], tuple[bytes, ...]] | None


@dataclass(frozen=True, slots=True)
class Differing:
    names: tuple[bytes, ...] = ()  # covered
    points: tuple[bytes, ...] = ()  # of mounts

    def __bool__(self) -> bool:
        return bool(self.names or self.points)


def look(hidden: Hidden, workspace: str, scratch: tuple[str, ...], *, shown: bool) -> Differing:
    """How a view differs now. `shown`: what is scratch is there; else nothing is at its paths. File work.

    A scratch path whose directory is not there is not there either. Raises OSError.
    """
    there = covers.with_directory(workspace, [path.encode() for path in scratch])
    names = hidden() if hidden is not None else ()
    if there:
        names = tuple(name for name in names if not any(name.startswith(path + b"/") for path in there))
    return Differing(names, there) if shown else Differing(tuple(sorted((*names, *there))), ())


def is_known(hidden: Hidden, scratch: tuple[str, ...]) -> bool:
    """Whether `look` finds the same at any time, and asks nobody."""
    return hidden is None and not any("/" in path for path in scratch)
