"""Values to messages and back, and errors to gRPC statuses: the border."""

import base64
import errno
import logging
from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from stockade.v1 import approvals_pb2, calls_pb2, catalog_pb2, daemon_pb2, events_pb2, sessions_pb2, types_pb2
from stockade_daemon import json_text
from stockade_daemon.errors import Busy, ConfigurationError, InfrastructureFailure, RequestError
from stockade_daemon.ledger.records import CallRecord, SessionRecord
from stockade_daemon.ledger.versions import version_of
from stockade_daemon.pipeline.listing import Listed
from stockade_daemon.policy.asks import Claim, How, Told
from stockade_daemon.profiles.read import own_tightening
from stockade_daemon.values import Event, Finding, Json, Layer, Manifest, ProfileFinding

_log = logging.getLogger(__name__)
INLINE_VALUE_BYTES = 1024 * 1024
MESSAGE_BYTES = 4 * 1024 * 1024
LARGEST = 2**63 - 1  # of numbers that the ledger and the kernel take; there is nothing beyond
_MOST_DETAILS = 3500  # bytes of an error's text: with the rest it stays under 4 KiB, a common limit for headers
_DETAILS_KEY = "grpc-status-details-bin"
_RETRY_KEY = "stockade-retry"  # there, and "later", where the same request can be taken later
_CODE_KEY = "stockade-code"  # the stable code alone, for a client that does not unpack details
_CALL_STATES = {
    "pending": calls_pb2.CALL_STATE_PENDING,
    "running": calls_pb2.CALL_STATE_RUNNING,
    "settled": calls_pb2.CALL_STATE_SETTLED,
}
_ENDS: "Mapping[How, approvals_pb2.AskEnd.ValueType]" = {
    "allowed": approvals_pb2.ASK_END_ALLOWED,
    "rejected": approvals_pb2.ASK_END_REJECTED,
    "withdrawn": approvals_pb2.ASK_END_WITHDRAWN,
    "expired": approvals_pb2.ASK_END_EXPIRED,
    "unavailable": approvals_pb2.ASK_END_UNAVAILABLE,
    "changed": approvals_pb2.ASK_END_CHANGED,
}


async def abort(context: Any, error: Exception) -> None:
    """Ends a request with the status of an error; raises."""
    if isinstance(error, grpc.aio.AbortError):
        return
    status, code, message = _status(error)
    shown = message.encode("utf-8", "replace")[:_MOST_DETAILS].decode("utf-8", "ignore")
    info = AnyMessage()
    info.Pack(error_details_pb2.ErrorInfo(reason=code, domain="stockade"))
    details = status_pb2.Status(code=status.value[0], message=shown, details=[info] if code else [])
    later = ((_RETRY_KEY, "later"),) if isinstance(error, Busy) else ()
    await context.abort(status, shown, ((_DETAILS_KEY, details.SerializeToString()), (_CODE_KEY, code), *later))


def _status(error: Exception) -> tuple[grpc.StatusCode, str, str]:
    """Status, stable code (or nothing) and text."""
    match error:
        case RequestError():
            return grpc.StatusCode[error.status], error.code, error.message
        case ConfigurationError(mistakes=(_, _, *_)):
            more = len(error.mistakes) - 1
            text = f"{error} (and {more} more; `stockade profile check` lists every mistake of a profile)"
            return grpc.StatusCode.INVALID_ARGUMENT, "", text
        case ConfigurationError():
            return grpc.StatusCode.INVALID_ARGUMENT, "", str(error)
        case OSError(errno=errno.EMFILE | errno.ENFILE):
            return (
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "",
                "the daemon has no descriptors left; close sessions, or raise its limit",
            )
        case InfrastructureFailure():
            # Not UNAVAILABLE, which says "try again": a disk that failed does not mend by asking.
            return grpc.StatusCode.DATA_LOSS, error.code, error.message
        case _:
            _log.error("a request met a fault of the daemon", exc_info=error)
            text = f"the daemon failed ({type(error).__name__}); this is a fault of Stockade, please report it"
            return grpc.StatusCode.INTERNAL, "", text


def session(record: SessionRecord, owner: str) -> sessions_pb2.Session:
    return sessions_pb2.Session(
        session_id=record.session_id,
        workspace=_text(record.workspace),
        profile_name=record.profile_name,
        profile_digest=record.profile_digest,
        approval_policy=record.approval_policy,
        state=record.state,
        opened_ms=record.opened_ms,
        last_seq=record.last_seq,
        tightening=own_tightening(record.profile_text),
        tools=record.tools,
        principal=owner,
        workspace_view="copy" if record.on_copy else "itself",
        lease_s=record.lease_s,
    )


def tool(manifest: Manifest) -> catalog_pb2.Tool:
    return catalog_pb2.Tool(
        name=manifest.name,
        description=manifest.description,
        input_schema=json_text.dump(manifest.input_schema),
        access=manifest.access.value,
        kind=manifest.kind.value,
        timeout_s=manifest.timeout_s,
        parallel_safe=manifest.parallel_safe,
        idempotent=manifest.idempotent,
        output_bytes=manifest.output_bytes,
        card_title=manifest.card_title,
        observes=manifest.observes,
        origin=manifest.origin,
        output_schema=json_text.dump(manifest.output_schema) if manifest.output_schema is not None else b"",
    )


def event(recorded: Event) -> events_pb2.Event:
    return events_pb2.Event(
        session_id=recorded.session_id,
        seq=recorded.seq,
        type=recorded.type,
        call_id=recorded.call_id,
        time_ms=recorded.time_ms,
        body=json_text.dump(recorded.body),
        version=version_of(recorded.type),
        principal=recorded.principal,
    )


