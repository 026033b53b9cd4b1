"""Running a command: argv in, stdout, stderr, exit and effects out.

Nothing here is the body's word: output is bytes from pipes, the exit comes from init, effects from the overlay.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from stockade_daemon.errors import ArgumentsRefusal, Refusal, ToolFailure
from stockade_daemon.pipeline import outcomes
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.effects import discarded, settle
from stockade_daemon.pipeline.output import Pump
from stockade_daemon.pipeline.stop import Stopped
from stockade_daemon.pipeline.stopped import while_running
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.registry.expanding import expand
from stockade_daemon.sandbox.accounting import Account, Exit
from stockade_daemon.sandbox.channel import ChannelClosed
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Json, Limits, Outcome, ProgramBody
from stockade_worker.frames import BrokenFrame

_DISCARDED = "what it had changed was discarded"
_CHANGED_NOTHING = "its view of the workspace was read-only, so it had changed nothing there"
# What the body's process may say before it becomes the command; anything else from it is no answer.
_CANNOT_START = {"FS_NOT_FOUND", "FS_NOT_DIRECTORY", "FS_OUTSIDE_WORKSPACE", "FS_PERMISSION_DENIED", "FS_IO_ERROR"}


async def run_command(services: Services, judged: Judged, under_way: CallUnderWay, worker: Worker) -> Outcome:
    """The command's outcome; a status other than 0 is a success with that status.

    On a timeout or a cancel the outcome is an error and carries the partial value.
    """
    header, blob = _job(judged)
    since = await under_way.live.gate.transactions.begin()
    started = time.monotonic()
    refusal: Refusal | None = None
    after = _DISCARDED if worker.scratch is not None else _CHANGED_NOTHING
    killed = False
    ended: Exit | None = None
    async with asyncio.TaskGroup() as pumps:
        pumps.create_task(Pump(worker.stdout, under_way.stdout).run())
        pumps.create_task(Pump(worker.stderr, under_way.stderr).run())
        try:
            with suppress(ChannelClosed):  # a worker that is gone already says so by its exit
                await worker.requests.send(header, blob)
            ended = await under_way.stop.race(worker.exited())
        except Stopped as stopped:
            killed = True
            refusal = while_running(stopped, limit=under_way.clock.reason, after=after)
            await worker.look(moved=True)
        except Refusal as error:
            refusal = error
        finally:
            worker.kill()
        # Effects are looked at, and pipes end, only when nothing is left that could still write.
        await worker.gone()
    if ended is not None and refusal is None:
        refusal = await _could_not_start(worker)
    account = worker.account(ended)
    # Nothing of an overlay is committed before its command has ended by itself.
    effects = outcomes.NO_EFFECTS if refusal is not None and refusal.code == "TOOL_OUTCOME_UNKNOWN" else ""
    refusal = _limited(refusal, account, judged.session.profile.limits, after)
    if refusal is None or refusal.code == "OUTPUT_LIMIT":
        # Also where it had ended by itself before its last output was read: what counts is what it printed.
        refusal = under_way.printed.stopped(judged.session.profile, after)
    usage = replace(account.usage, wall_s=under_way.clock.spent or time.monotonic() - started)
    value: dict[str, Json] = {
        **await under_way.printed.value(),
        "exit_code": ended.exit_code if ended else None,
        "signal": ended.signal if ended else None,
        "timed_out": refusal is not None and refusal.code == "TOOL_TIMEOUT",
        "killed": killed or "memory (sampled)" in account.limits_hit,
        "oom": account.oom,
        "limits_hit": list(account.limits_hit),
    }
    content = await _for_model(judged, under_way, value)
    if under_way.bound is not None and not await under_way.bound.ran():
        return outcomes.failed(
            "APPROVAL_MISMATCH",
            "a script that the command runs was changed while it ran, so what ran may not be what was shown; "
            "what it printed is withheld, what it had changed was discarded. Repeat the call with a new id.",
            layers=worker.layers,
            usage=usage,
        )
    done = Outcome(value=value, has_value=True, content=content, layers=worker.layers, usage=usage)
    # A command that was killed, by whomever, has not done what it set out to do.
    if refusal is None and ended is not None and ended.signal is None:
        came = await settle(services, judged, under_way, worker, since, "command", done)
        refusal = came.refusal
    else:
        came = await discarded(worker, under_way, "command")
    value |= came.listed
    content = (*content, *came.content)
    if refusal is not None:
        failed = outcomes.refused(refusal, layers=worker.layers, usage=usage)
        return Outcome(
            value=value,
            has_value=True,
            content=(*failed.content, *content),
            error=failed.error,
            layers=worker.layers,
            usage=usage,
            effects=effects,
        )
    return Outcome(value=value, has_value=True, content=content, layers=worker.layers, usage=usage)


def _job(judged: Judged) -> tuple[dict[str, Json], bytes]:
    """What makes the body's process the command: arguments, each ended by NUL, then its input if it has one."""
    arguments, custom = judged.call.arguments, judged.manifest.custom
    header: dict[str, Json] = {"type": "command", "directory": "", "shell": False}
    if isinstance(custom, ProgramBody):
        vector, stdin = expand(custom, arguments)
        if stdin is not None:
            header["stdin_bytes"] = len(stdin)
        return header, b"".join(part + b"\0" for part in vector) + (stdin or b"")
    vector, shell = _vector(arguments.get("command"), arguments.get("argv"))
    header |= {"directory": arguments.get("cwd") or "", "shell": shell}
    return header, b"".join(part + b"\0" for part in vector)


