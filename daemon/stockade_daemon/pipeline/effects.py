"""What a body changed in its private view of the workspace: committed as one transaction, or listed and discarded.

    plan → profile and listeners (allow, ask with all of it shown, deny) → under the workspace's lock: guards → commit

Only for a worker that is gone: nothing is left that could still write. What was shown is what is committed, or nothing.
"""

import asyncio
import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from stockade_daemon.errors import Aborted, GateRefusal, InfrastructureFailure, PolicyRefusal, Refusal
from stockade_daemon.gate.effects.mark import Mark
from stockade_daemon.gate.effects.transactions import Prospect, Witness
from stockade_daemon.gate.effects.values import Effect, Made, Plan
from stockade_daemon.gate.names import told, visible
from stockade_daemon.pipeline import cards
from stockade_daemon.pipeline.binding import Bound, bound
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.effects_shown import for_effects
from stockade_daemon.pipeline.guard import decided, guard_transaction
from stockade_daemon.pipeline.staged_effects import StagedEffects, pack
from stockade_daemon.pipeline.stop import Stopped
from stockade_daemon.policy.decisions import Ask, Deny, PreDecision, recorded
from stockade_daemon.policy.subjects import Change, Judged, Transaction
from stockade_daemon.removing import remove_tree
from stockade_daemon.sandbox import effects as overlay
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Json, Outcome

_NAMED: Final = 20  # for the model; the value has them all
_MOST: Final = 10_000  # listed in a value
_MOST_BYTES: Final = 4 * 1024 * 1024  # of names listed


@dataclass(frozen=True, slots=True)
class Came:
    """What became of a body's changes."""

    listed: Mapping[str, Json] = field(default_factory=dict)  # the members of a value that tell of them
    content: tuple[str, ...] = ()  # for the model
    refusal: Refusal | None = None  # why they were not committed


async def discarded(worker: Worker, under_way: CallUnderWay, whose: str) -> Came:
    """The changes of a body that has failed, or whose profile discards them: listed, and gone with its scratch."""
    if worker.scratch is None:
        return Came(listed=_listed([], 0, "discarded"))
    upper, live = os.fspath(worker.scratch.upper), under_way.live
    found = await asyncio.to_thread(overlay.difference, upper, live.workspace.place, hides=live.gate.hides)
    effects: list[Json] = []
    for each in found.effects:
        body: dict[str, Json] = {"path": each.path, "change": each.change, "kind": each.kind, "size": each.size}
        effects.append(body | {"from": each.source} if each.source else body)
    named = [f"{visible(each.path)} ({each.change})" for each in found.effects[:_NAMED]]
    return Came(
        _listed(effects, found.total, "discarded"),
        (_said(f"changes made by this {whose} were discarded", named, found.total),) if found.total else (),
    )


async def settle(
    services: Services, judged: Judged, under_way: CallUnderWay, worker: Worker, since: Mark, whose: str, done: Outcome
) -> Came:
    """What becomes of the changes of a body that has succeeded as `done`. `whose`: what it was, for people.

    Raises Parked: the next daemon asks on; InfrastructureFailure where what became of them cannot be said.
    """
    if worker.scratch is None or judged.session.profile.approval.effects == "discard":
        return await discarded(worker, under_way, whose)
    scratch = worker.scratch
    shown = {path.hex(): each for path, each in scratch.shown.items()}
    made = Made(os.fspath(scratch.upper), overlay.MARKS, scratch.mode, scratch.uid, scratch.keeps_links, shown)
    exact = judged.session.profile.approval.effects == "ask"
    plan: Plan | None = None
    try:
        with under_way.clock.paused():
            prospect = await under_way.live.gate.transactions.plan(made, since, exact=exact)
            plan = prospect.plan
            if plan.effects or plan.steps:
                staged = StagedEffects(prospect.made, since, plan.digest, whose, done)
                await _settled(services, judged, under_way, prospect, staged)
    except InfrastructureFailure:
        raise
    except Refusal as refusal:
        if plan is not None:
            return _told(plan, "refused", f"changes made by this {whose} were not committed", refusal)
        listed = await discarded(worker, under_way, whose)
        said = tuple(text.replace("were discarded", "were not committed") for text in listed.content)
        return Came({**listed.listed, "effects_disposition": "refused"}, said, refusal)
    return committed(plan, whose)


