"""Run as a process of its own, to be killed: appends in a loop and prints each number once it is acknowledged.

Arguments: the ledger's path, and for a test of a full disk the largest file in bytes that this process may write.
"""

import asyncio
import resource
import signal
import sys

from stockade_daemon.errors import InfrastructureFailure
from stockade_daemon.ledger import Ledger, SessionRecord


async def main(path: str, most: int | None) -> None:
    record = SessionRecord("s", "/w", 1, 1, "dev", "d" * 64, "dev", b"", True, "ask", "open", 0)
    async with Ledger.open(path) as ledger:
        await ledger.open_session(record)
        if most is not None:
            # SIGXFSZ would end us; ignored, the write fails with EFBIG, as on a full disk (setrlimit(2)).
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        while True:
            try:
                events = await asyncio.gather(*(ledger.append("s", "x", body={"text": "x" * 100}) for _ in range(5)))
            except InfrastructureFailure as error:
                print("failed", error.code, error.message, flush=True)
                break
            for event in events:
                print(event.seq, flush=True)
        for attempt in (ledger.append("s", "y"), ledger.append("s", "z")):
            try:
                await attempt
            except InfrastructureFailure:
                print("refused", flush=True)
        print("readable", len(await ledger.read("s", limit=10_000_000)), bool(ledger.failure), flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None))
