"""A call under way: its result, its output while it runs, and taking it back.

No request is held open for long: starting and waiting return after WAIT_S seconds with the state so far, and
the wait is repeated. A short call therefore costs one round trip, and a long one survives a daemon that
restarts.
"""

import asyncio
import codecs
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from stockade.v1 import calls_pb2
from stockade_client import wire
from stockade_client.errors import NoAnswer, NotFound, StockadeError
from stockade_client.following import HEARTBEAT_S, messages
from stockade_client.link import Link, Stream
from stockade_client.results import CallResult, Json, JsonInput

WAIT_S: Final = 25.0
WITHDRAW_S: Final = 10.0  # killing a process tree and recording it takes milliseconds; this is for a busy host
LAST_TRY_S: Final = 2.0  # the same, of a daemon that was waited for in vain already
CANCEL_AGAIN_S: Final = 1.0  # a cancelled call is settled long before; one that is not has missed the cancellation
UNKNOWN_PAUSE_S: Final = 0.05  # for the request that starts a call to be recorded

Part: TypeAlias = Literal["stdout", "stderr", "both", "value"]
_PARTS: Final[dict[Part, calls_pb2.OutputPart.ValueType]] = {
    "stdout": calls_pb2.OUTPUT_PART_STDOUT,
    "stderr": calls_pb2.OUTPUT_PART_STDERR,
    "both": calls_pb2.OUTPUT_PART_BOTH,
    "value": calls_pb2.OUTPUT_PART_VALUE,
}
_NAMES: Final = {number: part for part, number in _PARTS.items()}

_OUTCOMES: Final = {"done": calls_pb2.OUTCOME_DONE, "not-done": calls_pb2.OUTCOME_NOT_DONE}


def arguments_text(arguments: JsonInput) -> bytes:
    """JSON text of the arguments.

    Whether they fit is the daemon's to judge: NaN and lone surrogates are sent on.
    """
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def leave_out(request: calls_pb2.StartCallRequest | calls_pb2.TurnCall, link: Link) -> None:
    """Leaves out arguments that no request can carry, and says how many they are: the call gets a result that says so,
    like every other one that cannot be."""
    if 0 < link.most_arguments < len(request.arguments):
        request.arguments_left_out = len(request.arguments)
        request.arguments = b""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a call's output."""

    part: Part  # whose they are
    offset: int  # of the first one, in what was read: of `both`, in the view of both
    data: bytes


async def _data(pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces) as reading:
        async for piece in reading:
            yield piece.data


