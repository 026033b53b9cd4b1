"""Stage tools/execute: a waterfall around the dispatch. The deadline is its first listener."""

from stockade_daemon.pipeline.context import CallUnderWay, Dispatch, Services
from stockade_daemon.pipeline.dispatch import dispatch
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.policy.waterfall import Next
from stockade_daemon.values import Outcome


async def execute(services: Services, judged: Judged, under_way: CallUnderWay) -> Outcome:
    """The outcome of the body, or of what a listener put in its place."""
    subject = Dispatch(judged, under_way)
    return await services.execute.run(subject, lambda: dispatch(services, judged, under_way))


async def within_deadline(subject: Dispatch, following: Next[Outcome]) -> Outcome:
    """Stops the call when the body's own clock has run for its time: the shorter of what the call asks for (or else
    the tool allows) and of what the profile allows. The whole process tree is killed; the outcome is TOOL_TIMEOUT."""
    asked = subject.judged.call.arguments.get("timeout_s")
    wanted = asked if isinstance(asked, int | float) else subject.manifest.timeout_s
    # Compared before it becomes a float: an integer may be too large for one.
    subject.under_way.clock.limit(float(min(wanted, subject.judged.session.profile.limits.wall_s)))
    return await following()
