"""The profile's [approval] and [commands] as listeners: of pre-execute, and of the changes that bodies ask for."""

import asyncio
from collections.abc import Callable

from stockade_daemon.policy.command_rules import judge, unruled
from stockade_daemon.policy.decisions import Allow, Ask, Deny, PreDecision
from stockade_daemon.policy.executables import Surroundings
from stockade_daemon.policy.subjects import Intended, Judged, Transaction
from stockade_daemon.policy.waterfall import Next
from stockade_daemon.values import Decision, Kind, Profile, Session

_PLURAL = {Kind.READ: "reads", Kind.WRITE: "writes", Kind.COMMAND: "commands"}


def decision_for(judged: Judged) -> Decision:
    """What the profile says about a call of this kind of tool."""
    approval = judged.session.profile.approval
    return {Kind.READ: approval.reads, Kind.WRITE: approval.writes, Kind.COMMAND: approval.commands}[
        judged.manifest.kind
    ]


class ByProfile:
    """Denies what the profile denies and asks what it asks; else the next listener decides.

    A write under `ask` is let through here: it is asked about once, at its intent, when the exact difference is known.
    A command that the profile's rules allow is not asked about at all.
    """

    def __init__(self, surroundings: Callable[[Session], Surroundings]) -> None:
        """`surroundings`: what decides where commands of a session find their programs."""
        self._surroundings = surroundings

    async def __call__(self, judged: Judged, following: Next[PreDecision]) -> PreDecision:
        decision = decision_for(judged)
        kind, profile = judged.manifest.kind, judged.session.profile
        if decision == "deny":
            return Deny(denied_because(profile, kind, judged.call.tool))
        inner = await following()
        if decision == "ask" and kind is not Kind.WRITE and not isinstance(inner, Deny):
            because = await self._unruled(judged)
            if because is not None:
                return Ask(asked_because(profile, kind, because), inner.tightening, inner.arguments)
        return inner

    async def _unruled(self, judged: Judged) -> str | None:
        """Why no rule allows a call; empty where there are no rules for it; None: all of it is allowed."""
        rules = judged.session.profile.command_rules
        if not rules or not is_shell(judged):
            return ""
        # It computes, and asks the file system where programs are.
        verdicts = await asyncio.to_thread(judge, judged.call.arguments, rules, self._surroundings(judged.session))
        return unruled(verdicts) or None


def denied_because(profile: Profile, kind: Kind, tool: str) -> str:
    """What a model reads of a call that its profile denies."""
    many = _PLURAL[kind]
    return f"profile {profile.name} denies {many}: {tool} was not run. Use a profile that allows {many}."


def asked_because(profile: Profile, kind: Kind, because: str) -> str:
    """Why a call is asked about. `because`: a clause, or empty."""
    return f"profile {profile.name} asks about {_PLURAL[kind]}{because and ': '}{because}"


def is_shell(judged: Judged) -> bool:
    """Whether it is the built-in tool whose arguments are a command."""
    return judged.call.tool == "shell" and judged.manifest.custom is None


async def changes_by_profile(intended: Intended) -> PreDecision:
    """What [approval] writes says: a tool that changes files without being a write by its kind is a write here."""
    profile = intended.judged.session.profile
    match profile.approval.writes:
        case "allow":
            return Allow()
        case "ask":
            return Ask(f"profile {profile.name} asks about writes")
        case _:
            return Deny(f"profile {profile.name} denies writes: nothing was changed. Use one that allows them.")


async def effects_by_profile(transaction: Transaction) -> PreDecision:
    """What [approval] effects says of what a command did: with "discard" it never comes to this."""
    profile = transaction.judged.session.profile
    match profile.approval.effects:
        case "commit":
            return Allow()
        case "ask":
            return Ask(f"profile {profile.name} asks about what commands change")
        case _:
            return Deny(f"profile {profile.name} discards what commands change: nothing was changed.")