async def approved(
    services: Services, judged: Judged, under_way: CallUnderWay, staged: StagedEffects, around: Bound
) -> Came:
    """Commits what an earlier daemon kept and somebody has said yes to, where it still is what was shown.

    Raises Refusal: the gate's, policy's."""
    prospect = await under_way.live.gate.transactions.plan(staged.made, staged.since, exact=True)
    if prospect.plan.digest != staged.digest:
        raise PolicyRefusal(
            "APPROVAL_MISMATCH", "what the command changed is no longer what was shown; nothing changed"
        )
    match await decide(services, judged, prospect):
        case Deny(why, code):
            raise PolicyRefusal(code, why)
    await commit(services, judged, under_way, prospect, around)
    return committed(prospect.plan, staged.whose)


def committed(plan: Plan, whose: str) -> Came:
    """The changes that are in the workspace now."""
    return _told(plan, "committed", f"changes made by this {whose} were committed")


def _told(plan: Plan, disposition: str, what: str, refusal: Refusal | None = None) -> Came:
    effects: list[Json] = []
    size = 0
    for each in plan.effects:
        body = _value(each)
        size += len(str(body["path"])) + 100
        if len(effects) >= _MOST or size > _MOST_BYTES:
            break
        effects.append(body)
    texts = []
    if plan.effects:
        outer = [each for each in plan.effects if not each.inside]
        texts.append(_said(what, [_named(each) for each in outer[:_NAMED]], len(outer)))
    if plan.left_out:
        left = [f"{told(path)}: {why}" for path, why in plan.left_out[:_NAMED]]
        texts.append(_said("left out", left, len(plan.left_out)))
    return Came(_listed(effects, len(plan.effects), disposition), tuple(texts), refusal)


async def _settled(
    services: Services, judged: Judged, under_way: CallUnderWay, prospect: Prospect, staged: StagedEffects
) -> None:
    around: Bound | None = None
    decision = await decide(services, judged, prospect)
    reason = _reason(prospect.plan)
    match decision:
        case Deny(why, code):
            raise PolicyRefusal(code, why)
        case Ask(why):
            reason = "; ".join(each for each in (why, reason) if each)
    if reason:
        if judged.session.profile.approval.effects != "ask":
            prospect = await under_way.live.gate.transactions.plan(prospect.made, staged.since, exact=True)
        try:
            prospect, around = await _ask(services, judged, under_way, prospect, staged, reason)
        except PolicyRefusal as refusal:
            if isinstance(decision, Ask):
                raise
            if refusal.code == "APPROVAL_UNAVAILABLE":
                raise GateRefusal("FS_PROTECTED", f"{reason}; nobody was there to be asked. {_REMEDY}") from refusal
            raise PolicyRefusal(refusal.code, f"{reason}; {refusal.message}") from refusal
    await commit(services, judged, under_way, prospect, around)
    if around is not None:
        await asyncio.to_thread(remove_tree, kept_at(services.kept, judged))


_REMEDY: Final = "Leave these names as they are, or have a person answer who may approve."


async def decide(services: Services, judged: Judged, prospect: Prospect) -> PreDecision:
    """What the listeners say of all of it together, recorded."""
    decision = await decided(services.effects_intent, Transaction(judged, changes(prospect.plan)))
    plan = prospect.plan
    body: dict[str, Json] = {"path": plan.summary, "transaction": plan.digest, "effects": len(plan.effects)}
    body["protected"] = [f"{told(path)} {why}" for path, why in plan.reasons]
    body |= recorded(decision)
    services.ledger.note(judged.session.session_id, services.effects_intent.name, judged.call.call_id, body)
    return decision


async def commit(
    services: Services, judged: Judged, under_way: CallUnderWay, prospect: Prospect, around: Bound | None
) -> None:
    """Makes it true. `around`: of changes that somebody has said yes to, what the yes is bound to. Raises Refusal."""
    session_id, call_id = judged.session.session_id, judged.call.call_id

    async def begun(body: Mapping[str, Json]) -> None:
        await services.ledger.append(session_id, "fs/begun", call_id, body)

    async def allowed() -> None:
        if around is not None:
            await around.launch()
        guard_transaction(services, Transaction(judged, changes(prospect.plan)))
        try:
            under_way.stop.check()
        except Stopped:
            raise Aborted(
                "ABORTED", "the call was stopped before its changes were made; nothing was changed."
            ) from None

    async def done(body: Mapping[str, Json]) -> None:
        await services.ledger.append(session_id, "fs/committed", call_id, body)

    await under_way.live.gate.transactions.commit(
        prospect, services.areas, Witness(begun, allowed, done), power=services.durability == "power"
    )


