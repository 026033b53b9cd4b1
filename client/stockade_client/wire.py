"""Protobuf messages into frozen values, gRPC statuses into the client's errors: the border, crossed once.

JSON arrives as bytes and is decoded here by the json module, which keeps integers of any size.
"""

import importlib.metadata
import json
from typing import Final

import grpc
from grpc import aio

from stockade.v1 import approvals_pb2, calls_pb2, catalog_pb2, daemon_pb2, events_pb2, sessions_pb2, types_pb2
from stockade_client import errors
from stockade_client.results import CallResult, Failure, Image, Json, Layer, Resolution, Usage
from stockade_client.values import (
    Caller,
    CallUnderWay,
    Catalog,
    DaemonInfo,
    ErrorMeaning,
    Event,
    EventMeaning,
    Examination,
    Finding,
    ProfileFinding,
    ProfileMeaning,
    RefusedTools,
    SessionInfo,
    Tool,
)

# Trailing metadata in which the daemon names one of the stable error codes beside the status.
CODE_METADATA: Final = "stockade-code"
RETRY_METADATA: Final = "stockade-retry"  # "later": the same request can be taken later

# The daemon is away and may come back; what was sent is safe to send again.
AWAY: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})

UNKNOWN_CONTENT: Final = (
    "[a part of this result is of a kind that this client does not know; a newer stockade shows it]"
)

# What to do about a daemon that is gone, where nobody says better.
AFTERWARDS: Final = "start it again and repeat: what it recorded is still there"

SAME_VERSION: Final = "install the same version of stockade on both sides"

_BY_STATUS: Final[dict[str, type[errors.RequestRefused]]] = {
    kind.status: kind
    for kind in (
        errors.InvalidRequest,
        errors.NotFound,
        errors.AlreadyExists,
        errors.NotPermitted,
        errors.NotPossible,
        errors.TooLarge,
    )
}

_ENDS: Final[dict[int, str]] = {
    approvals_pb2.ASK_END_ALLOWED: "allowed",
    approvals_pb2.ASK_END_REJECTED: "rejected",
    approvals_pb2.ASK_END_WITHDRAWN: "withdrawn",
    approvals_pb2.ASK_END_EXPIRED: "expired",
    approvals_pb2.ASK_END_UNAVAILABLE: "unavailable",
    approvals_pb2.ASK_END_CHANGED: "changed",
}


def error_of(
    error: aio.AioRpcError, what: str, afterwards: str = AFTERWARDS, *, version: str = ""
) -> errors.StockadeError:
    """The client's error for a gRPC status.

    `what` finishes the sentence "the daemon did not answer when asked to …", `afterwards` says what to do once it is
    gone. `version`: what the daemon said of itself; empty: nothing yet.
    """
    status = error.code()
    details = error.details() or ""
    code = _metadata(error, CODE_METADATA)
    if status in AWAY:
        # grpc's own text tells how a connection failed, which helps nobody to get the daemon back.
        return errors.NoAnswer(f"the daemon is gone, asked to {what}; {afterwards}")
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.NoAnswer(f"the daemon did not answer in time, asked to {what}; look at its log; {afterwards}")
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return lacking(what, version)
    if status is grpc.StatusCode.UNAUTHENTICATED:
        return errors.NotPermitted(details or f"the daemon wants a token to {what}; pass token=", code=code)
    if code == "APPROVAL_DECIDED":
        return errors.AskAlreadyDecided(details, code=code)
    if code == "APPROVAL_MISMATCH":
        return errors.AskChanged(details, code=code)
    if _metadata(error, RETRY_METADATA) == "later":
        return errors.Busy(details, code=code)
    kind = _BY_STATUS.get(status.name)
    if kind is not None:
        return kind(details or f"the daemon refused to {what}", code=code)
    if status is grpc.StatusCode.DATA_LOSS:
        # Its disk or its host, and no fault of its own: the details say what to do.
        return errors.DaemonError(f"the daemon cannot go on, asked to {what}: {details}")
    return errors.DaemonError(
        f"the daemon failed when asked to {what}: {status.name}: {details}; this is a fault of the daemon, its log "
        "says more"
    )


