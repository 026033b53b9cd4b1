"""Background jobs: commands that go on after the call that started them has its result.

    shell{background} → policy as ever → a call of its own is recorded, `parent` says whose → its worker has the command
                      → result of the first: which job it is

A job takes the same way as any call, but what policy had to say was said of its parent, with the same arguments under
the same profile; guards look again. It ends by itself, when it is cancelled, when its time is up, with its session,
with the daemon, and when its parent comes to anything but a success.
"""

import asyncio
import logging
import secrets
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from stockade_daemon.errors import RequestError, ToolFailure
from stockade_daemon.pipeline.arguments import INLINE_ARGUMENTS, recorded_arguments
from stockade_daemon.pipeline.context import CallUnderWay, Services, printed_by
from stockade_daemon.pipeline.identity import digest
from stockade_daemon.pipeline.stop import Clock, Stop, Stopped
from stockade_daemon.pipeline.stopped import before_dispatch, while_running
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.values import Access, Json, Outcome

_log = logging.getLogger(__name__)

SIGNALS: Final = {
    name: int(signal.Signals[name]) for name in ("SIGHUP", "SIGINT", "SIGKILL", "SIGTERM", "SIGUSR1", "SIGUSR2")
}
_REMEMBERED: Final = 64  # of a session; those that have ended are forgotten first
_MOST_MESSAGE: Final = 500  # characters of an error
_TOOL: Final = "shell"
_VIEWS: Final = {"read": Access.READ, "overlay": Access.OVERLAY}

Key: TypeAlias = tuple[str, str]  # session, call


@dataclass(frozen=True, slots=True)
class Job:
    """A job that this daemon has started."""

    job_id: str
    parent: str
    title: str  # of its card
    workspace: str  # read | overlay
    since_ms: int
    ended: Mapping[str, Json] | None = None  # of the recorded result what `end` says; None: there is none


def is_start(judged: Judged) -> bool:
    """Whether this call only starts a job."""
    call, manifest = judged.call, judged.manifest
    asked = manifest.custom is None and manifest.name == _TOOL and call.arguments.get("background") is True
    return asked and not call.background


def end(value: Json, error: Mapping[str, Json] | None) -> dict[str, Json]:
    """How a job ended, from the value and the error of its result."""
    told: dict[str, Json] = {}
    if isinstance(value, Mapping):
        told |= {name: value.get(name) for name in ("exit_code", "signal", "stdout_bytes", "stderr_bytes")}
    if error is not None:
        told["error"] = f"{error['code']}: {str(error['message'])[:_MOST_MESSAGE]}"
    return told