async def _decoded(pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[str, None]:
    """A character that one piece begins is told with the piece that ends it; the other stream does not matter."""
    decoders: dict[Part, codecs.IncrementalDecoder] = {}
    async with aclosing(pieces) as reading:
        async for piece in reading:
            if piece.part not in decoders:
                decoders[piece.part] = codecs.getincrementaldecoder("utf-8")("replace")
            if text := decoders[piece.part].decode(piece.data):
                yield text
    for decoder in decoders.values():
        if text := decoder.decode(b"", final=True):
            yield text


class Call:
    """A handle on one call.

    Made by `Session.start`; the call goes on whether or not anybody holds its handle.
    """

    def __init__(self, link: Link, session_id: str, call_id: str, tool: str) -> None:
        self._link = link
        self._session_id = session_id
        self.call_id = call_id
        self.tool = tool
        self.settled: CallResult | None = None  # the result, once this handle has seen it
        # What a person is shown of it: the pending card, as this handle has last seen it, and then the completed one.
        # Empty until the daemon has said.
        self.card: dict[str, Json] = {}
        self._starting: asyncio.Future[calls_pb2.Call] | None = None

    def __repr__(self) -> str:
        return f"<Call {self.call_id} {self.tool}{' settled' if self.settled else ''}>"

    async def begin(self, arguments: bytes, *, wait_s: float) -> None:
        """Records the call and runs it; returns when it is settled, or after `wait_s` seconds.

        Cancelled meanwhile, it takes the call back before the cancellation goes on: nobody would hold its
        handle.
        """
        request = calls_pb2.StartCallRequest(
            session_id=self._session_id,
            call_id=self.call_id,
            tool=self.tool,
            arguments=arguments,
            wait_s=wait_s,
        )
        leave_out(request, self._link)
        starting = asyncio.ensure_future(
            self._link.ask(
                self._link.calls.Start, request, self._asked_to("start"), wait_s=wait_s, afterwards=self._afterwards
            )
        )
        self._starting = starting
        try:
            # Shielded: a Start that is cut off in the middle may or may not have been recorded.
            message = await asyncio.shield(starting)
        except asyncio.CancelledError:
            await self.withdraw()
            raise
        await self.take(message)

    async def result(self) -> CallResult:
        """The one recorded result. Cancelling this wait leaves the call running; see `cancel` and `withdraw`.

        Raises NoAnswer when the daemon stays away; the call is not lost, ask again.
        """
        while self.settled is None:
            await self._wait(WAIT_S)
        return self.settled

    async def cancel(self, *, patient: bool = True) -> None:
        """Asks for the call's end and waits until it has one; `result` then says which. Safe to repeat.

        Without `patient` a daemon that is away is not waited for. Raises NoAnswer.
        """
        request = calls_pb2.CancelCallRequest(session_id=self._session_id, call_id=self.call_id)
        await self.take(
            await self._link.ask(
                self._link.calls.Cancel,
                request,
                self._asked_to("cancel"),
                patient=patient,
                afterwards=self._afterwards,
            )
        )

    async def kill(self) -> CallResult:
        """Ends the call with all its processes, and returns its result. Raises NoAnswer."""
        await self.cancel()
        return await self.result()

    async def wait(self, seconds: float) -> CallResult | None:
        """The result where it is there within `seconds`, else None; the call goes on. Raises NoAnswer."""
        over = asyncio.get_running_loop().time() + seconds
        while self.settled is None:
            left = over - asyncio.get_running_loop().time()
            await self._wait(max(0.0, min(left, WAIT_S)))
            if left <= 0:
                break
        return self.settled

    async def signal(self, signal: str = "SIGTERM") -> None:
        """Sends SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2 or SIGKILL to the processes of a command that is running, as
        a terminal does; once, so a daemon that is away is not waited for.

        Raises NotFound, NotPossible (it runs no command, or no longer), InvalidRequest (another signal), NoAnswer,
        Incompatible.
        """
        self._link.need("jobs", self._asked_to("signal"))
        request = calls_pb2.SignalCallRequest(
            session_id=self._session_id, call_id=self.call_id, signal=wire.said(signal, "a signal")
        )
        await self.take(await self._link.ask(self._link.calls.Signal, request, self._asked_to("signal"), patient=False))

    async def resolve_unknown(self, outcome: Literal["done", "not-done"], note: str = "") -> CallResult:
        """Records what became of a call that ended with TOOL_OUTCOME_UNKNOWN, and returns its result with that beside.

        Safe to repeat. Raises NotFound, NotPossible (it ended otherwise, or not yet), AlreadyExists (it was resolved
        otherwise), InvalidRequest (the note is longer than 4096 bytes).
        """
        request = calls_pb2.ResolveUnknownRequest(
            session_id=self._session_id, call_id=self.call_id, outcome=_OUTCOMES[outcome]
        )
        if note:
            request.note = wire.said(note, "the note")
        message = await self._link.ask(
            self._link.calls.ResolveUnknown, request, f"resolve call {self.call_id} of session {self._session_id}"
        )
        self.settled = await self._result_of(message)  # what this handle had seen of it is from before
        return self.settled

    async def withdraw(self) -> CallResult | None:
        """Cancels the call and waits for its result, up to WITHDRAW_S seconds; None when there is none by
        then. A daemon that was waited for in vain already is asked once more and not waited for.

        Meant for the way out: it goes on although the task that awaits it is cancelled once more, and a
        daemon that does not answer is no new error on top of the one that is under way.
        """
        leaving = asyncio.ensure_future(self._withdraw())
        return await asyncio.shield(leaving)

    async def _withdraw(self) -> CallResult | None:
        starting = self._starting
        try:
            async with asyncio.timeout(LAST_TRY_S if self._link.gone else WITHDRAW_S):
                while self.settled is None:
                    await self._cancel_and_wait()
        except (TimeoutError, StockadeError):
            pass
        finally:
            if starting is not None:
                starting.cancel()
                await asyncio.wait([starting])
                if not starting.cancelled():
                    starting.exception()  # taken note of; a failed Start leaves nothing to withdraw
        return self.settled

    async def _cancel_and_wait(self) -> None:
        """One attempt. A cancellation can overtake the request that starts the call; then it is sent once more."""
        try:
            await self.cancel(patient=not self._link.gone)
            await self._wait(CANCEL_AGAIN_S)
        except NotFound:
            if self._starting is None or self._starting.done():
                raise
            await asyncio.wait([self._starting], timeout=UNKNOWN_PAUSE_S)

    async def _wait(self, wait_s: float) -> None:
        request = calls_pb2.WaitCallRequest(session_id=self._session_id, call_id=self.call_id, wait_s=wait_s)
        await self.take(
            await self._link.ask(
                self._link.calls.Wait, request, self._asked_to("wait for"), wait_s=wait_s, afterwards=self._afterwards
            )
        )

    def _asked_to(self, verb: str) -> str:
        return f"{verb} {self.tool} (call {self.call_id} of session {self._session_id})"

    @property
    def _afterwards(self) -> str:
        """What to do when the daemon is gone and nobody knows what became of this call."""
        if self._link.private:
            return "it was a private one: look at the workspace before running the call again"
        return f"`stockade ledger {self.call_id}` after a restart tells what became of it"

    def output(
        self, offset: int = 0, part: Part = "stdout", follow: bool = True, *, heartbeat_s: float = HEARTBEAT_S
    ) -> Stream[bytes]:
        """Bytes of the call's output from `offset` on; with `follow`, until the call is settled.

        `part` is stdout, stderr or both (raw bytes, while it runs and afterwards; both in the order in which they
        arrived) or value (JSON text, of a settled call). What stands at an offset never changes: read on from there
        later, or over another connection. heartbeat_s: as of events.read. Incompatible is raised where the daemon
        does not know both.
        """
        return Stream(_data(self._output(offset, part, follow, self._beat_s(follow, heartbeat_s))))

    def pieces(
        self, offset: int = 0, part: Part = "both", follow: bool = True, *, heartbeat_s: float = HEARTBEAT_S
    ) -> Stream[Piece]:
        """The same, with whose bytes they are and where they stand. Offsets of `both` count in the view of both."""
        return Stream(self._output(offset, part, follow, self._beat_s(follow, heartbeat_s)))

    def text(
        self, offset: int = 0, part: Part = "both", follow: bool = True, *, heartbeat_s: float = HEARTBEAT_S
    ) -> Stream[str]:
        """The same as text, for a model or a person: no character is ever cut, however the bytes came, and U+FFFD
        stands for bytes alone that are no UTF-8."""
        return Stream(_decoded(self._output(offset, part, follow, self._beat_s(follow, heartbeat_s))))

    def _beat_s(self, follow: bool, heartbeat_s: float) -> float:
        return heartbeat_s if follow and self._link.heartbeats else 0.0

    async def _output(self, offset: int, part: Part, follow: bool, beat_s: float) -> AsyncGenerator[Piece, None]:
        what = self._asked_to("read both outputs of" if part == "both" else f"read the {part} of")
        if part == "both":
            self._link.need("output-both", what)

        def stream(used: Link) -> object:
            request = calls_pb2.ReadOutputRequest(
                session_id=self._session_id,
                call_id=self.call_id,
                part=_PARTS[part],
                offset=offset,
                follow=follow,
                heartbeat_s=beat_s,
            )
            return used.calls.ReadOutput(request, metadata=used.metadata)

        reading = messages(
            self._link,
            stream,
            calls_pb2.OutputChunk,
            beat_s=beat_s,
            what=what,
            afterwards=self._afterwards,
        )
        async with aclosing(reading) as read:
            async for chunk in read:
                offset = chunk.offset + len(chunk.data)
                if not chunk.heartbeat:
                    yield Piece(_NAMES.get(chunk.stream, part), chunk.offset, chunk.data)

    async def take(self, message: calls_pb2.Call) -> None:
        """Keeps the result of a settled call, or the card of another; a value too large for a message is fetched in
        pieces."""
        if self.settled is None and message.state == calls_pb2.CALL_STATE_SETTLED:
            self.settled = await self._result_of(message)
            self.card = self.settled.card
        elif self.settled is None and message.card:
            self.card = wire.call_card_of(message.card, message.tool)

    async def _result_of(self, message: calls_pb2.Call) -> CallResult:
        text = message.result.value
        if not text and message.result.value_size:
            async with self.output(part="value", follow=False) as pieces:
                text = b"".join([piece async for piece in pieces])
            if len(text) != message.result.value_size:
                raise NoAnswer(
                    f"the daemon gave {len(text)} of {message.result.value_size} bytes of the value of "
                    f"{self.call_id}; ask for the result again"
                )
        result = wire.result_of(self.call_id, self.tool or message.tool, message.result, text)
        if message.HasField("resolution"):
            result = replace(result, resolution=wire.resolution_of(message.resolution))
        return result
