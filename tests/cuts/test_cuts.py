"""Some rounds in every run of the suite; `make cuts` makes two hundred. And the proxy cuts where it is told to."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cuts.campaign import campaign
from tests.end_to_end.proxy import between

ROUNDS = 5


async def test_a_connection_that_is_cut_at_any_byte_of_a_call_costs_neither_results_nor_order() -> None:
    seed = random.randrange(10**6)
    print(f"--seed {seed}")
    report = await campaign(ROUNDS, seed)
    assert report.faults == []
    assert report.calls == 6 * (ROUNDS + 1)
    assert report.cuts


@pytest.mark.parametrize("from_daemon", [True, False])
async def test_a_cut_comes_after_exactly_so_many_bytes(scratch: Path, from_daemon: bool) -> None:
    """Against an echo, whose bytes go both ways."""
    heard = bytearray()
    gone = asyncio.Event()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(100):
                heard.extend(piece)
                writer.write(piece)
        writer.close()
        gone.set()

    there, here = scratch / f"echo-{from_daemon}.sock", scratch / f"before-{from_daemon}.sock"
    async with await asyncio.start_unix_server(echo, str(there)), between(there, here) as proxy:
        reader, writer = await asyncio.open_unix_connection(str(here))
        proxy.cut_after(5, from_daemon=from_daemon)
        for piece in (b"abc", b"de", b"fgh"):
            writer.write(piece)
            if piece != b"fgh":
                assert await reader.readexactly(len(piece)) == piece
        got = b""
        with suppress(ConnectionError):
            got = await reader.read()
        await gone.wait()
        writer.close()
        assert (got, bytes(heard)) == (b"", b"abcdefgh" if from_daemon else b"abcde")
        assert proxy.cuts == 1
        assert not proxy.call_off()
