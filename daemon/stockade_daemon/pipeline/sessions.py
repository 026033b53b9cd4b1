"""Sessions: opening, resuming, closing.

A session whose profile was chosen by name is under what that name stands for; one that was given a text keeps it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from stockade_daemon.errors import ConfigurationError, InfrastructureFailure, RequestError
from stockade_daemon.gate.copies import Copies
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.ledger.records import SessionRecord
from stockade_daemon.pipeline.context import Barred, LiveSession
from stockade_daemon.pipeline.identity import check_session_id
from stockade_daemon.pipeline.leases import Leases
from stockade_daemon.pipeline.named_profiles import NamedProfiles
from stockade_daemon.pipeline.opening import Opening, check_same, check_tools, check_words, closed
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.pipeline.versions import Versions
from stockade_daemon.policy.access import may_change
from stockade_daemon.profiles import read as profiles
from stockade_daemon.profiles.last_good import Standing
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Event, Json, Profile, Session

_log = logging.getLogger(__name__)

# Each holds a descriptor, and a room that may hold a template. More may be open; these are at hand.
_MOST_LIVE = 256


class Sessions:
    """The open sessions of this daemon. Those of an earlier one come back when they are named."""

    def __init__(self, ledger: Ledger, pool: Pool, rules: Rules, copies: Copies) -> None:
        self.profiles = NamedProfiles(rules.profile_directories)
        self.leases = Leases()
        self._versions = Versions(ledger, pool, rules)
        self._ledger = ledger
        self._pool = pool
        self._rules = rules
        self._copies = copies
        self._live: dict[str, LiveSession] = {}
        # A session is not revived while it is ended, nor twice at once.
        self._changing = asyncio.Lock()
        # Sessions that have calls, which must keep what they hold; the engine knows.
        self.busy: Callable[[], Collection[str]] = tuple
        self.offers: Callable[[], Collection[str]] = tuple  # names of all tools that there are; the engine knows
        self.used = asyncio.Event()  # some session has seen or changed a file; whoever waits for that clears it

    async def open(self, opening: Opening) -> SessionRecord:
        """Opens, or resumes. Raises RequestError, ConfigurationError (a faulty profile)."""
        check_session_id(opening.session_id)
        policy = check_words(opening)
        workspace = self._rules.open_workspace(opening.workspace, opening.by)
        try:
            known = await self._ledger.session(opening.session_id)
            if known is None:
                if opening.renewal:
                    raise none_such(opening.session_id)
                check_tools(opening.tools, self.offers())
                base = await self._base(opening)
                profile = await self._versions.fitted(base, opening.tightening, workspace.path)
                record = SessionRecord(
                    session_id=opening.session_id,
                    workspace=workspace.path,
                    device=workspace.device,
                    inode=workspace.inode,
                    profile_name=profile.name,
                    profile_digest=profile.digest,
                    profile_source=profile.source,
                    profile_text=profile.text,
                    profile_by_name=opening.profile_text is None,
                    approval_policy=policy,
                    state="open",
                    opened_ms=time.time_ns() // 1_000_000,
                    tools=tuple(sorted(opening.tools)),
                    principal=opening.by.name,
                    on_copy=opening.view == "copy",
                    lease_s=opening.lease_s,
                )
                known = await self._recorded(record, workspace)
            if not may_change(opening.by, self.owner_of(known)):
                # Nothing is said of it; that there is one cannot be hidden from whoever would have its id.
                raise RequestError("ALREADY_EXISTS", f"session {known.session_id} is taken; choose another id")
            check_same(known, opening, workspace, policy)
            self.leases.renew(known.session_id, known.lease_s)  # also where what follows fails
        finally:
            workspace.close()
        if not opening.renewal:
            await self.live(opening.session_id)
            self.leases.renew(known.session_id, known.lease_s)  # whatever that has taken, the client has all of it
        return await self.record(opening.session_id)

    async def _recorded(self, record: SessionRecord, workspace: Workspace) -> SessionRecord:
        """The new session as it is stored, with its copy where it has one; another one where the id was taken.

        Raises RequestError.
        """
        if not record.on_copy:
            return await self._ledger.open_session(record)
        async with self._copies.making(record.session_id):
            known = await self._ledger.session(record.session_id)
            if known is not None:
                return known
            try:
                await self._copies.make(record.session_id, workspace)
                known = await self._ledger.open_session(record)
            except BaseException:
                await self._copies.remove(record.session_id)
                raise
            if not known.on_copy:
                await self._copies.remove(record.session_id)
            return known

    async def record(self, session_id: str) -> SessionRecord:
        """Raises RequestError NOT_FOUND."""
        found = await self._ledger.session(session_id)
        if found is None:
            raise none_such(session_id)
        return found

    def owner_of(self, record: SessionRecord) -> str:
        """The name of the principal whose session it is."""
        return record.principal or self._rules.owner

    async def owner(self, session_id: str) -> str:
        """The same for an id. Raises RequestError NOT_FOUND."""
        live = self._live.get(session_id)
        return live.session.principal if live is not None else self.owner_of(await self.record(session_id))

    async def is_open(self, session_id: str) -> bool:
        """Whether calls of it may come."""
        record = await self._ledger.session(session_id)
        return record is not None and record.state == "open"

    def is_live(self, session_id: str) -> bool:
        """Whether `live` has it at hand; it is open then."""
        return session_id in self._live

    async def live(self, session_id: str) -> LiveSession:
        """An open session with its gate and room, under its profile of now: as the files are when this is called.

        Of those without calls, the longest unused are let go of when there are many; they come back when they are
        named. Raises RequestError NOT_FOUND, FAILED_PRECONDITION (closed, or its workspace is
        another directory by now).
        """
        standing = await self._standing(session_id)
        async with self._changing:
            live = self._live.get(session_id)
            if live is None:
                record = await self.record(session_id)
                if record.state == "closed":
                    raise closed(record)
                live = await self._revive(record, standing)
            elif standing is not None:
                live = await self._versions.at(live, standing)
            self._live.pop(session_id, None)
            self._live[session_id] = live  # at the end: the most recently used
        if len(self._live) > _MOST_LIVE:
            busy = {session_id, *self.busy()}
            idle = [name for name in self._live if name not in busy]
            for name in idle[: len(self._live) - _MOST_LIVE]:
                await self.end(name)
        return live

    def at_hand(self) -> list[LiveSession]:
        """The open sessions that hold something, the one that was used last first."""
        return list(reversed(self._live.values()))

    async def end(self, session_id: str, *, for_good: bool = False) -> None:
        """Lets go of what an open session holds; its record is the ledger's. `for_good`: also of what commands keep."""
        async with self._changing:
            live = self._live.pop(session_id, None)
        try:
            await self._pool.close_room(session_id, for_good=for_good)
        finally:
            if live is not None:
                live.workspace.close()

    async def closed(self, session_id: str) -> None:
        """Lets go of what a session held that is closed, and removes its copy of the workspace where it had one.

        Safe to repeat, also at one time.
        """
        await self.end(session_id, for_good=True)
        try:
            async with self._copies.making(session_id):
                await self._copies.remove(session_id)
        except OSError:
            _log.exception("the copy of session %s cannot be removed now; the next start removes it", session_id)

    async def on_copies(self) -> list[str]:
        """The open sessions that work on copies of their workspaces."""
        return [each.session_id for each in await self._ledger.sessions() if each.on_copy and each.state == "open"]

    async def begin_leases(self) -> None:
        """Of the open sessions of an earlier daemon: nobody could renew them while there was none."""
        for each in await self._ledger.sessions():
            if each.state == "open":
                self.leases.renew(each.session_id, each.lease_s)

    async def follow(self, standing: Standing) -> None:
        """Has the open sessions at hand that chose this profile hear of what it stands for now."""
        behind = [
            session_id
            for session_id, live in self._live.items()
            if live.named == standing.name and live.number < standing.number
        ]
        for session_id in behind:
            async with self._changing:
                live = self._live.get(session_id)
                if live is not None:
                    try:
                        self._live[session_id] = await self._versions.at(live, standing)
                    except (RequestError, InfrastructureFailure) as error:
                        # It is being closed, or nothing can be recorded; its next call, if there is one, meets it too.
                        _log.warning("session %s does not hear of its profile: %s", session_id, error)

    def announce(self, type: str, body: Mapping[str, Json]) -> None:
        """Records an event of the catalog in every open session that is at hand, as far as it is about its tools."""
        for session_id, live in self._live.items():
            told = offered(body, live.tools)
            if told is not None:
                self._ledger.note(session_id, type, "", told)

    def close(self) -> None:
        for live in self._live.values():
            live.workspace.close()
        self._live.clear()

    async def _standing(self, session_id: str) -> Standing | None:
        """What the session's profile stands for now; None where it was not chosen by name, or there is no session."""
        live = self._live.get(session_id)
        if live is not None:
            return await self.profiles.current(live.named) if live.named else None
        record = await self._ledger.session(session_id)
        if record is None or not record.profile_by_name:
            return None
        return await self.profiles.current(record.profile_name)

    async def _revive(self, record: SessionRecord, standing: Standing | None) -> LiveSession:
        workspace = self._held(record)
        try:
            profile, barred = await self._kept(record, standing)
            live = _opened(record, workspace, profile, told=self.used.set, owner=self.owner_of(record))
            after = 0
            while events := await self._ledger.read(record.session_id, after=after):
                after = events[-1].seq
                for event in events:
                    live = _learned(live, event)
            live = replace(live, barred=barred or live.barred)
            if standing is not None:
                live = await self._versions.at(live, standing)
            self._versions.make_room(live)
            self.used.set()  # it may have seen files already
            return live
        except BaseException:
            workspace.close()
            raise

    def _held(self, record: SessionRecord) -> Workspace:
        """What the session works on. Raises RequestError FAILED_PRECONDITION where that is gone."""
        if record.on_copy:
            return self._copies.open(record.session_id, record.workspace, (record.device, record.inode))
        workspace = Workspace.open(record.workspace)
        if (workspace.device, workspace.inode) == (record.device, record.inode):
            return workspace
        workspace.close()
        raise RequestError(
            "FAILED_PRECONDITION",
            f"{record.workspace} is another directory than the one that session {record.session_id} was opened on; "
            "open a new session",
        )

    async def _kept(self, record: SessionRecord, standing: Standing | None) -> tuple[Profile, Barred | None]:
        """The session's last good profile, and why it cannot be used, if so.

        Raises RequestError FAILED_PRECONDITION where it cannot even be read and the name stands for no other.
        """
        restored = (record.profile_text, record.profile_name, record.profile_source)
        try:
            if standing is not None and standing.profile and standing.profile.digest == record.profile_digest:
                profile = standing.profile
            else:
                profile = await asyncio.to_thread(_restored, *restored)
        except ConfigurationError as error:
            message = f"the profile of session {record.session_id} is no longer valid: {error}"
            if standing is None or standing.profile is None:
                raise RequestError("FAILED_PRECONDITION", message) from error
            return standing.profile, Barred(record.profile_digest, message)
        try:
            await self._versions.fitted(profile, b"", record.workspace)
        except RequestError as error:
            return profile, Barred(profile.digest, f"{error}. Nothing was run")
        return profile, None

    async def _base(self, opening: Opening) -> Profile:
        """Raises RequestError, ConfigurationError."""
        if opening.profile_text is None:
            return (await self.profiles.current(opening.profile_name)).usable()
        if not self._rules.private:
            raise RequestError(
                "PERMISSION_DENIED",
                "this daemon takes profiles by name only; ask its admin to add the file, or use a private daemon "
                "(--private)",
            )
        return await asyncio.to_thread(
            profiles.parse,
            opening.profile_text,
            name=opening.profile_name,
            source=opening.profile_name,
            directories=self._rules.profile_directories,
        )


