"""Stage approval: one shot, bound to what was shown."""

from stockade_daemon.pipeline import cards
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.policy.decisions import Ask
from stockade_daemon.policy.subjects import Judged


async def approve(services: Services, judged: Judged, under_way: CallUnderWay, decision: Ask) -> None:
    """Returns on a yes. Raises PolicyRefusal on any other answer or none, Aborted when the call was taken back."""
    await services.approvals.ask(
        judged.session,
        judged.call.call_id,
        judged.call.tool,
        cards.for_arguments(judged, decision.reason),
        under_way.stop.requested,
    )
