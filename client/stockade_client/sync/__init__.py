"""The client for programs without asyncio: the same names, the same parameters, and every method waits.

    from stockade_client.sync import connect, local_daemon

    with local_daemon() as address, connect(address) as daemon:
        with daemon.session(workspace=".", profile="dev") as session:
            print(session.call("read", path="a.txt").text)

Each `connect` and each `local_daemon` has an event loop in a thread of its own, which ends with the block. What they
give may be used from several threads, but for a thread that runs an event loop (Misused). Ctrl-C, or a `deadline`,
while a call is waited for takes the call back, and goes on when that is settled.
"""

from stockade_client.sync.approving import Approve, Ask
from stockade_client.sync.background import deadline
from stockade_client.sync.calling import Call, Session
from stockade_client.sync.connecting import Daemon, Inspection, connect, local_daemon
from stockade_client.sync.streams import Stream

__all__ = [
    "Approve",
    "Ask",
    "Call",
    "Daemon",
    "Inspection",
    "Session",
    "Stream",
    "connect",
    "deadline",
    "local_daemon",
]
