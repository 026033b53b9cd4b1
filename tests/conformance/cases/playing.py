"""A case's calls, one item after the other, through the public client."""

import asyncio
import json
import re
import sys
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from stockade_client import Call, Daemon, Session
from tests.conformance.cases import profiles
from tests.conformance.cases.asking import Answering, left_pending, repeats
from tests.conformance.cases.daemons import CaseDaemon
from tests.conformance.cases.filling import Places, filled
from tests.conformance.cases.pausing import paused_once
from tests.conformance.cases.replies import Played, Reply
from tests.conformance.cases.verdicts import Fails, Missing

_HEAD: Final = "import os, sys, time, random, shutil, stat, socket, pathlib, json, subprocess, tempfile\n"
_OUTSIDE_S: Final = 120.0  # a hang detector
_FROM_READ: Final = re.compile(r"^<line (\d+) content as returned by read>$")


class Player:
    """Plays the items of one case. Sessions are opened when they are first named."""

    def __init__(
        self, played: Played, daemon: CaseDaemon, connection: Daemon, profile: str, owned: AsyncExitStack
    ) -> None:
        self._played = played
        self._places: Places = played.places
        self._daemon = daemon
        self._connection = connection
        self._profile = profile
        self._owned = owned
        self._sessions: dict[str, Session] = {}
        self._answering: dict[str, Answering] = {}
        self._opening = asyncio.Lock()

    async def play(self, *, asks: bool) -> None:
        """Raises Fails where the outside program of a case fails, Missing for what cannot be played."""
        for item in self._played.case.calls:
            self._played.replies.append(await self._item(item, asks))

    async def _item(self, item: Mapping[str, Any], asks: bool) -> list[Reply]:
        if "tool" in item:
            return [await self._call(item, asks) for _ in range(repeats(item.get("then", "")))]
        if "outside" in item:
            await outside(item["outside"], self._places)
            return []
        if "parallel" in item:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._item(each, asks)) for each in item["parallel"]]
            return [reply for task in tasks for reply in task.result()]
        if "batch_in_order" in item:
            return await self._batch(item["batch_in_order"])
        if "repeat" in item:
            return [reply for _ in range(item["repeat"]) for reply in await self._item(item["call"], asks)]
        if "daemon" in item or "daemon_event" in item:
            await self._daemon_item(str(item.get("daemon") or item.get("daemon_event")))
        return []

    async def _call(self, item: Mapping[str, Any], asks: bool) -> Reply:
        session = await self._session(item.get("session", ""))
        arguments, text = self._arguments(item)
        if "at_pause" in item and "pause" in self._played.case.config():
            async with paused_once(self._daemon, lambda: self._at_pause(item["at_pause"])):
                if asks:
                    return await self._asked(session, item, arguments, text)
                return await self._plain(session, item["tool"], arguments, text)
        if asks:
            return await self._asked(session, item, arguments, text)
        if "cancel_after_s" in item:
            started = time.monotonic()
            call = await session.start_json(item["tool"], text)
            async with session.events(follow=True, call_id=call.call_id) as events:
                async for event in events:
                    if event.type in ("call/dispatched", "tool/result"):
                        break  # the time counts from the body's beginning, however long that took
            await _cancelled(call, item["cancel_after_s"])
            return Reply(item["tool"], arguments, await call.result(), time.monotonic() - started)
        return await self._plain(session, item["tool"], arguments, text)

    async def _at_pause(self, words: str) -> None:
        """Python of the case's, or a change of policy, which is one of the profile's file."""
        if words not in profiles.TIGHTENED:
            await outside(words, self._places)
            return
        file = self._daemon.profiles / f"{self._profile}.toml"
        before, after = profiles.TIGHTENED[words]
        text = await asyncio.to_thread(file.read_text)
        if before not in text:
            raise Missing(f"a profile in which {words!r} changes something")
        await asyncio.to_thread(file.write_text, text.replace(before, after))

    async def _plain(self, session: Session, tool: str, arguments: Any, text: bytes) -> Reply:
        started = time.monotonic()
        result = await session.call_json(tool, text)
        return Reply(tool, arguments, result, time.monotonic() - started)

    async def _asked(self, session: Session, item: Mapping[str, Any], arguments: Any, text: bytes) -> Reply:
        answering = self._answering[item.get("session", "")]
        await answering.attach()
        started = time.monotonic()
        call = await session.start_json(item["tool"], text)
        change = item.get("while_pending")
        meanwhile = (lambda: outside(change, self._places)) if change else None
        cards, pending = await answering.answer(call, item.get("then"), meanwhile)
        result = await (left_pending(call) if pending else call.result())
        seconds, told, again = time.monotonic() - started, answering.told, answering.again
        return Reply(item["tool"], arguments, result, seconds, tuple(cards), pending, told, again, answering.late)

    async def _batch(self, items: list[Mapping[str, Any]]) -> list[Reply]:
        session = await self._session(items[0].get("session", "") if items else "")
        given = [(item["tool"], *self._arguments(item)) for item in items]
        started = time.monotonic()
        results = await session.call_many([(tool, text) for tool, _, text in given])
        took = time.monotonic() - started
        return [Reply(tool, sent, result, took) for (tool, sent, _), result in zip(given, results, strict=True)]

    def _arguments(self, item: Mapping[str, Any]) -> tuple[Any, bytes]:
        if "raw_args" in item:
            text = self._places.fill(item["raw_args"]).encode("utf-8", "surrogatepass")
            return text, text
        arguments = {name: self._from_read(value) for name, value in filled(item.get("args", {}), self._places).items()}
        return arguments, json.dumps(arguments, ensure_ascii=False).encode("utf-8", "surrogatepass")

    def _from_read(self, value: Any) -> Any:
        """A line of the last reply of `read`, without its end, where the argument asks for that."""
        found = _FROM_READ.match(value) if isinstance(value, str) else None
        if found is None:
            return value
        reads = [reply for reply in self._played.all() if reply.tool == "read" and reply.ok]
        lines = str(reads[-1].field("content")).split("\n") if reads else []
        wanted = int(found[1]) - int(reads[-1].field("first_line") or 1) if reads else 0
        if not 0 <= wanted < len(lines):
            raise Fails(f"no read has shown line {found[1]}")
        return lines[wanted].removesuffix("\r")

    async def _session(self, name: str) -> Session:
        async with self._opening:
            if name not in self._sessions:
                session = await self._owned.enter_async_context(
                    self._connection.session(self._places.given, self._profile)
                )
                self._sessions[name] = session
                self._answering[name] = Answering(self._connection, session.session_id, self._owned)
            return self._sessions[name]

    async def _daemon_item(self, words: str) -> None:
        if words.startswith("restart"):
            await self._daemon.stop()
            await self._daemon.start()
        else:
            raise Missing(f"a way to have the daemon {words!r}")


async def outside(code: str, places: Places) -> None:
    """Runs Python that is not the product's in the workspace. Raises Fails where it fails: the case is at fault."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HEAD + places.fill(code),
        cwd=places.workspace,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_OUTSIDE_S):
            said, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise Fails(f"the case's own program ended with {process.returncode}: {said.decode(errors='replace')[-300:]}")


async def _cancelled(call: Call, seconds: float) -> None:
    """Takes the call back after that time, or has its result before."""
    waiting = asyncio.ensure_future(call.result())
    try:
        await asyncio.wait([waiting], timeout=seconds)
    finally:
        waiting.cancel()
        await asyncio.wait([waiting])
    if call.settled is None:
        await call.cancel()
