"""The worker's network: a namespace new and empty, one with a loopback device that is up, or the host's own."""

import fcntl
import socket
import struct

_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_IFF_RUNNING = 0x40


def loopback_up() -> None:
    """Brings `lo` up (netdevice(7)). Needs CAP_NET_ADMIN of the namespace, so before capabilities are dropped."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as end:
        fcntl.ioctl(end, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP | _IFF_RUNNING))


def enter(network: str) -> None:
    """`none`: a new namespace has nothing but a loopback device that is down. `host`: there is no namespace of ours."""
    if network == "loopback":
        loopback_up()
