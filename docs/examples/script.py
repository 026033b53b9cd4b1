"""A program without asyncio: counts words in a sandbox and writes the count down, after a person's yes.

    python3 script.py WORKSPACE FILE

Exit status: 0 it was written; 1 it was not, and why is said; 2 usage.
"""

import sys

from stockade_client.sync import Ask, connect, deadline, local_daemon


def approve(ask: Ask) -> bool:
    """Called in this program's own thread, while it waits for the call that asks."""
    print(ask.card["difference"])
    return input("Allow this? [y/N] ").strip().lower() == "y"


def main(workspace: str, name: str) -> int:
    # A private daemon, for as long as the block runs; to use one that runs already, connect to its address.
    with local_daemon() as address, connect(address) as daemon:
        with daemon.session(workspace, "dev", approve=approve) as session:
            with deadline(60):  # then the call is taken back, and TimeoutError raised
                counted = session.call("shell", argv=["wc", "-w", "--", name])
            # `ok` says that the command ran; what it made of that is its exit status.
            if not counted.ok or counted.field("exit_code") != 0:
                print(counted.error or counted.field("stderr"), file=sys.stderr)
                return 1
            words = str(counted.field("stdout")).split()[0]
            written = session.call("write", path="words.txt", content=f"{name} has {words} words\n")
            if written.error is not None:
                print(written.error, file=sys.stderr)  # its code is stable, its message says what to do
                return 1
            # Every call is on record, with what became of it.
            for event in session.events():
                if event.type in ("tool/call", "approval/decided", "tool/result"):
                    print(event.seq, event.type, event.call_id)
    return 0


if len(sys.argv) != 3:
    print("usage: python3 script.py WORKSPACE FILE", file=sys.stderr)
    sys.exit(2)
sys.exit(main(*sys.argv[1:]))
