"""What a yes is bound to besides the card's own bytes: the tool, the session's profile, and the scripts of a command.

Looked at when a yes comes, when a later daemon takes the ask up, and once more when the worker is there and has not
been told. A script could still change while it is read, so it is looked at afterwards too: what ran may then have been
something else, and its result is withheld.
"""

import asyncio
from dataclasses import dataclass, replace

from stockade_daemon.errors import ArgumentsRefusal, ConfigurationError, PolicyRefusal, RequestError
from stockade_daemon.gate.fingerprints import Fingerprint
from stockade_daemon.pipeline.context import CallUnderWay, LiveSession, Services
from stockade_daemon.pipeline.operands import operands
from stockade_daemon.policy import outcomes
from stockade_daemon.policy.profile_rules import decision_for
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.registry.digests import digest_of
from stockade_daemon.values import Body, Json


@dataclass(frozen=True, slots=True)
class Bound:
    """What was shown of what is around a call."""

    services: Services
    judged: Judged
    under_way: CallUnderWay
    tool_digest: str
    scripts: tuple[Fingerprint, ...]  # identities are those of the last look
    absent: tuple[str, ...]  # what the command names as scripts and is not there

    def body(self) -> dict[str, Json]:
        """What the card says of it."""
        body: dict[str, Json] = {"tool_digest": self.tool_digest}
        if self.scripts:
            body["operands"] = [
                {"path": each.path, "digest": each.digest} | ({} if each.real == each.path else {"leads_to": each.real})
                for each in self.scripts
            ]
        return body

    async def standing(self) -> str:
        """Why it is no longer so; empty where it is."""
        try:
            live = await self.under_way.current()
        except (RequestError, ConfigurationError) as error:
            return f"the session cannot be had any more ({error})"
        return self._outdated(live) or self._edited(await self._look())

    async def launch(self) -> "Bound":
        """The same, looked at in the last moment. Raises PolicyRefusal: APPROVAL_MISMATCH, or DENIED where the profile
        of now denies the call."""
        live = await self.under_way.current()
        reason = self._outdated(live)
        if reason and (live.barred is not None or decision_for(replace(self.judged, session=live.session)) == "deny"):
            raise PolicyRefusal("DENIED", f"{reason} since the call was approved, and denies it now. Nothing was run")
        # One look: what is compared with the card is what `ran` compares with.
        found = await self._look()
        reason = reason or self._edited(found)
        if reason:
            outcomes.changed(reason).check()
        return replace(self, scripts=tuple(each for each in found if each is not None))

    async def ran(self) -> bool:
        """Whether what ran is what was shown: since `launch` nobody has touched its scripts."""
        found = await self._look()
        return tuple(each for each in found if each is not None) == self.scripts

    async def _look(self) -> list[Fingerprint | None]:
        """Of the scripts, and then of what was not there, by the names that the command has for them."""
        return await self.under_way.live.gate.fingerprints([*(each.path for each in self.scripts), *self.absent])

    def _outdated(self, live: LiveSession) -> str:
        if live.barred is not None or live.digest != self.under_way.began:
            return f"profile {self.judged.session.profile.name} has changed"
        try:
            manifest = self.services.tools.find(self.judged.call.tool, live.tools)
        except ArgumentsRefusal:
            return f"the tool {self.judged.call.tool} is gone"
        return "" if digest_of(manifest) == self.tool_digest else f"the tool {self.judged.call.tool} has changed"

    def _edited(self, found: list[Fingerprint | None]) -> str:
        there = len(self.scripts)
        for before, now in zip(self.scripts, found[:there], strict=True):
            if now is None:
                return f"{before.path}, which the command runs, has gone"
            if (now.digest, now.real) != (before.digest, before.real):
                return f"{before.path}, which the command runs, has changed"
        for path, appeared in zip(self.absent, found[there:], strict=True):
            if appeared is not None:
                return f"{path}, which the command may run, has appeared"
        return ""


async def bound(services: Services, judged: Judged, under_way: CallUnderWay) -> Bound:
    """The call as it is bound now, when it is about to be shown."""
    scripts: tuple[Fingerprint, ...] = ()
    absent: tuple[str, ...] = ()
    if judged.manifest.body is Body.COMMAND:
        named = await asyncio.to_thread(operands, judged.call.arguments)
        found = await under_way.live.gate.fingerprints(named)
        scripts = tuple(each for each in found if each is not None)
        absent = tuple(path for path, each in zip(named, found, strict=True) if each is None)
    return Bound(services, judged, under_way, digest_of(judged.manifest), scripts, absent)