def _vector(command: Json, argv: Json) -> tuple[list[bytes], bool]:
    """The argument vector, and whether its last part is a text for bash."""
    try:
        if isinstance(command, str):
            return [b"bash", b"-c", command.encode()], True
        if isinstance(argv, Sequence) and not isinstance(argv, str) and all(isinstance(each, str) for each in argv):
            return [str(each).encode() for each in argv], False
    except UnicodeEncodeError:
        raise ArgumentsRefusal("INVALID_ARGS", "the command has characters that are no text") from None
    raise ArgumentsRefusal("INVALID_ARGS", "give exactly one of command and argv")


async def _could_not_start(worker: Worker) -> Refusal | None:
    """What the body's process said before it became the command: nothing, as a rule, since exec closes its channel."""
    try:
        frame = await worker.requests.receive()
    except ChannelClosed:
        return None
    except BrokenFrame as error:
        return ToolFailure("INVALID_TOOL_OUTPUT", f"the worker sent something that is no frame: {error}")
    code, message = frame.header.get("code"), frame.header.get("message")
    if frame.type == "error" and isinstance(code, str) and code in _CANNOT_START and isinstance(message, str):
        return ToolFailure(code, message[:4000])
    return ToolFailure("INVALID_TOOL_OUTPUT", "the worker sent a frame where a command has none to send")


def _limited(refusal: Refusal | None, account: Account, limits: Limits, after: str) -> Refusal | None:
    """RESOURCE_LIMIT where a limit ended the command; what ended it otherwise stays what it was."""
    reached = account.reached(limits)
    if reached is None or (refusal is not None and refusal.code != "TOOL_OUTCOME_UNKNOWN"):
        return refusal
    return ToolFailure("RESOURCE_LIMIT", f"the command reached its limit of {reached}; {after}. {outcomes.LESS}")


async def _for_model(judged: Judged, under_way: CallUnderWay, value: dict[str, Json]) -> tuple[str, ...]:
    blocks = await under_way.printed.blocks(_to_see_more(judged, under_way))
    if value["signal"]:
        blocks.append(f"[killed by signal {value['signal']}]")
    elif value["exit_code"]:
        blocks.append(f"[exit status {value['exit_code']}]")
    elif not blocks and value["exit_code"] == 0:
        blocks.append("[no output, exit status 0]")
    return tuple(blocks)


def _to_see_more(judged: Judged, under_way: CallUnderWay) -> str:
    """What a model can do about output that is left out."""
    if judged.manifest.custom is not None:
        return "ask for less at once to see all of it"
    narrower = "to see more, run a command that prints only that part (head, tail, grep)"
    tools = under_way.live.tools
    if not judged.session.profile.limits.jobs or (tools and "job" not in tools):
        return narrower
    return f"{narrower}, or run it with background and read it by offset with the tool `job`"