class Jobs:
    """The jobs of all sessions. Calls are the engine's: `calls` are those under way, `run` takes one to its result, and
    `admit` raises RequestError where a session takes no new ones."""

    def __init__(
        self,
        services: Services,
        calls: dict[Key, CallUnderWay],
        tasks: asyncio.TaskGroup,
        *,
        admit: Callable[[str], Awaitable[None]],
        run: Callable[[CallUnderWay, Judged, None], Awaitable[None]],
    ) -> None:
        self._services = services
        self._calls = calls
        self._tasks = tasks
        self._admit = admit
        self._run = run
        self._started: dict[str, dict[str, Job]] = {}

    async def start(self, judged: Judged, parent: CallUnderWay) -> Outcome:
        """Starts the job that this call asks for; returns when its worker has the command.

        Raises Aborted, ToolFailure RESOURCE_LIMIT (as many jobs as the profile allows are under way), and what kept the
        job from beginning.
        """
        try:
            await self._admit(judged.session.session_id)
            parent.stop.check()
        except RequestError:
            raise before_dispatch(Stopped("draining")) from None
        except Stopped as stopped:
            raise before_dispatch(stopped) from None
        self._check_room(judged)
        job, child = self._made(judged, parent)
        session_id, job_id = child.call.session_id, child.call.call_id
        # In the table before anything is awaited: whoever ends a session finds it there, and counts it.
        self._calls[session_id, job_id] = child
        try:
            # After a crash the parent must not say that nothing was started.
            await self._services.ledger.dispatched(
                session_id, parent.call.call_id, {"access": str(Access.NONE), "layers": []}
            )
            parent.dispatched = True
            await self._record(child, job)
        except BaseException:
            del self._calls[session_id, job_id]
            child.settled.set()
            raise
        self._remember(session_id, job)
        child.task = self._tasks.create_task(self._go(child, judged, job))
        self._tasks.create_task(self._with_parent(parent, child))
        try:
            await parent.stop.race(_begun(child))
            parent.stop.check()
        except Stopped as stopped:
            child.stop.request(stopped.cause, parent.stop.by)
            await child.settled.wait()
            raise while_running(stopped, limit=parent.clock.reason, after="the job was ended") from None
        if not child.begun.is_set():
            raise _not_begun(child)
        return _answer(job, await parent.printed.value())

    def forget(self, session_id: str) -> None:
        """The session has ended."""
        self._started.pop(session_id, None)

    def find(self, session_id: str, job_id: str) -> Job | None:
        """None: this daemon has started none of that name, or has forgotten it."""
        return self._started.get(session_id, {}).get(job_id)

    def known(self, session_id: str) -> list[Job]:
        """The jobs of a session that this daemon has started and remembers, oldest first."""
        return list(self._started.get(session_id, {}).values())

    def under_way(self, session_id: str, job_id: str) -> CallUnderWay | None:
        """None: it has its result, or there is no such call."""
        return self._calls.get((session_id, job_id))

    async def signal(self, session_id: str, call_id: str, name: str, *, by: str | None = None) -> None:
        """Sends a signal to the process group of a command under way, recorded. `by`: the name of the principal that
        asks; None: whoever started the call.

        Raises RequestError INVALID_ARGUMENT, FAILED_PRECONDITION.
        """
        number = SIGNALS.get(name)
        if number is None:
            raise RequestError("INVALID_ARGUMENT", f"signal {name[:40]!r} is none of {', '.join(SIGNALS)}; send one")
        call = self._calls.get((session_id, call_id))
        if call is None or call.worker is None or not await call.worker.signal(number):
            raise RequestError(
                "FAILED_PRECONDITION",
                f"call {call_id} runs no command: it has its result, or has not begun; look at its state first",
            )
        # Afterwards: what is recorded has happened.
        await self._services.ledger.append(session_id, "call/signalled", call_id, {"signal": name}, by=by)

    def _check_room(self, judged: Judged) -> None:
        session, profile = judged.session.session_id, judged.session.profile
        under_way = [job for (owner, job), each in self._calls.items() if owner == session and each.call.background]
        if len(under_way) >= profile.limits.jobs:
            which = f"{len(under_way)} are under way ({', '.join(under_way[:8])})" if under_way else "none may be"
            raise ToolFailure(
                "RESOURCE_LIMIT",
                f"the session may have {profile.limits.jobs} background jobs at one time (limits.jobs of profile "
                f"{profile.name}), and {which}; nothing was run. Wait for one, kill one, or run the command without "
                "background",
            )

    def _made(self, judged: Judged, parent: CallUnderWay) -> tuple[Job, CallUnderWay]:
        text = judged.call.arguments_text
        call = replace(
            judged.call,
            call_id=f"job-{secrets.token_hex(4)}",
            token=secrets.token_hex(16),
            digest=digest(judged.call.tool, text),
            parent=judged.call.call_id,
            background=True,
        )
        stop = Stop()
        title = (parent.card or {}).get("title")
        child = replace(
            parent,
            call=call,
            printed=printed_by(self._services, parent.live, call.call_id, stop, is_job=True),
            stop=stop,
            clock=Clock(stop),
            place=type(parent.place)(),
            since_ms=time.time_ns() // 1_000_000,
            settled=asyncio.Event(),
            begun=asyncio.Event(),
            record=None,
            outcome=None,
            dispatched=False,
            worker=None,
            task=None,
        )
        view = str(judged.call.arguments.get("workspace", "read"))
        if judged.session.profile.workspace == "read":
            view = "read"
        shown = title if isinstance(title, str) else call.tool
        return Job(call.call_id, judged.call.call_id, shown, view, child.since_ms), child

    async def _record(self, child: CallUnderWay, job: Job) -> None:
        call, text = child.call, child.call.arguments_text
        body: dict[str, Json] = {
            "tool": call.tool,
            **recorded_arguments(text),
            "digest": call.digest,
            "profile_digest": child.live.digest,
            "parent": job.parent,
            "background": True,
        }
        if child.card is not None:
            body["card"] = child.card
        beside = {"arguments": text} if len(text) > INLINE_ARGUMENTS else {}
        _, is_new = await self._services.ledger.start_call(
            call.session_id, call.call_id, call.tool, call.digest, body, beside, by=child.by
        )
        if not is_new:
            raise ToolFailure("TOOL_FAILED", f"call {job.job_id} exists already; nothing was run. Repeat the call")

    async def _go(self, child: CallUnderWay, judged: Judged, job: Job) -> None:
        manifest = replace(judged.manifest, access=_VIEWS[job.workspace])
        await self._run(child, Judged(judged.session, child.call, manifest), None)
        known, outcome = self._started.get(child.call.session_id, {}), child.outcome
        if child.record is not None and outcome is not None and job.job_id in known:
            # Kept, since a value may be megabytes of JSON, and who lists asks about all of them.
            error = None if outcome.error is None else {"code": outcome.error.code, "message": outcome.error.message}
            known[job.job_id] = replace(job, ended=end(outcome.value, error))

    async def _with_parent(self, parent: CallUnderWay, child: CallUnderWay) -> None:
        """Ends a job of which nobody was told."""
        await parent.settled.wait()
        if parent.record is None or parent.record.result is None or parent.record.result.get("ok") is not True:
            child.stop.request(parent.stop.cause or "cancelled", parent.stop.by)

    def _remember(self, session_id: str, job: Job) -> None:
        known = self._started.setdefault(session_id, {})
        known[job.job_id] = job
        too_many = max(0, len(known) - _REMEMBERED)
        for job_id in [each for each in known if (session_id, each) not in self._calls][:too_many]:
            del known[job_id]


