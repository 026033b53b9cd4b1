"""A session: one agent's work on one workspace under one profile.

Nothing here opens a file of the workspace; a path is text that the daemon resolves on its own side.
"""

import asyncio
from collections.abc import Mapping, Sequence

from stockade.v1 import calls_pb2, catalog_pb2, sessions_pb2
from stockade_client import events, ids, wire
from stockade_client.calls import WAIT_S, Call, arguments_text
from stockade_client.errors import InvalidRequest
from stockade_client.following import HEARTBEAT_S
from stockade_client.link import Link, Stream
from stockade_client.results import CallResult, JsonInput
from stockade_client.turns import MOST_CALLS, Turn
from stockade_client.values import Event, SessionInfo, Tool


class Session:
    """Made by `Daemon.session`."""

    def __init__(self, link: Link, info: SessionInfo) -> None:
        self._link = link
        self.info = info

    @property
    def session_id(self) -> str:
        return self.info.session_id

    def __repr__(self) -> str:
        return f"<Session {self.session_id} {self.info.profile} {self.info.workspace}>"

    async def call(self, tool: str, /, **arguments: JsonInput) -> CallResult:
        """Runs a tool and returns its one result, whether it succeeded, failed or was refused.

        Cancelled meanwhile, it takes the call back, waits for that to be settled, and then lets the
        cancellation go on. Raises RequestRefused where the request could not be taken at all, NoAnswer when
        the daemon stays away.
        """
        return await self.call_json(tool, arguments_text(arguments))

    async def call_json(self, tool: str, arguments: bytes, *, call_id: str | None = None) -> CallResult:
        """Like `call`, with the arguments as a model wrote them: JSON text, judged by the daemon alone."""
        call = Call(self._link, self.session_id, _call_id(call_id), wire.said(tool, "a tool's name"))
        await call.begin(arguments, wait_s=WAIT_S)
        try:
            return await call.result()
        except asyncio.CancelledError:
            await call.withdraw()
            raise

    async def call_many(self, calls: Sequence[tuple[str, Mapping[str, JsonInput] | bytes]]) -> list[CallResult]:
        """The results of one turn, in the order of its calls.

        The daemon keeps the order: calls whose tools say that they are safe beside others overlap, every other one
        begins when those before it have their results. A call that fails ends nothing. Cancelled meanwhile, it takes
        the turn back as `call` does a call. Raises what `call` raises, before any call is recorded.
        """
        return await self.turn_json(
            [
                (tool, arguments if isinstance(arguments, bytes) else arguments_text(arguments), None)
                for tool, arguments in calls
            ]
        )

    async def turn_json(self, calls: Sequence[tuple[str, bytes, str | None]]) -> list[CallResult]:
        """Like `call_many`, each call as (tool, arguments as JSON text, its id or None)."""
        if not calls:
            return []
        if len(calls) > MOST_CALLS:
            raise InvalidRequest(
                f"a turn has at most {MOST_CALLS} calls, and this one {len(calls)}: make several turns, in order"
            )
        wanted = [
            (Call(self._link, self.session_id, _call_id(call_id), wire.said(tool, "a tool's name")), arguments)
            for tool, arguments, call_id in calls
        ]
        return await Turn(self._link, self.session_id, wanted).results()

    async def jobs(self) -> list[Call]:
        """Handles on the background jobs of this session that go on, oldest first. Raises Incompatible."""
        self._link.need("jobs", "list its jobs")
        response = await self._link.ask(
            self._link.calls.List, calls_pb2.ListCallsRequest(session_id=self.session_id), "list its jobs"
        )
        return [self.job(each.call_id) for each in response.calls if each.parent]

    def job(self, job_id: str) -> Call:
        """A handle on a background job, as the value of its `shell` call names it; nothing is asked."""
        return Call(self._link, self.session_id, wire.said(job_id, "a job's id"), "shell")

    async def context(self, call_ids: Sequence[str]) -> list[str]:
        """What was told beside the results of these calls, for the model: the texts of their context/message events."""
        told = []
        for call_id in call_ids:
            async with self.events(call_id=call_id) as recorded:
                told += [event.body["text"] async for event in recorded if event.type == "context/message"]
        return [text for text in told if isinstance(text, str)]

    async def start(self, tool: str, /, call_id: str | None = None, **arguments: JsonInput) -> Call:
        """Starts a tool and returns a handle on it. The same id with the same arguments is the same call."""
        return await self.start_json(tool, arguments_text(arguments), call_id=call_id)

    async def start_json(self, tool: str, arguments: bytes, *, call_id: str | None = None) -> Call:
        """Like `start`, with the arguments as JSON text."""
        call = Call(self._link, self.session_id, _call_id(call_id), wire.said(tool, "a tool's name"))
        await call.begin(arguments, wait_s=0.0)
        return call

    async def tools(self) -> list[Tool]:
        """The tools that this session offers, by name."""
        request = catalog_pb2.ListToolsRequest(session_id=self.session_id)
        response = await self._link.ask(self._link.catalog.ListTools, request, "list its tools")
        return [wire.tool_of(tool) for tool in response.tools]

    def events(
        self,
        after: int = 0,
        follow: bool = False,
        call_id: str = "",
        *,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> Stream[Event]:
        """The session's recorded events, or one call's; see events.read."""
        return events.read(
            self._link, self.session_id, after=after, follow=follow, call_id=call_id, heartbeat_s=heartbeat_s
        )

    async def close(self, *, patient: bool = True) -> None:
        """Ends the session: calls under way are cancelled, and it cannot be resumed. Safe to repeat.

        Without `patient` a daemon that is away is not waited for. Raises NoAnswer.
        """
        request = sessions_pb2.CloseSessionRequest(session_id=self.session_id)
        self.info = wire.session_of(
            await self._link.ask(
                self._link.sessions.Close,
                request,
                f"close session {self.session_id}",
                wait_s=WAIT_S,
                patient=patient,
            )
        )


def _call_id(given: str | None) -> str:
    return ids.new("call") if given is None else wire.said(given, "a call's id")
