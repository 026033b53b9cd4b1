"""Ctrl-C in a program without asyncio: what it waited for is taken back, and neither thread nor process is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.stockaded import running

COMMAND_S = 60.0  # a hang detector

PROGRAM = """
import sys, threading
from stockade_client.sync import connect, local_daemon

def approve(ask):
    print("asked", flush=True)
    input()

try:
    with local_daemon() as address, connect(address) as daemon:
        print(address, flush=True)
        with daemon.session(sys.argv[1], "dev", approve=approve, id="s") as session:
            session.call("read", path="a.txt")
            try:
                if sys.argv[2] == "call":
                    call = session.start("shell", command="echo begun; while :; do :; done")
                    next(call.output())
                    print("waits", flush=True)
                    session.call("shell", command="while :; do :; done")
                elif sys.argv[2] == "events":
                    for event in session.events(follow=True):
                        print("waits", flush=True)
                else:
                    session.call("edit", path="a.txt", old_string="two", new_string="2")
            except KeyboardInterrupt:
                with daemon.events("s") as events:
                    types = [(event.type, event.call_id) for event in events]
                begun = {call for type, call in types if type == "tool/call"}
                print("open", len(begun - {call for type, call in types if type == "tool/result"}), flush=True)
                raise
except KeyboardInterrupt:
    names = [thread.name for thread in threading.enumerate()]
    print("threads", *(name for name in names if "_poll_wrapper" not in name), flush=True)
    raise
"""


@pytest.mark.parametrize(("waits_for", "left"), [("call", 1), ("events", 0), ("question", 0)])
def test_ctrl_c_takes_back_what_is_waited_for_and_leaves_nothing(workspace: Path, waits_for: str, left: int) -> None:
    """`left`: calls that nobody waited for when it came, and that end with the daemon."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(workspace), waits_for],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("STOCKADE")},
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("unix:")
        assert process.stdout.readline() in ("waits\n", "asked\n"), process.communicate()
        os.killpg(process.pid, signal.SIGINT)
        said, complaints = process.communicate(timeout=COMMAND_S)
    lines = [line for line in said.splitlines() if line not in ("waits", "asked")]
    assert lines == [f"open {left}", "threads MainThread"], complaints  # and grpc's, which has one for the process
    assert process.returncode == -signal.SIGINT, complaints
    assert complaints.rstrip().endswith("KeyboardInterrupt")
    assert running(address.removeprefix("unix:")) == []
    assert not Path(address.removeprefix("unix:")).parent.exists()
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"
