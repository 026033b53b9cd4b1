"""After a start: the calls that an earlier daemon left waiting for an approval, as they were.

A call is made again from what is recorded of it: its arguments as pre-execute left them, the narrower profile that was
chosen for it. What is no longer so (the session's profile, the tool) is found by what the ask is bound to.
"""

import asyncio
import base64
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stockade_daemon.errors import StockadeError
from stockade_daemon.ledger.records import Unsettled
from stockade_daemon.pipeline.context import CallUnderWay, LiveSession, Services, printed_by
from stockade_daemon.pipeline.identity import frozen
from stockade_daemon.pipeline.jobs import Jobs
from stockade_daemon.pipeline.sessions import Sessions
from stockade_daemon.pipeline.stop import Clock, Stop
from stockade_daemon.pipeline.waited import Waited, waited
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.profiles.tighten import tighten
from stockade_daemon.values import Call, Json

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TakenUp:
    """A call that goes on."""

    under_way: CallUnderWay
    judged: Judged
    waited: Waited


async def take_up(services: Services, sessions: Sessions, jobs: Jobs, unsettled: Unsettled) -> TakenUp | str:
    """The call as it waits on. Where it cannot be made again: why, for people; where it did not wait: an empty text."""
    session_id, call_id = unsettled.call.session_id, unsettled.call.call_id
    try:
        kept = await waited(services.ledger, unsettled, await sessions.owner(session_id))
        if kept is None:
            return ""
        live = await sessions.live(session_id)
        began = str(unsettled.events[0].body["profile_digest"])
        under = await _narrowed(live, unsettled)
        manifest = services.tools.find(unsettled.call.tool, live.tools)
        call, card = await _call(services, unsettled)
        judged = Judged(under.session, call, manifest)
    except StockadeError as error:  # of these nobody is to blame but who moved a workspace, a profile or a tool
        _log.warning("call %s/%s waited for an approval and cannot go on: %s", session_id, call_id, error)
        return str(error)
    except (ValueError, KeyError, TypeError) as error:
        _log.exception("call %s/%s waited for an approval and cannot go on", session_id, call_id)
        return f"what was kept of it cannot be read: {error}"
    stop = Stop()
    printed = printed_by(services, under, call_id, stop, is_job=call.background)
    if kept.staged is not None:
        try:
            await asyncio.to_thread(printed.go_on)
        except OSError as error:
            _log.error("the output of call %s/%s cannot be read any more: %s", session_id, call_id, error)
    under_way = CallUnderWay(
        live=under,
        call=call,
        printed=printed,
        stop=stop,
        clock=Clock(stop),
        tools=services.tools.current,
        current=lambda: sessions.live(session_id),
        began=began,
        jobs=jobs,
        by=unsettled.events[0].principal,
        since_ms=unsettled.events[0].time_ms,
        dispatched=kept.staged is not None,
        card=card,
    )
    return TakenUp(under_way, judged, kept)


async def _narrowed(live: LiveSession, unsettled: Unsettled) -> LiveSession:
    """The session as the call has it. Where its profile is no longer the one that the call began with, what is chosen
    here does not count: the call ends with that."""
    for event in unsettled.events:
        if event.type == "call/profile":
            tightening = str(event.body["tightening"]).encode()
            live = live.under(await asyncio.to_thread(tighten, live.session.profile, tightening))
    return live


async def _call(services: Services, unsettled: Unsettled) -> tuple[Call, Mapping[str, Json] | None]:
    """The call, with its arguments as pre-execute left them, and its pending card."""
    record = unsettled.call
    body: Mapping[str, Any] = unsettled.events[0].body
    card: Any = body.get("card")
    if "arguments_base64" in body:
        text = base64.b64decode(body["arguments_base64"])
    elif "arguments" in body:
        text = str(body["arguments"]).encode()
    else:
        text = await services.ledger.output(record.session_id, record.call_id, "arguments") or b""
    for event in unsettled.events:
        if event.type == "call/arguments":
            text, card = str(event.body["arguments"]).encode(), event.body.get("card", card)
    manifest = services.tools.find(record.tool)
    arguments = services.tools.current.parse(manifest, text)
    call = frozen(record.session_id, record.call_id, record.tool, text, arguments, digest=record.digest)
    parent, background = body.get("parent"), body.get("background") is True
    call = replace(call, arguments_text=text, parent=None if parent is None else str(parent), background=background)
    return call, card if isinstance(card, Mapping) else None