def none_such(session_id: str) -> RequestError:
    """There is no session of that id, or none for whoever asks."""
    return RequestError("NOT_FOUND", f"there is no session {session_id[:128]!r}; open it first")


def offered(body: Mapping[str, Json], tools: Collection[str]) -> Mapping[str, Json] | None:
    """A catalog/changed or catalog/refused event as a session with these tools (none: all) may see it; None: not."""
    if not tools:
        return body
    lists = {name: value for name, value in body.items() if isinstance(value, list)}
    kept = {name: [each for each in value if each in tools] for name, value in lists.items()}
    return {**body, **kept} if any(kept.values()) else None


def _restored(text: bytes, name: str, source: str) -> Profile:
    return profiles.restore(text, name=name, source=source)


def _opened(
    record: SessionRecord, workspace: Workspace, profile: Profile, *, told: Callable[[], None], owner: str
) -> LiveSession:
    session = Session(
        session_id=record.session_id,
        workspace=workspace.path,
        device=workspace.device,
        inode=workspace.inode,
        profile=profile,
        approval_policy="never" if record.approval_policy == "never" else "ask",
        opened_ms=record.opened_ms,
        principal=owner,
    )
    return LiveSession(
        session,
        workspace,
        Gate(workspace, protected=profile.protected, hidden=profile.hidden, scratch=profile.scratch, told=told),
        named=record.profile_name if record.profile_by_name else "",
        tightening=profiles.own_tightening(record.profile_text),
        tools=frozenset(record.tools),
    )


def _learned(live: LiveSession, event: Event) -> LiveSession:
    """What a recorded event says of a session that is taken up again."""
    live.spent.learn(event.type, event.body)
    match event.type:
        case "fs/observed" | "fs/committed":
            live.gate.restore(event.body)
        case "session/profile":
            return replace(live, barred=None, told="")
        case "profile/refused":
            reason = str(event.body["reason"])
            barred = Barred(str(event.body["digest"]), reason) if event.body["calls"] == "refused" else None
            return replace(live, barred=barred, told=reason)
    return live
