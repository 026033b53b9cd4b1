"""Frozen values about the daemon, its sessions, its tools and its ledger."""

from dataclasses import dataclass

from stockade_client.results import Json, Layer


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """What a daemon is and what it can do."""

    version: str
    protocol: str
    features: tuple[str, ...]
    layers: tuple[Layer, ...]  # in force for its workers under the strictest shipped profile
    uid: int
    kernel: str
    machine: str
    profiles: tuple[str, ...]  # names that a session can be opened with
    private: bool  # started by a client for its own lifetime


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as the daemon knows it."""

    session_id: str
    workspace: str
    profile: str
    profile_digest: str  # SHA-256, lower-case hex, over the profile's text, what narrows it and what it extends
    approval_policy: str  # ask | never
    state: str  # open | closed
    opened_ms: int  # milliseconds since 1970, UTC
    last_seq: int
    tightening: str = ""  # TOML that narrows the profile for this session; empty: nothing does


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the daemon offers."""

    name: str
    description: str  # for the model
    input_schema: dict[str, Json]  # JSON Schema
    access: str  # none | read | overlay
    kind: str  # read | write | command
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded fact of a session."""

    session_id: str
    seq: int  # 1, 2, 3 … without gaps, per session
    type: str  # for example tool/call
    call_id: str  # empty for events of the session itself
    time_ms: int  # milliseconds since 1970, UTC
    body: dict[str, Json]
