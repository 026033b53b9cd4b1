"""After a start: settling the calls that an earlier daemon left without a result, by what ledger and disk prove.

Those that wait for an approval are not settled: they go on (taking_up.py).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from stockade_daemon.errors import RequestError
from stockade_daemon.gate import recovery
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.ledger.records import SessionRecord, Unsettled
from stockade_daemon.ledger.recovery import settle_unfinished
from stockade_daemon.pipeline import views
from stockade_daemon.pipeline.waited import undecided
from stockade_daemon.values import ITSELF, Json

_log = logging.getLogger(__name__)
_GONE: Final[Mapping[str, Json]] = {
    "outcome": "ABORTED_BEFORE_DISPATCH",
    "reason": "the daemon stopped while somebody was asked, and the call could not go on",
    "decision_id": "",
    "said": "",
}


async def recover(ledger: Ledger, take_up: Callable[[Unsettled], Awaitable[str | None]]) -> set[tuple[str, str]]:
    """Gives each of them its one result, but those that go on: session and call of these. None is run again.

    `take_up`: goes on with a call, None; or says why it cannot, in an empty text where it waited for nothing.
    """
    going_on = set()
    for unsettled in await ledger.unsettled():
        why = await take_up(unsettled)
        if why is None:
            going_on.add((unsettled.call.session_id, unsettled.call.call_id))
            continue
        session_id, call_id = unsettled.call.session_id, unsettled.call.call_id
        record = await ledger.session(session_id)
        assert record is not None  # the ledger has no call without its session
        body = await asyncio.to_thread(_settled_by_proof, record, unsettled, why)
        shown = _pending_card(unsettled)
        if shown is not None:
            body["card"] = views.completed(None, shown, body)
        ask_id = undecided(unsettled)
        if ask_id:
            ledger.note(session_id, "approval/decided", call_id, {"ask_id": ask_id, **_GONE}, by=ITSELF.name)
        await ledger.settle(session_id, call_id, body, by=ITSELF.name)
        code = body["error"]["code"] if isinstance(body["error"], dict) else "?"
        _log.warning("call %s/%s of an earlier daemon: %s", session_id, call_id, code)
    return going_on


def _pending_card(unsettled: Unsettled) -> Mapping[str, Json] | None:
    """As its events say last: pre-execute may have rewritten the arguments."""
    for event in reversed(unsettled.events):
        card = event.body.get("card") if event.type in ("tool/call", "call/arguments") else None
        if isinstance(card, Mapping):
            return card
    return None


def _settled_by_proof(record: SessionRecord, unsettled: Unsettled, why: str) -> dict[str, Json]:
    if record.on_copy:  # which is gone with the daemon that made it
        return settle_unfinished(unsettled, lambda _: "unknown", why)
    try:
        with Workspace.open(record.workspace) as workspace:
            if (workspace.device, workspace.inode) == (record.device, record.inode):
                return settle_unfinished(unsettled, lambda begun: recovery.recover(workspace, begun), why)
    except RequestError:
        _log.warning("%s cannot be opened, so nothing can be proved about its calls", record.workspace)
    return settle_unfinished(unsettled, lambda _: "unknown", why)