async def _ask(
    services: Services,
    judged: Judged,
    under_way: CallUnderWay,
    prospect: Prospect,
    staged: StagedEffects,
    reason: str,
) -> tuple[Prospect, Bound]:
    """Somebody is shown all of it; what is shown waits in a place that outlives the daemon."""
    place = kept_at(services.kept, judged)
    await asyncio.to_thread(_keep, prospect.made.upper, place)
    prospect = replace(prospect, made=replace(prospect.made, upper=os.fspath(place)))
    try:
        around = await bound(services, judged, under_way)
        card = await asyncio.to_thread(
            for_effects, cards.for_arguments(judged, reason), prospect, under_way.live.workspace
        )
        staged = replace(staged, made=prospect.made, digest=prospect.plan.digest)
        await under_way.outlive(services.durability)
        await services.approvals.ask(
            judged.session,
            judged.call.call_id,
            judged.call.tool,
            card | {"tool_digest": around.tool_digest},
            under_way.stop.requested,
            staged=pack(staged),
            standing=around.standing,
        )
    except Aborted as aborted:
        await asyncio.to_thread(remove_tree, place)
        raise Aborted("ABORTED", aborted.message) from aborted
    except Refusal:
        await asyncio.to_thread(remove_tree, place)
        raise
    return prospect, around


def kept_at(directory: Path, judged: Judged) -> Path:
    """Where the changes of a call wait for an answer."""
    return directory / _kept_name(judged.session.session_id, judged.call.call_id)


def _kept_name(session_id: str, call_id: str) -> str:
    return hashlib.sha256(f"{session_id}/{call_id}".encode()).hexdigest()


def tidy(services: Services, going_on: Collection[tuple[str, str]]) -> None:
    """After a start, when every call of an earlier daemon has its result or goes on: what is left of transactions, and
    of changes that nobody waits for any more, goes. `going_on`: session and call. Raises OSError."""
    services.areas.sweep()
    wanted = {_kept_name(*each) for each in going_on}
    for left in services.kept.iterdir():
        if left.name not in wanted:
            remove_tree(left)


def _keep(upper: str, place: Path) -> None:
    remove_tree(place)
    os.rename(upper, place)


def changes(plan: Plan) -> tuple[Change, ...]:
    """What policy is shown of it."""
    return tuple(
        Change(
            path=told(each.path),
            name=each.path,
            operation=each.change,
            before=each.before,
            after=each.after or "",
            size=each.size,
            added=0,
            removed=0,
            difference="",
            complete=False,
            note="" if each.source is None else f"was {told(each.source)}",
        )
        for each in plan.effects
    )


def _reason(plan: Plan) -> str:
    """Why somebody is asked whatever the profile says; empty: nobody has to be."""
    return "; ".join(f"{told(path)} {why}" for path, why in plan.reasons[:3])


def _listed(effects: list[Json], total: int, disposition: str) -> dict[str, Json]:
    return {"effects": effects, "effects_total": total, "effects_disposition": disposition}


def _value(effect: Effect) -> dict[str, Json]:
    body: dict[str, Json] = {
        "path": effect.path.decode("utf-8", "backslashreplace") or ".",
        "change": effect.change,
        "kind": effect.kind,
        "size": effect.size,
    }
    return body if effect.source is None else body | {"from": effect.source.decode("utf-8", "backslashreplace")}


def _named(effect: Effect) -> str:
    below = f", {effect.below} name{'s' * (effect.below > 1)}" if effect.below else ""
    source = f" from {told(effect.source)}" if effect.source is not None else ""
    return f"{told(effect.path) if effect.path else '.'} ({effect.change}{source}{below})"


def _said(what: str, named: list[str], total: int) -> str:
    more = f" and {total - len(named)} more" if total > len(named) else ""
    return f"[{what}: {', '.join(named)}{more}]"