def lacking(what: str, version: str) -> errors.Incompatible:
    """The error for what a daemon of another version has not learnt yet; `version` as in `error_of`."""
    there = f"stockade {version}" if version else "which has not said its version"
    return errors.Incompatible(
        f"the daemon, {there}, does not know how to {what}; this client is stockade {own_version()}: {SAME_VERSION}"
    )


def own_version() -> str:
    """This client's; "unknown" where it is run from a source tree that is not installed."""
    try:
        return importlib.metadata.version("stockade")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def said(value: str, what: str) -> str:
    """The value, which a message can hold.

    Raises InvalidRequest for one that is empty or not UTF-8, as a name of the file system's may be; `what` names it.
    """
    if not value:
        raise errors.InvalidRequest(f"{what} must not be empty; give one, or leave it out")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.InvalidRequest(f"{what} {value!r} is not UTF-8; use one that is") from None
    return value


def _metadata(error: aio.AioRpcError, name: str) -> str:
    for key, value in error.trailing_metadata() or ():
        if key == name:
            return value.decode("ascii", "replace") if isinstance(value, bytes) else value
    return ""


def result_of(call_id: str, tool: str, message: types_pb2.Result, value_text: bytes) -> CallResult:
    """The frozen result. `value_text` is the value's JSON text, wherever it came from; empty: no value."""
    failure: Failure | None = None
    if not message.ok:
        failure = Failure(
            code=message.error.code,
            message=message.error.message,
            domain=message.error.domain,
            retry=message.error.retry,
        )
    value: Json = json.loads(value_text) if value_text else None
    return CallResult(
        call_id=call_id,
        tool=tool,
        ok=message.ok,
        value=value,
        content=tuple(
            # A part that only a newer client could show is told of, so that nobody takes the rest for all.
            block.text if block.WhichOneof("block") == "text" else UNKNOWN_CONTENT
            for block in message.content
            if block.WhichOneof("block") != "image"
        ),
        images=tuple(
            Image(block.image.mime, block.image.data)
            for block in message.content
            if block.WhichOneof("block") == "image"
        ),
        error=failure,
        usage=Usage(
            message.usage.wall_s,
            message.usage.cpu_s,
            message.usage.max_rss_bytes,
            message.usage.read_bytes,
            message.usage.written_bytes,
            message.usage.source,
        ),
        layers=tuple(layer_of(layer) for layer in message.layers),
        profile_digest=message.profile_digest,
        card=call_card_of(message.card, tool, ok=message.ok),
    )


def call_card_of(text: bytes, tool: str, *, ok: bool | None = None) -> dict[str, Json]:
    """The card of a call; one that is missing or cannot be read becomes a generic one. `ok`: of a completed one."""
    try:
        card: Json = json.loads(text)
    except ValueError:
        card = None
    if isinstance(card, dict):
        return card
    return {"title": tool, "view": "generic", **({} if ok is None else {"ok": ok})}


def resolution_of(message: calls_pb2.Resolution) -> Resolution:
    if message.outcome == calls_pb2.OUTCOME_DONE:
        return Resolution("done", message.note, message.time_ms)
    if message.outcome == calls_pb2.OUTCOME_NOT_DONE:
        return Resolution("not-done", message.note, message.time_ms)
    raise errors.Incompatible(
        f"the daemon tells of an outcome that this client, stockade {own_version()}, does not know "
        f"({message.outcome}); {SAME_VERSION}"
    )


def layer_of(message: types_pb2.Layer) -> Layer:
    return Layer(message.name, message.held, message.reason)


def event_of(message: events_pb2.Event) -> Event:
    body: Json = json.loads(message.body) if message.body else {}
    return Event(
        session_id=message.session_id,
        seq=message.seq,
        type=message.type,
        call_id=message.call_id,
        time_ms=message.time_ms,
        body=body if isinstance(body, dict) else {"body": body},
        version=message.version,
        principal=message.principal,
    )


