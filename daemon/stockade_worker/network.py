"""The worker's network namespace: new and empty; its loopback device is up only where the profile says so."""

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


def leave_down() -> None:
    """A new network namespace has nothing but a loopback device that is down."""
