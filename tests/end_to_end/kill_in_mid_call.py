"""A program for `leaks.py`: a daemon is killed in the middle of a shell call, and another one takes its place.

python -m tests.end_to_end.kill_in_mid_call kill DIRECTORY    starts a daemon and a call, then kill -9
python -m tests.end_to_end.kill_in_mid_call next DIRECTORY    starts a daemon on the same state, prints the call's
                                                              error code, and stops it
"""

import asyncio
import signal
import sys
from pathlib import Path

from stockade_client import connect
from tests.end_to_end.stockaded import Stockaded


async def kill(daemon: Stockaded) -> None:
    workspace = daemon.directory / "workspace"
    workspace.mkdir()
    daemon.start()
    async with (
        connect(daemon.address) as client,
        client.session(workspace=workspace, profile="dev", id="s") as session,
    ):
        call = await session.start(
            "shell", call_id="c", command="echo begun; echo x > x; setsid sleep 60 & exec sleep 60"
        )
        async with call.output() as chunks:
            async for _ in chunks:
                break
        daemon.end(signal.SIGKILL)


async def after(daemon: Stockaded) -> None:
    daemon.start()
    async with connect(daemon.address) as client, client.events("s", call_id="c") as events:
        async for event in events:
            if event.type == "tool/result":
                print(event.body["error"])
    daemon.end()


if __name__ == "__main__":
    directory = Path(sys.argv[2])
    daemon = Stockaded(directory, workspaces=directory)
    asyncio.run({"kill": kill, "next": after}[sys.argv[1]](daemon))
