"""What a call has told the agent, recorded and known to the gate: when the call has succeeded, and not before.

A read that fails, that post-execute blocks, whose answer it replaces, or that a stop overtakes, has shown nothing: the
agent does not get those lines.
"""

from dataclasses import replace
from typing import Final

from stockade_daemon.gate.observations import restored
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.values import Outcome

_SHOWN: Final = "fs/observed"


def unshown(outcome: Outcome) -> Outcome:
    """The outcome without what its own content would have shown, for one that has other content."""
    return replace(outcome, learned=tuple(each for each in outcome.learned if each[0] != _SHOWN))


def learn(services: Services, judged: Judged, under_way: CallUnderWay, outcome: Outcome) -> None:
    """Makes facts of what a final outcome tells; nothing where it is a failure."""
    if not outcome.ok:
        return
    for type, body in outcome.learned:
        if type == _SHOWN:
            under_way.live.gate.showed(restored(body))
        services.ledger.note(judged.session.session_id, type, judged.call.call_id, body)
