"""The client: connection, sessions, approvals, the model loop and the command line.

    from stockade_client import connect, local_daemon

Names are loaded when they are used: grpc takes 85 ms to import, which `stockade --help` need not wait for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stockade_client.approvals import Answer, Approve, Ask, Claim
    from stockade_client.calls import Call, Piece
    from stockade_client.connection import Daemon, connect
    from stockade_client.errors import (
        AlreadyExists,
        AskAlreadyDecided,
        AskChanged,
        Busy,
        DaemonError,
        DaemonNotInstalled,
        DaemonStartFailed,
        Incompatible,
        InvalidRequest,
        Misused,
        NoAnswer,
        NoDaemon,
        NotFound,
        NotPermitted,
        NotPossible,
        RequestRefused,
        StockadeError,
        TooLarge,
    )
    from stockade_client.link import Stream
    from stockade_client.loop import run_agent
    from stockade_client.model import Message, Model, Results, ScriptedModel, Task, ToolCall, Turn
    from stockade_client.private import local_daemon
    from stockade_client.results import CallResult, Failure, Image, Layer, Resolution, Usage
    from stockade_client.session import Session
    from stockade_client.tls import Tls
    from stockade_client.values import (
        Caller,
        CallUnderWay,
        Catalog,
        CheckedTools,
        DaemonInfo,
        Event,
        Examination,
        Finding,
        ProfileFinding,
        SessionInfo,
        Tool,
    )

_HOMES: Final[dict[str, tuple[str, ...]]] = {
    "approvals": ("Answer", "Approve", "Ask", "Claim"),
    "calls": ("Call", "Piece"),
    "connection": ("Daemon", "connect"),
    "errors": (
        "AlreadyExists",
        "AskAlreadyDecided",
        "AskChanged",
        "Busy",
        "DaemonError",
        "DaemonNotInstalled",
        "DaemonStartFailed",
        "Incompatible",
        "InvalidRequest",
        "Misused",
        "NoAnswer",
        "NoDaemon",
        "NotFound",
        "NotPermitted",
        "NotPossible",
        "RequestRefused",
        "StockadeError",
        "TooLarge",
    ),
    "link": ("Stream",),
    "loop": ("run_agent",),
    "model": ("Message", "Model", "Results", "ScriptedModel", "Task", "ToolCall", "Turn"),
    "private": ("local_daemon",),
    "results": ("CallResult", "Failure", "Image", "Layer", "Resolution", "Usage"),
    "session": ("Session",),
    "tls": ("Tls",),
    "values": (
        "CallUnderWay",
        "Caller",
        "Catalog",
        "CheckedTools",
        "DaemonInfo",
        "Event",
        "Examination",
        "Finding",
        "ProfileFinding",
        "SessionInfo",
        "Tool",
    ),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AlreadyExists",
    "Answer",
    "Approve",
    "Ask",
    "AskAlreadyDecided",
    "AskChanged",
    "Busy",
    "Call",
    "CallResult",
    "CallUnderWay",
    "Caller",
    "Catalog",
    "CheckedTools",
    "Claim",
    "Daemon",
    "DaemonError",
    "DaemonInfo",
    "DaemonNotInstalled",
    "DaemonStartFailed",
    "Event",
    "Examination",
    "Failure",
    "Finding",
    "Image",
    "Incompatible",
    "InvalidRequest",
    "Layer",
    "Message",
    "Misused",
    "Model",
    "NoAnswer",
    "NoDaemon",
    "NotFound",
    "NotPermitted",
    "NotPossible",
    "Piece",
    "ProfileFinding",
    "RequestRefused",
    "Resolution",
    "Results",
    "ScriptedModel",
    "Session",
    "SessionInfo",
    "StockadeError",
    "Stream",
    "Task",
    "Tls",
    "TooLarge",
    "Tool",
    "ToolCall",
    "Turn",
    "Usage",
    "connect",
    "local_daemon",
    "run_agent",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
