"""What Landlock says of a worker's root: everything may be read, a few places may be written. In place: of the host."""

import os

from stockade_worker import landlock, trees

_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
_FILES = ("/dev/null", "/dev/zero", "/dev/full", "/proc")
# Its mode lets everybody write it, a read-only mount does not keep a device from it, and the rules do not allow it: a
# file to try the rules on.
_WITNESS = "/dev/urandom"


_DEVICES = ("/dev/random", "/dev/urandom")


def restrict_in_place(readable: tuple[str, ...], mounts: tuple[str, ...]) -> None:
    """Restricts this process in the host's own view: `readable` trees and files may be read, nothing may be written.

    `mounts`: those that a profile adds. They are judged here, and the rule is for what was judged, whatever becomes of
    their names. Raises trees.Unusable for one that cannot be shown.

    Raises OSError where Landlock cannot hold what nothing else does then: without scopes a worker could signal
    processes of its uid.
    """
    found = landlock.abi()
    if found < landlock.SCOPES_ABI:
        raise OSError(
            0,
            f"without user namespaces files and signals are kept from workers by Landlock alone, and its ABI is "
            f"{found} here; ABI {landlock.SCOPES_ABI} is needed (Linux 6.12)",
        )
    places = [trees.judged(path)[0] for path in mounts]
    try:
        landlock.restrict(
            landlock.Rules(readable=(*readable, *places, *_DEVICES), changeable=(), writable=_FILES[:3], tcp=False)
        )
    finally:
        for place in places:
            os.close(place)
    if not landlock.holds(_WITNESS):
        raise OSError(0, f"Landlock was entered and {_WITNESS} can still be written")


def restrict(workspace: tuple[str, ...], *, network: str) -> None:
    """Restricts this process. `workspace`: trees that may be changed besides the temporary ones.

    Raises OSError where the kernel claims to restrict and does not, and where it cannot keep a worker with the host's
    network from the host's abstract sockets: they belong to the network and to no file system (unix(7)).
    """
    if network == "host" and landlock.abi() < landlock.SCOPES_ABI:
        raise OSError(
            0,
            'network.mode "host" needs Landlock that scopes abstract sockets (Linux 6.12): without it a worker could '
            'talk to the host\'s services; choose "loopback" or "none"',
        )
    rules = landlock.Rules(
        readable=("/",), changeable=(*_TEMPORARY, *workspace), writable=_FILES, tcp=network != "none"
    )
    if landlock.restrict(rules) and not landlock.holds(_WITNESS):
        raise OSError(0, f"Landlock was entered and {_WITNESS} can still be written")
