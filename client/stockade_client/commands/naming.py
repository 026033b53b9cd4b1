"""Names that somebody typed, and those that he may have meant."""

from collections.abc import Iterable
from difflib import get_close_matches

import stockade_client as client


def perhaps(name: str, known: Iterable[str]) -> str:
    """`; perhaps NAME` with the known names that are nearest, or an empty text where none is near."""
    near = get_close_matches(name, sorted(set(known)), n=3)
    return f"; perhaps {' or '.join(near)}" if near else ""


async def the_session(daemon: "client.Daemon", session_id: str) -> "client.SessionInfo":
    """What the daemon knows of it. Raises NotFound, with names that are near."""
    try:
        return await daemon.get_session(session_id)
    except client.NotFound:
        near = perhaps(session_id, (each.session_id for each in await daemon.sessions()))
        raise client.NotFound(
            f"there is no session {session_id!r}{near}; `stockade sessions` lists those there are"
        ) from None
