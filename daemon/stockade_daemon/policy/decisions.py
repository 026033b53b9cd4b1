"""The vocabulary of policy: what pre-execute and post-execute may decide. A missing decision is never "allow"."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Allow:
    """The call goes on to the guards.

    `tightening`: TOML that narrows the profile for this call, like a session's (profiles/tighten.py); empty: nothing.
    """

    tightening: bytes = b""


@dataclass(frozen=True, slots=True)
class Deny:
    """The body is skipped; `reason` is what the model reads, `code` one of the stable codes."""

    reason: str
    code: str = "DENIED"


@dataclass(frozen=True, slots=True)
class Ask:
    """A person decides, once, about exactly what is shown. `tightening`: as for Allow."""

    reason: str
    tightening: bytes = b""


PreDecision: TypeAlias = Allow | Deny | Ask


@dataclass(frozen=True, slots=True)
class Accept:
    """The outcome stands. `context` is handed to the agent after all results of the turn."""

    context: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """The outcome becomes an error with this feedback; its value is withheld."""

    feedback: str
    context: tuple[str, ...] = ()


PostDecision: TypeAlias = Accept | Block
