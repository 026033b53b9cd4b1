"""What a call came to that the daemon did not live to settle: only what ledger and disk prove, and else
"unknown".

    never dispatched                                TOOL_NOT_STARTED; also when it waited for an approval,
                                                    and cannot go on
    dispatched, no transaction begun                TOOL_OUTCOME_UNKNOWN, effects: none (proven)
    a transaction begun and committed               … effects: committed: PATH
    a transaction begun, its commit not recorded    the disk is asked (`prove`):
                                                    … none (proven) · committed (proven): PATH · unknown: PATH

No call is run again: that is for the agent to decide, and the message says on what ground.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from stockade_daemon.errors import CODES
from stockade_daemon.ledger.changes import CALL_DISPATCHED, TOOL_CALL
from stockade_daemon.ledger.records import Unsettled
from stockade_daemon.values import Event, Json

Proof: TypeAlias = Literal["none", "applied", "unknown"]

BEGUN = "fs/begun"
COMMITTED = "fs/committed"
ASKED = "approval/asked"
DECIDED = "approval/decided"
NARROWED = "call/profile"

NOTHING = "none (proven)"


def settle_unfinished(
    unsettled: Unsettled, prove: Callable[[Mapping[str, Json]], Proof], why: str = ""
) -> dict[str, Json]:
    """The body of the tool/result event that ends the call.

    `prove` compares the disk with the body of an fs/begun event (digests before and after) and says whether
    that transaction was applied. It is asked only about those whose commit was not recorded; what it raises
    is raised. `why`: what kept a call that waited for an approval from going on, for people; empty: it did not wait.
    """
    held = f", and it cannot go on: {why}" if why else ""
    events = unsettled.events
    dispatched = next((event for event in events if event.type == CALL_DISPATCHED), None)
    if dispatched is None:
        waited = " while the call waited for an approval" if _waits(events) else " before the call was started"
        return _body(
            unsettled,
            "TOOL_NOT_STARTED",
            f"The daemon stopped{waited}{held}. Nothing ran; repeat the call with a new id.",
            NOTHING,
            None,
        )
    effects = _effects(events, prove)
    remedy = (
        "It changed nothing in the workspace; repeat it with a new id if it is still wanted."
        if effects == NOTHING
        else "Look at the state before repeating it."
    )
    waited = "somebody was asked about what it had changed" if why else "the call ran"
    return _body(
        unsettled,
        "TOOL_OUTCOME_UNKNOWN",
        f"The daemon stopped while {waited}{held}; effects: {effects}. {remedy}",
        effects,
        dispatched,
    )


def _waits(events: Sequence[Event]) -> bool:
    last = next((event.type for event in reversed(events) if event.type in (ASKED, DECIDED)), None)
    return last == ASKED


def _profile(unsettled: Unsettled) -> str:
    """The digest of the profile that the call ran under: what its events say last."""
    for event in reversed(unsettled.events):
        named = event.body.get({NARROWED: "digest", TOOL_CALL: "profile_digest"}.get(event.type, ""))
        if isinstance(named, str):
            return named
    return unsettled.profile_digest


def _effects(events: Sequence[Event], prove: Callable[[Mapping[str, Json]], Proof]) -> str:
    committed: list[str] = []
    begun: list[tuple[str, Mapping[str, Json]]] = []  # whose commit has not been seen so far
    for event in events:
        path = str(event.body.get("path", "?"))
        if event.type == BEGUN:
            begun.append((path, event.body))
        elif event.type == COMMITTED:
            if event.body.get("part") != event.body.get("parts"):
                continue  # of a long record; the last part says that it is done
            committed.append(path)
            # A path has one transaction at a time, so this commit ends the newest of it. An older one that is
            # still open failed before its first byte, or was followed by a newer state: the newer record
            # stands.
            begun = [item for item in begun if item[0] != path]
    proven: list[str] = []
    unknown: list[str] = []
    for path, body in begun:
        proof = prove(body)
        if proof == "applied":
            proven.append(path)
        elif proof == "unknown":
            unknown.append(path)
    found = [
        f"{word}: {', '.join(dict.fromkeys(paths))}"
        for word, paths in (("committed", committed), ("committed (proven)", proven), ("unknown", unknown))
        if paths
    ]
    return "; ".join(found) or NOTHING


def _body(unsettled: Unsettled, code: str, message: str, effects: str, dispatched: Event | None) -> dict[str, Json]:
    domain, retry = CODES[code]
    return {
        "ok": False,
        "value_size": 0,
        "content": [f"Error: {message}"],
        "error": {"code": code, "message": message, "domain": domain, "retry": retry},
        # As they were recorded when the worker got the call; without a worker there were none.
        "layers": dispatched.body.get("layers", []) if dispatched is not None else [],
        "usage": {
            "wall_s": 0.0,
            "cpu_s": 0.0,
            "max_rss_bytes": 0,
            "read_bytes": 0,
            "written_bytes": 0,
            "source": "",
        },
        "profile_digest": _profile(unsettled),
        "effects": effects,
    }
