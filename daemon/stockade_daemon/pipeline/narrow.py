"""A narrower profile for one call, chosen by pre-execute. Whatever is chosen, nothing of it can allow more.

From here on the call is judged, shown, run and recorded under it: rules, card, guards, deadline, gate, worker, limits.
The session, and calls beside this one, stay under the session's.
"""

import asyncio
from dataclasses import replace

from stockade_daemon.errors import ConfigurationError, PolicyRefusal, RequestError
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.rules import check_hidden
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.profiles.tighten import tighten
from stockade_daemon.values import Profile


async def narrow(services: Services, judged: Judged, under_way: CallUnderWay, tightening: bytes) -> Judged:
    """The call under its session's profile as `tightening` narrows it, recorded.

    Raises PolicyRefusal DENIED where the tightening is faulty, allows more, or cannot hold on this workspace.
    """
    before = judged.session.profile
    try:
        profile = await asyncio.to_thread(_narrower, before, tightening, judged.session.workspace)
    except (ConfigurationError, RequestError) as error:
        raise PolicyRefusal(
            "DENIED",
            f"pre-execute chose a narrower profile for this call, and it cannot be used: {error}. {judged.call.tool} "
            "was not run; have what chose it mended",
        ) from error
    services.ledger.note(
        judged.session.session_id,
        "call/profile",
        judged.call.call_id,
        {"digest": profile.digest, "before": before.digest, "tightening": tightening.decode()},
    )
    under_way.live = under_way.live.under(profile)
    under_way.printed.narrow(profile.limits)
    return replace(judged, session=under_way.live.session)


def _narrower(before: Profile, tightening: bytes, workspace: str) -> Profile:
    # Mounts can only become fewer, so of the rules for sessions it is this one that a call may break.
    profile = tighten(before, tightening)
    check_hidden(profile, workspace)
    return profile