def session_of(message: sessions_pb2.Session) -> SessionInfo:
    return SessionInfo(
        session_id=message.session_id,
        workspace=message.workspace,
        profile=message.profile_name,
        profile_digest=message.profile_digest,
        approval_policy=message.approval_policy,
        state=message.state,
        opened_ms=message.opened_ms,
        last_seq=message.last_seq,
        tightening=message.tightening.decode("utf-8", "replace"),
        tools=tuple(message.tools),
        principal=message.principal,
        workspace_view=message.workspace_view or "itself",
        lease_s=message.lease_s,
    )


_STATES: Final[dict[int, str]] = {calls_pb2.CALL_STATE_PENDING: "pending", calls_pb2.CALL_STATE_RUNNING: "running"}


def under_way_of(message: calls_pb2.CallUnderWay) -> CallUnderWay:
    return CallUnderWay(
        session_id=message.session_id,
        call_id=message.call_id,
        tool=message.tool,
        state=_STATES.get(message.state, f"state {message.state}"),
        turn_id=message.turn_id,
        since_ms=message.since_ms,
        waits_for=message.waits_for,
        ask_id=message.ask_id,
        parent=message.parent,
        card=call_card_of(message.card, message.tool),
    )


def info_of(message: daemon_pb2.GetInfoResponse) -> DaemonInfo:
    return DaemonInfo(
        version=message.version,
        protocol=message.protocol,
        features=tuple(message.features),
        layers=tuple(layer_of(layer) for layer in message.layers),
        uid=message.uid,
        kernel=message.kernel,
        machine=message.machine,
        profiles=tuple(message.profiles),
        private=message.private,
        caller=Caller(
            message.caller.name,
            tuple(message.caller.roles),
            message.caller.answers_own_asks,
            tuple(message.caller.approves),
        ),
    )


def examination_of(message: daemon_pb2.DoctorResponse) -> Examination:
    return Examination(
        able=message.able,
        findings=tuple(
            Finding(each.name, each.state, each.found, each.meaning, each.remedy) for each in message.findings
        ),
        profiles=tuple(
            ProfileFinding(
                each.name,
                each.state,
                each.reason,
                tuple(each.required),
                tuple(layer_of(layer) for layer in each.layers),
            )
            for each in message.profiles
        ),
    )


def end_of(ended: int) -> str:
    """How an ask ended, in one word; empty while it waits. An end that this client does not know is `gone`."""
    return _ENDS.get(ended, "gone") if ended else ""


def card_of(message: approvals_pb2.Ask) -> dict[str, Json]:
    """The card as data. One that cannot be read is shown as it came, so that nobody says yes to nothing."""
    try:
        card: Json = json.loads(message.card)
    except ValueError:
        card = None
    if isinstance(card, dict):
        return card
    return {
        "title": f"{message.tool}: a card that cannot be read",
        "text": message.card.decode("utf-8", "replace"),
    }


def tool_of(message: catalog_pb2.Tool) -> Tool:
    schema: Json = json.loads(message.input_schema) if message.input_schema else {}
    output: Json = json.loads(message.output_schema) if message.output_schema else None
    return Tool(
        name=message.name,
        description=message.description,
        input_schema=schema if isinstance(schema, dict) else {},
        access=message.access,
        kind=message.kind,
        timeout_s=message.timeout_s,
        parallel_safe=message.parallel_safe,
        idempotent=message.idempotent,
        output_bytes=message.output_bytes,
        card_title=message.card_title,
        observes=message.observes,
        origin=message.origin,
        output_schema=output if isinstance(output, dict) else None,
    )


def catalog_of(tools: catalog_pb2.ListToolsResponse, reference: catalog_pb2.GetReferenceResponse) -> Catalog:
    return Catalog(
        generation=tools.generation,
        tools=tuple(map(tool_of, tools.tools)),
        refused=tuple(RefusedTools(each.reason, tuple(each.kept)) for each in tools.refused),
        profiles=tuple(ProfileMeaning(each.name, each.description, each.fault) for each in reference.profiles),
        errors=tuple(
            ErrorMeaning(each.code, each.domain, each.retry, each.meaning, each.of_tools) for each in reference.errors
        ),
        events=tuple(EventMeaning(each.type, each.meaning, each.version) for each in reference.events),
    )
