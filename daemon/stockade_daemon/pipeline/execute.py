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
    profile = subject.judged.session.profile
    limits: list[tuple[float, str]] = [(profile.limits.wall_s, f"limits.wall_s of profile {profile.name}")]
    if isinstance(asked, int | float):
        limits.append((asked, "the call's timeout_s"))
    else:
        limits.append((subject.manifest.timeout_s, f"the time of {subject.manifest.name}; timeout_s asks for another"))
    # Compared before it becomes a float: an integer may be too large for one.
    seconds, reason = min(limits, key=lambda limit: limit[0])
    subject.under_way.clock.limit(float(seconds), reason)
    return await following()