async def _begun(child: CallUnderWay) -> None:
    """Waits until its worker has the command, or it has its result without."""
    waits = [asyncio.ensure_future(event.wait()) for event in (child.begun, child.settled)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


def _not_begun(child: CallUnderWay) -> Exception:
    """Why, by its own result."""
    error = child.record.result.get("error") if child.record is not None and child.record.result is not None else None
    if isinstance(error, Mapping):
        return ToolFailure(str(error["code"]), str(error["message"]))
    return ToolFailure("TOOL_FAILED", "the job ended before it had begun, and why is not recorded; start it again")


def _answer(job: Job, printed: Mapping[str, Json]) -> Outcome:
    sees = {
        "read": "It sees the workspace as it is, and cannot change it.",
        "overlay": "It has a private view of the workspace; what becomes of its changes is decided when it ends.",
    }[job.workspace]
    value: dict[str, Json] = {
        **printed,
        "exit_code": None,
        "signal": None,
        "timed_out": False,
        "killed": False,
        "oom": None,
        "limits_hit": [],
        "effects": [],
        "effects_total": 0,
        "effects_disposition": "discarded",
        "job": job.job_id,
    }
    text = f"{job.job_id} runs in the background. {sees} The tool `job` reads its output, waits for it and ends it."
    return Outcome(value=value, has_value=True, content=(text,))
