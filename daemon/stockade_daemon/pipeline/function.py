"""Running a function: a conversation with a body that may lie.

    body → context       for the agent, after the result, whatever that is
    body → open          the gate reads; the body gets sealed bytes
    body → locate        the gate says where a path leads; a body with a view looks there itself
    body → showed        remembered, and told to the gate when the call has succeeded (learned.py)
    body → list          the gate looks; the body gets a window of the names
    body → edit-intent   decided, asked about if the profile says so, committed
    body → write-intent  the same
    body → image         a part of the result, when the call has succeeded
    body → todos         recorded when the call has succeeded
    body → job           answered from what the daemon knows of the session's jobs
    body → value, error  the end

A frame that is none of these, malformed, oversize or out of place fails the call and nothing else.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stockade_daemon import json_text
from stockade_daemon.errors import CODES, OF_TOOLS, GateRefusal, InfrastructureFailure, Refusal, ToolFailure
from stockade_daemon.gate.content import sealed
from stockade_daemon.gate.gate import Gate, Opened
from stockade_daemon.gate.intents import Committed, EditIntent, WriteIntent
from stockade_daemon.gate.observations import Observation
from stockade_daemon.pipeline import intents, outcomes, wishes
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.describe import sources
from stockade_daemon.pipeline.effects import discarded, settle
from stockade_daemon.pipeline.jobs_asked import asked
from stockade_daemon.pipeline.output import Pump
from stockade_daemon.pipeline.stop import Stopped
from stockade_daemon.pipeline.stopped import while_running
from stockade_daemon.pipeline.telling import Told
from stockade_daemon.pipeline.wishes import broken
from stockade_daemon.policy.pending import Parked
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.sandbox.accounting import Exit
from stockade_daemon.sandbox.channel import ChannelClosed
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Access, Image, Json, Outcome, PythonBody
from stockade_worker.frames import BrokenFrame, Frame

_MOST_FRAMES = 100_000  # of one call
_MOST_TEXT = 2000  # of a message
_LAST_WORDS_S = 1.0  # how long a body that has hung up may take to end
_MODULES = "stockade_worker.tools"


async def run_function(services: Services, judged: Judged, under_way: CallUnderWay, worker: Worker) -> Outcome:
    """The function's outcome."""
    since = await under_way.live.gate.transactions.begin()
    talk = _Conversation(services, judged, under_way, worker)
    pumps = (Pump(worker.stdout, under_way.stdout), Pump(worker.stderr, under_way.stderr))
    outcome = Outcome()
    parked: Parked | None = None
    async with asyncio.TaskGroup() as tasks:
        for each in pumps:
            tasks.create_task(each.run())
        try:
            outcome = await under_way.stop.race(talk.run())
        except Stopped as stopped:
            outcome = outcomes.refused(while_running(stopped, limit=under_way.clock.reason, after=talk.effects()))
        except Refusal as refusal:
            outcome = outcomes.refused(refusal)
        except Parked as waiting:
            parked = waiting  # raised below: within the group of tasks it would come out as a group
        finally:
            talk.close()
            try:
                await worker.look()
            finally:
                worker.kill()
                # What it printed before its answer lies in the pipes; nothing else of it is waited for.
                for each in pumps:
                    each.finish()
    if parked is not None:
        raise parked
    past = under_way.printed.stopped(judged.session.profile, talk.effects())
    if past is not None and (outcome.error is None or outcome.error.code == "OUTPUT_LIMIT"):
        # Also where it had answered before its last output was read: what counts is what it printed.
        outcome = outcomes.refused(past)
    account = worker.account(talk.ended)
    reached = account.reached(judged.session.profile.limits)
    if talk.hung_up and reached is not None:
        message = f"the tool reached its limit of {reached}; effects: {talk.proven()}. {outcomes.LESS}"
        outcome = outcomes.failed("RESOURCE_LIMIT", message)
    usage = replace(account.usage, wall_s=under_way.clock.spent)
    value, content = outcome.value, (*outcome.content, *under_way.printed.cut())
    error = outcome.error
    if judged.manifest.access is Access.OVERLAY:
        await worker.gone()
        if outcome.ok:
            done = Outcome(value={"result": value}, has_value=True, content=content, layers=worker.layers, usage=usage)
            came = await settle(services, judged, under_way, worker, since, "tool", done)
            if came.refusal is not None:
                failed = outcomes.refused(came.refusal)
                error, content = failed.error, (*failed.content, *content)
        else:
            came = await discarded(worker, under_way, "tool")
        content = (*content, *came.content)
        value = {"result": value, **came.listed} if outcome.has_value else None
    return Outcome(
        value=value,
        has_value=outcome.has_value,
        content=content,
        images=outcome.images,
        error=error,
        layers=worker.layers,
        usage=usage,
        context=talk.told.texts,
        effects=talk.proven() if talk.hung_up else "",
        learned=outcome.learned,
    )


