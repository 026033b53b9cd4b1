"""Calls that an earlier daemon left waiting for an approval, and how they go on.

By arguments: the call goes on down the pipeline after a yes, as though nothing had been. By effects: the body has gone
with its daemon and is not run again; a yes commits the bytes that were shown, and what the result then says is what was
committed. Of a tool that does nothing else that is its whole result; of any other nobody knows what it would have done
afterwards.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from stockade_daemon import json_text
from stockade_daemon.errors import Aborted, Refusal
from stockade_daemon.gate.fingerprints import Fingerprint
from stockade_daemon.gate.intents import Committed
from stockade_daemon.gate.names import body_of
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.ledger.records import Unsettled
from stockade_daemon.pipeline import effects, intents, outcomes, staged_effects
from stockade_daemon.pipeline.approve import taken_back
from stockade_daemon.pipeline.binding import Bound
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.operands import operands
from stockade_daemon.pipeline.staged_effects import StagedEffects
from stockade_daemon.pipeline.staging import Staged, unpack
from stockade_daemon.policy.asks import Ask
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.removing import remove_tree
from stockade_daemon.values import Body, Event, Json, Outcome

_ASKED: Final = "approval/asked"
_DECIDED: Final = "approval/decided"
_JUDGING: Final = ("fs/edit-intent", "fs/write-intent", "fs/effects-intent", "policy/transaction")
_WHOLE: Final = ("write", "edit", "multi_edit")  # built-in tools that end with the change that they ask for


@dataclass(frozen=True, slots=True)
class Waited:
    """An ask that was recorded, and all that is needed to go on."""

    ask: Ask
    wait_s: float
    card: dict[str, Any]
    staged: Staged | StagedEffects | None  # None: it is about arguments
    committed: tuple[str, ...]  # paths of what the call had committed before it asked


async def waited(ledger: Ledger, unsettled: Unsettled, owner: str) -> Waited | None:
    """What the call waits for, or was answered and had not heard; None where it was not, or had gone on."""
    events = unsettled.events
    at = max((number for number, event in enumerate(events) if event.type == _ASKED), default=None)
    if at is None or not events[at].body["at"]:
        return None
    body, after = events[at].body, events[at + 1 :]
    staged: Staged | StagedEffects | None = None
    if body["at"] == "effects":
        if not _still(after):
            return None
        kept = await ledger.staged(unsettled.call.session_id, unsettled.call.call_id)
        if kept is None:
            return None
        changed = await asyncio.to_thread(staged_effects.unpack, kept)
        if changed is None:
            staged = one = await asyncio.to_thread(unpack, kept)
            _check_shown(one, body["card"])
        else:
            staged = changed
            _check_changes(changed, body["card"])
    elif any(event.type == "call/dispatched" for event in after):
        return None
    card: Any = body["card"]
    text = json_text.dump(card)
    if hashlib.sha256(text).hexdigest() != body["shown_hash"]:
        raise ValueError("the card in the ledger is not the one that was shown")
    ask = Ask(
        ask_id=str(body["ask_id"]),
        session_id=unsettled.call.session_id,
        call_id=unsettled.call.call_id,
        tool=unsettled.call.tool,
        card=text,
        shown_hash=str(body["shown_hash"]),
        asked_ms=events[at].time_ms,
        expires_ms=_number(body["expires_ms"]),
        asked_by=owner,
    )
    done = tuple(str(event.body["path"]) for event in events[:at] if event.type == "fs/committed")
    wait_s: Any = body["wait_s"]
    return Waited(ask, float(wait_s), json.loads(ask.card), staged, done)


def undecided(unsettled: Unsettled) -> str:
    """The id of the call's ask that has no decision, or an empty text."""
    for event in reversed(unsettled.events):
        if event.type in (_ASKED, _DECIDED):
            return str(event.body["ask_id"]) if event.type == _ASKED else ""
    return ""


async def go_on(services: Services, judged: Judged, under_way: CallUnderWay, kept: Waited) -> None:
    """As `approve`, with the ask of an earlier daemon. Raises as that does."""
    under_way.bound = await _bound(services, judged, under_way, kept)
    try:
        await services.approvals.resume(
            kept.ask,
            kept.wait_s,
            judged.session,
            under_way.stop.requested,
            standing=under_way.bound.standing,
        )
    except Aborted as aborted:
        raise taken_back(under_way, aborted) from aborted


