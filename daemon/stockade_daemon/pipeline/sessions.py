"""Sessions: opening, resuming, closing. A session keeps the profile that it was opened with."""

import asyncio
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stockade_daemon.errors import ConfigurationError, RequestError
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.ledger.records import SessionRecord
from stockade_daemon.pipeline.context import LiveSession
from stockade_daemon.pipeline.identity import check_session_id
from stockade_daemon.profiles import read as profiles
from stockade_daemon.profiles.tighten import tighten
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.room import Place
from stockade_daemon.values import Json, Profile, Session

_KERNEL = ("/proc", "/sys", "/dev")  # nor is anything in these
# Each holds a descriptor, and a room that may hold a template. More may be open; these are at hand.
_MOST_LIVE = 256
_POLICIES: tuple[Literal["ask", "never"], ...] = ("ask", "never")
# Directories that are no workspace: they are the system, or the kernel's.
_NEVER = ("/", "/proc", "/sys", "/dev", "/run", "/usr", "/etc", "/boot", "/bin", "/sbin", "/lib", "/lib64")


@dataclass(frozen=True, slots=True)
class Rules:
    """Who may open what."""

    private: bool  # started by one client, for itself
    workspaces: tuple[Path, ...]  # the admin's list
    profile_directories: tuple[Path, ...]  # looked through in this order
    own: tuple[Path, ...]  # the daemon's state and socket directories: in no workspace
    policy: tuple[Path, ...] = ()  # where tools and profiles of one's own lie: in no workspace, or an edit makes policy


@dataclass(frozen=True, slots=True)
class Opening:
    """A request to open a session. Either a profile's name, or (private daemons) its text."""

    session_id: str
    workspace: str
    profile_name: str
    profile_text: bytes | None
    approval_policy: str
    tightening: bytes = b""  # narrows the profile for this session; empty: nothing


