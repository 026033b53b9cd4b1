"""Stage intents: fs/edit-intent and fs/write-intent, from wish to committed bytes.

    decide → profile and listeners (allow, ask with the exact difference, deny) → under the file's lock: guards → commit

Under the lock, after the answer, everything is checked again: path and digest by the gate, and here that the call goes
on, that what was said yes to is still what was shown, and that no guard denies. What was shown is what is committed, or
nothing is.
"""

import asyncio
from collections.abc import Callable, Mapping

from stockade_daemon.errors import Aborted, PolicyRefusal
from stockade_daemon.gate.intents import Committed, EditIntent, Planned, WriteIntent
from stockade_daemon.pipeline import cards
from stockade_daemon.pipeline.binding import Bound, bound
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.guard import decided, guard_transaction
from stockade_daemon.pipeline.staging import Staged, pack
from stockade_daemon.pipeline.stop import Stopped
from stockade_daemon.policy.decisions import Ask, Deny, PreDecision, recorded
from stockade_daemon.policy.intents import IntentPoint
from stockade_daemon.policy.subjects import Change, Intended, Judged, Transaction
from stockade_daemon.values import Json


async def edit(
    services: Services,
    judged: Judged,
    under_way: CallUnderWay,
    intent: EditIntent | WriteIntent,
    *,
    places: Json = None,
    on_commit: Callable[[Committed], object],
) -> tuple[Committed, Planned]:
    """The committed change. `places`: as of staging.Staged. Raises Refusal: the gate's, policy's, or a person's;
    Parked."""
    planned = await under_way.live.gate.decide(intent)
    point = services.edit_intent if isinstance(intent, EditIntent) else services.write_intent
    around: Bound | None = None
    match await _decide(services, Intended(judged, _change(planned)), planned, point):
        case Deny(reason, code):
            raise PolicyRefusal(code, reason)
        case Ask(reason):
            staged = Staged(planned, point.name, places)
            around = await bound(services, judged, under_way)
            await under_way.outlive(services.durability)
            try:
                await services.approvals.ask(
                    judged.session,
                    judged.call.call_id,
                    judged.call.tool,
                    cards.for_difference(judged, planned, reason) | {"tool_digest": around.tool_digest},
                    under_way.stop.requested,
                    staged=await asyncio.to_thread(pack, staged),
                    standing=around.standing,
                )
            except Aborted as aborted:
                # The body has been invoked by now, so this is no longer "before dispatch".
                raise Aborted("ABORTED", aborted.message) from aborted
    return await _commit(services, judged, under_way, planned, around, on_commit), planned


async def approved(
    services: Services, judged: Judged, under_way: CallUnderWay, staged: Staged, around: Bound
) -> Committed:
    """Commits what an earlier daemon staged and somebody has said yes to. Listeners and guards are asked again, and the
    gate checks everything again: the yes stands for an ask, and for nothing else. around: what was shown. Raises as
    `edit` does."""
    point = services.edit_intent if staged.point == services.edit_intent.name else services.write_intent
    planned = staged.planned
    match await _decide(services, Intended(judged, _change(planned)), planned, point):
        case Deny(reason, code):
            raise PolicyRefusal(code, reason)
    return await _commit(services, judged, under_way, planned, around, lambda _: None)


async def _commit(
    services: Services,
    judged: Judged,
    under_way: CallUnderWay,
    planned: Planned,
    around: Bound | None,
    on_commit: Callable[[Committed], object],
) -> Committed:
    """around: of a change that somebody has said yes to, what the yes is bound to."""
    session_id, call_id = judged.session.session_id, judged.call.call_id

    async def begun(body: Mapping[str, Json]) -> None:
        # The lock may have been waited for: whatever was so before that need not be so any more.
        if around is not None:
            await around.launch()
        guard_transaction(services, Transaction(judged, (_change(planned),)))
        try:
            under_way.stop.check()
        except Stopped:
            raise Aborted("ABORTED", "the call was stopped before its change was made; nothing was changed.") from None
        await services.ledger.append(session_id, "fs/begun", call_id, body)
        if body["method"] == "in place" and services.durability != "power":
            # A power cut in the middle leaves half of the new bytes; only this record leads to the old ones.
            await services.ledger.sync()

    async def committed(done: Committed) -> None:
        on_commit(done)
        await services.ledger.append(session_id, "fs/committed", call_id, done.body())

    return await under_way.live.gate.commit(planned, begun=begun, committed=committed)


async def _decide(
    services: Services, intended: Intended, planned: Planned, point: IntentPoint[Intended]
) -> PreDecision:
    """What the listeners say, recorded."""
    decision = await decided(point, intended)
    body = planned.body() | {"added": planned.added, "removed": planned.removed} | recorded(decision)
    judged = intended.judged
    services.ledger.note(judged.session.session_id, point.name, judged.call.call_id, body)
    return decision


def _change(planned: Planned) -> Change:
    """What policy is shown of it."""
    return Change(
        path=planned.path,
        name=planned.real,
        operation=planned.operation,
        before=planned.before,
        after=planned.after,
        size=planned.size,
        added=planned.added,
        removed=planned.removed,
        difference=planned.text,
        complete=planned.difference.complete,
        note=planned.note,
    )
