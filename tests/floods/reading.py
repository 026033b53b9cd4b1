"""A known flood is read over a connection that is cut all the time, and by readers that are slow."""

import asyncio
import hashlib
import random
from typing import Final

from stockade_client import Call, connect
from stockade_client.session import Session
from tests.floods.daemon import Memory, Place, Report, watched

CUT_EVERY_S: Final = 0.1
MOST_GROWTH: Final = 16 << 20  # bytes of the daemon's resident memory
HANG_S: Final = 600.0  # a hang detector
_WARM_MB: Final = 8  # buffers that the daemon will have anyway
_MB: Final = 1 << 20
# The same bytes as `digest_of` takes: Random.randbytes is fixed for a seed and a version of Python, and inside is ours.
_FLOOD: Final = """
import random, sys
chance = random.Random({seed})
for _ in range({size_mb}):
    sys.stdout.buffer.write(chance.randbytes(1 << 20))
"""


def digest_of(seed: int, size_mb: int) -> str:
    """SHA-256 of what a flood prints."""
    chance, digest = random.Random(seed), hashlib.sha256()
    for _ in range(size_mb):
        digest.update(chance.randbytes(_MB))
    return digest.hexdigest()


async def flood(session: Session, seed: int, size_mb: int) -> Call:
    """A call that prints so much."""
    program = _FLOOD.format(seed=seed, size_mb=size_mb)
    return await session.start("shell", argv=["python3", "-c", program], timeout_s=HANG_S)


async def digest_read(call: Call) -> tuple[str, int]:
    """SHA-256 of what is read of its stdout until the call is settled, and how many bytes."""
    digest, size = hashlib.sha256(), 0
    async with call.output() as pieces:
        async for piece in pieces:
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size


async def cut(place: Place, report: Report, *, size_mb: int, seed: int) -> None:
    """Read while it is printed, and once more when the call has its result."""
    wanted = await asyncio.to_thread(digest_of, seed, size_mb)
    async with (
        asyncio.timeout(HANG_S),
        place.daemon.session(place.workspace, "whole", id="cut") as session,
        connect(place.proxy.address) as through,
    ):
        await digest_read(await flood(session, seed, _WARM_MB))
        call = await flood(session, seed, size_mb)
        for when in ("while it is printed", "afterwards"):
            cuts, began = place.proxy.cuts, asyncio.get_running_loop().time()
            with watched(place.pid) as memory, place.proxy.cutting_every(CUT_EVERY_S):
                found, size = await digest_read(through.call("cut", call.call_id, "shell"))
            took = asyncio.get_running_loop().time() - began
            cuts = place.proxy.cuts - cuts
            report.say(f"{size_mb} MiB read {when}, cut {cuts} times in {took:.1f} s; {memory}")
            if (found, size) != (wanted, size_mb * _MB):
                report.faults.append(f"{when}: {size} bytes with SHA-256 {found} were read, not {wanted}")
            if not cuts and took > 2 * CUT_EVERY_S:
                report.faults.append(f"{when}: the connection was never cut")
            _judge(memory, f"read over cut connections {when}", report)
        result = await call.result()
        if not result.ok or result.field("exit_code") != 0:
            report.faults.append(f"the flood came to {result.error or result.value}")


async def slow(place: Place, report: Report, *, size_mb: int, readers: int, seed: int) -> None:
    """Readers take a piece and then nothing more until the command has ended, then the rest at their own pace."""
    wanted = await asyncio.to_thread(digest_of, seed, size_mb)
    async with (
        asyncio.timeout(HANG_S),
        place.daemon.session(place.workspace, "whole", id="slow") as session,
    ):
        await digest_read(await flood(session, seed, _WARM_MB))
        with watched(place.pid) as memory:
            call = await flood(session, seed, size_mb)
            ended = asyncio.Event()
            reading = [asyncio.create_task(_lingering(place, call, ended)) for _ in range(readers)]
            result = await call.result()  # which no reader holds up
            ended.set()
            found = await asyncio.gather(*reading)
        report.say(f"{readers} readers that stall at {size_mb} MiB; {memory}")
        if not result.ok or result.field("stdout_kept") != size_mb * _MB:
            report.faults.append(f"beside slow readers the flood came to {result.error or result.value}")
        report.faults += [f"a slow reader read {each}, not {wanted}" for each in found if each != wanted]
        _judge(memory, "beside slow readers", report)


async def _lingering(place: Place, call: Call, ended: asyncio.Event) -> str:
    """On a connection of its own."""
    digest = hashlib.sha256()
    async with connect(place.stockaded.address) as daemon, daemon.call("slow", call.call_id, "shell").output() as read:
        async for piece in read:
            digest.update(piece)
            await ended.wait()
    return digest.hexdigest()


def _judge(memory: Memory, when: str, report: Report) -> None:
    if memory.grown >= MOST_GROWTH:
        report.faults.append(f"{when} the daemon grew by {memory.grown} bytes")
