"""`stockaded` that stops once at a named point of a call until somebody lets it go on; the rest is the product's own.

publishing   the bytes are written and checked, and have no name yet
approved     the call was allowed and no worker has been taken
"""

import asyncio
import os
import socket
from typing import Any

from stockade_daemon.__main__ import main
from stockade_daemon.gate.temporary import Temporary
from stockade_daemon.pipeline import run
from tests.conformance.cases.pausing import POINT, SOCKET


class _Once:
    """Stops the thread that comes first."""

    def __init__(self) -> None:
        self._left = True

    def stop(self) -> None:
        if not self._left:
            return
        self._left = False
        with socket.socket(socket.AF_UNIX) as talk:
            talk.connect(os.environ[SOCKET])
            talk.sendall(b"here\n")
            talk.recv(1)  # its end


def install(point: str) -> None:
    once = _Once()
    if point == "publishing":
        for name in ("publish_as", "appear"):
            _before(Temporary, name, once)
    else:
        real = vars(run)["execute"]

        async def execute(*arguments: Any, **named: Any) -> Any:
            await asyncio.to_thread(once.stop)
            return await real(*arguments, **named)

        vars(run)["execute"] = execute


def _before(owner: type, name: str, once: _Once) -> None:
    real = getattr(owner, name)

    def replacement(*arguments: Any) -> Any:
        once.stop()
        return real(*arguments)

    setattr(owner, name, replacement)


if __name__ == "__main__":
    install(os.environ[POINT])
    main()
