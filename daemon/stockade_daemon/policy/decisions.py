"""The vocabulary of policy: what pre-execute and post-execute may decide. A missing decision is never "allow"."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from stockade_daemon.errors import CODES, ExtensionFailed
from stockade_daemon.json_text import is_text
from stockade_daemon.values import Json


@dataclass(frozen=True, slots=True)
class Allow:
    """The call goes on to the guards.

    `tightening`: TOML that narrows the profile for this call, like a session's (profiles/tighten.py); empty: nothing.
    `arguments`: what the call's arguments become, checked like a client's; None: they stay as they are.
    """

    tightening: bytes = b""
    arguments: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """The body is skipped; `reason` is what the model reads, `code` one of the stable codes."""

    reason: str
    code: str = "DENIED"


@dataclass(frozen=True, slots=True)
class Ask:
    """A person decides, once, about exactly what is shown. `tightening` and `arguments`: as for Allow."""

    reason: str
    tightening: bytes = b""
    arguments: Mapping[str, Json] | None = None


PreDecision: TypeAlias = Allow | Deny | Ask
PRE_DECISIONS: Final = (Allow, Deny, Ask)


def check_said(decision: PreDecision, stage: str, *, owner: str = "") -> None:
    """Raises ExtensionFailed where a decision says something that cannot be recorded."""
    if isinstance(decision, Allow):
        return
    if not is_text(decision.reason):
        raise ExtensionFailed(owner, stage, "its reason is no text that JSON can carry")
    if isinstance(decision, Deny) and decision.code not in CODES:
        raise ExtensionFailed(owner, stage, f"its error code {str(decision.code)[:40]!r} is unknown")


def recorded(decision: PreDecision) -> dict[str, Json]:
    """`decision`, and `reason` where there is one, as events have them."""
    match decision:
        case Allow():
            return {"decision": "allow"}
        case Ask(reason):
            return {"decision": "ask", "reason": reason}
        case Deny(reason):
            return {"decision": "deny", "reason": reason}


@dataclass(frozen=True, slots=True)
class Accept:
    """The outcome stands. `context` is handed to the agent after all results of the turn.

    `content`: other text for the model; value and error stay what they are. None: the text stays too.
    """

    context: tuple[str, ...] = ()
    content: tuple[str, ...] | None = None

    def after(self, *context: str) -> "Accept":
        """The same decision, with context before its own."""
        return replace(self, context=(*context, *self.context))


@dataclass(frozen=True, slots=True)
class Replace:
    """A successful outcome has this value, with this text for the model. For a failed call it is a mistake."""

    value: Json
    content: tuple[str, ...]
    context: tuple[str, ...] = ()

    def after(self, *context: str) -> "Replace":
        """The same decision, with context before its own."""
        return replace(self, context=(*context, *self.context))


@dataclass(frozen=True, slots=True)
class Block:
    """The outcome becomes an error with this feedback; its value is withheld, and of context only this one is told."""

    feedback: str
    context: tuple[str, ...] = ()

    def after(self, *context: str) -> "Block":
        """The same decision, with context before its own."""
        return replace(self, context=(*context, *self.context))


PostDecision: TypeAlias = Accept | Replace | Block
POST_DECISIONS: Final = (Accept, Replace, Block)
