"""A call as it is looked at before it is recorded. Pure: nothing happens here, so that the record comes first."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from stockade_daemon.errors import ArgumentsRefusal, PolicyRefusal, Refusal
from stockade_daemon.pipeline import cards
from stockade_daemon.pipeline.arguments import INLINE_ARGUMENTS, recorded_arguments, too_many
from stockade_daemon.pipeline.context import LiveSession
from stockade_daemon.pipeline.identity import frozen
from stockade_daemon.pipeline.turn import Place, Wanted
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.registry.generations import Generations
from stockade_daemon.values import Call, Json, Manifest

_NO_ARGUMENTS: Final[Mapping[str, Json]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Looked:
    call: Call
    judged: Judged | None  # None: there is no such tool
    refusal: Refusal | None  # why it will not run, where that is known already
    card: Mapping[str, Json] | None  # the pending one
    body: Mapping[str, Json]  # of its tool/call event
    beside: Mapping[str, bytes]  # output parts that are kept with that


def looked_at(tools: Generations, live: LiveSession, wanted: Wanted, place: Place) -> Looked:
    """The call in its session, with the present generation of tools. Says in `place` whether it runs beside others."""
    session, text = live.session, wanted.text
    manifest: Manifest | None = None
    refusal: Refusal | None = None
    arguments = _NO_ARGUMENTS
    try:
        manifest = tools.find(wanted.tool, live.tools)
        if wanted.left_out:
            raise too_many(wanted.left_out)
        arguments = tools.current.parse(manifest, text)
    except ArgumentsRefusal as error:
        refusal = error
    if live.barred is not None and refusal is None:
        # Policy's, though no stage has judged it: nobody has changed the host, and no other session is concerned.
        refusal = PolicyRefusal("DENIED", live.barred.reason)
    place.exclusive = refusal is not None or manifest is None or not manifest.parallel_safe
    refusal = place.refusal or refusal
    call = frozen(session.session_id, wanted.call_id, wanted.tool, text, arguments, digest=wanted.digest)
    judged = Judged(session, call, manifest) if manifest is not None else None
    body: dict[str, Json] = {
        "tool": call.tool,
        **recorded_arguments(text, left_out=wanted.left_out),
        "digest": call.digest,
        "profile_digest": live.digest,
    }
    if place.turn_id:
        body["turn"] = place.turn_id
    card = cards.pending(judged) if judged is not None and refusal is None else None
    if card is not None:
        body["card"] = card
    beside = {"arguments": text} if len(text) > INLINE_ARGUMENTS else {}
    return Looked(call, judged, refusal, card, body, beside)
