"""Who may call which method, and on whose sessions."""

from collections.abc import Mapping
from typing import Final

from stockade_daemon.errors import RequestError
from stockade_daemon.ledger.records import SessionRecord
from stockade_daemon.pipeline.sessions import Sessions, none_such
from stockade_daemon.policy.access import may_change, may_see
from stockade_daemon.rpc.callers import Callers
from stockade_daemon.values import Principal, Role

_ALL: Final = frozenset(Role)
_AGENTS: Final = frozenset({Role.AGENT, Role.ADMIN})
_ADMINS: Final = frozenset({Role.ADMIN})

# Roles, of which one is needed. Whose session it may be is another question, which each method asks.
ROLES: Final[Mapping[str, frozenset[Role]]] = {
    "Daemon.GetInfo": _ALL,
    "Daemon.Doctor": _ADMINS,
    "Catalog.ListTools": _ALL,
    "Catalog.CheckTool": _ADMINS,
    "Catalog.GetReference": _ALL,
    "Sessions.Open": _AGENTS,
    "Sessions.Get": _ALL,
    "Sessions.List": _ALL,
    "Sessions.Close": _AGENTS,
    "Calls.Start": _AGENTS,
    "Calls.StartTurn": _AGENTS,
    "Calls.CancelTurn": _AGENTS,
    "Calls.List": _ALL,
    "Calls.Wait": _ALL,
    "Calls.Cancel": _AGENTS,
    "Calls.Signal": _AGENTS,
    "Calls.ResolveUnknown": _AGENTS,
    "Calls.ReadOutput": _ALL,
    "Events.Read": _ALL,
    "Approvals.Watch": _ALL,
    "Approvals.Decide": _ALL,
    "Approvals.Claim": _ALL,
    "Profiles.List": _ALL,
    "Profiles.Show": _ALL,
    "Profiles.Explain": _ALL,
    "Profiles.Check": _ALL,
    "Profiles.Probe": _ADMINS,
    "Profiles.JudgeCommand": _AGENTS,
}


class Access:
    """What services ask before they do anything."""

    def __init__(self, callers: Callers, sessions: Sessions) -> None:
        self.callers = callers
        self._sessions = sessions

    def check_role(self, principal: Principal, method: str) -> None:
        """Raises RequestError PERMISSION_DENIED."""
        wanted = ROLES[method]
        if principal.roles.isdisjoint(wanted):
            raise RequestError(
                "PERMISSION_DENIED",
                f"{principal.name} may not call {method}: that takes the role {' or '.join(sorted(wanted))}; have the "
                "admin give it in stockade.toml"
                + (", or use a private daemon (--private)" if wanted == _ADMINS else ""),
            )

    async def see(self, principal: Principal, session_id: str) -> str:
        """The name of the session's owner. Raises RequestError NOT_FOUND where this principal may not see the session,
        or there is none: for whoever may not see it that is the same."""
        owner = await self._sessions.owner(session_id)
        if not may_see(principal, owner):
            raise none_such(session_id)
        return owner

    def sees(self, principal: Principal, record: SessionRecord) -> bool:
        """Whether it may see the session."""
        return may_see(principal, self._sessions.owner_of(record))

    async def change(self, principal: Principal, session_id: str) -> None:
        """As `see`; raises RequestError PERMISSION_DENIED where it may look at the session and no more."""
        owner = await self.see(principal, session_id)
        if not may_change(principal, owner):
            raise RequestError(
                "PERMISSION_DENIED",
                f"session {session_id} belongs to {owner}; {principal.name} may look at it, and answer what it asks",
            )
