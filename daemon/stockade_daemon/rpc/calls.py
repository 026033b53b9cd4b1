"""stockade.v1.Calls."""

import asyncio
import functools
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from stockade.v1 import calls_pb2, calls_pb2_grpc
from stockade_daemon import json_text
from stockade_daemon.errors import RequestError
from stockade_daemon.ledger.ledger import VALUE_PART, Ledger
from stockade_daemon.pipeline.both import settled
from stockade_daemon.pipeline.engine import Engine
from stockade_daemon.pipeline.printed import BOTH, PRINTED
from stockade_daemon.pipeline.turn import Turn
from stockade_daemon.policy.access import may_see
from stockade_daemon.rpc import wire
from stockade_daemon.rpc.access import Access
from stockade_daemon.rpc.heartbeats import beating, pulse_of
from stockade_daemon.rpc.methods import streaming, unary
from stockade_daemon.values import Principal

_CHUNK = 256 * 1024
_LONGEST_WAIT_S = 60.0
_TURN_BYTES = 2 * 1024 * 1024  # of results, or cards, in one message, which may have twice as much
_PARTS = {
    calls_pb2.OUTPUT_PART_VALUE: "value",
    calls_pb2.OUTPUT_PART_STDOUT: "stdout",
    calls_pb2.OUTPUT_PART_STDERR: "stderr",
    calls_pb2.OUTPUT_PART_ARGUMENTS: "arguments",
    calls_pb2.OUTPUT_PART_BOTH: BOTH,
}
_STREAMS = {"stdout": calls_pb2.OUTPUT_PART_STDOUT, "stderr": calls_pb2.OUTPUT_PART_STDERR}

_OUTCOMES = {calls_pb2.OUTCOME_DONE: True, calls_pb2.OUTCOME_NOT_DONE: False}
_LONGEST_NOTE = 4096  # bytes


