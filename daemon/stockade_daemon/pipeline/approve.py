"""Stage approval: one shot, bound to what was shown."""

from stockade_daemon.errors import Aborted
from stockade_daemon.pipeline import cards
from stockade_daemon.pipeline.binding import bound
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.stop import Stopped
from stockade_daemon.pipeline.stopped import before_dispatch
from stockade_daemon.policy.decisions import Ask
from stockade_daemon.policy.subjects import Judged


async def approve(services: Services, judged: Judged, under_way: CallUnderWay, decision: Ask) -> None:
    """Returns on a yes. Raises PolicyRefusal on any other answer or none, Aborted when the call was taken back, Parked
    when the next daemon goes on with it."""
    under_way.bound = await bound(services, judged, under_way)
    try:
        await services.approvals.ask(
            judged.session,
            judged.call.call_id,
            judged.call.tool,
            cards.for_arguments(judged, decision.reason) | under_way.bound.body(),
            under_way.stop.requested,
            standing=under_way.bound.standing,
        )
    except Aborted as aborted:
        raise taken_back(under_way, aborted) from aborted


def taken_back(under_way: CallUnderWay, aborted: Aborted) -> Exception:
    """What the withdrawal of an ask means for a call whose body was never invoked."""
    return aborted if under_way.stop.cause is None else before_dispatch(Stopped(under_way.stop.cause))
