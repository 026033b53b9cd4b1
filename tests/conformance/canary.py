"""The canary: a host process with things that a body must not reach. Run as a program; ends with its standard input.

    canary.py isoprobe-canary-proc CONFIG

CONFIG is a JSON object: dir, token, id, shmkey, abstract (name of an abstract socket), sockets (paths to listen at).
It prints one JSON object with what it has made: pid, addr, fd, ports, ids.
"""

import contextlib
import ctypes
import json
import os
import socket
import sys
import threading
from typing import Any, Final

_X86: Final = os.uname().machine == "x86_64"
_SHMGET, _SHMCTL = (29, 31) if _X86 else (194, 195)
_MQ_OPEN, _MQ_UNLINK = (240, 241) if _X86 else (180, 181)


def main() -> None:
    config = json.loads(sys.argv[2])
    libc = ctypes.CDLL(None, use_errno=True)
    os.chdir(config["dir"])
    memory = ctypes.create_string_buffer(config["token"].encode() + b"-memory-canary")
    queue = f"isoprobe{config['id']}".encode()
    made: dict[str, Any] = {
        "pid": os.getpid(),
        "addr": ctypes.addressof(memory),
        "fd": os.open("secret.txt", os.O_RDONLY),
        "tcp4": _port(_listen(socket.AF_INET, ("127.0.0.1", 0))),
        "tcp6": _port(_listen(socket.AF_INET6, ("::1", 0))),
        "shmid": libc.syscall(_SHMGET, config["shmkey"], 4096, 0o1666),
        "mq": libc.syscall(ctypes.c_long(_MQ_OPEN), queue, 0o102, 0o666, None),
    }
    kept = [_listen(socket.AF_UNIX, path) for path in (f"\0{config['abstract']}", *config["sockets"])]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams, _udp(made) as packets:
        datagrams.bind(f"\0{config['abstract']}-d")
        threading.Thread(target=_log_packets, args=(packets,), daemon=True).start()
        for path in config["fifos"]:
            threading.Thread(target=_log_fifo, args=(path,), daemon=True).start()
        print(json.dumps(made), flush=True)
        sys.stdin.read()
    for each in kept:
        if each is not None:
            each.close()
    libc.syscall(_SHMCTL, made["shmid"], 0, None)
    libc.syscall(ctypes.c_long(_MQ_UNLINK), queue)


def _listen(family: int, address: Any) -> socket.socket | None:
    """A socket that accepts and closes; None where the host does not have the family."""
    try:
        end = socket.socket(family)
        end.bind(address)
        end.listen(64)
    except OSError:
        return None
    threading.Thread(target=_accept, args=(end,), daemon=True).start()
    return end


def _accept(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            end.accept()[0].close()


def _port(end: socket.socket | None) -> int:
    return 0 if end is None else int(end.getsockname()[1])


def _udp(made: dict[str, Any]) -> socket.socket:
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.bind(("127.0.0.1", 0))
    made["udp4"] = end.getsockname()[1]
    return end


def _log_packets(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            _append("udp.log", end.recv(200))


def _log_fifo(path: str) -> None:
    """Reads what anybody writes into a FIFO. Opened for both, so that it never sees an end of file."""
    descriptor = os.open(path, os.O_RDWR)
    while True:
        _append("fifo.log", os.read(descriptor, 200))


def _append(name: str, data: bytes) -> None:
    with open(name, "ab") as log:
        log.write(data + b"\n")


if __name__ == "__main__":
    main()
