"""Versions of a profile in open sessions: which one is in force, and what is said of it.

    the file's version → the session's tightening → may it be this session's → recorded → in force from the next call on

A version that cannot be the session's is not in force, but neither is the one before any more: the admin does not want
that one. So the session's calls are refused until the file is another one. Calls under way keep what they began with.
"""

import asyncio
from dataclasses import replace

from stockade_daemon.errors import ConfigurationError, RequestError
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.pipeline.context import Barred, LiveSession
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.profiles.last_good import Standing
from stockade_daemon.profiles.tighten import digest, tighten
from stockade_daemon.sandbox.attached import Place
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Profile


class Versions:
    """Moves sessions from one version of their profile to the next."""

    def __init__(self, ledger: Ledger, pool: Pool, rules: Rules) -> None:
        self._ledger = ledger
        self._pool = pool
        self._rules = rules

    async def fitted(self, base: Profile, tightening: bytes, workspace: str) -> Profile:
        """`base` as a session on this workspace has it.

        Raises ConfigurationError (the tightening is faulty, or allows more than `base`), RequestError (of Rules).
        """

        def work() -> Profile:
            profile = tighten(base, tightening) if tightening else base
            self._rules.check_profile(profile, workspace)
            return profile

        return await asyncio.to_thread(work)

    async def at(self, live: LiveSession, standing: Standing) -> LiveSession:
        """The session under what its profile's name stands for, recorded. The same standing again, and an older one,
        are nothing.

        Raises RequestError (the session is closed), InfrastructureFailure; then nothing has changed.
        """
        if standing.number <= live.number:
            return live
        revived, live = live.number < 0, replace(live, number=standing.number)
        refused = "" if standing.fault is None else str(standing.fault)
        if standing.profile is not None:
            try:
                profile = await self.fitted(standing.profile, live.tightening, live.workspace.path)
            except (ConfigurationError, RequestError) as error:
                live = replace(live, barred=_barred(live, standing.profile, error))
                refused = refused or str(error)
            else:
                live = await self._under(live, profile, standing.name)
        elif revived and live.barred is None:
            # What was in force meanwhile, nobody here knows: it may have been narrower than what this session had last.
            live = replace(live, barred=_gone(live, standing))
        if refused and not (revived and refused == live.told):
            body = {
                "name": standing.name,
                "reason": refused,
                "digest": live.digest,
                "calls": "run" if live.barred is None else "refused",
            }
            self._ledger.note(live.session.session_id, "profile/refused", "", body)
        return replace(live, told=refused)

    async def _under(self, live: LiveSession, profile: Profile, name: str) -> LiveSession:
        before = live.session.profile.digest
        if live.barred is None and profile.digest == before:
            return live
        session_id = live.session.session_id
        await self._ledger.change_profile(
            session_id,
            digest=profile.digest,
            source=profile.source,
            text=profile.text,
            body={"name": name, "digest": profile.digest, "before": before, "source": profile.source},
        )
        live = live.under(profile)
        self.make_room(live)
        return live

    def make_room(self, live: LiveSession) -> None:
        """Has the next worker of this session be one under its profile of now."""
        place = Place(live.workspace.place, live.workspace.device, live.workspace.inode, inside=live.workspace.path)
        session = live.session
        self._pool.open_room(
            session.session_id, session.profile, place, hidden=live.hidden_names, whose=session.principal
        )


def _gone(live: LiveSession, standing: Standing) -> Barred:
    return Barred(
        live.session.profile.digest,
        f"profile {standing.name} cannot be used: {standing.fault}. Nothing was run. Have the profile's admin put it "
        "right, and repeat the call",
    )


def _barred(live: LiveSession, base: Profile, error: ConfigurationError | RequestError) -> Barred:
    return Barred(
        digest(base, live.tightening),
        f"profile {base.name} has changed, and this session cannot have the present version: {error}. Nothing was run. "
        "Open another session, or have the profile's admin change it",
    )