def told(news: Told) -> approvals_pb2.Ask:
    """What a watcher hears. An ask that has ended comes without its card."""
    if news.ask is None:
        return approvals_pb2.Ask(all_sent=True)
    message = approvals_pb2.Ask(
        ask_id=news.ask.ask_id,
        session_id=news.ask.session_id,
        call_id=news.ask.call_id,
        tool=news.ask.tool,
        card=news.ask.card if news.end is None else b"",
        shown_hash=news.ask.shown_hash,
        asked_ms=news.ask.asked_ms,
        expires_ms=news.ask.expires_ms,
        asked_by=news.ask.asked_by,
    )
    _claimed(message, news.claims)
    if news.end is not None:
        message.ended, message.ended_ms = _ENDS[news.end.how], news.end.at_ms
        message.ended_by, message.ended_reason = news.end.by, news.end.reason
    return message


def claims(shown: tuple[Claim, ...]) -> approvals_pb2.ClaimResponse:
    response = approvals_pb2.ClaimResponse()
    _claimed(response, shown)
    return response


def _claimed(message: approvals_pb2.Ask | approvals_pb2.ClaimResponse, shown: tuple[Claim, ...]) -> None:
    """Who looks at an ask; the first one also where clients of before look for it."""
    for claim in shown[:1]:
        message.claimed_ms, message.claimed_by, message.claimed_name = claim.since_ms, claim.by, claim.name
    message.claims.extend(
        approvals_pb2.AskClaim(claim_id=claim.claim_id, since_ms=claim.since_ms, by=claim.by, name=claim.name)
        for claim in shown
    )


def call(record: CallRecord, waiting_for: str, value: bytes | None, card: Mapping[str, Json] | None) -> calls_pb2.Call:
    """`value`: the value's text where it is kept beside the record. `card`: the pending one."""
    message = calls_pb2.Call(
        session_id=record.session_id,
        call_id=record.call_id,
        tool=record.tool,
        state=_CALL_STATES[record.state],
        waiting_for=waiting_for,
        card=_card(card if record.result is None else None),
    )
    if record.result is not None:
        message.result.CopyFrom(_result(record.result, value))
    if record.resolution is not None:
        message.resolution.outcome = calls_pb2.OUTCOME_DONE if record.resolution.done else calls_pb2.OUTCOME_NOT_DONE
        message.resolution.note = record.resolution.note
        message.resolution.time_ms = record.resolution.time_ms
    return message


def under_way(call: Listed) -> calls_pb2.CallUnderWay:
    return calls_pb2.CallUnderWay(
        session_id=call.session_id,
        call_id=call.call_id,
        tool=call.tool,
        state=_CALL_STATES[call.state],
        turn_id=call.turn_id,
        since_ms=call.since_ms,
        waits_for=call.waits_for,
        ask_id=call.ask_id,
        card=_card(call.card),
        parent=call.parent,
    )


def _card(shown: object) -> bytes:
    return json_text.dump(shown) if isinstance(shown, Mapping) else b""


def layers(held: tuple[Layer, ...]) -> list[types_pb2.Layer]:
    return [types_pb2.Layer(name=layer.name, held=layer.held, reason=layer.reason) for layer in held]


def finding(found: Finding) -> daemon_pb2.Finding:
    return daemon_pb2.Finding(
        name=found.name,
        state=found.state,
        found=_text(found.found),
        meaning=found.meaning,
        remedy=found.remedy,
    )


def profile_finding(found: ProfileFinding) -> daemon_pb2.ProfileFinding:
    return daemon_pb2.ProfileFinding(
        name=found.name,
        state=found.state,
        reason=_text(found.reason),
        required=found.required,
        layers=layers(found.layers),
    )


def _text(said: str) -> str:
    """Names of the file system's may be no UTF-8, which a message must be."""
    return said.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _image(recorded: Mapping[str, str]) -> types_pb2.ContentBlock:
    image = types_pb2.Image(mime=recorded["mime"], data=base64.b64decode(recorded["data"]))
    return types_pb2.ContentBlock(image=image)


def _result(body: Mapping[str, Json], value: bytes | None) -> types_pb2.Result:
    """From the body of a tool/result event, which pipeline.outcomes or ledger.recovery made."""
    recorded: dict[str, Any] = dict(body)
    text = value if value is not None else json_text.dump(recorded["value"]) if "value" in recorded else b""
    usage = recorded["usage"]
    result = types_pb2.Result(
        ok=recorded["ok"],
        value=text if len(text) <= INLINE_VALUE_BYTES else b"",
        value_size=recorded.get("value_size", len(text)),
        content=[
            *(types_pb2.ContentBlock(text=block) for block in recorded.get("content", ())),
            *(_image(block) for block in recorded.get("images", ())),
        ],
        layers=[types_pb2.Layer(**layer) for layer in recorded.get("layers", ())],
        usage=types_pb2.Usage(
            wall_s=usage["wall_s"],
            cpu_s=usage["cpu_s"],
            max_rss_bytes=usage["max_rss_bytes"],
            read_bytes=usage["read_bytes"],
            written_bytes=usage["written_bytes"],
            source=usage["source"],
        ),
        profile_digest=recorded.get("profile_digest", ""),
        card=_card(recorded.get("card")),
    )
    if "error" in recorded:
        result.error.CopyFrom(types_pb2.Failure(**recorded["error"]))
    return result
