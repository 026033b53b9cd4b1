"""Run as a process of its own, in which the kernel answers every fsync(2) and fdatasync(2) with EIO.

Arguments: the ledger's path, its durability, and when the kernel begins: "open" before the ledger is opened, "append"
after its first session is recorded, "output" before a call's output is synced;
"sync" as "append", and the ledger is synced after it. Prints what came of it.
"""

import asyncio
import errno
import sys
from pathlib import Path

import pyseccomp as seccomp

from stockade_daemon.errors import ConfigurationError, InfrastructureFailure
from stockade_daemon.ledger import Ledger, SessionRecord
from stockade_daemon.pipeline.arrival import Arrival
from stockade_daemon.pipeline.kept_bytes import KeptBytes
from stockade_daemon.pipeline.output import Output
from stockade_daemon.values import Durability


def refuse_to_sync() -> None:
    """In all threads of this process."""
    filter = seccomp.SyscallFilter(seccomp.ALLOW)
    filter.set_attr(seccomp.Attr.CTL_TSYNC, 1)
    for name in ("fsync", "fdatasync"):
        filter.add_rule(seccomp.ERRNO(errno.EIO), name)
    filter.load()


async def main(path: str, durability: Durability, when: str) -> None:
    record = SessionRecord("s", "/w", 1, 1, "dev", "d" * 64, "dev", b"", False, "ask", "open", 0)
    if when == "output":
        arrival = Arrival()
        kept = KeptBytes((Path(path), Path(f"{path}.err"), Path(f"{path}.order")), arrival)
        output = Output(kept, arrival, 0, cap=1 << 20)
        await output.append(b"x" * 100_000)
        refuse_to_sync()
        try:
            await kept.sync()
        except OSError as error:
            print("not synced", error.strerror)
        return
    if when == "open":
        refuse_to_sync()
    async with Ledger.open(path, durability=durability) as ledger:
        await ledger.open_session(record)
        refuse_to_sync()
        try:
            print("answered", (await ledger.append("s", "x")).seq)
            if when == "sync":
                await ledger.sync()
        except InfrastructureFailure as error:
            print("refused", error.code)


try:
    asyncio.run(main(sys.argv[1], "power" if sys.argv[2] == "power" else "process", sys.argv[3]))
except ConfigurationError as error:
    print(error)
