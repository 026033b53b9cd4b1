"""A request to open a session, and whether a session that there is already is the one that is asked for."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from stockade_daemon.errors import RequestError
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.ledger.records import SessionRecord
from stockade_daemon.profiles import read as profiles
from stockade_daemon.settings import nearest
from stockade_daemon.values import ITSELF, Principal

_POLICIES: Final[tuple[Literal["ask", "never"], ...]] = ("ask", "never")
_VIEWS: Final = ("itself", "copy")
_SHORTEST_LEASE_S: Final = 1.0
_LONGEST_LEASE_S: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Opening:
    """A request to open a session. Either a profile's name, or (private daemons) its text."""

    session_id: str
    workspace: str
    profile_name: str
    profile_text: bytes | None
    approval_policy: str
    tightening: bytes = b""  # narrows the profile for this session; empty: nothing
    tools: tuple[str, ...] = ()  # those that the session offers and runs; empty: all
    view: str = "itself"  # of the workspace; "copy": a copy of its own
    lease_s: float = 0.0  # that the session stays open without being opened again; 0: for good
    renewal: bool = False  # only renews the lease: opens and takes up nothing
    by: Principal = ITSELF


def check_words(opening: Opening) -> str:
    """The approval policy. Raises RequestError INVALID_ARGUMENT."""
    policy = opening.approval_policy or "ask"
    if policy not in _POLICIES:
        raise RequestError("INVALID_ARGUMENT", f"approval_policy {policy[:40]!r} is neither 'ask' nor 'never'")
    if opening.view not in _VIEWS:
        raise RequestError("INVALID_ARGUMENT", f"workspace_view {opening.view[:40]!r} is neither 'itself' nor 'copy'")
    if opening.lease_s != 0 and not _SHORTEST_LEASE_S <= opening.lease_s <= _LONGEST_LEASE_S:  # nor is NaN
        raise RequestError(
            "INVALID_ARGUMENT",
            f"lease_s {opening.lease_s:g} is not from {_SHORTEST_LEASE_S:g} to {_LONGEST_LEASE_S:g} seconds; "
            "0 is a session without a lease",
        )
    return policy


def closed(record: SessionRecord) -> RequestError:
    """Of a session that has ended: there is no way back."""
    why = f": {record.closed_because}" if record.closed_because else ""
    return RequestError("FAILED_PRECONDITION", f"session {record.session_id} is closed{why}; open another one")


def check_tools(wanted: tuple[str, ...], there: Collection[str]) -> None:
    """Raises RequestError INVALID_ARGUMENT."""
    if len(set(wanted)) != len(wanted):
        raise RequestError("INVALID_ARGUMENT", "tools names one twice; name each once")
    for name in wanted:
        if name not in there:
            near = nearest(name[:80], there)
            raise RequestError(
                "INVALID_ARGUMENT",
                f"tools names {name[:80]!r}, which no tool is called; "
                + (f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(there))}"),
            )


def check_same(known: SessionRecord, opening: Opening, workspace: Workspace, policy: str) -> None:
    """Raises RequestError where a session of this id is not what is asked for."""
    if known.state == "closed":
        raise closed(known)
    differing = []
    if (known.device, known.inode) != (workspace.device, workspace.inode):
        differing.append(f"workspace {known.workspace}")
    text = None if known.profile_by_name else profiles.own_text(known.profile_text)
    if opening.profile_text is not None and opening.profile_text != text:
        differing.append(f"another text of profile {known.profile_name}")
    by_name = opening.profile_text is None
    if by_name and (opening.profile_name != known.profile_name or not known.profile_by_name):
        differing.append(f"profile {known.profile_name}" if known.profile_by_name else "a profile given as a text")
    if opening.tightening != profiles.own_tightening(known.profile_text):
        differing.append("another tightening")
    if tuple(sorted(opening.tools)) != known.tools:
        differing.append(f"the tools {', '.join(known.tools)}" if known.tools else "all tools")
    if (opening.view == "copy") != known.on_copy:
        differing.append("a copy of the workspace" if known.on_copy else "the workspace itself")
    if opening.lease_s != known.lease_s:
        differing.append(f"a lease of {known.lease_s:g} s" if known.lease_s else "no lease")
    if policy != known.approval_policy:
        differing.append(f"approval policy {known.approval_policy}")
    if differing:
        raise RequestError(
            "ALREADY_EXISTS", f"session {known.session_id} exists with {', '.join(differing)}; choose another id"
        )