class CallsService(calls_pb2_grpc.CallsServicer):
    def __init__(self, access: Access, engine: Engine, ledger: Ledger) -> None:
        self.access = access
        self._engine = engine
        self._ledger = ledger

    @unary
    async def Start(self, request: calls_pb2.StartCallRequest, context: Any, me: Principal) -> calls_pb2.Call:
        await self.access.change(me, request.session_id)
        await self._engine.begin(
            request.session_id,
            request.call_id,
            request.tool,
            request.arguments,
            left_out=min(request.arguments_left_out, wire.LARGEST),
            by=me.name,
        )
        return await self._call(request.session_id, request.call_id, request.wait_s)

    @unary
    async def StartTurn(self, request: calls_pb2.StartTurnRequest, context: Any, me: Principal) -> calls_pb2.Turn:
        await self.access.change(me, request.session_id)
        calls = [(each.call_id, each.tool, each.arguments) for each in request.calls]
        left_out = {each.call_id: min(each.arguments_left_out, wire.LARGEST) for each in request.calls}
        turn = await self._engine.begin_turn(request.session_id, request.turn_id, calls, left_out=left_out, by=me.name)
        with suppress(TimeoutError):
            async with asyncio.timeout(min(request.wait_s, _LONGEST_WAIT_S)):
                await turn.over.wait()
        return await self._turn(request.session_id, turn)

    @unary
    async def CancelTurn(self, request: calls_pb2.CancelTurnRequest, context: Any, me: Principal) -> calls_pb2.Turn:
        await self.access.change(me, request.session_id)
        turn = await self._engine.cancel_turn(request.session_id, request.turn_id, by=me.name)
        return await self._turn(request.session_id, turn)

    @unary
    async def List(
        self, request: calls_pb2.ListCallsRequest, context: Any, me: Principal
    ) -> calls_pb2.ListCallsResponse:
        if request.session_id:
            await self.access.see(me, request.session_id)
        seen = [
            wire.under_way(each)
            for each in self._engine.under_way(request.session_id)
            if request.session_id or may_see(me, await self._engine.sessions.owner(each.session_id))
        ]
        return calls_pb2.ListCallsResponse(calls=_fitting(seen))

    @unary
    async def Wait(self, request: calls_pb2.WaitCallRequest, context: Any, me: Principal) -> calls_pb2.Call:
        await self.access.see(me, request.session_id)
        return await self._call(request.session_id, request.call_id, request.wait_s)

    @unary
    async def Cancel(self, request: calls_pb2.CancelCallRequest, context: Any, me: Principal) -> calls_pb2.Call:
        await self.access.change(me, request.session_id)
        await self._engine.cancel(request.session_id, request.call_id, by=me.name)
        return await self._call(request.session_id, request.call_id, 0)

    @unary
    async def Signal(self, request: calls_pb2.SignalCallRequest, context: Any, me: Principal) -> calls_pb2.Call:
        await self.access.change(me, request.session_id)
        await self._engine.wait(request.session_id, request.call_id, 0)
        await self._engine.jobs.signal(request.session_id, request.call_id, request.signal, by=me.name)
        return await self._call(request.session_id, request.call_id, 0)

    @unary
    async def ResolveUnknown(
        self, request: calls_pb2.ResolveUnknownRequest, context: Any, me: Principal
    ) -> calls_pb2.Call:
        done = _OUTCOMES.get(request.outcome)
        if done is None:
            raise RequestError("INVALID_ARGUMENT", "outcome is neither DONE nor NOT_DONE")
        if len(request.note.encode()) > _LONGEST_NOTE:
            raise RequestError("INVALID_ARGUMENT", f"the note is longer than {_LONGEST_NOTE} bytes; shorten it")
        await self.access.change(me, request.session_id)
        await self._ledger.resolve(request.session_id, request.call_id, done=done, note=request.note, by=me.name)
        return await self._call(request.session_id, request.call_id, 0)

    @streaming
    async def ReadOutput(
        self, request: calls_pb2.ReadOutputRequest, context: Any, me: Principal
    ) -> AsyncIterator[calls_pb2.OutputChunk]:
        part = _PARTS.get(request.part)
        if part is None:
            raise RequestError("INVALID_ARGUMENT", "part is none of VALUE, STDOUT, STDERR, BOTH and ARGUMENTS")
        await self.access.see(me, request.session_id)
        record, _ = await self._engine.wait(request.session_id, request.call_id, 0)
        offset = min(request.offset, wire.LARGEST)
        if part == "value" and record.state != "settled":
            raise RequestError("FAILED_PRECONDITION", "the call has no value yet; wait until it is settled")
        chunks = self._chunks(request, part, offset)
        async with aclosing(beating(chunks, pulse_of(request.heartbeat_s if request.follow else 0))) as beats:
            # Each waits until grpc has taken the one before: a reader that stalls costs a chunk, and what grpc and the
            # kernel hold.
            async for chunk in beats:
                if chunk is None:
                    chunk = calls_pb2.OutputChunk(offset=offset, heartbeat=True)
                yield chunk
                offset = chunk.offset + len(chunk.data)

    async def _chunks(
        self, request: calls_pb2.ReadOutputRequest, part: str, offset: int
    ) -> AsyncGenerator[calls_pb2.OutputChunk, None]:
        if part in PRINTED:
            running = await self._engine.running_output(request.session_id, request.call_id, begun=request.follow)
            if running is not None:
                while await running.more(part, offset) if request.follow else running.size(part) > offset:
                    stream, data = await running.read(part, offset, _CHUNK)
                    if not data:
                        break
                    yield _chunk(part, stream, offset, data)
                    offset += len(data)
                if not request.follow:
                    return
                # The stream may have ended with a read that came too late; the settled record has the rest.
                await self._engine.wait(request.session_id, request.call_id, _LONGEST_WAIT_S)
        async for chunk in self._settled(request.session_id, request.call_id, part, offset):
            yield chunk

    async def _settled(
        self, session_id: str, call_id: str, part: str, offset: int
    ) -> AsyncIterator[calls_pb2.OutputChunk]:
        if part == BOTH:
            kept_of = functools.partial(self._ledger.output, session_id, call_id)
            async with settled(kept_of, functools.partial(self._engine.output_file, session_id, call_id)) as both:
                while True:
                    stream, data = await both.read(offset, _CHUNK)
                    if not data:
                        return
                    yield _chunk(part, stream, offset, data)
                    offset += len(data)
        record, _ = await self._engine.wait(session_id, call_id, 0)
        kept = await self._ledger.output(session_id, call_id, part)
        if kept is None and part == "value" and record.result is not None and "value" in record.result:
            kept = json_text.dump(record.result["value"])
        path = self._engine.output_file(session_id, call_id, part)
        while True:
            data = kept[offset : offset + _CHUNK] if kept is not None else await asyncio.to_thread(_slice, path, offset)
            if not data:
                return
            yield calls_pb2.OutputChunk(offset=offset, data=data)
            offset += len(data)

    async def _turn(self, session_id: str, turn: Turn) -> calls_pb2.Turn:
        """Raises RequestError, or whatever else ended it before its calls had their results."""
        if turn.over.is_set() and turn.failure is not None:
            raise turn.failure
        message = calls_pb2.Turn(session_id=session_id, turn_id=turn.turn_id)
        left = _TURN_BYTES
        for wanted in turn.calls:
            call = await self._call(session_id, wanted.call_id, 0)
            left -= call.ByteSize()
            if left < 0:
                call.ClearField("result")
            message.calls.append(call)
        return message

    async def _call(self, session_id: str, call_id: str, wait_s: float) -> calls_pb2.Call:
        record, waiting_for = await self._engine.wait(session_id, call_id, min(wait_s, _LONGEST_WAIT_S))
        value = None
        if record.result is not None and "value_digest" in record.result:
            value = await self._ledger.output(session_id, call_id, VALUE_PART)
        return wire.call(record, waiting_for, value, self._engine.card(session_id, call_id))


def _fitting(calls: list[calls_pb2.CallUnderWay]) -> list[calls_pb2.CallUnderWay]:
    """The calls, without the cards that would make the message too large."""
    left = _TURN_BYTES
    for each in calls:
        left -= len(each.card)
        if left < 0:
            each.ClearField("card")
    return calls


def _chunk(part: str, stream: str, offset: int, data: bytes) -> calls_pb2.OutputChunk:
    """Of a view of both streams each chunk says whose bytes it has."""
    of = _STREAMS[stream] if part == BOTH else calls_pb2.OUTPUT_PART_UNSPECIFIED
    return calls_pb2.OutputChunk(offset=offset, data=data, stream=of)


def _slice(path: Path, offset: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(descriptor, _CHUNK, offset)
    finally:
        os.close(descriptor)
