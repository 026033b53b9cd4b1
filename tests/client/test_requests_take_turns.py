"""Checks of tool files and probes take turns: a client that asks for many at once is sent away, and nobody starves."""

import asyncio

import pytest

from stockade_client import Busy, CheckedTools, Daemon, connect
from stockade_daemon.rpc.turns import WAITING

HANG_S = 60.0  # a hang detector
ENDLESS = b"while True: pass\n"  # ended after ten seconds
TODAY = b'description = "Says the date."\n[program]\nargv = ["date"]\n'


async def test_too_many_at_once_are_told_to_come_later_and_who_goes_away_leaves_its_place(daemon: Daemon) -> None:
    asked = [asyncio.create_task(daemon.check_tool("endless.py", ENDLESS)) for _ in range(WAITING + 4)]
    try:
        async with asyncio.timeout(HANG_S):
            waiting = set(asked)
            while len(waiting) > WAITING + 1:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            refused = [each.exception() for each in asked if each not in waiting]
            assert [type(each) for each in refused] == [Busy] * 3, refused
            assert "repeat it later" in str(refused[0])
            with pytest.raises(Busy):
                await daemon.profiles.probe("strict")
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    async with asyncio.timeout(HANG_S):
        while (found := await once(daemon)) is None:
            pass  # the daemon has yet to hear that they are gone
    assert [each.name for each in found.tools] == ["today"]


async def test_who_connects_does_not_wait_for_examinations(daemon: Daemon) -> None:
    asked = [asyncio.create_task(daemon.doctor()) for _ in range(4)]
    try:
        async with asyncio.timeout(HANG_S), connect(daemon.address) as another:
            assert another.info.protocol == "stockade.v1"
        assert not all(each.done() for each in asked)
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def once(daemon: Daemon) -> CheckedTools | None:
    try:
        return await daemon.check_tool("today.toml", TODAY)
    except Busy:
        return None