class _Conversation:
    def __init__(self, services: Services, judged: Judged, under_way: CallUnderWay, worker: Worker) -> None:
        self._services = services
        self._judged = judged
        self._under_way = under_way
        self._worker = worker
        self._requests = worker.requests
        self.hung_up = False  # the body's process ended its channel without an answer
        self.ended: Exit | None = None  # how, where that is known
        self.told = Told()
        self._gate: Gate = under_way.live.gate
        self._opened: dict[str, Opened] = {}
        self._showed: list[Observation] = []
        self._said: dict[str, Refusal] = {}  # what the daemon refused in this call, by code
        self._committed: list[Committed] = []
        self._images: list[Image] = []
        self._todos: dict[str, Json] | None = None  # the event, when the call has succeeded

    async def run(self) -> Outcome:
        await self._begin()
        for _ in range(_MOST_FRAMES):
            frame = await self._next()
            match frame.type:
                case "value":
                    return self._value(frame)
                case "error":
                    raise self._error(frame)
                case "open":
                    await self._answer(self._open(frame))
                case "locate":
                    await self._answer(self._locate(frame))
                case "context":
                    await self._answer(self._note_context(frame))
                case "showed":
                    await self._answer(self._note_showed(frame))
                case "edit-intent":
                    await self._answer(self._edit(frame))
                case "write-intent":
                    await self._answer(self._change(wishes.write(frame)))
                case "list":
                    await self._answer(self._list(frame))
                case "image":
                    await self._answer(self._note_image(frame))
                case "todos":
                    await self._answer(self._note_todos(frame))
                case "job":
                    await self._answer(self._job(frame))
                case other:
                    raise broken(f"a frame of type {other[:40]!r}")
        raise broken(f"more than {_MOST_FRAMES} frames")

    def effects(self) -> str:
        """What has been committed so far, for a call that ends early."""
        if not self._committed:
            return "nothing was changed"
        return f"committed before that: {', '.join(done.path for done in self._committed)}"

    def proven(self) -> str:
        """The same as a recovered call says it. A transaction is the daemon's own: when the body is found to be gone,
        each that had begun has been committed, or was refused to the body."""
        paths = dict.fromkeys(done.path for done in self._committed)
        return f"committed: {', '.join(paths)}" if paths else outcomes.NO_EFFECTS

    def close(self) -> None:
        for opened in self._opened.values():
            self._gate.forget(opened.handle)

    async def _begin(self) -> None:
        call, custom = self._judged.call, self._judged.manifest.custom
        header: dict[str, Any] = {"type": "function", "module": f"{_MODULES}.{call.tool}"}
        blob = b""
        if isinstance(custom, PythonBody):
            job, blob = sources(custom.code)
            name = f"{custom.code.stem}.py"
            header = {"type": "function", "index": custom.index, "files": custom.files, "origin": name, **job}
        try:
            await self._requests.send(header, blob + json_text.dump(call.arguments))
        except ChannelClosed as error:
            raise await self._gone() from error

    async def _next(self) -> Frame:
        try:
            return await self._requests.receive()
        except ChannelClosed as error:
            raise await self._gone() from error
        except BrokenFrame as error:
            raise broken(str(error)) from error

    async def _gone(self) -> Refusal:
        self.hung_up = True
        self.ended = await self._worker.last_words(_LAST_WORDS_S)
        if self.ended is None:  # nothing reports its end: init has ended as well, which nobody inside can make it do
            return InfrastructureFailure(
                "TOOL_FAILED",
                "the worker was ended from outside (killed, or the host ran out of memory); effects: "
                f"{self.proven()}. Look at the host's log and at the state, then repeat the call",
            )
        return ToolFailure(
            "TOOL_FAILED",
            f"the tool's process ended without an answer (killed, or out of a limit); effects: {self.proven()}. "
            "Look at the state, then repeat the call",
        )

    async def _answer(self, work: Any) -> None:
        """Does what a frame asks and answers it; a refusal is an answer too, a violation of the protocol is the end."""
        try:
            header, descriptor = await work
        except Refusal as refusal:
            if refusal.code == "INVALID_TOOL_OUTPUT":
                raise
            self._said[refusal.code] = refusal
            header, descriptor = {"type": "refused", "code": refusal.code, "message": refusal.message}, None
        try:
            await self._requests.send(header, descriptors=() if descriptor is None else (descriptor,))
        except ChannelClosed as error:
            raise await self._gone() from error
        finally:
            if descriptor is not None:
                os.close(descriptor)

    async def _open(self, frame: Frame) -> tuple[dict[str, Json], int | None]:
        path, for_edit = wishes.opened_for(frame)
        try:
            opened = await self._gate.read(path, editing=for_edit)
        except GateRefusal as refusal:
            if refusal.code == "FS_NOT_FOUND" and self._judged.manifest.observes:
                absent = await self._gate.absent(path)
                if absent is not None:
                    self._note("fs/observed", absent.body())
            raise
        self._opened[opened.handle] = opened
        header: dict[str, Json] = {
            "type": "opened",
            "handle": opened.handle,
            "digest": opened.digest,
            "size": opened.size,
            **wishes.name(opened.real),
        }
        return header, opened.descriptor

    async def _locate(self, frame: Frame) -> tuple[dict[str, Json], int | None]:
        return wishes.located(await self._gate.locate(wishes.path(frame))), None

    async def _note_showed(self, frame: Frame) -> tuple[dict[str, Json], int | None]:
        handle, first, last = (frame.header.get(name) for name in ("handle", "first", "last"))
        if not isinstance(handle, str) or handle not in self._opened or type(first) is not int or type(last) is not int:
            raise broken("a malformed showed")
        if not self._judged.manifest.observes:
            raise broken("a claim to have shown a file, which its manifest does not allow")
        self._showed.append(self._gate.part(handle, first=first, last=last))
        return {"type": "noted"}, None

    async def _note_context(self, frame: Frame) -> tuple[dict[str, Json], int | None]:
        self.told.add(frame)
        return {"type": "noted"}, None

    async def _edit(self, frame: Frame) -> tuple[dict[str, Json], int | None]:
        handle = frame.header.get("handle")
        opened = self._opened.get(handle) if isinstance(handle, str) else None
        if opened is None:
            raise broken("an edit of a file that it has not opened")
        intent = EditIntent(opened.asked, opened.real, opened.digest, wishes.spans(frame))
        return await self._change(intent, wishes.places(frame))

    async def _change(
        self, intent: EditIntent | WriteIntent, places: Json = None
    ) -> tuple[dict[str, Json], int | None]:
        with self._under_way.clock.paused():
            done, planned = await intents.edit(
                self._services,
                self._judged,
                self._under_way,
                intent,
                places=places,
                on_commit=self._committed.append,
            )
        return wishes.committed(done, planned), None

    async def _list(self, frame: Frame) -> tuple[dict[str, Json], int | None]:
        first, most = wishes.window(frame)
        found = await self._gate.entries(wishes.path(frame), first=first, most=most)
        return {"type": "listed", "total": found.total, **wishes.name(found.real)}, sealed(wishes.listed(found))

    async def _note_image(self, frame: Frame) -> tuple[dict[str, Json], int | None]:
        self._images.append(wishes.image(frame, self._judged.manifest))
        if len(self._images) > 1:
            raise broken("more than one image")
        return {"type": "noted"}, None

    async def _note_todos(self, frame: Frame) -> tuple[dict[str, Json], int | None]:
        self._todos = wishes.todos(frame, self._judged.manifest)
        return {"type": "noted"}, None

    async def _job(self, frame: Frame) -> tuple[dict[str, Json], int | None]:
        wish = wishes.job(frame, self._judged.manifest)
        jobs = self._under_way.jobs
        return {"type": "job", **await asked(self._services, jobs, self._judged.session.session_id, wish)}, None

    def _value(self, frame: Frame) -> Outcome:
        length = frame.header.get("text_bytes")
        if type(length) is not int or not 0 <= length <= len(frame.blob):
            raise broken("a malformed value")
        try:
            text = frame.blob[:length].decode("utf-8")
            value = json_text.parse(frame.blob[length:], max_bytes=len(frame.blob))
        except ValueError as error:
            raise ToolFailure("INVALID_TOOL_OUTPUT", f"the tool's value is not lossless JSON: {error}") from error
        learned: list[tuple[str, Mapping[str, Json]]] = [("fs/observed", seen.body()) for seen in self._showed]
        if self._todos is not None:
            learned.append(("todo/write", self._todos))
        return Outcome(value=value, has_value=True, content=(text,), images=tuple(self._images), learned=tuple(learned))

    def _error(self, frame: Frame) -> Refusal:
        code, message = frame.header.get("code"), frame.header.get("message")
        if not isinstance(code, str) or not isinstance(message, str):
            return broken("a malformed error")
        if code in self._said:
            return self._said[code]
        if code not in OF_TOOLS:
            what = "is not a tool's to give" if code in CODES else "is unknown"
            return ToolFailure(
                "INVALID_TOOL_OUTPUT",
                f"the tool gave the error code {code[:40]!r}, which {what} (it has {', '.join(sorted(OF_TOOLS))}), and "
                f"said: {message[:_MOST_TEXT]}",
            )
        return ToolFailure(code, message[:_MOST_TEXT])

    def _note(self, type: str, body: Mapping[str, Json]) -> None:
        self._services.ledger.note(self._judged.session.session_id, type, self._judged.call.call_id, body)
