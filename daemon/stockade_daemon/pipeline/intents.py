"""Stage intents: fs/edit-intent and fs/write-intent, from wish to committed bytes.

    decide → profile (allow, ask with the exact difference, deny) → commit

The gate checks digest and path again under its lock, after the answer: what was shown is what is committed, or nothing
is.
"""

from collections.abc import Callable, Mapping

from stockade_daemon.errors import Aborted, PolicyRefusal
from stockade_daemon.gate.intents import Committed, EditIntent, Planned, WriteIntent
from stockade_daemon.pipeline import cards
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.stop import Stopped
from stockade_daemon.policy.profile_rules import decision_for
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.values import Decision, Json, Kind


async def edit(
    services: Services,
    judged: Judged,
    under_way: CallUnderWay,
    intent: EditIntent | WriteIntent,
    *,
    on_commit: Callable[[Committed], object],
) -> tuple[Committed, Planned]:
    """The committed change. Raises Refusal: the gate's, policy's, or a person's."""
    session_id, call_id = judged.session.session_id, judged.call.call_id
    name = "fs/edit-intent" if isinstance(intent, EditIntent) else "fs/write-intent"
    planned = await under_way.live.gate.decide(intent)
    decision = _decision(judged)
    services.ledger.note(
        session_id,
        name,
        call_id,
        planned.body() | {"decision": decision, "added": planned.added, "removed": planned.removed},
    )
    profile = judged.session.profile.name
    if decision == "deny":
        raise PolicyRefusal(
            "DENIED", f"profile {profile} denies writes: nothing was changed. Use one that allows them."
        )
    if decision == "ask":
        card = cards.for_difference(judged, planned, f"profile {profile} asks about writes")
        try:
            await services.approvals.ask(judged.session, call_id, judged.call.tool, card, under_way.stop.requested)
        except Aborted as aborted:
            # The body has been invoked by now, so this is no longer "before dispatch".
            raise Aborted("ABORTED", aborted.message) from aborted
    try:
        under_way.stop.check()
    except Stopped:
        raise Aborted("ABORTED", "the call was stopped before its change was made; nothing was changed.") from None

    async def begun(body: Mapping[str, Json]) -> None:
        await services.ledger.append(session_id, "fs/begun", call_id, body)

    async def committed(done: Committed) -> None:
        on_commit(done)
        await services.ledger.append(session_id, "fs/committed", call_id, done.body())

    done = await under_way.live.gate.commit(planned, begun=begun, committed=committed)
    return done, planned


def _decision(judged: Judged) -> Decision:
    """A tool that changes files without being a write by its kind is still a write here."""
    if judged.manifest.kind is Kind.WRITE:
        return decision_for(judged)
    return judged.session.profile.approval.writes
