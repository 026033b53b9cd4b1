"""Where a daemon listens: `$STOCKADE_ADDRESS`, else the default socket of this uid.

A default socket is used only when its directory belongs to us and nobody else can enter it: anyone can make
/tmp/stockade-1000 before we do, and whoever answers there would be handed our calls. Standard library only,
because every command asks here first.
"""

import ipaddress
import os
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from stockade_client.errors import NoDaemon

ENVIRONMENT_VARIABLE = "STOCKADE_ADDRESS"
SOCKET_PATH_BYTES = 107  # unix(7): sun_path has 108 bytes, one of them the final zero
ANSWER_S = 2.0  # a live daemon accepts at once; its kernel backlog does it for a busy one


@dataclass(frozen=True, slots=True)
class Network:
    """An address of another kind than a socket's."""

    host: str
    port: int
    tls: bool

    @property
    def target(self) -> str:
        """As grpc spells it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def network(address: str) -> Network | None:
    """`tls:HOST:PORT`, or `tcp:HOST:PORT` on loopback; None for an address of another form.

    Raises NoDaemon where it is faulty, or plain text would leave this host.
    """
    kind, _, rest = address.partition(":")
    if kind not in ("tls", "tcp"):
        return None
    host, _, port = rest.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise NoDaemon(f"the address {address!r} is not of the form {kind}:HOST:PORT")
    if kind == "tcp" and not _is_loopback(host):
        raise NoDaemon(
            f"the address {address!r} leads away from this host without TLS, for all on the way to read; use "
            f"tls:{rest}, with a daemon that listens so"
        )
    return Network(host, int(port), kind == "tls")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def socket_path(address: str) -> str:
    """The path in `unix:/path`.

    Raises NoDaemon for an address of another form, or a path that no socket can have.
    """
    path = address.removeprefix("unix:")
    if path.startswith("///"):  # unix:///path is the same by gRPC's naming rules
        path = path[2:]
    if path == address or not path.startswith("/"):
        raise NoDaemon(
            f"the address {address!r} is not of the form unix:/path/daemon.sock, or tls:HOST:PORT; "
            f"set {ENVIRONMENT_VARIABLE} to one, or unset it to use the default"
        )
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise NoDaemon(
            f"the socket path {path!r} is longer than the {SOCKET_PATH_BYTES} bytes that a socket's path can have; "
            "use a shorter directory"
        )
    return path


def default_socket(environment: Mapping[str, str], uid: int) -> str:
    """Where a daemon of this uid listens when nobody says otherwise."""
    if uid == 0:
        return "/run/stockade/daemon.sock"
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    # The same test as the daemon's: a variable that names no directory of ours is no place to meet.
    if runtime.startswith("/") and _belongs_to(runtime, uid):
        return f"{runtime}/stockade/daemon.sock"
    return f"/tmp/stockade-{uid}/daemon.sock"  # noqa: S108 - ours() refuses a directory somebody else made


def _belongs_to(directory: str, uid: int) -> bool:
    try:
        found = os.stat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid


def running_daemon(environment: Mapping[str, str] | None = None) -> str | None:
    """The address of a running daemon, or None where there is none.

    `$STOCKADE_ADDRESS` is taken at its word: whoever sets it wants that daemon and no other, so nothing
    answering there is an error of the connection and not a reason to look elsewhere.
    """
    env = os.environ if environment is None else environment
    named = env.get(ENVIRONMENT_VARIABLE, "")
    if named:
        if network(named) is None:
            socket_path(named)
        return named
    path = default_socket(env, os.geteuid())
    if not ours(os.path.dirname(path), os.geteuid()) or not answers(path):
        return None
    return f"unix:{path}"


def ours(directory: str, uid: int) -> bool:
    """Whether `directory` is a real directory of `uid` that nobody else can enter."""
    try:
        found = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and stat.S_IMODE(found.st_mode) & 0o077 == 0


def answers(path: str) -> bool:
    """Whether somebody accepts connections on the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(ANSWER_S)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True
