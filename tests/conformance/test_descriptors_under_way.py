"""Descriptors that a hostile body holds under way between its own sockets are counted by host uid (unix(7))."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from stockade_client import Daemon
from tests.conformance.function_door import client
from tests.everybodys_python import everybodys_python

USER: Final = 1000 if os.geteuid() == 0 else os.geteuid()
LIMIT: Final = 1024  # of the daemon: as many as a body under `dev` may have by its profile
PROJECT: Final = Path(__file__).parents[2]
FLOOD: Final = """
import array, os, signal, socket
null = os.open("/dev/null", os.O_RDONLY)
kept, held = [], 0
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 200))]
try:
    for _ in range(40):
        pair = socket.socketpair()
        kept.append(pair)
        pair[0].setblocking(False)
        pair[0].sendmsg([b"x"], rights)
        held += 200
except OSError as error:
    print(held, error.errno, flush=True)
signal.pause()
"""


@pytest.fixture
def address() -> Iterator[str]:
    """A daemon of an ordinary user whose limit of descriptors is a usual one."""
    try:
        python, variables = everybodys_python()
    except FileNotFoundError as error:
        pytest.skip(f"needs {error}")
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    process = None
    try:
        for each in (place, place / "ws"):
            each.mkdir(exist_ok=True)
            os.chown(each, USER, USER)
        socket = place / "run" / "d.sock"
        paths = os.pathsep.join(filter(None, (str(PROJECT), variables.get("PYTHONPATH", ""))))
        identity: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        process = subprocess.Popen(
            ["prlimit", f"--nofile={LIMIT}:{LIMIT}", python, "-m", "tests.conformance.daemon_with_bodies", "serve",
             "--socket", str(socket), "--state", str(place / "state")],
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PYTHONPATH": paths},
            cwd="/",
            **identity,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == f"ready unix:{socket}\n".encode()
        yield f"unix:{socket}"
    finally:
        if process is not None:
            process.terminate()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        shutil.rmtree(place)


def test_a_body_that_holds_many_descriptors_under_way_stops_no_other_session(address: str) -> None:
    workspace = str(Path(address.removeprefix("unix:")).parents[1] / "ws")

    async def flooded(connected: Daemon) -> tuple[str, str, str]:
        async with (
            connected.session(workspace=workspace, profile="dev") as hostile,
            connected.session(workspace=workspace, profile="dev") as neighbour,
        ):
            waiting = await neighbour.start("blind", program="import signal; signal.pause()")
            flood = await hostile.start("blind", program=FLOOD)
            async with flood.output(follow=True) as pieces:
                async for piece in pieces:
                    said = piece.decode()
                    break
            async with connected.session(workspace=workspace, profile="dev") as newcomer:
                fresh = await newcomer.call("blind", program="pass")
            for call in (flood, waiting):
                await call.cancel()
            ended = (await waiting.result()).error
            return said, str(fresh.error or "ok"), ended.code if ended else "ok"

    with client(address) as (loop, connected):
        said, fresh, waited = loop.run(flooded(connected))
    held, number = (int(each) for each in said.split())
    assert (held < 2 * LIMIT, number) == (True, 109), said  # ETOOMANYREFS: it has met its own limit
    assert fresh == "ok"
    assert waited == "ABORTED"  # by us, and by nobody before