class Sessions:
    """The open sessions of this daemon. Those of an earlier one come back when they are named."""

    def __init__(self, ledger: Ledger, pool: Pool, rules: Rules) -> None:
        self._ledger = ledger
        self._pool = pool
        self._rules = rules
        self._live: dict[str, LiveSession] = {}
        # A session is not revived while it is ended, nor twice at once.
        self._changing = asyncio.Lock()
        # Sessions that have calls, which must keep what they hold; the engine knows.
        self.busy: Callable[[], Collection[str]] = tuple

    async def open(self, opening: Opening) -> SessionRecord:
        """Opens, or resumes. Raises RequestError, ConfigurationError (a faulty profile)."""
        check_session_id(opening.session_id)
        policy = opening.approval_policy or "ask"
        if policy not in _POLICIES:
            raise RequestError("INVALID_ARGUMENT", f"approval_policy {policy[:40]!r} is neither 'ask' nor 'never'")
        workspace = Workspace.open(opening.workspace)
        try:
            self._check_workspace(workspace)
            known = await self._ledger.session(opening.session_id)
            if known is None:
                profile = self._profile(opening)
                self._check_mounts(profile)
                _check_hidden(profile, workspace.path)
                record = SessionRecord(
                    session_id=opening.session_id,
                    workspace=workspace.path,
                    device=workspace.device,
                    inode=workspace.inode,
                    profile_name=profile.name,
                    profile_digest=profile.digest,
                    profile_source=profile.source,
                    profile_text=profile.text,
                    approval_policy=policy,
                    state="open",
                    opened_ms=time.time_ns() // 1_000_000,
                )
                known = await self._ledger.open_session(record)
            self._check_same(known, opening, workspace, policy)
        finally:
            workspace.close()
        await self.live(opening.session_id)
        return await self.record(opening.session_id)

    async def record(self, session_id: str) -> SessionRecord:
        """Raises RequestError NOT_FOUND."""
        found = await self._ledger.session(session_id)
        if found is None:
            raise RequestError("NOT_FOUND", f"there is no session {session_id[:128]!r}; open it first")
        return found

    def is_live(self, session_id: str) -> bool:
        """Whether `live` has it at hand; it is open then."""
        return session_id in self._live

    async def live(self, session_id: str) -> LiveSession:
        """An open session with its gate and room.

        Of those without calls, the longest unused are let go of when there are many; they come back when they are
        named. Raises RequestError NOT_FOUND, FAILED_PRECONDITION (closed, or its workspace is
        another directory by now).
        """
        async with self._changing:
            live = self._live.pop(session_id, None)
            if live is None:
                record = await self.record(session_id)
                if record.state == "closed":
                    raise RequestError("FAILED_PRECONDITION", f"session {session_id} is closed; open another one")
                live = await self._revive(record)
                place = Place(live.workspace.path, live.workspace.device, live.workspace.inode)
                hidden = live.gate.hidden_names if live.session.profile.hidden else None
                self._pool.open_room(session_id, live.session.profile, place, hidden=hidden)
            self._live[session_id] = live  # at the end: the most recently used
        if len(self._live) > _MOST_LIVE:
            busy = {session_id, *self.busy()}
            idle = [name for name in self._live if name not in busy]
            for name in idle[: len(self._live) - _MOST_LIVE]:
                await self.end(name)
        return live

    async def end(self, session_id: str) -> None:
        """Lets go of what an open session holds; its record is the ledger's."""
        async with self._changing:
            live = self._live.pop(session_id, None)
        await self._pool.close_room(session_id)
        if live is not None:
            live.workspace.close()

    def announce(self, type: str, body: Mapping[str, Json]) -> None:
        """Records an event in every open session that is at hand."""
        for session_id in self._live:
            self._ledger.note(session_id, type, "", body)

    def close(self) -> None:
        for live in self._live.values():
            live.workspace.close()
        self._live.clear()

    async def _revive(self, record: SessionRecord) -> LiveSession:
        try:
            profile = profiles.restore(record.profile_text, name=record.profile_name, source=record.profile_source)
        except ConfigurationError as error:
            raise RequestError(
                "FAILED_PRECONDITION", f"the profile of session {record.session_id} is no longer valid: {error}"
            ) from error
        self._check_mounts(profile)
        workspace = Workspace.open(record.workspace)
        try:
            _check_hidden(profile, workspace.path)
            if (workspace.device, workspace.inode) != (record.device, record.inode):
                raise RequestError(
                    "FAILED_PRECONDITION",
                    f"{record.workspace} is another directory than the one that session {record.session_id} was opened "
                    "on; open a new session",
                )
            gate = Gate(workspace, protected=profile.protected, hidden=profile.hidden)
            after = 0
            while events := await self._ledger.read(record.session_id, after=after):
                for event in events:
                    after = event.seq
                    if event.type in ("fs/observed", "fs/committed"):
                        gate.restore(event.body)
        except BaseException:
            workspace.close()
            raise
        session = Session(
            session_id=record.session_id,
            workspace=workspace.path,
            device=workspace.device,
            inode=workspace.inode,
            profile=profile,
            approval_policy="never" if record.approval_policy == "never" else "ask",
            opened_ms=record.opened_ms,
        )
        return LiveSession(session, workspace, gate)

    def _profile(self, opening: Opening) -> Profile:
        base = self._base(opening)
        return tighten(base, opening.tightening) if opening.tightening else base

    def _base(self, opening: Opening) -> Profile:
        if opening.profile_text is None:
            return profiles.load(opening.profile_name, directories=self._rules.profile_directories)
        if not self._rules.private:
            raise RequestError(
                "PERMISSION_DENIED",
                "this daemon takes profiles by name only; ask its admin to add the file, or use a private daemon",
            )
        return profiles.parse(
            opening.profile_text,
            name=opening.profile_name,
            source=opening.profile_name,
            directories=self._rules.profile_directories,
        )

    def _check_same(self, known: SessionRecord, opening: Opening, workspace: Workspace, policy: str) -> None:
        if known.state == "closed":
            raise RequestError("FAILED_PRECONDITION", f"session {known.session_id} is closed; open another one")
        differing = []
        if (known.device, known.inode) != (workspace.device, workspace.inode):
            differing.append(f"workspace {known.workspace}")
        if opening.profile_text is not None and opening.profile_text != profiles.own_text(known.profile_text):
            differing.append(f"another text of profile {known.profile_name}")
        if opening.profile_text is None and opening.profile_name != known.profile_name:
            differing.append(f"profile {known.profile_name}")
        if opening.tightening != profiles.own_tightening(known.profile_text):
            differing.append("another tightening")
        if policy != known.approval_policy:
            differing.append(f"approval policy {known.approval_policy}")
        if differing:
            raise RequestError(
                "ALREADY_EXISTS", f"session {known.session_id} exists with {', '.join(differing)}; choose another id"
            )

    def _check_mounts(self, profile: Profile) -> None:
        for mount in (*profile.mounts, *profile.system):
            real = Path(os.path.realpath(mount))
            for own in self._rules.own:
                if own == real or real in own.parents or own in real.parents:
                    raise RequestError(
                        "PERMISSION_DENIED",
                        f"the daemon keeps its own files in {own}, which the mount {mount} of profile {profile.name} "
                        "would show to tools; mount less, or start the daemon with --state and --socket elsewhere",
                    )

    def _check_workspace(self, workspace: Workspace) -> None:
        path = Path(workspace.path)
        in_kernel = any(workspace.path.startswith(f"{each}/") for each in _KERNEL)
        if workspace.path in _NEVER or (in_kernel and not workspace.path.startswith("/dev/shm/")):  # noqa: S108
            raise RequestError("PERMISSION_DENIED", f"{path} is no workspace; give a directory of your own")
        for own in self._rules.own:
            if own == path or path in own.parents or own in path.parents:
                elsewhere = (
                    "set TMPDIR to a directory outside it"
                    if self._rules.private
                    else "start the daemon with --state and --socket elsewhere"
                )
                raise RequestError(
                    "PERMISSION_DENIED",
                    f"the daemon keeps its own files in {own}, which a session on {path} would show to its tools; "
                    f"choose another workspace, or {elsewhere}",
                )
        for each in self._rules.policy:
            if each == path or path in each.parents:
                raise RequestError(
                    "PERMISSION_DENIED",
                    f"the daemon takes tools or profiles from {each}, which a session on {path} could change; choose "
                    "another workspace, or have the admin keep them outside it",
                )
        listed = any(path == each or each in path.parents for each in self._rules.workspaces)
        if listed:
            return
        uid = os.geteuid()
        if uid == 0:
            if not self._rules.private:
                raise RequestError(
                    "PERMISSION_DENIED",
                    f"{path} is not among the workspaces of this daemon; its admin adds to stockade.toml, below "
                    "[daemon]: "
                    f'workspaces = ["{path}"]',
                )
        elif os.stat(workspace.path).st_uid != uid:
            raise RequestError(
                "PERMISSION_DENIED",
                f"{path} does not belong to uid {uid}, which the daemon runs as; choose a directory of that user, or "
                "have the admin list it in [daemon] workspaces",
            )


def _check_hidden(profile: Profile, workspace: str) -> None:
    """Nothing is hidden in a workspace that workers see a second time, in a tree of the host."""
    if not profile.hidden:
        return
    for shown in (*profile.system, *profile.mounts):
        real = os.path.realpath(shown)
        if f"{workspace}/".startswith(f"{real}/") or f"{real}/".startswith(f"{workspace}/"):
            raise RequestError(
                "FAILED_PRECONDITION",
                f"profile {profile.name} hides names of the workspace {workspace} and shows {shown} of the host, where "
                "they could be seen all the same; choose another workspace, or a profile that does not show it",
            )
