"""Stage approval: one shot, bound to what was shown."""

from stockade_daemon.errors import Aborted
from stockade_daemon.pipeline import cards
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.stop import Stopped
from stockade_daemon.pipeline.stopped import before_dispatch
from stockade_daemon.policy.decisions import Ask
from stockade_daemon.policy.subjects import Judged


async def approve(services: Services, judged: Judged, under_way: CallUnderWay, decision: Ask) -> None:
    """Returns on a yes. Raises PolicyRefusal on any other answer or none, Aborted when the call was taken back."""
    try:
        await services.approvals.ask(
            judged.session,
            judged.call.call_id,
            judged.call.tool,
            cards.for_arguments(judged, decision.reason),
            under_way.stop.requested,
        )
    except Aborted as aborted:
        if under_way.stop.cause is None:
            raise
        raise before_dispatch(Stopped(under_way.stop.cause)) from aborted
