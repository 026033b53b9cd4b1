"""How an ask ended, as the ledger says it and in words for the person who was looking at it."""

from stockade_client.approvals import Ask
from stockade_client.connection import Daemon
from stockade_client.values import Event

_WORDS = {
    "allowed": "Somebody else said yes.",
    "APPROVAL_REJECTED": "Somebody else said no.",
    "APPROVAL_EXPIRED": "It has expired: nobody answered in time.",
    "APPROVAL_UNAVAILABLE": "It has ended, because it does not wait for an approver.",
    "ABORTED_BEFORE_DISPATCH": "It was withdrawn: its call was taken back.",
}


async def ending(daemon: Daemon, ask: Ask) -> str:
    """Waits until the ask has ended. Raises NoAnswer when the daemon stays away, NotFound for a session that is gone."""
    async with daemon.events(ask.session_id, follow=True, call_id=ask.call) as events:
        async for event in events:
            words = _said(event, ask)
            if words:
                return words
    return "Its session was closed."


def _said(event: Event, ask: Ask) -> str:
    if event.type == "approval/decided" and event.body.get("ask_id") == ask.ask_id:
        return _WORDS.get(str(event.body.get("outcome")), "It has ended.")
    if event.type == "tool/result":
        return "It has ended: its call has a result."
    return ""
