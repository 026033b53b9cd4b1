"""What Landlock says of a worker's root: everything may be read, a few places may be written."""

from stockade_worker import landlock

_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
_FILES = ("/dev/null", "/dev/zero", "/dev/full", "/proc")
# Its mode lets everybody write it, a read-only mount does not keep a device from it, and the rules do not allow it: a
# file to try the rules on.
_WITNESS = "/dev/urandom"


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
