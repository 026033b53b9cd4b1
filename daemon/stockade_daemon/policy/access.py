"""Who may see a session, change it, and answer what is asked about it.

A session belongs to the principal that opened it. What somebody may not see is, for him, not there.
"""

from stockade_daemon.values import Principal, Role


def may_change(principal: Principal, owner: str) -> bool:
    """Whether it may start and end calls of the owner's sessions, and end those."""
    return Role.ADMIN in principal.roles or (Role.AGENT in principal.roles and principal.name == owner)


def may_see(principal: Principal, owner: str) -> bool:
    """Whether it may look at the owner's sessions."""
    return may_change(principal, owner) or _approves(principal, owner)


def may_answer(principal: Principal, owner: str) -> bool:
    """Whether it may answer what is asked about the owner's sessions."""
    if principal.name == owner:
        return principal.answers_own and may_see(principal, owner)
    return Role.ADMIN in principal.roles or _approves(principal, owner)


def may_answer_some(principal: Principal) -> bool:
    """Whether there can be a session whose asks it may answer."""
    return principal.answers_own or not principal.roles.isdisjoint({Role.APPROVER, Role.ADMIN})


def _approves(principal: Principal, owner: str) -> bool:
    return Role.APPROVER in principal.roles and (not principal.approves or owner in principal.approves)