async def finish(services: Services, judged: Judged, under_way: CallUnderWay, kept: Waited) -> Outcome:
    """What a call comes to whose change was asked about, after the answer. Raises Parked."""
    if isinstance(kept.staged, StagedEffects):
        return await _finish_effects(services, judged, under_way, kept, kept.staged)
    assert kept.staged is not None
    around = await _bound(services, judged, under_way, kept)
    try:
        await _answered(services, judged, under_way, kept, around)
        done = await intents.approved(services, judged, under_way, kept.staged, around)
    except Refusal as refusal:
        return replace(outcomes.refused(refusal), effects=_effects(kept.committed))
    paths = (*kept.committed, done.path)
    if judged.manifest.custom is None and judged.call.tool in _WHOLE and not kept.committed:
        value = _value(kept.staged, done)
        try:
            under_way.tools.check_output(judged.manifest, value)
        except ValueError:
            pass  # nobody had said in how many places
        else:
            said = f"Changed {done.path}: the change was approved after the daemon had been restarted.\n"
            return Outcome(value=value, has_value=True, content=(f"{said}{kept.staged.planned.text}",))
    effects = _effects(paths)
    return replace(outcomes.failed("TOOL_OUTCOME_UNKNOWN", _unknown(effects)), effects=effects)


async def _answered(services: Services, judged: Judged, under_way: CallUnderWay, kept: Waited, around: Bound) -> None:
    """Returns on a yes. The body has run, so a stop is no longer "before dispatch". Raises Refusal; Parked."""
    try:
        await services.approvals.resume(
            kept.ask, kept.wait_s, judged.session, under_way.stop.requested, standing=around.standing
        )
    except Aborted as aborted:
        raise Aborted("ABORTED", aborted.message) from aborted


async def _finish_effects(
    services: Services, judged: Judged, under_way: CallUnderWay, kept: Waited, staged: StagedEffects
) -> Outcome:
    """The same of a command, which had ended before somebody was asked: nothing of it is unknown."""
    around = await _bound(services, judged, under_way, kept)
    done = staged.done
    try:
        await _answered(services, judged, under_way, kept, around)
        came = await effects.approved(services, judged, under_way, staged, around)
    except Refusal as refusal:
        came = effects.Came({"effects": [], "effects_total": 0, "effects_disposition": "refused"}, (), refusal)
    await asyncio.to_thread(remove_tree, effects.kept_at(services.kept, judged))
    value = {**done.value, **came.listed} if isinstance(done.value, Mapping) else done.value
    if came.refusal is None:
        return replace(done, value=value, content=(*done.content, *came.content))
    failed = outcomes.refused(came.refusal, layers=done.layers, usage=done.usage)
    return replace(failed, value=value, has_value=True, content=(*failed.content, *done.content, *came.content))


def _unknown(effects: str) -> str:
    return (
        "The daemon was restarted while somebody was asked about a change; it was approved and made, and the tool, "
        f"which was gone by then, did nothing more; effects: {effects}. Look at the state before repeating it."
    )


def _effects(paths: Sequence[str]) -> str:
    return f"committed: {', '.join(dict.fromkeys(paths))}" if paths else outcomes.NO_EFFECTS


def _value(staged: Staged, done: Committed) -> dict[str, Json]:
    """The tool's value, as its body would have given it."""
    planned = staged.planned
    value: dict[str, Json] = {**body_of("path", planned.real), "digest": done.after, "difference": planned.text}
    if staged.point == "fs/write-intent":
        value |= {"created": done.operation == "create", "size": done.size, "style": dict(planned.style)}
    else:
        value["replacements"] = staged.places
    if done.note:
        value["note"] = done.note
    return value


async def _bound(services: Services, judged: Judged, under_way: CallUnderWay, kept: Waited) -> Bound:
    """As the card has it."""
    scripts = tuple(
        Fingerprint(each["path"], each.get("leads_to", each["path"]), each["digest"], ())
        for each in kept.card.get("operands", ())
    )
    is_command = judged.manifest.body is Body.COMMAND
    named = await asyncio.to_thread(operands, judged.call.arguments) if is_command else []
    there = {each.path for each in scripts}
    absent = tuple(path for path in named if path not in there)
    return Bound(services, judged, under_way, str(kept.card.get("tool_digest", "")), scripts, absent)


def _check_shown(staged: Staged, card: Any) -> None:
    """Raises ValueError where what was kept on the disk is not what the card says would be committed."""
    planned = staged.planned
    kept = (planned.path, planned.operation, planned.before, planned.after, planned.text)
    shown = tuple(card[key] for key in ("path", "operation", "before", "after", "difference"))
    if kept != shown or hashlib.sha256(planned.content).hexdigest() != planned.after:
        raise ValueError("what was staged is not what was shown")


def _check_changes(staged: StagedEffects, card: Any) -> None:
    """The same of what a command changed; its bytes are looked at again when they are committed."""
    if staged.digest != card["transaction"]:
        raise ValueError("what was staged is not what was shown")


def _still(after: Sequence[Event]) -> bool:
    """Whether nothing has happened since a change was asked about but that it was allowed and guards let it pass."""
    for event in after:
        allowed = event.type == _DECIDED and event.body["outcome"] == "allowed"
        if not allowed and (event.type not in _JUDGING or event.body["decision"] == "deny"):
            return False
    return True


def _number(value: Any) -> int:
    return int(value)
